"""The table of what comes to the driver: every entry is in it, and entries do what it shows."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from privpipe.engines import open_engine
from tests.gathering import gathered

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "where_rows_go.py"
KINDS = ("not measured", "refused", "workers", "facts", "one task", "rows")
SLOW = (
    "local_recoding",
    "suppress_cells",
    "microaggregate",
    "synthesize",
    "household_k_anonymity",
    "household_uniqueness",
    "km_anonymity",
    "t_closeness",
    "integral_privacy",
    "record_linkage",
    "probabilistic_linkage",
    "learned_linkage",
    "k_concealment",
    "k_confusion",
    "linkability_attack",
    "membership_attack",
    "recovery",
    "downcoding",
    "minimality_attack",
)
"""Entries that take more than ten seconds."""
SAMPLE = ("stage round", "model k_anonymity", "measure risky_cells", "measure rank_interval_disclosure")


@pytest.fixture(scope="module")
def script() -> Any:
    return run_path(str(SCRIPT), run_name="where_rows_go")


def kind(text: str) -> str:
    return text.split(":")[0]


def test_every_entry_is_in_the_table_once(script: Any) -> None:
    text = script["PAGE"].read_text(encoding="utf-8")
    found = script["kept"](text)
    assert list(found) == list(script["entries"]())
    assert {kind(cell) for cells in found.values() for cell in cells.values()} <= set(KINDS)
    assert script["page"](found) in text


def test_what_grows_is_distinguished_from_what_does_not(script: Any, tmp_path: Path) -> None:
    from privpipe.models import KAnonymity
    from privpipe.transforms import RankSwap, Round

    brought, histogram = script["brought_by"], RankSwap(columns=("income",), kind="buckets", buckets=3)
    with open_engine("embedded", script["ENGINES"]["embedded"]) as engine:
        found = brought([histogram], engine, tmp_path / "embedded")
        assert (found.kind, str(found)) == ("facts", "facts: 16 B, histogram (income)")
    with open_engine("dask", script["ENGINES"]["dask"]) as engine:
        assert brought([histogram], engine, tmp_path / "dask").kind == "workers"
        assert brought([Round(columns=("income",), base=10)], engine, tmp_path).kind == "workers"
        assert brought([KAnonymity(k=2)], engine, tmp_path).kind == "workers"


@pytest.mark.deep
@pytest.mark.dask
def test_dask_brings_what_the_table_shows_of_some(script: Any, tmp_path: Path) -> None:
    agree(script, "dask", SAMPLE, tmp_path)


@pytest.mark.rare
@pytest.mark.dask
@pytest.mark.parametrize("room", ["stage", "model", "measure"])
def test_dask_brings_what_the_table_shows(script: Any, room: str, tmp_path: Path) -> None:
    agree(script, "dask", [name for name in script["entries"]() if name.startswith(room)], tmp_path)


@pytest.mark.deep
@pytest.mark.spark
def test_spark_brings_what_the_table_shows(script: Any, tmp_path: Path) -> None:
    agree(script, "spark", SAMPLE, tmp_path)


def agree(script: Any, engine: str, names: Any, folder: Path) -> None:
    shown = script["kept"](script["PAGE"].read_text(encoding="utf-8"))
    every = script["entries"]()
    with open_engine(engine, script["ENGINES"][engine]) as opened, gathered() as case:
        for name in names:
            if name.split()[1] not in SLOW:
                with case(name):
                    assert kind(str(script["brought_by"](every[name], opened, folder))) == kind(shown[name][engine])
