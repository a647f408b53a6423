"""Separation is the oracle's on every engine and hostile table, and exact for any number of records."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import Facts, Verdict
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.measures import Separation
from privpipe.measures.risk.identity.attribute_risk import separation
from privpipe.testing import HostileTable
from tests.gathering import gathered
from tests.hostile_kinds import on_every_engine


def check(verdict: Verdict, table: HostileTable, by_definition: Any) -> None:
    measure: Any = verdict.entry
    distinct, apart = by_definition(table, measure.columns or table.roles.quasi_identifiers)
    if distinct < 0:
        assert (verdict.outcome, verdict.observed) == ("fail", None)
    elif apart is None:
        assert (verdict.outcome, verdict.observed) == ("error", None)
    else:
        assert verdict.observed == pytest.approx(float(apart), rel=1e-12)
        assert verdict.passed == (measure.at_most is None or float(apart) <= measure.at_most + 1e-12)


@on_every_engine
@pytest.mark.parametrize("measure", Separation.examples(), ids=repr)
def test_every_engine_gives_the_defined_share(
    engine: Engine, tables: Sequence[HostileTable], measure: Separation, by_definition: Any, judged_by: Any
) -> None:
    with gathered() as case:
        for table in tables:
            with case(table):
                check(judged_by(engine, table, measure), table, by_definition)


def test_a_single_record_has_no_pair() -> None:
    assert np.isnan(separation(np.array([1]), np.array([1])))
    assert not Separation(at_most=1).met_by(np.array([1]), np.array([1]), Facts())


def test_billions_of_records_do_not_wrap() -> None:
    half = 4_000_000_000
    exact = Fraction(2 * half * half, 2 * half * (2 * half - 1))
    assert separation(np.array([half]), np.array([2])) == float(exact)


sizes = st.lists(st.integers(1, 9), min_size=2, max_size=8)


@settings(deadline=None)
@given(sizes)
def test_removing_the_smallest_class_never_raises_it(found: list[int]) -> None:
    """So that the shortest prefix to suppress may be bisected."""
    ascending = sorted(found)
    if sum(ascending[1:]) < 2:
        return
    before, after = (separation(*np.unique(part, return_counts=True)) for part in (ascending, ascending[1:]))
    assert after <= before


@settings(deadline=None)
@given(sizes)
def test_coarser_columns_tell_no_more_pairs_apart(found: list[int]) -> None:
    merged = [found[0] + found[1], *found[2:]]
    fine, coarse = (separation(*np.unique(part, return_counts=True)) for part in (found, merged))
    assert coarse < fine


@pytest.mark.parametrize("wrong", [{"columns": "age"}, {"at_most": True}, {"at_most": float("nan")}])
def test_ill_formed_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Separation(**wrong)
