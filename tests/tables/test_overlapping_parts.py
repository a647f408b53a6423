"""Totals whose parts overlap: readers know that no part is greater, and that the sum of the parts is not less."""

from __future__ import annotations

import numpy as np
import pandas as pd

import privpipe as pp
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
