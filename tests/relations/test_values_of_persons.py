"""Sensitive values of related tables: those that persons have, compared as they are counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.relations import JointAlpha, JointTCloseness
from privpipe.relations.guarantees import JointGuarantee

ENGINES = pytest.mark.parametrize("engine", ["embedded", "dask"])
TOWNS = ["a", "a", "b", "b"]


def observed(visits: list[tuple[int, Any]], asked: JointGuarantee, engine: str) -> Any:
    """The figure of four persons in two towns, with the values of their visits; visits of others are left out."""
    tables = {
        "patients": pa.table({"id": range(4), "town": TOWNS}),
        "visits": pa.table({"id": [who for who, _ in visits], "cost": [cost for _, cost in visits]}),
    }
    found = pp.relations.assess(
        tables,
        asked,
        relations=[{"from": "visits.id", "to": "patients"}],
        keys={"patients": "id"},
        quasi_identifiers={"patients": ["town"]},
        orphans="drop",
        engine=engine,
    )
    return found.measures[0].observed


@ENGINES
@pytest.mark.parametrize("lost", [[], [5.0], [0.0, 9.0], [1.0, 2.0, 3.0]])
def test_values_of_rows_without_a_person_are_not_a_distance(engine: str, lost: list[float]) -> None:
    """Town a has 4 and 6, town b 6 and 8: of the whole set 1/4, 1/2, 1/4; ordered |1/4| + |1/4| over two steps."""
    visits = [(0, 4.0), (1, 6.0), (2, 6.0), (3, 8.0), *((7, cost) for cost in lost)]
    asked = JointTCloseness(column="visits.cost", distance="ordered")
    assert observed(visits, asked, engine) == pytest.approx((1 / 4 + 1 / 4) / 2)
    equal = JointTCloseness(column="visits.cost")
    assert observed(visits, equal, engine) == pytest.approx((1 / 4 + 0 + 1 / 4) / 2)


@ENGINES
@pytest.mark.parametrize("equal", [(-0.0, 0.0), (float("nan"), None)], ids=["zeros", "missing"])
def test_minus_zero_is_zero_and_no_number_is_a_missing_value(engine: str, equal: tuple[Any, Any]) -> None:
    visits = [(0, equal[0]), (1, equal[1]), (2, 1.0), (3, 2.0)]
    assert observed(visits, JointAlpha(column="visits.cost"), engine) == 1.0
    assert observed([(1, 3.0), *visits[2:], (0, equal[0])], JointAlpha(column="visits.cost"), engine) == 0.5
