"""Persons and wildcards on every engine: hostile tables, against plain Python written from the definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import Guarantee
from privpipe.blocks.oracle_classes import plain_cell
from privpipe.engines import Engine, Source
from privpipe.judging import Assessment, JudgingRules, assess
from privpipe.models import (
    AverageRisk,
    DistinctLDiversity,
    KAnonymity,
    SampleUniqueness,
    StrictAverageRisk,
    TCloseness,
)
from privpipe.roles import Roles
from privpipe.testing import HOSTILE_TABLES, HostileTable
from privpipe.testing.hostile import arrow_table
from privpipe.testing.oracle import unsuppressed_rows

TABLES = [
    table for table in HOSTILE_TABLES.values() if table.refused is None and table.make is None and 0 < len(table) < 400
]
WHO = "__who"
PERSONS: list[Guarantee] = [
    KAnonymity(k=2),
    AverageRisk(at_most=0.5),
    DistinctLDiversity(column="illness", l=2),
    TCloseness(column="illness", t=0.3),
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
    rows = arrow_table(table)
    who = pa.array([f"p{row * 5 % (1 + len(table) // 3)}" for row in range(len(table))])
    handle = engine.scan(Source(data=rows.append_column(WHO, who)))
    roles = Roles(quasi_identifiers=table.roles.quasi_identifiers, sensitive=table.roles.sensitive, insensitive=[WHO])
    rules = replace(rules, released=tuple(table.rows))
    return assess(engine, handle, guarantees=models, roles=roles, rules=rules)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_engine_counts_persons_alike(engine: Engine, table: HostileTable) -> None:
    people: dict[Any, set[str]] = defaultdict(set)
    values: dict[Any, set[Any]] = defaultdict(set)
    left = left_in(table)
    for row, key in enumerate(keys_of(table)):
        if not left[row]:
            continue
        who, value = f"p{row * 5 % (1 + len(table) // 3)}", plain_cell(table.rows["illness"][row])
        values[None].add((value, who))
        people[key].add(who)
        values[key, "class"].add((value, who))
    found = judged(engine, table, JudgingRules(person=WHO), PERSONS)
    if not people:
        assert not found.passed
        return
    base = Counter(value for value, _ in values[None])
    distances = []
    for key in people:
        mine = Counter(value for value, _ in values[key, "class"])
        gaps = (abs(Fraction(mine[v], mine.total()) - Fraction(base[v], base.total())) for v in base)
        distances.append(sum(gaps, start=Fraction(0)) / 2)
    sizes = [len(persons) for persons in people.values()]
    wanted = [
        min(sizes),
        Fraction(len(sizes), sum(sizes)),
        min(len({value for value, _ in values[key, "class"]}) for key in people),
        max(distances),
    ]
    assert [verdict.observed for verdict in found.verdicts] == pytest.approx([float(figure) for figure in wanted])
    assert found.records == sum(left)


@pytest.mark.parametrize("wildcard", [None, "*"], ids=["nulls alone", "a text too"])
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_engine_matches_wildcards_alike(engine: Engine, table: HostileTable, wildcard: str | None) -> None:
    blank = {None, wildcard}
    rows = [
        tuple(None if cell in blank else cell for cell in key)
        for key, left in zip(keys_of(table), left_in(table), strict=True)
        if left
    ]

    def match(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        if one and (set(one) == {None}) != (set(other) == {None}):
            return False  # who is blank everywhere vouches for nobody
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
