"""Weights are added up exactly and rounded once, whatever their order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.exact_sums import exact_sum_by_class

cells = st.lists(
    st.tuples(st.floats(-1e12, 1e12, allow_subnormal=False), st.integers(1, 2**40)), min_size=0, max_size=20
)


@given(cells, cells)
def test_sums_are_the_nearest_doubles(one: list[tuple[float, int]], other: list[tuple[float, int]]) -> None:
    offsets = np.array([0, len(one), len(one) + len(other)])
    both = [*one, *other]
    values, counts = np.array([v for v, _ in both], dtype=float), np.array([c for _, c in both], dtype=np.int64)
    found = exact_sum_by_class(offsets, values, counts)
    wanted = [float(sum((Fraction(v) * c for v, c in part), Fraction(0))) for part in (one, other)]
    assert found.tolist() == wanted


def test_what_is_not_finite_stays_so() -> None:
    found = exact_sum_by_class(np.array([0, 2, 3]), np.array([np.inf, 1.0, 2.0]), np.array([1, 1, 5]))
    assert found.tolist() == [np.inf, 10.0]
