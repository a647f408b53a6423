"""Sums of risks, in any order, and the level that a bound asks for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from privpipe.measures.risk.identity.individual_risk import FINEST, RiskSums, spread_of

RISKS = [0.5, 0.1, 0.2, 0.1, 1.0, 0.05]
RECORDS = [1, 2, 3, 1, 2, 4]


def sums_of(rows: list[int], threshold: float = 0.1) -> RiskSums:
    return RiskSums.of(
        np.array([RISKS[at] for at in rows]), np.array([RECORDS[at] for at in rows], np.int64), threshold, keep=True
    )


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.1, 0.2, 1.0])
@pytest.mark.parametrize("parts", [[[0, 1, 2, 3, 4, 5]], [[5, 2], [], [0, 1], [4, 3]], [[4], [3], [2], [1], [0], [5]]])
def test_parts_add_up_to_the_whole(parts: list[list[int]], threshold: float) -> None:
    sums = RiskSums()
    for part in parts:
        sums = sums.merge(sums_of(part, threshold))
    each = [Fraction(risk) * count for risk, count in zip(RISKS, RECORDS, strict=True)]
    assert Fraction(sums.total, 1 << FINEST) == pytest.approx(sum(each), abs=1e-15)
    assert sums.highest == max(RISKS)
    assert sums.above == sum(count for risk, count in zip(RISKS, RECORDS, strict=True) if risk > threshold)


def test_the_least_is_kept_and_what_is_not_there_is_none() -> None:
    one, other, none = RiskSums(light=2, least=3.0, least_own=4), RiskSums(light=5, least=2.0, least_own=7), RiskSums()
    for sums in (one.merge(other).merge(none), none.merge(other).merge(one)):
        assert (sums.light, sums.least, sums.least_own) == (7, 2.0, 4)
    assert none.merge(none) == none


@pytest.mark.parametrize("bound", [0.01, 0.04, 0.06, 0.11, 0.17, 0.2, 0.3])
def test_the_level_is_the_largest_risk_that_keeps_the_sum_below_the_bound(bound: float) -> None:
    records = sum(RECORDS)
    each = [Fraction(str(risk)) for risk, count in zip(RISKS, RECORDS, strict=True) for _ in range(count)]
    most = Fraction(str(bound)) * records
    fitting = [level for level in set(each) if sum(min(risk, level) for risk in each) < most]
    expected = None if sum(each) < most or not fitting else float(max(fitting))
    found = spread_of(sums_of([0, 1, 2]).merge(sums_of([3, 4, 5])), records, 0.1, bound)
    assert found.level == expected
    assert found.expected == pytest.approx(float(sum(each)))
    assert (found.highest, found.above) == (max(RISKS), sum(risk > Fraction("0.1") for risk in each))
