"""``python tests/soak/code_mutants.py [FILE ...]``: small faults planted in models, measures and kernels, one by one.

Each file of `ROOMS` (or those named) is parsed; at each place where a comparison, a boundary, a sign, a bound of a
reduction or an outcome could be wrong, it is made wrong in memory, and its examples and the tests that answer for it
must fail. What survives is printed with its line. MUTANTS_MOST bounds the mutants of a file: so many are drawn by
MUTANTS_SEED, and those that may turn a refusal into a pass come first. MUTANTS_OUT names a file for the result.
`equivalent_mutants.json` keeps those that change nothing anyone can see, each with its reason.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Mutant", "equivalents", "mutants_of", "tests_of"]

PROJECT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("equivalent_mutants.json")
ROOMS = (
    "privpipe/tolerance.py",
    "privpipe/models/*/*.py",
    "privpipe/kernels/classes/*.py",
    "privpipe/kernels/grouping/*.py",
    "privpipe/kernels/ids/*.py",
    "privpipe/kernels/linkage/*.py",
    "privpipe/kernels/losses/*.py",
    "privpipe/measures/risk/*/*.py",
)
SECONDS = 600
PASSED = 0
NOTHING_CHOSEN = 5
TESTED = (
    "tolerance",
    "models",
    "measures",
    "kernels",
    "judging",
    "engines/base",
    "engines/readers",
    "engines/lakes",
    "engines/databases",
    "engines/embedded",
)
CALLERS = 3
"""How far from a kernel a test may lie that still answers for it."""
COMPILED = "tests/kernels/test_compiled.py"
"""Compares compiled kernels with plain ones in processes of their own, where no fault is."""
COMMON = ("tests/conformance/test_models_alone.py", "tests/conformance/test_class_claims.py")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "at_least": "at_most",
    "at_most": "at_least",
    "minimum": "maximum",
    "maximum": "minimum",
    "below": "at_most",
    "floor": "ceil",
    "ceil": "floor",
    "argmin": "argmax",
    "argmax": "argmin",
    "fmin": "fmax",
    "fmax": "fmin",
}
TELLING = {"oracle", "thresholds", "examples", "__repr__", "to_dict", "detail", "example_table"}
"""Functions that take no part in a verdict: what tests are given, and how things are shown."""
HASTE = ("compare", "bool", "not", "call", "negate", "sign", "number", "constant")


@dataclass(frozen=True)
class Mutant:
    """One fault: where, of which kind, and how it reads."""

    file: str
    place: int
    line: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        """What it is kept by; lines move, so they are not part of it."""
        return f"{self.file}: {self.text}"


def _nodes(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """What runs when a verdict is made: no annotations, texts of errors, defaults of fields or examples."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Raise | ast.Import | ast.ImportFrom | ast.arguments | ast.JoinedStr):
            continue
        if isinstance(child, ast.keyword) and child.arg == "strict":
            continue  # of zip, which says what holds: lengths are equal
        if isinstance(child, ast.AnnAssign):
            if inside and child.value is not None:
                yield child.value
                yield from _nodes(child.value, inside)
            continue
        if isinstance(child, ast.FunctionDef):
            if child.name not in TELLING:
                yield from _nodes(ast.Module(body=child.body, type_ignores=[]), True)
            continue
        if inside:
            yield child
        yield from _nodes(child, inside)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield "compare", new
    elif isinstance(node, ast.BoolOp):
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "bool", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield "not", new.operand
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", new.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        new.op = SIGNS[type(node.op)]()
        yield "sign", new
    elif isinstance(node, ast.IfExp):
        new.body, new.orelse = new.orelse, new.body
        yield "negate", new
    elif isinstance(node, ast.If):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield "negate", new
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        new.value = node.value + 1
        yield "number", new
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        new.value = not node.value
        yield "constant", new


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    new: Any = copy.deepcopy(node)
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        new.func.id = NAMES[node.func.id]
        yield "call", new
    elif isinstance(node.func, ast.Attribute) and node.func.attr in NAMES:
        new.func.attr = NAMES[node.func.attr]
        yield "call", new


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node.test if isinstance(node, ast.If) else node).split())[:120]


def mutants_of(text: str, file: str) -> list[Mutant]:
    """Every mutant of a source, those that are likeliest to turn a refusal into a pass first."""
    found, lines, times = [], text.splitlines(), Counter[str]()
    for place, node in enumerate(_nodes(ast.parse(text))):
        for kind, new in _changes(node):
            shown, line = f"{_shown(node)} -> {_shown(new)}", getattr(node, "lineno", 0)
            if isinstance(node, ast.Constant):
                shown += f" in {lines[line - 1].strip()}"
            times[shown] += 1
            nth = f" ({times[shown]})" if times[shown] > 1 else ""
            found.append(Mutant(file, place, line, kind, shown + nth))
    return sorted(found, key=lambda mutant: HASTE.index(mutant.kind))


def planted(text: str, mutant: Mutant) -> ast.Module:
    """The source with the fault."""
    tree = ast.parse(text)
    node = next(found for place, found in enumerate(_nodes(tree)) if place == mutant.place)
    new = next(change for kind, change in _changes(node) if kind == mutant.kind)

    class Planter(ast.NodeTransformer):
        def visit(self, found: ast.AST) -> Any:
            return ast.copy_location(new, node) if found is node else self.generic_visit(found)

    return ast.fix_missing_locations(Planter().visit(tree))


def tests_of(file: str) -> list[list[str]]:
    """Arguments of pytest: the tests that answer for a file, in groups, the nearest first."""
    path = Path(file)
    parts, title = path.parts, "".join(word.capitalize() for word in path.stem.split("_"))
    mirror = str(Path("tests", parts[1]).with_suffix("")) + "/"
    named = [
        name
        for name, text in _tests().items()
        if (Path(name).stem == f"test_{path.stem}" and name.startswith(mirror))
        or (parts[1] == "kernels" and _tells(text, path))
    ]
    groups = [[file, *sorted(named)]]  # its own examples first
    if parts[1] == "models" and f"class {title}(" in _sources().get(path, ""):
        groups.append(
            [
                "tests/models/test_properties.py",
                "tests/models/test_least_sizes.py",
                *COMMON,
                "-k",
                f"{path.stem} or {title}",
            ]
        )
    elif parts[1] == "measures":
        # A room's tests are minutes of every engine: they are for what no test is named after, itself or its users.
        groups.append([] if named else sorted(_tests_of_users(path)) or [f"tests/measures/risk/{parts[3]}"])
    elif parts[1] != "tolerance.py":
        folder = _folder_of(path)
        known = {name for name in _tests() if name in named or name.startswith(folder)}
        mirrored = parts[1] == "kernels" and any(Path(name).stem == f"test_{path.stem}" for name in named)
        groups += [[] if mirrored else [folder], sorted(_tests_of_users(path) - (set(named) if mirrored else known))]
    return [group for group in groups if group]


def _tells(text: str, path: Path) -> bool:
    """Whether a source names a module."""
    return re.search(rf"\b{re.escape('.'.join(path.with_suffix('').parts))}\b(?!\.)", text) is not None


def _folder_of(path: Path) -> str:
    """The tests that mirror the folder of a kernel or of a way of judging."""
    folder = Path("tests", *path.parent.parts[1:])
    while not (PROJECT / folder).exists():
        folder = folder.parent
    return str(folder)


def _tests_of_users(path: Path) -> set[str]:
    """Tests named after what calls a module, or after what calls that where it has none."""
    asked, seen, found = {path}, {path}, set()
    for _ in range(CALLERS):
        users = {
            user for user, text in _sources().items() if user not in seen and any(_tells(text, each) for each in asked)
        }
        named = {user: _named_after(user) for user in users}
        found |= {name for names in named.values() for name in names}
        asked, seen = {user for user, names in named.items() if not names}, seen | users
    return found


def _named_after(path: Path) -> list[str]:
    """The tests named after a module; those of its own room, where other rooms have a module of this name."""
    named = [name for name in _tests() if Path(name).stem == f"test_{path.stem}"]
    return [name for name in named if Path(name).parts[1] == path.parts[1]] or named


@functools.cache
def _tests() -> dict[str, str]:
    every = [each for room in TESTED for each in (PROJECT / "tests" / room).rglob("test_*.py")]
    names = {str(each.relative_to(PROJECT)): each for each in every}
    return {name: each.read_text(encoding="utf-8") for name, each in names.items() if name != COMPILED}


@functools.cache
def _sources() -> dict[Path, str]:
    every = [each for room in TESTED for each in (PROJECT / "privpipe" / room).rglob("*.py")]
    return {each.relative_to(PROJECT): each.read_text(encoding="utf-8") for each in every}


@functools.cache
def _usual(group: tuple[str, ...]) -> float:
    """CPU seconds of tests on sound code, which pass; they are tried once, when a fault gets as far as them."""
    passed, used = _tried(group, SECONDS)
    if not passed:
        raise _Unsound(" ".join(group))
    return used


class _Unsound(Exception):
    """Tests fail as it is: they tell nothing of faults."""


class _Planted(importlib.abc.MetaPathFinder):
    """Gives one module another code."""

    def __init__(self, module: str, file: Path, tree: ast.Module) -> None:
        self.module, self.file, self.tree = module, file, tree

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        tree, file = self.tree, str(self.file)

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                return compile(tree, file, "exec")

        return importlib.util.spec_from_loader(name, Loader(name, file), origin=file)


def survives(mutant: Mutant, file: str) -> bool:
    """Whether the tests of a file pass with the fault in it; the near ones are quick, and end most faults."""
    # Only what runs on and on is ended by the clock: that counts as found.
    return all(_tried(group, int(3 * _usual(group)) + 30, mutant)[0] for group in map(tuple, tests_of(file)))


def _tried(group: tuple[str, ...], seconds: int, mutant: Mutant | None = None) -> tuple[bool, float]:
    """Whether tests pass in a process of their own, with a fault or none, and its CPU seconds."""
    child = os.fork()
    if not child:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            if mutant is not None:
                file = PROJECT / mutant.file
                module = mutant.file.removesuffix(".py").replace("/", ".")
                sys.meta_path.insert(0, _Planted(module, file, planted(file.read_text(), mutant)))
                importlib.import_module(module)  # doctests take what is there
            with ExitStack() as quiet:
                if not os.environ.get("MUTANTS_SHOW"):
                    quiet.enter_context(redirect_stdout(io.StringIO()))
                    quiet.enter_context(redirect_stderr(io.StringIO()))
                import pytest

                code = PASSED if pytest.main([*ARGUMENTS, *group]) in (0, NOTHING_CHOSEN) else 1
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    return status == PASSED, used.ru_utime + used.ru_stime


HEAVY = (
    "numpy",
    "scipy.special",
    "scipy.sparse",
    "scipy.stats",
    "scipy.optimize",
    "pyarrow.compute",
    "pyarrow.parquet",
)
HEAVY += (
    "pyarrow.csv",
    "pyarrow.dataset",
    "duckdb",
    "pandas",
    "polars",
    "numba",
    "hypothesis",
    "hypothesis.extra.numpy",
)
HEAVY += ("jsonschema", "ruamel.yaml", "typer.testing", "jinja2", "pulp", "pytest", "_hypothesis_pytestplugin")
IGNORED = ("pytest.PytestAssertRewriteWarning", "RuntimeWarning")
"""Words of 64 bits that overflow as they should: numpy warns of it where kernels are not compiled."""
ARGUMENTS = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not spark and not dask"]
ARGUMENTS += [word for name in IGNORED for word in ("-W", f"ignore::{name}")]
SURVIVED = "survived"


def equivalents() -> dict[str, str]:
    """Mutants that change nothing anyone can see, with the reason."""
    return dict(json.loads(KEPT.read_text()))


def soak_file(file: str, most: int, seed: int, known: dict[str, str]) -> dict[str, Any]:
    """Plant the faults of one file."""
    text = (PROJECT / file).read_text()
    chosen = [mutant for mutant in mutants_of(text, file) if mutant.name not in known]
    if len(chosen) > most:
        draw = random.Random(f"{seed}/{file}")
        chosen = sorted(draw.sample(chosen, most), key=lambda mutant: HASTE.index(mutant.kind))
    try:
        left = [f"{mutant.line}: {mutant.text}" for mutant in chosen if survives(mutant, file)]
    except _Unsound as error:
        return {"file": file, "fault": f"tests fail as it is: {error}"}
    return {"file": file, "planted": len(chosen), "killed": len(chosen) - len(left), SURVIVED: left}


def main(files: list[str]) -> int:
    """1 if fewer than 95 of 100 were killed."""
    os.chdir(PROJECT)
    sys.path.insert(0, str(PROJECT))
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # a compiled kernel would come from the cache, without its fault
    for heavy in HEAVY:  # once, not in every child
        importlib.import_module(heavy)
    most, seed = int(os.environ.get("MUTANTS_MOST", "40")), int(os.environ.get("MUTANTS_SEED", "1"))
    every = [str(path.relative_to(PROJECT)) for room in ROOMS for path in sorted(PROJECT.glob(room))]
    every = [file for file in every if not file.endswith(("_oracle.py", "__init__.py"))]
    out, planted_, killed = os.environ.get("MUTANTS_OUT"), 0, 0
    known = equivalents()
    for file in files or every:
        begun = time.monotonic()
        found = soak_file(file, most, seed, known)
        planted_, killed = planted_ + found.get("planted", 0), killed + found.get("killed", 0)
        print(json.dumps({**found, "seconds": round(time.monotonic() - begun)}), flush=True)
        if out:
            with Path(out).open("a", encoding="utf-8") as told:
                told.write(json.dumps(found) + "\n")
    print(f"{killed} of {planted_} killed")
    return int(killed < 0.95 * planted_)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
