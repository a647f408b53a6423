"""Every example of every transformer: the same rows and plans under any partitioning of the input, on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privpipe.engines import Engine
from privpipe.testing import first_outcome, people, stage_problems
from privpipe.testing.stages import PARTITIONS
from privpipe.transforms import CATALOGUE
from privpipe.transforms.base import Transformer
from tests.tiers import deep_among

STAGES: dict[str, Transformer] = {
    f"{name}-{at}": example  # type: ignore[misc]
    for name in CATALOGUE
    for at, example in enumerate(CATALOGUE[name].examples())
}
UNLIKE_DECLARED: Mapping[str, tuple[bool, str]] = {
    "round-0": (False, "to the nearest multiple nothing is drawn; the random mode draws"),
    "shift_dates-0": (True, "without person_id dates move by the record id, which the seed keys"),
}
"""Examples whose rows follow the seed, or do not, otherwise than `needs_draws` of their class says; and why."""
ONE_EACH = [name for name in STAGES if name.endswith("-0")]
"""One example an entry: what Dask is asked in each run, and Spark, which works everything out for each question."""
WANTED: dict[str, Any] = {}


@pytest.fixture
def wanted(embedded: Engine, tmp_path: Path) -> Any:
    """What the embedded engine makes of a stage, once."""

    def of(name: str) -> Any:
        if name not in WANTED:
            folder = tmp_path / "embedded"
            folder.mkdir()
            WANTED[name] = first_outcome(STAGES[name], embedded, folder)
        return WANTED[name]

    return of


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_conforms(embedded: Engine, name: str, tmp_path: Path) -> None:
    """The first example of an entry in few and in many partitions, the others in some."""
    draws, _ = UNLIKE_DECLARED.get(name, (STAGES[name].needs_draws, ""))
    parts = PARTITIONS if name in ONE_EACH else (3,)
    assert stage_problems(STAGES[name], embedded, partitions=parts, draws=draws, folder=tmp_path) == []


def test_what_is_unlike_declared_is_so() -> None:
    for name, (draws, why) in UNLIKE_DECLARED.items():
        assert draws != STAGES[name].needs_draws, f"{name} is as declared; its line goes"
        assert why


def test_dates_of_a_person_move_alike_under_every_seed(embedded: Engine, tmp_path: Path) -> None:
    table = replace(people(), settings={"person_id": "household"})
    assert stage_problems(STAGES["shift_dates-0"], embedded, table=table, draws=False, folder=tmp_path) == []


@pytest.mark.dask
@pytest.mark.parametrize("name", deep_among(set(STAGES) - set(ONE_EACH), STAGES))
def test_dask_makes_the_same_of_it(dask_engine: Engine, wanted: Any, name: str, tmp_path: Path) -> None:
    assert stage_problems(STAGES[name], dask_engine, expected=wanted(name), folder=tmp_path) == []


@pytest.mark.spark
@pytest.mark.parametrize("name", deep_among(set(ONE_EACH) - set(ONE_EACH[::3]), ONE_EACH))
def test_spark_makes_the_same_of_it(spark_engine: Engine, wanted: Any, name: str, tmp_path: Path) -> None:
    assert stage_problems(STAGES[name], spark_engine, partitions=(3,), expected=wanted(name), folder=tmp_path) == []
