"""A value that k records or more share stays as it is where equal values are kept together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.kernels.microaggregation.univariate import fixed_groups, univariate_groups
from privpipe.transforms import Microaggregate
from privpipe.transforms.microaggregation.tied_blocks import tied_apart


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
