"""What the rules of the house look at in the files of the package: each is parsed and walked once."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import privpipe

__all__ = ["MODULES", "PACKAGE", "Function", "Source", "read", "sources"]

PACKAGE = Path(privpipe.__file__).parent
MODULES = {
    ".".join(("privpipe", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.stem != "__main__"
}
"""Every module and its file."""
MARKED = ("column", "columns", "weight", "household", "base", "items", "key", "sensitive", "mark", "alone_at_most")
"""Fields of entries that the marks of their annotations find."""
FIELD_BY_NAME = re.compile(rf"getattr\([^,]+, '({'|'.join(MARKED)})'")
WAY = ("way", "reads")
DECIDING = (ast.Compare, ast.Match, ast.Subscript, ast.Call, ast.Dict)


@dataclass(frozen=True)
class Function:
    """A function: its lines without the docstring, and its parameters; the options of a command are not counted."""

    name: str
    lines: int
    parameters: int


@dataclass
class Source:
    """One file, by its path below the package."""

    place: str
    lines: int
    documented: bool
    taken: set[tuple[str, str]] = field(default_factory=set)
    """Modules and the names taken from them; the name is empty where a module itself is imported. All imports count:
    those inside functions, and those for types alone."""
    functions: list[Function] = field(default_factory=list)
    deciding: list[int] = field(default_factory=list)
    """Lines that decide by the name of a way of judging."""
    unmarked: list[int] = field(default_factory=list)
    """Lines that describe a parameter outside its annotation."""


@cache
def sources() -> dict[str, Source]:
    """Every file of the package."""
    found = (
        read(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")
    )
    return {source.place: source for source in sorted(found, key=lambda source: source.place)}


def read(place: str, text: str) -> Source:
    """What the rules look at in one text."""
    tree = ast.parse(text)
    source = Source(place, text.count("\n"), bool(ast.get_docstring(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            source.taken |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            source.taken |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            source.functions.append(Function(node.name, _lines(node), _parameters(node)))
        if _decides_by_a_name(node):
            source.deciding.append(node.lineno)  # type: ignore[attr-defined]
        if _describes_a_parameter(node):
            source.unmarked.append(node.lineno)  # type: ignore[attr-defined]
    return source


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
    text = (first.end_lineno or first.lineno) - first.lineno + 1 if first else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - text


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    own = [each for each in given if each.arg not in ("self", "cls")]
    return 0 if any("Option" in ast.dump(each) for each in own) else len(own)


def _describes_a_parameter(node: ast.AST) -> bool:
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node).startswith("about: ClassVar")
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and FIELD_BY_NAME.match(ast.unparse(node)) is not None
    )


def _decides_by_a_name(node: ast.AST) -> bool:
    """Whether it looks at `reads`, compares a way with a text, or uses its name for anything but a message."""
    if isinstance(node, ast.Attribute) and node.attr == "reads":
        return True
    if not isinstance(node, DECIDING):
        return False
    parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.JoinedStr)]
    if any(_is_name_of_a_way(part) for part in parts):
        return True
    return isinstance(node, ast.Compare) and any(map(_is_way, parts)) and any(map(_has_text, parts))


def _is_way(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in WAY


def _is_name_of_a_way(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    return _is_way(node.value) or (isinstance(node.value, ast.Name) and node.value.id in WAY)


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(node))
