"""Hostile tables on every engine: counts by their definition, and labels and figures as the embedded engine has."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest

from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import DataError
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec, aggregated
from privpipe.tables.responses import responses_of
from privpipe.testing import HOSTILE_TABLES, HostileTable
from tests.hostile_kinds import KINDS

COUNTS = responses_of("count")


def on(engine: str, tables: Any) -> list[Any]:
    return [pytest.param(engine, table, id=f"{engine}-{table}") for table in tables if table.refused is None]


on_engines = pytest.mark.parametrize(
    ("engine", "table"),
    [*on("embedded", HOSTILE_TABLES.values()), *on("dask", HOSTILE_TABLES.values()), *on("spark", KINDS)],
    indirect=["engine"],
)


def normalised(value: Any) -> Any:
    """What a value is grouped as."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value + 0.0 if isinstance(value, float) else value


def counted(engine: Engine, table: HostileTable, by: list[str], person: str | None = None) -> Aggregated:
    handle = engine.scan(Source(data=table.frame()))
    return aggregated(engine, handle, TableSpec(by=tuple(by), responses=COUNTS, total="*total*"), person=person)


def named(found: Aggregated) -> dict[str, tuple[int, int, int]]:
    count = found.figures[COUNT]
    figures = zip(count.contributors.tolist(), count.records.tolist(), count.single.tolist(), strict=True)
    return {found.cells.name(at): each for at, each in enumerate(figures)}


@pytest.mark.usual
@on_engines
def test_counts_by_their_definition(engine: Engine, table: HostileTable) -> None:
    by = [*table.roles.quasi_identifiers, "illness"]
    found = counted(engine, table, by)
    rows = list(zip(*([normalised(value) for value in table.rows[name]] for name in by), strict=True))
    count = found.figures[COUNT].contributors
    for shown in itertools.product([False, True], repeat=len(by)):
        wanted = Counter(tuple(value for value, kept in zip(row, shown, strict=True) if kept) for row in rows)
        level = ((found.cells.codes > 0) == list(shown)).all(axis=1)
        assert sorted(n for n in count[level].tolist() if n) == sorted(wanted.values()), shown
    assert not (found.cells.relations @ count).any()
    with open_engine("embedded", {}) as embedded:
        assert named(found) == named(counted(embedded, table, by))


TEXTS = ("one_class", "ties", "unicode", "separators", "unused_categories", "repeated_dictionary")
TEXTS = (*TEXTS, "interleaved_classes", "base_of_the_original", "one_huge_class")


@pytest.mark.parametrize(
    ("engine", "table"),
    [
        *on("embedded", [HOSTILE_TABLES[name] for name in TEXTS]),
        *on("dask", [HOSTILE_TABLES[name] for name in TEXTS]),
        *on("spark", [HOSTILE_TABLES[name] for name in ("unicode", "interleaved_classes")]),
    ],
    indirect=["engine"],
)
def test_contributors_are_counted_once(engine: Engine, table: HostileTable) -> None:
    """Texts of all kinds as contributors, most of whom are in several cells."""
    found = counted(engine, table, ["illness"], person="zip")
    pairs = list(zip(table.rows["illness"], table.rows["zip"], strict=True))
    if table.name == "repeated_dictionary":
        pairs = [(illness, "4711") for illness in table.rows["illness"]]
    labels = found.cells.dimensions[0].labels
    for label, code in zip(labels, range(len(labels)), strict=True):
        wanted = {person for illness, person in pairs if code == 0 or (illness or "(missing)") == label}
        assert found.figures[COUNT].contributors[code] == len(wanted)
    with open_engine("embedded", {}) as embedded:
        assert named(found) == named(counted(embedded, table, ["illness"], person="zip"))


@pytest.mark.parametrize("engine", ["embedded", "dask"], indirect=True)
def test_persons_without_a_text_are_refused(engine: Engine) -> None:
    table = HOSTILE_TABLES["signed_zeros"]
    with pytest.raises(DataError, match="give it as integers or texts"):
        counted(engine, table, ["illness"], person="age")
