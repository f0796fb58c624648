"""The pictures that the repository keeps."""

import re
from pathlib import Path

from tests.tui import screenshots

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_a_picture_that_is_kept() -> None:
    shown = re.findall(r'src="(screenshots/[^"]+)"', (ROOT / "README.md").read_text("utf-8"))
    kept = {f"screenshots/{screenshots.name(*one)}" for one in screenshots.KEPT}
    assert shown
    assert set(shown) <= kept


def test_what_is_kept_is_what_make_draws_and_small() -> None:
    files = list((ROOT / "screenshots").iterdir())
    assert {file.name for file in files} == {screenshots.name(*one) for one in screenshots.KEPT}
    assert sum(file.stat().st_size for file in files) < 1_500_000
