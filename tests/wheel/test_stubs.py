"""The wheel has a stub of every public entry, with all that the entry takes, made where no library is installed."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import privpipe

PROJECT = Path(__file__).parents[2]
OPTIONS = {"roles", "hierarchies", "guarantees", "recordId", "personId", "householdId", "seed"}
"""What every stage of Spark ML takes, by ``**options``."""
OF_GX = {"id", "meta", "notes", "severity"}
Taken = Mapping[str, set[str]]
"""Of each public class or function, what it takes by name."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The stubs of a wheel that was built here, by the names of their rooms."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "privpipe/py.typed" in archive.namelist()
        assert not [name for name in archive.namelist() if name.startswith("stubs/")]
        return {
            ".".join(Path(name).parts[:-1]): archive.read(name).decode("utf-8")
            for name in archive.namelist()
            if name.endswith(".pyi")
        }


@pytest.mark.deep
def test_a_wheel_needs_neither_numpy_nor_any_engine_for_its_stubs(packed: Mapping[str, str], tmp_path: Path) -> None:
    """Without the packages of this environment, but for two that pyproject.toml asks for, the stubs are the same."""
    libraries, made = tmp_path / "libraries", tmp_path / "made"
    libraries.mkdir()
    for name in ("annotated_types", "typing_extensions"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        found = Path(spec.origin)
        if found.name == "__init__.py":
            shutil.copytree(found.parent, libraries / name)
        else:
            shutil.copy(found, libraries)
    command = [sys.executable, "-S", "-m", "stubs", str(made)]
    environment = {**os.environ, "PYTHONPATH": str(libraries)}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    found_stubs = {
        ".".join(("privpipe", *path.relative_to(made).parts[:-1])): path.read_text(encoding="utf-8")
        for path in made.rglob("*.pyi")
    }
    assert found_stubs == packed


def test_the_stub_of_the_package_has_every_name_of_it(packed: Mapping[str, str]) -> None:
    imported = {
        alias.asname
        for node in ast.parse(packed["privpipe"]).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported | {"__version__"} == set(dir(privpipe))


def catalogue(room: str) -> Taken:
    entries = importlib.import_module(f"privpipe.{room}").CATALOGUE
    return {entries[name].__name__: _fields(entries[name]) for name in entries.built_in}


def observe() -> Taken:
    from privpipe import observe as room
    from privpipe.observe.figures import OPTIONS as OF_A_CHECK

    built_in = [name for name in room.figures.names() if name in _built_in() and name not in room.__all__]
    signatures = {name: inspect.signature(room.figures.attribute(name)) for name in built_in}
    others = {*OF_A_CHECK, "options"} - {"quasi_identifiers"}
    return {name: set(made.parameters) - others for name, made in signatures.items()}


def gx() -> Taken:
    room = pytest.importorskip("privpipe.gx")
    built_in = {name: made for name, made in room.EXPECTATIONS.items() if name in _built_in()}
    assert not {"Expect" + each for each in room.REFUSED} & {made.__name__ for made in built_in.values()}
    base = {name for name in room.PrivacyExpectation.__annotations__ if name in room.PrivacyExpectation.__fields__}
    own = room.expectations.COMMON_KEYS
    return {made.__name__: _fields(made.entry) - set(own) | base | OF_GX for made in built_in.values()}


def sklearn() -> Taken:
    room = pytest.importorskip("privpipe.sklearn")
    from privpipe.transforms import CATALOGUE

    return {name: set(inspect.signature(getattr(room, name)).parameters) for name in CATALOGUE.class_names}


def spark() -> Taken:
    room = pytest.importorskip("privpipe.spark")
    names = [name for name in room.__all__ if hasattr(getattr(room, name), "asked") and not name.endswith("Model")]
    taken = {
        name: {word for each in getattr(room, name).asked for word in (each.name, each.alias) if word} for name in names
    }
    return {name: words for name, words in taken.items() if words}


ROOMS: Mapping[str, Callable[[], Taken]] = {
    "gx": gx,
    "measures": lambda: catalogue("measures"),
    "models": lambda: catalogue("models"),
    "observe": observe,
    "sklearn": sklearn,
    "spark": spark,
    "transforms": lambda: catalogue("transforms"),
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_stub_has_every_public_entry_with_all_that_it_takes(packed: Mapping[str, str], room: str) -> None:
    live, stub = ROOMS[room](), _taken(packed[f"privpipe.{room}"])
    assert len(live) >= 10
    assert {name: sorted(stub[name]) for name in live if name in stub} == {
        name: sorted(words) for name, words in live.items()
    }
    assert {name for name in stub if not name.startswith("_") and not name.endswith("Model")} == set(live)


def test_the_stub_of_spark_ml_has_every_setter_getter_and_model(packed: Mapping[str, str]) -> None:
    room = pytest.importorskip("privpipe.spark")
    stub = ast.parse(packed["privpipe.spark"])
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}

    def methods(name: str) -> set[str]:
        own = {each.name for each in classes[name].body if isinstance(each, ast.FunctionDef)}
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name) and base.id in classes]
        return own.union(*map(methods, bases))

    for name in room.__all__:
        if name in ("StageEstimator", "StageModel", "BatchReleases", "release_batches"):  # imported by the stub
            continue
        live = {each for each in dir(getattr(room, name)) if each[:3] in ("get", "set") and each[3:4].isupper()}
        missing = live - methods(name) - set(dir(room.StageEstimator))
        assert not missing, name


def _built_in() -> set[str]:
    from privpipe.measures import CATALOGUE as MEASURES
    from privpipe.models import CATALOGUE as MODELS

    return {*MODELS.built_in, *MEASURES.built_in}


def _fields(entry: object) -> set[str]:
    return {each.name for each in dataclasses.fields(entry) if each.init}  # type: ignore[arg-type]


def _taken(text: str) -> dict[str, set[str]]:
    """Of each class and function of a stub, the names of its arguments, over all its forms."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, set()).update(_names(node))
        if isinstance(node, ast.ClassDef):
            made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            found[node.name] = set().union(*map(_names, made))
    return found


def _names(function: ast.FunctionDef) -> set[str]:
    taken = function.args
    names = {each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs) if each.arg != "self"}
    options = taken.kwarg is not None and "_Options" in ast.unparse(taken.kwarg)
    return names | OPTIONS if options else names
