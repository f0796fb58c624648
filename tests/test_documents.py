"""What the documents name is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("document", ["field-reports.md", "testing.md"])
def test_every_test_that_a_document_names_exists(document: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / document).read_text("utf-8"))
    assert named
    missing = [f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)]
    assert missing == []


def functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    found = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
