"""Nothing is decided by what a way of judging is called: the way is asked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import privpipe

PACKAGE = Path(privpipe.__file__).parent
ASKED = ("way", "reads")
DECIDING = (ast.Compare, ast.Match, ast.Subscript, ast.Call, ast.Dict)


def by_its_word(tree: ast.AST) -> list[int]:
    """Lines that look at `reads`, compare a way with a text, or use its name for anything but a message."""
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "reads"]
    for node in ast.walk(tree):
        if not isinstance(node, DECIDING):
            continue
        parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.JoinedStr)]
        if any(_is_name_of_a_way(part) for part in parts):
            lines.append(node.lineno)
        if isinstance(node, ast.Compare) and any(_is_way(part) for part in parts) and any(map(_has_text, parts)):
            lines.append(node.lineno)
    return lines


def _is_way(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ASKED


def _is_name_of_a_way(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    return _is_way(node.value) or (isinstance(node.value, ast.Name) and node.value.id in ASKED)


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(node))


def test_no_module_decides_by_the_name_of_a_way() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := by_its_word(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "if entry.reads: pass",
        "entry.way == 'classes'",
        "entry.way.name == 'classes'",
        "entry.way.name in WORDS",
        "WORDS[entry.way.name]",
        "WORDS.get(way.name)",
        "'pairs' != entry.way.name",
    ],
)
def test_what_decides_by_a_name_is_seen(source: str) -> None:
    assert by_its_word(ast.parse(source))


@pytest.mark.parametrize("source", ["entry.way.aligned", "WAYS[entry.way]", "raise E(f'{entry.way.name}')"])
def test_what_asks_is_not(source: str) -> None:
    assert not by_its_word(ast.parse(source))
