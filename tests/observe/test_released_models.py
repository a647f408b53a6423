"""Integral privacy of released models: against the entry for statistics, brute force over records, and its limits."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpipe as pp
from privpipe.errors import DataError, UsageError
from privpipe.models.process.integral_privacy import published
from privpipe.observe import ModelGenerators, linear_model, model_generators, tree_rules

incomes = st.lists(st.integers(1, 6), min_size=1, max_size=7)


def mean_of(digits: int) -> Any:
    def fit(rows: pd.DataFrame) -> Hashable:
        return published(Fraction(int(rows["income"].sum())), len(rows), "mean", digits)

    return fit


@given(incomes, st.integers(-1, 1), st.sampled_from([1, 2]))
def test_means_agree_with_the_entry_for_statistics(values: list[int], digits: int, changes: int) -> None:
    frame = pd.DataFrame({"income": values})
    found = model_generators(frame, mean_of(digits), changes=changes)
    query = {"statistic": "mean", "column": "income", "digits": digits}
    assert found.exhaustive
    assert found.sets == pp.observe.integral_privacy(frame, query=query, changes=changes)
    judged = pp.assess(frame, [pp.IntegralPrivacy(k=1, query=query, changes=changes)])
    assert found.outcome(1) == judged.verdicts[0].outcome


def sets_by_definition(frame: pd.DataFrame, fit: Any, changes: int) -> set[tuple[tuple[Any, int], ...]]:
    """All minimal sets, each as its changes of whole records."""
    records = [tuple(row) for row in frame.itertuples(index=False)]
    single = [(record, way) for record in sorted(set(records)) for way in (1, -1)]
    released, kept = fit(frame), set[tuple[tuple[Any, int], ...]]()
    for size in range(1, changes + 1):
        for chosen in itertools.combinations_with_replacement(single, size):
            if any((record, -way) in chosen for record, way in chosen) or any(
                tuple(part) in kept for few in range(1, size) for part in itertools.combinations(chosen, few)
            ):
                continue
            left = list(records)
            try:
                for record, way in chosen:
                    left.append(record) if way > 0 else left.remove(record)
            except ValueError:
                continue
            if left and fit(pd.DataFrame(left, columns=frame.columns)) == released:
                kept.add(chosen)
    return kept


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6), st.sampled_from([1, 2]))
def test_lines_by_the_definition(rows: list[tuple[int, int]], changes: int) -> None:
    frame = pd.DataFrame(rows, columns=["age", "pay"])
    fit = linear_model("pay", digits=0)
    kept = sets_by_definition(frame, fit, changes)
    found = model_generators(frame, fit, changes=changes)
    assert (found.sets, found.exhaustive) == (len(kept), True)
    assert found.common == (bool(kept) and bool(set.intersection(*map(set, kept))))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=3, max_size=6))
def test_trees_by_the_definition(rows: list[tuple[int, str]]) -> None:
    pytest.importorskip("sklearn")
    frame = pd.DataFrame(rows, columns=["age", "ill"])
    kept = sets_by_definition(frame, tree_rules("ill", depth=2), 1)
    assert model_generators(frame, tree_rules("ill", depth=2)).sets == len(kept)


def test_a_sample_passes_or_leaves_it_open() -> None:
    frame = pd.DataFrame({"income": [1000 + 10 * at for at in range(40)]})
    whole = model_generators(frame, mean_of(-2), changes=2)
    part = model_generators(frame, mean_of(-2), changes=2, most_fits=60)
    assert (whole.exhaustive, part.exhaustive, part.fits) == (True, False, 60)
    assert part.sets <= whole.sets
    assert part.outcome(2) == "pass"
    assert part.outcome(whole.sets + 1) == "error"
    assert whole.outcome(whole.sets + 1) == "fail"


def test_one_change_in_every_set_fails() -> None:
    assert ModelGenerators(sets=5, common=True, exhaustive=True, fits=9).outcome(3) == "fail"


def test_trees_merge_what_predicts_the_same_and_split_texts() -> None:
    pytest.importorskip("sklearn")
    frame = pd.DataFrame({"town": ["a", "a", "b", "b"], "age": [1, 2, 3, 4], "ill": ["n", "n", "y", "n"]})
    assert {label for _, label in tree_rules("ill", depth=2)(frame)} == {"n", "y"}
    assert tree_rules("ill")(frame.assign(ill="n")) == frozenset({((), "n")})


@pytest.mark.parametrize(
    ("frame", "fit", "error", "message"),
    [
        (pd.DataFrame({"income": []}), len, DataError, "no records"),
        (pd.DataFrame({"income": [1]}), None, UsageError, "needs a function"),
        ([1], len, UsageError, "pandas.DataFrame, got list"),
        (pd.DataFrame({"income": [1, 2]}), lambda rows: rows["income"].iloc[0], DataError, "another order"),
        (pd.DataFrame({"income": [1, 2]}), lambda rows: rows["pay"], DataError, "fit failed for 2 records: KeyError"),
    ],
    ids=["no records", "no function", "no frame", "order", "failing"],
)
def test_bad_input(frame: Any, fit: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model_generators(frame, fit)
