"""How much a function may take in at once; how many branches it may have is ruff's to say (C901)."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import privpipe

PACKAGE = Path(privpipe.__file__).parent
MOST_PARAMETERS = 8
WIDER = {
    "judging/judging.py": {"assess"},
    "running/verbs.py": {"release"},  # the face: its keywords are the options of the command
}
"""Functions that still take more, file by file: a list that only grows shorter."""


def wide_functions(tree: ast.AST) -> Iterator[str]:
    """Functions with too many parameters; a command's are its options, which typer reads one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = [each for each in given if each.arg not in ("self", "cls")]
            if len(own) > MOST_PARAMETERS and not any("Option" in ast.dump(each) for each in own):
                yield node.name


def test_a_function_takes_few_parameters() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = set(wide_functions(ast.parse(path.read_text(encoding="utf-8"))))
        if names:
            found[path.relative_to(PACKAGE).as_posix()] = names
    assert found == WIDER


def test_complexity_is_held_by_the_linter(project: Path) -> None:
    lint = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C901" in lint["select"]
    assert lint["mccabe"]["max-complexity"] <= 15
