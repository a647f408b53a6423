"""Every block of the written pages is true: Python runs, or compiles where its package is missing; policies load."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from privpipe.policy import Policy
from tests.gathering import gathered
from tests.object_store import ObjectStore, needs_object_store, object_store_at

from .page_blocks import blocks, run, said

PROJECT = Path(__file__).resolve().parents[2]
WRITTEN = sorted(path for path in (PROJECT / "docs").rglob("*.md") if path.parent.name != "decisions")
NEEDS = {
    "dask": "dask",
    "gx": "great_expectations",
    "scikit-learn": "sklearn",
    "polars": "polars",
    "ibis": "ibis",
    "lakes": "deltalake",
}


@pytest.fixture
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A server that the page's program finds by its environment."""
    with object_store_at(monkeypatch) as store:
        yield store


def pages(compiled: bool) -> list[Any]:
    """Pages with Python, those that run with the mark of what they need."""
    found = []
    for path in WRITTEN:
        if blocks(path, "python") and (said(path, "blocks") == "compiled") is compiled:
            marker = said(path, "marker")
            marks = [getattr(pytest.mark, marker)] if marker else []
            found.append(pytest.param(path, id=path.relative_to(PROJECT / "docs").as_posix(), marks=marks))
    return found


@pytest.mark.deep
@pytest.mark.parametrize("page", pages(compiled=False))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if said(page, "marker") == "spark":
        request.getfixturevalue("spark_engine")  # skips where Spark cannot run
    if said(page, "store"):
        needs_object_store()
        request.getfixturevalue("object_store")
    for name in {said(page, "marker"), page.stem} & set(NEEDS):
        pytest.importorskip(NEEDS[name])
    run("\n".join(blocks(page, "python")), tmp_path)


@pytest.mark.parametrize("page", pages(compiled=True))
def test_the_python_of_a_page_compiles_where_its_package_is_missing(page: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    compile(code, page.name, "exec")
    assert "compiled, not run" in page.read_text(encoding="utf-8"), "the page does not say that its blocks do not run"
    assert importlib.util.find_spec(page.stem) is None, "the package is there; run the blocks"


def test_the_policies_of_pages_load() -> None:
    with gathered() as case:
        for page in WRITTEN:
            for at, text in enumerate(blocks(page, "yaml"), 1):
                with case(f"{page.relative_to(PROJECT)}, policy {at}"):
                    policy = Policy.from_dict(YAML(typ="safe").load(text))
                    assert policy.guarantees or (policy.tables or policy.related).guarantees
