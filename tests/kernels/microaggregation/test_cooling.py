"""What a step of the search may add to the SSE: near exponential around the heat, halving by halving, then nothing."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from privpipe.draws import Stream
from privpipe.kernels.microaggregation.neighbourhood_search import HALVINGS, Cooling, allowed_rise, cooling_of

KEY = Stream(bytes(range(16))).key_words


def test_rises_are_near_exponential() -> None:
    """Mean and deviation of an exponential variable are its heat; straight lines between halvings are near it."""
    cooling = Cooling(1 << 40, 2.0, 1 << 36)  # as warm as at the start, all the while
    rises = np.array([allowed_rise(KEY, step, cooling) for step in range(20_000)])
    assert rises.min() >= 0
    assert rises.mean() == pytest.approx(2.0, rel=0.1)
    assert rises.std() == pytest.approx(2.0, rel=0.1)
    assert np.median(rises) == pytest.approx(2.0 * math.log(2), rel=0.05)
    assert (rises > 6.0).mean() == pytest.approx(math.exp(-3.0), abs=0.02)


def test_heat_halves_again_and_again() -> None:
    cooling = cooling_of(100_000, 1_000, 1.0)
    ends = np.arange(HALVINGS) * cooling.stretch
    means = [np.mean([allowed_rise(KEY, int(end) + at, cooling) for at in range(3_000)]) for end in ends]
    assert all(0.4 < later / sooner < 0.6 for sooner, later in pairwise(means))
    last = [allowed_rise(KEY, step, cooling) for step in range(HALVINGS * cooling.stretch, 100_000)]
    assert len(last) >= 4_000
    assert not any(last)


@pytest.mark.parametrize(("steps", "loss"), [(0, 1.0), (19_999, 1.0), (100_000, 0.0), (100_000, float("nan"))])
def test_few_steps_and_equal_records_begin_cold(steps: int, loss: float) -> None:
    cooling = cooling_of(steps, 1_000, loss)
    assert not any(allowed_rise(KEY, step, cooling) for step in range(100))
