"""The house as it was designed: who may import whom, what loads when, and what a module offers."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import warnings
from types import ModuleType

import pytest

import privpipe
from tests.architecture.sources import MODULES, PACKAGE, sources

HEAVY = ("pandas", "numba", "pyspark", "dask", "distributed", "great_expectations", "scipy", "duckdb", "pulp")
SCHEDULERS = ("airflow", "dagster", "prefect")
"""Each in an environment of its own; `make test-integrations` loads the rooms that import them."""


def loaded(name: str) -> ModuleType | None:
    """A module of ours, or nothing where the scheduler that it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in SCHEDULERS:
            raise
        return None


def test_no_circle_of_imports() -> None:
    """Of all imports: those inside functions, and those for types alone."""
    left = {name: imported(name) for name in MODULES}
    while ends := {name for name, found in left.items() if not found & left.keys()}:
        left = {name: found for name, found in left.items() if name not in ends}
    assert not left, f"each of these imports another of them: {', '.join(sorted(left))}"


def taken_by(name: str) -> set[tuple[str, str]]:
    """Modules and the names that a module takes from them."""
    return sources()[MODULES[name].relative_to(PACKAGE).as_posix()].taken


def imported(name: str) -> set[str]:
    """Modules of ours that a module imports, when it is loaded, when it runs or for its types."""
    found = {f"{module}.{own}" if f"{module}.{own}" in MODULES else module for module, own in taken_by(name)}
    return (found & set(MODULES)) - {name}


@pytest.mark.parametrize(
    "statement", ["import privpipe", "import privpipe.cli", "import privpipe; privpipe.KAnonymity; privpipe.RankSwap"]
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


def test_what_a_module_lists_as_public_is_there_once() -> None:
    problems = []
    for name in MODULES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries that deprecate things while they are imported
            module = loaded(name)
        public = getattr(module, "__all__", ())
        if len(set(public)) < len(public):
            problems.append(f"{name}: a name is listed twice")
        if name in {f"privpipe.{tool}" for tool in SCHEDULERS} and loaded(module.WIRES[public[0]]) is None:
            continue  # what they offer is loaded when it is asked for
        problems += [f"{name}: {entry} is not there" for entry in public if not hasattr(module, entry)]
    assert problems == []


def test_a_module_takes_of_others_what_is_public_there() -> None:
    public = {name: getattr(loaded(name), "__all__", None) for name in MODULES}
    private = [
        f"{name}: {module}.{own}"
        for name in MODULES
        for module, own in sorted(taken_by(name))
        if own and module != name and f"{module}.{own}" not in MODULES
        if public.get(module) is not None and own not in public[module]
    ]
    assert private == []


def test_no_module_is_also_a_function() -> None:
    functions = {name for name in privpipe.__all__ if callable(getattr(privpipe, name))}
    rooms = {name.split(".")[1] for name in MODULES if "." in name}
    assert not functions & rooms
