"""Distinction is the oracle's on every engine and hostile table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts, Verdict
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.measures import Distinction
from privpipe.testing import HostileTable
from tests.gathering import gathered
from tests.hostile_kinds import on_every_engine


def check(verdict: Verdict, table: HostileTable, by_definition: Any) -> None:
    measure: Any = verdict.entry
    share, _ = by_definition(table, measure.columns or table.roles.quasi_identifiers)
    if share < 0:
        assert (verdict.outcome, verdict.observed) == ("fail", None)
        return
    assert verdict.observed == pytest.approx(float(share), rel=1e-12)
    assert verdict.passed == (measure.at_most is None or float(share) <= measure.at_most + 1e-12)


@on_every_engine
@pytest.mark.parametrize("measure", Distinction.examples(), ids=repr)
def test_every_engine_gives_the_defined_share(
    engine: Engine, tables: Sequence[HostileTable], measure: Distinction, by_definition: Any, judged_by: Any
) -> None:
    with gathered() as case:
        for table in tables:
            with case(table):
                check(judged_by(engine, table, measure), table, by_definition)


def test_columns_are_the_keys_of_the_entry() -> None:
    assert Distinction(columns=("a", "b"), at_most=1).quasi_identifiers == ("a", "b")
    with pytest.raises(UsageError, match="different sets"):
        Distinction(columns=("a",), quasi_identifiers=("b",), at_most=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": "age"},
        {"columns": ()},
        {"columns": ("a", "a")},
        {"columns": ("a", "")},
        {"columns": ("a", 3)},
        {"at_most": 1.5},
    ],
)
def test_ill_formed_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Distinction(**wrong)


def test_merging_classes_never_raises_it() -> None:
    sizes = np.array([1, 2, 3, 4])
    merged = np.array([3, 3, 4])
    assert share(merged) < share(sizes) == 0.4


def share(sizes: Any) -> float:
    measure = Distinction()
    parts = [measure.measure(ClassBlock(part), Facts()) for part in (sizes[:1], sizes[1:])]
    assert measure.merge(*parts) == measure.merge(*reversed(parts))
    return float(measure.judge(measure.merge(*parts), Facts()).observed)
