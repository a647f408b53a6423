"""Floats meet thresholds in one place, and shares become counts in exact decimals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import UsageError
from privpipe.tolerance import at_least, at_most, below, floor_share, integer_at_least, slack

NUMBERS = st.floats(-1e9, 1e9)


def test_slack_is_absolute_near_zero_and_relative_far_off() -> None:
    assert slack(0) == 1e-12
    assert slack(-1e6) == pytest.approx(1e-3)


def test_the_entropy_of_three_even_values_reaches_three() -> None:
    assert at_least(2.9999999999999996, 3)
    assert not at_least(2.9999, 3)


def test_below_is_strict_within_tolerance() -> None:
    assert not below(0.1 + 0.2, 0.3)
    assert not below(0.3, 0.1 + 0.2)
    assert not below(2.9999999999999996, 3)
    assert below(0.3, 0.3 + 1e-6)


def test_integers_are_compared_exactly() -> None:
    huge = 10**15
    assert not at_least(huge - 1, huge)
    assert not at_most(huge + 1, huge)
    assert below(huge - 1, huge)
    assert at_least(np.array([huge - 1, huge]), huge).tolist() == [False, True]
    assert not below(huge, huge)
    assert at_most(huge, huge)


@pytest.mark.parametrize("bound", [0.3, 3, -7.5, 1e6])
def test_what_differs_by_the_slack_itself_is_equal(bound: float) -> None:
    low, high = bound - slack(bound), bound + slack(bound)
    assert at_least(low, bound)
    assert not below(low, bound)
    assert at_most(high, bound)
    assert not at_least(np.nextafter(low, -np.inf), bound)
    assert below(np.nextafter(low, -np.inf), bound)
    assert not at_most(np.nextafter(high, np.inf), bound)


def test_a_float_meets_an_integer_within_tolerance() -> None:
    assert at_most(3 + 1e-10, 3)
    assert at_most(3, 3 - 1e-10)
    assert at_least(3 - 1e-10, 3)
    assert not below(3 - 1e-10, 3)


@pytest.mark.parametrize("meets", [at_least, at_most, below])
def test_nan_meets_nothing(meets: object) -> None:
    assert not meets(float("nan"), 1.0)  # type: ignore[operator]
    assert not meets(1.0, float("nan"))  # type: ignore[operator]


@given(NUMBERS, NUMBERS)
def test_a_number_is_below_or_at_least(value: float, bound: float) -> None:
    assert bool(below(value, bound)) != bool(at_least(value, bound))


@given(st.integers(0, 100), st.integers(0, 10**15))
def test_floor_share_is_the_exact_floor(percent: int, count: int) -> None:
    assert floor_share(percent / 100, count) == Fraction(percent, 100) * count // 1


@pytest.mark.parametrize(
    ("share", "count", "records"),
    [
        (0.29, 100, 29),
        (0.02, 30162, 603),
        (0.05, 30162, 1508),
        (1.0, 10**10, 10**10),
        (0.0, 5, 0),
        (0.07, 10**10, 7 * 10**8),
    ],
)
def test_known_budgets(share: float, count: int, records: int) -> None:
    assert floor_share(share, count) == records


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True])
def test_no_share(share: float) -> None:
    with pytest.raises(UsageError, match="share"):
        floor_share(share, 10)


@pytest.mark.parametrize(("bound", "values"), [(1, 1), (2.5, 3), (3.0000000000000004, 3), (3.1, 4)])
def test_a_real_l_asks_for_so_many_values(bound: float, values: int) -> None:
    assert integer_at_least(bound) == values
