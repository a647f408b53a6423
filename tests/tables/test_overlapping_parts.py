"""Totals whose parts overlap: readers know that no part is greater, and that the sum of the parts is not less."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import Refused
from privpipe.tables.audit_problem import Levels
from privpipe.tables.cells import Cells, Dimension, linked
from privpipe.tables.exact_audit import intervals
from privpipe.tables.families import families, with_overlaps


def test_inequalities_hold_for_the_true_figures() -> None:
    cells = Cells.complete([Dimension.tree("answer", {"a": "Total", "b": "Total"}, overlapping=True)])
    true = np.array([20, 18, 5])
    relations, distances = with_overlaps(linked([cells]), true)
    assert distances is not None
    assert distances.tolist() == [3, 2, 15]
    assert not (relations @ np.concatenate([true, distances])).any()


def test_a_hidden_total_is_bounded_by_its_parts() -> None:
    # 20 persons answer a, one of them also b: a reader finds 20 or 21 in all.
    rows = [(person, "a") for person in range(20)] + [(0, "b")]
    answers = pd.DataFrame(rows, columns=["person", "answer"])
    stage = pp.tables.Aggregate(by=["answer"], responses=["count"], overlapping=["answer"])
    hidden = stage.apply(answers, person_id="person").hiding(np.array([True, False, False]))
    [family] = families({"table": hidden})
    none = np.empty(0, dtype=np.int64)
    problem = family.problem(
        Levels(none, none, none, none), prior=None, knowing=(), implied=np.zeros(0, dtype=np.bool_)
    )
    found = intervals(problem)
    assert [found.closest[0][0], found.closest[1][0]] == [20, 21]


def town(*, visits: bool) -> pd.DataFrame:
    """One person in r1, t3, and 12 in every other cell; of those in r4, t4 each is seen twice if there are visits."""
    rows: list[tuple[int, str, str, str]] = []
    for at in range(16):
        region, age = f"r{at // 4 + 1}", f"t{at % 4 + 1}"
        for person in range(1 if (region, age) == ("r1", "t3") else 12):
            rows.append((100 * at + person, region, age, "x"))
            if visits and at == 15:
                rows.append((100 * at + person, region, age, "y"))
    return pd.DataFrame(rows, columns=["person", "region", "age", "seen"])


HIDDEN = {"r1": ("t1", "t2", "t3"), "r2": ("t1", "t2"), "r3": ("t3", "t4"), "r4": ("t3", "t4")}
"""Rows r1 and r2 less columns t1 and t2 are the single person, whom no relation shows by itself."""
ASKED = [pp.tables.MinimumFrequency(at_least=3), pp.tables.TableAudit()]


@pytest.mark.parametrize("visits", [False, True])
def test_regions_add_up_although_what_persons_are_seen_for_does_not(visits: bool) -> None:
    table = pp.tables.Aggregate(by=["region", "age", "seen"], responses=["count"]).apply(
        town(visits=visits), person_id="person"
    )
    cells = table.public()
    hidden = np.array(
        [
            age in HIDDEN.get(region, ()) and (seen != "y" or (region, age) == ("r4", "t4"))
            for region, age, seen in zip(cells["region"], cells["age"], cells["seen"], strict=True)
        ]
    )
    with pytest.raises(Refused, match="2 can be computed from margins"):
        pp.check(table.hiding(hidden), ASKED)


@pytest.mark.parametrize("more", [{}, {"visits": {"by": ["seen"], "responses": ["count"]}}])
def test_another_table_of_overlapping_labels_hides_nothing(more: dict[str, dict[str, list[str]]]) -> None:
    tables = {"town": {"by": ["region", "age"], "responses": ["count"]}, **more}
    made = dict(pp.tables.Aggregate(tables=tables).apply(town(visits=True), person_id="person"))
    cells = made["town"].public()
    hidden = [age in HIDDEN.get(region, ()) for region, age in zip(cells["region"], cells["age"], strict=True)]
    made["town"] = made["town"].hiding(np.array(hidden))
    with pytest.raises(Refused, match="can be computed from margins"):
        pp.check(made, ASKED)
