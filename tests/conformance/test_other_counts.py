"""Wildcards on every engine: hostile tables, against plain Python written from the definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from privpipe.blocks import Guarantee
from privpipe.blocks.oracle_classes import plain_cell
from privpipe.engines import Engine, Source
from privpipe.judging import Assessment, JudgingRules, assess
from privpipe.models import (
    AverageRisk,
    KAnonymity,
    SampleUniqueness,
    StrictAverageRisk,
)
from privpipe.testing import HOSTILE_TABLES, HostileTable
from privpipe.testing.hostile_tables import arrow_table
from privpipe.testing.oracle import unsuppressed_rows
from tests.gathering import gathered
from tests.hostile_kinds import KINDS

TABLES = [
    table for table in HOSTILE_TABLES.values() if table.refused is None and table.make is None and 0 < len(table) < 400
]
SIZES: list[Guarantee] = [
    KAnonymity(k=2),
    AverageRisk(at_most=0.5),
    SampleUniqueness(at_most=0.1),
    StrictAverageRisk(at_most=0.5, highest=0.34),
]


def keys_of(table: HostileTable) -> list[tuple[Any, ...]]:
    names = table.roles.quasi_identifiers
    return [tuple(plain_cell(table.rows[name][row]) for name in names) for row in range(len(table))]


def left_in(table: HostileTable) -> list[bool]:
    """Of each row, whether anything is left in it."""
    rows = set(unsuppressed_rows(table))
    return [row in rows for row in range(len(table))]


def judged(engine: Engine, table: HostileTable, rules: JudgingRules, models: list[Guarantee]) -> Assessment:
    handle = engine.scan(Source(data=arrow_table(table)))
    return assess(engine, handle, guarantees=models, roles=table.roles, rules=rules)


@pytest.mark.parametrize("wildcard", [None, "*"], ids=["nulls alone", "a text too"])
@pytest.mark.parametrize(
    ("engine", "tables"),
    [
        pytest.param("embedded", TABLES, id="embedded"),
        pytest.param("dask", TABLES, id="dask"),
        pytest.param("spark", [table for table in KINDS if table in TABLES], id="spark"),
        pytest.param("spark", TABLES, id="spark, every table", marks=pytest.mark.deep),
    ],
    indirect=["engine"],
)
def test_every_engine_matches_wildcards_alike(engine: Engine, tables: list[HostileTable], wildcard: str | None) -> None:
    with gathered() as case:
        for table in tables:
            with case(table):
                matches_wildcards(engine, table, wildcard)


def matches_wildcards(engine: Engine, table: HostileTable, wildcard: str | None) -> None:
    blank = {None, wildcard}
    rows = [
        tuple(None if cell in blank else cell for cell in key)
        for key, left in zip(keys_of(table), left_in(table), strict=True)
        if left
    ]

    def match(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        if one and (set(one) == {None}) != (set(other) == {None}):
            return False  # who is blank everywhere vouches for no one
        return all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))

    sizes = [sum(match(one, other) for other in rows) for one in rows]
    found = judged(engine, table, JudgingRules(nulls="wildcard", wildcard=wildcard), SIZES)
    assert found.records == len(rows)
    if not rows:
        assert not found.passed
        return
    least, average, uniques, strict = (verdict.observed for verdict in found.verdicts)
    risk = float(sum(Fraction(1, size) for size in sizes) / len(rows))
    assert least == min(sizes)
    assert found.verdicts[0].failing_records == sizes.count(1)
    assert (average, uniques) == pytest.approx((risk, sizes.count(1) / len(rows)))
    small = sum(size < 3 for size in sizes) / len(rows)
    assert strict == pytest.approx({"average": risk, "highest": 1 / min(sizes), "records_at_risk": small})
