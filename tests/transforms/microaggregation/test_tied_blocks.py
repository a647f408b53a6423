"""A value that k records or more share stays unchanged where equal values are kept together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.kernels.microaggregation.univariate import fixed_groups, univariate_groups
from privpipe.transforms import Microaggregate
from privpipe.transforms.microaggregation.record_groups import tied_apart, with_tied_values


@pytest.mark.parametrize("groups_of", [univariate_groups, fixed_groups])
@pytest.mark.parametrize("seed", range(30))
def test_groups_are_large_enough_and_tied_values_are_apart(groups_of: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    values = rng.integers(0, int(rng.integers(2, 60)), int(rng.integers(k, 200))).astype(float)
    found = tied_apart(values, groups_of(values, k, keep_ties=True), k)
    assert np.bincount(found).min() >= k
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    for value in np.unique(values):
        assert len(set(found[values == value].tolist())) == 1
    distinct, counts = np.unique(values, return_counts=True)
    tied = distinct[counts >= k]
    for place, value in enumerate(tied):
        low = -np.inf if place == 0 else tied[place - 1]
        high = np.inf if place == len(tied) - 1 else tied[place + 1]
        beside = [((values > low) & (values < value)).sum(), ((values > value) & (values < high)).sum()]
        if all(count == 0 or count >= k for count in beside):
            assert (values[found == found[values == value][0]] == value).all()


def test_zeros_of_a_skewed_amount_stay_zeros() -> None:
    """The last group of zeros took two amounts with it, and every zero became their common mean."""
    rng = np.random.default_rng(1)
    spent = np.r_[np.zeros(547), np.sort(np.round(rng.lognormal(5, 1, 400), 2))]
    stage = Microaggregate(columns=["spent"], k=5, method="univariate", keep_ties=True)
    released = stage.apply(pa.table({"spent": spent}), seed={"insecure": 3})["spent"].to_numpy()
    assert ((released == 0) == (spent == 0)).all()
    assert abs(released.mean() - spent.mean()) < 1e-9 * spent.mean()


def test_few_records_next_to_zeros_are_not_given_back_by_the_mean() -> None:
    """A mean of -0.149 for 11,089 zeros and one debt was that debt, divided by a number that everyone can count."""
    spent = np.r_[-1657.0, np.zeros(50), np.arange(1.0, 21)]
    stage = Microaggregate(columns=["spent"], k=5, method="univariate", keep_ties=True)
    released = stage.apply(pa.table({"spent": spent}), seed={"insecure": 3})["spent"].to_numpy()
    assert (released[:51] == 0).all()
    assert (released[51:] > 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_value_of_a_group_is_the_one_that_enough_owners_have(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(5, 60)), int(rng.integers(1, 5))
    values, labels = rng.integers(0, 4, n).astype(float), rng.integers(0, 3, n)
    owners = rng.integers(0, 6, n)
    means = rng.normal(size=3)
    for unit in ((), (owners,)):
        found = with_tied_values(means, values, labels, k, unit)
        for group in range(3):
            own = labels == group
            sizes = {
                value: len(set(owners[own & (values == value)].tolist()))
                if unit
                else int((own & (values == value)).sum())
                for value in np.unique(values[own]).tolist()
            }
            most = max(sizes.values(), default=0)
            expected = min(value for value, size in sizes.items() if size == most) if most >= k else means[group]
            assert found[group] == expected
