"""Which households exchange their areas: what the definition asks, checked pair by pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privpipe.kernels.households import HouseholdSwaps, Swapping, swap_quotas, swapped_households


def swapping(seed: int, n: int, finest: int, rate: float, loose: bool) -> Swapping:
    """Households in `finest` areas, two to a coarse one."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, finest, n)
    risk = 1 / rng.integers(1, 6, (n, 2))
    risk[rng.random(n) < 0.1] = 0
    profiles = [rng.integers(0, 4, n), np.zeros(n, np.int64)]
    counts = np.bincount(place, minlength=finest)
    quotas = swap_quotas(counts, int(rate * n / 2), rng.permutation(finest), float(rng.uniform()))
    return Swapping(
        areas=np.column_stack([place // 2, place]),
        kinds=profiles[: 2 if loose else 1],
        risk=risk,
        high=risk > 0.6,
        quotas=quotas,
        chosen=rng.exponential(size=n),
        offered=rng.exponential(size=(n, 2)),
    )


def alone(asked: Swapping, found: HouseholdSwaps, household: int, level: int) -> bool:
    """Whether nobody is left with whom a household could exchange across the areas of a level."""
    free = (found.partner < 0) & (asked.risk[:, level] > 0) & (asked.areas[:, level] != asked.areas[household, level])
    return not any((free & (kinds == kinds[household])).any() for kinds in asked.kinds)


SEVERAL: Any = given(
    seed=st.integers(0, 999), n=st.integers(0, 60), finest=st.integers(1, 6), rate=st.floats(0, 1), loose=st.booleans()
)


@SEVERAL
def test_pairs_are_what_the_definition_allows(seed: int, n: int, finest: int, rate: float, loose: bool) -> None:
    asked = swapping(seed, n, finest, rate, loose)
    found = swapped_households(asked)
    moved = np.flatnonzero(found.partner >= 0)
    other = found.partner[moved]
    assert (found.partner[other] == moved).all()
    assert (asked.areas[moved, 1] != asked.areas[other, 1]).all()
    assert (asked.risk[moved].max(axis=1) > 0).all()
    alike = np.array([kinds[moved] == kinds[other] for kinds in asked.kinds])
    assert alike.any(axis=0).all()
    assert len(moved) == 2 * sum(found.swaps)


@SEVERAL
def test_who_must_be_swapped_is_or_has_no_donor(seed: int, n: int, finest: int, rate: float, loose: bool) -> None:
    asked = swapping(seed, n, finest, rate, loose)
    found = swapped_households(asked)
    stay = np.flatnonzero(asked.high[:, 1] & (found.partner < 0))
    assert all(alone(asked, found, household, 1) for household in stay.tolist())
    assert found.without_donor[1] >= len(stay) or not len(stay)
    high = np.flatnonzero(asked.high[:, 0] & (found.partner >= 0))
    across = asked.areas[high, 0] != asked.areas[found.partner[high], 0]
    # Whoever moved within a coarse area alone had found no donor beyond it.
    assert (~across).sum() <= 2 * found.without_donor[0]


@SEVERAL
def test_the_quotas_are_met_or_nobody_is_left(seed: int, n: int, finest: int, rate: float, loose: bool) -> None:
    asked = swapping(seed, n, finest, rate, loose)
    found = swapped_households(asked)
    assert sum(found.swaps) >= asked.quotas.sum() - found.missing
    if found.missing:
        free = np.flatnonzero((found.partner < 0) & (asked.risk[:, 1] > 0))
        short = [h for h in free.tolist() if asked.quotas[asked.areas[h, 1]]]
        assert all(alone(asked, found, household, 1) for household in short) or found.missing < asked.quotas.sum()
    if not asked.high.any():
        assert sum(found.swaps) == asked.quotas.sum() - found.missing


@given(arrays(np.int64, st.integers(1, 9), elements=st.integers(0, 50)), st.floats(0, 1), st.floats(1e-9, 1 - 1e-9))
def test_quotas_are_shares_rounded_either_way(households: Any, rate: float, start: float) -> None:
    n = int(households.sum())
    swaps = int(rate * n / 2)
    order = np.random.default_rng(len(households)).permutation(len(households))
    quotas = swap_quotas(households, swaps, order, start) if n else np.zeros(len(households), np.int64)
    assert quotas.sum() == swaps * bool(n)
    shares = households * swaps / max(n, 1)
    assert (np.abs(quotas - shares) < 1 + 1e-9).all()


def test_quotas_are_right_on_average() -> None:
    households = np.array([3, 5, 92])
    starts = (np.arange(1000) + 0.5) / 1000
    mean = np.mean([swap_quotas(households, 10, np.array([1, 0, 2]), start) for start in starts], axis=0)
    assert mean == pytest.approx(households / 10, abs=1e-3)


def test_the_riskier_household_is_drawn_in_proportion() -> None:
    """One of two in an area is drawn; the donor likewise: with risks 3 to 1 it is the first in three of four cases."""
    rng = np.random.default_rng(4)
    areas, kind = np.array([[0], [0], [1], [1]]), [np.zeros(4, np.int64)]
    risk = np.array([[0.75], [0.25], [0.75], [0.25]])
    first = donor = 0
    trials = 4000
    for _ in range(trials):
        draws = rng.exponential(size=(2, 4))
        given_ = Swapping(areas, kind, risk, risk > 1, np.array([1, 0]), draws[0], draws[1][:, None])
        found = swapped_households(given_)
        first += found.partner[0] >= 0
        donor += found.partner[2] >= 0
    for count in (first, donor):
        assert abs(count / trials - 0.75) < 5 * np.sqrt(0.75 * 0.25 / trials)
