"""Every example of every model and measure: the same verdict under any partitioning, on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privpipe import measures, models
from privpipe.blocks import Guarantee
from privpipe.engines import Engine
from privpipe.testing import Judging, verdict_problems
from privpipe.testing.stages import PARTITIONS
from privpipe.testing.verdicts import SETTINGS, keys_of, verdict_differences
from tests.gathering import gathered
from tests.tiers import deep

ENTRIES: list[Any] = [
    example
    for room in (models, measures)
    for name in room.CATALOGUE
    for example in room.CATALOGUE[name].examples()
    if getattr(example, "time_limit_s", None) is None  # a solver that stops by the clock promises no last bit
]
NOT_JUDGED: Mapping[str, str] = {
    "complementary_release": "judged by a ledger that runs keep, or next to releases before: tests/running",
    "repeated_noise": "judged by a ledger that runs keep: tests/measures/risk/releases",
    "unsorted_matching": "it is about the order of the rows of the files themselves",
    "minimality_attack": "it runs the stages again, which a finished table cannot",
    "MembershipAttack()": "without a holdout it has no figure, only the reason why",
}
"""Entries, or examples, that have no figure over a release by itself; compared with what the kit finds."""


@pytest.fixture(scope="session")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Judging:
    """Releases made once an engine."""
    return Judging(tmp_path_factory.mktemp("judging"))


def judged_here(entry: Guarantee) -> bool:
    return entry.name() not in NOT_JUDGED and repr(entry) not in NOT_JUDGED


@pytest.mark.parametrize("name", list(dict.fromkeys(entry.name() for entry in ENTRIES)))
def test_a_verdict_does_not_depend_on_where_rows_lie(embedded: Engine, judging: Judging, name: str) -> None:
    """The first example of an entry in few and in many partitions, the others in some."""
    with gathered() as case:
        for at, entry in enumerate(entry for entry in ENTRIES if entry.name() == name):
            with case(repr(entry)):
                parts = (3,) if at else PARTITIONS
                problems = verdict_problems(entry, embedded, partitions=parts, judging=judging)
                if judged_here(entry):
                    assert problems == []
                else:
                    assert problems, f"{entry!r} has a figure; its line goes"


def everywhere(engine: Engine, embedded: Engine, judging: Judging, setting: str, entries: list[Any]) -> list[str]:
    """Entries that say otherwise on an engine than on the embedded one."""
    here = []
    for entry in filter(judged_here, entries):
        with keys_of(entry):
            if judging.first(entry, embedded)[0] == setting:
                here.append(entry)
    wanted = judging.judged(here, embedded, setting)
    found = judging.judged(here, engine, setting, parts=3)
    pairs = zip(here, wanted, found, strict=True)
    return [f"{entry!r}: {fault}" for entry, one, other in pairs for fault in verdict_differences(one, other)]


@pytest.mark.deep
@pytest.mark.dask
@pytest.mark.parametrize("setting", SETTINGS)
def test_dask_says_the_same(dask_engine: Engine, embedded: Engine, judging: Judging, setting: str) -> None:
    assert everywhere(dask_engine, embedded, judging, setting, ENTRIES) == []


@pytest.mark.parametrize("engine", ["dask", deep("spark")], indirect=True)
def test_another_engine_says_the_same(engine: Engine, embedded: Engine, tmp_path: Path) -> None:
    """One entry for each way of reading, over levels alone: Spark works stages out again for every question."""
    one_each: dict[Any, Guarantee] = {}
    for entry in filter(judged_here, ENTRIES):
        one_each.setdefault(entry.way, entry)
    stages = ({"generalize": {"levels": {"age": 2, "zip": 2, "town": 1}}},)
    small = Judging(tmp_path, {"labels": replace(SETTINGS["labels"], stages=stages)})
    assert everywhere(engine, embedded, small, "labels", servable(small, embedded, one_each)) == []


def servable(judging: Judging, embedded: Engine, entries: Mapping[Any, Guarantee]) -> list[Guarantee]:
    """Those that a release of labels serves; at least one for most ways of reading."""
    found = []
    for entry in entries.values():
        with keys_of(entry), suppress(LookupError):
            judging.first(entry, embedded)
            found.append(entry)
    assert len(found) >= 6
    return found
