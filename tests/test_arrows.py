"""Who may import whom: the contracts of pyproject.toml, held."""

from pathlib import Path

from importlinter.cli import lint_imports


def test_no_room_imports_what_it_may_not(monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parent.parent)
    status = lint_imports(no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out
