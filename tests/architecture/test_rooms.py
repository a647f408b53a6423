"""The house as it was designed: who may import whom, what loads when, and how large a file may grow."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import privpipe

HEAVY = ("pandas", "numba", "pyspark", "dask", "distributed", "great_expectations", "scipy", "duckdb", "pulp")
PACKAGE = Path(privpipe.__file__).parent
MODULES = sorted(
    ".".join(("privpipe", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.stem != "__main__"
)


SCHEDULERS = ("airflow", "dagster", "prefect")
"""Each in an environment of its own; `make test-integrations` loads the rooms that import them."""


def loaded(name: str) -> ModuleType:
    """A module of ours, or a skip that names the scheduler it needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        tool = (missing.name or "").partition(".")[0]
        if tool not in SCHEDULERS:
            raise
        pytest.skip(f"{tool} is not installed here")


def test_imports_point_down_and_never_sideways(project: Path) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_circle_of_imports() -> None:
    """Of all imports: those inside functions, and those for types alone."""
    left = {name: _imported(name) for name in MODULES}
    while ends := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in ends}
    assert not left, f"each of these imports another of them: {', '.join(sorted(left))}"


def _imported(name: str) -> set[str]:
    """Modules of ours that a module imports, when it is loaded, when it runs or for its types."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & set(MODULES)
            found |= inner or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & set(MODULES)) - {name}


@pytest.mark.parametrize(
    "statement", ["import privpipe", "import privpipe.cli", "import privpipe; privpipe.models.KAnonymity"]
)
def test_a_fresh_import_loads_no_heavy_library(statement: str) -> None:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    assert loaded.isdisjoint(HEAVY)


def test_oracles_are_loaded_by_tests_alone() -> None:
    code = (
        "import json, sys\n"
        "from privpipe import measures, models\n"
        "for room in (models, measures):\n"
        "    assert all(room.CATALOGUE[name].examples() for name in room.CATALOGUE)\n"
        "print(json.dumps([name for name in sys.modules if name.endswith('_oracle') or 'privpipe.testing' in name]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(run.stdout) == []


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_lists_as_public_is_there_and_sorted(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries that deprecate things while they are imported
        module = loaded(name)
    public = getattr(module, "__all__", None)
    if public is None:
        return
    assert sorted(public) == sorted(set(public)), "a name is listed twice"
    if name in {f"privpipe.{tool}" for tool in SCHEDULERS}:
        loaded(module.WIRES[public[0]])  # what they offer is loaded when it is asked for
    missing = [entry for entry in public if not hasattr(module, entry)]
    assert not missing


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_stays_readable(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 600
    assert ast.get_docstring(ast.parse(text)), "a module says in its docstring what it defines"


def test_what_a_parameter_is_stands_in_its_annotation_alone() -> None:
    """No mapping of texts beside the fields, and no field of an entry asked for by its name."""
    magic = ("column", "columns", "weight", "household", "base", "items", "key", "sensitive", "mark", "alone_at_most")
    asked = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.AnnAssign) and ast.unparse(node).startswith("about: ClassVar"))
        or (isinstance(node, ast.Call) and re.match(rf"getattr\([^,]+, '({'|'.join(magic)})'", ast.unparse(node)))
    ]
    assert not asked


def test_half_the_files_are_short() -> None:
    lines = sorted(path.read_text(encoding="utf-8").count("\n") for path in PACKAGE.rglob("*.py"))
    assert lines[len(lines) // 2] < 150


def test_nearly_all_functions_are_short() -> None:
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    assert sum(length <= 40 for length in lengths) >= 0.95 * len(lengths)


def _docstring_lines(node: ast.FunctionDef) -> int:
    first = node.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return (first.end_lineno or first.lineno) - first.lineno + 1 if is_text else 0


def test_no_module_is_also_a_function() -> None:
    functions = {name for name in privpipe.__all__ if callable(getattr(privpipe, name))}
    rooms = {name.split(".")[1] for name in MODULES if "." in name}
    assert not functions & rooms


@pytest.mark.parametrize("name", MODULES)
def test_a_module_takes_of_others_what_is_public_there(name: str) -> None:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    taken = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in MODULES and node.module != name
        for alias in node.names
        if f"{node.module}.{alias.name}" not in MODULES
    ]
    public = {module: getattr(loaded(module), "__all__", None) for module, _ in taken}
    private = [f"{module}.{own}" for module, own in taken if public[module] is not None and own not in public[module]]
    assert not private
