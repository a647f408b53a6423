"""Recursive (c, l)-diversity."""

from __future__ import annotations

import pytest

from privpipe.blocks import Facts
from privpipe.errors import UsageError
from privpipe.models import RecursiveCLDiversity
from privpipe.testing import block_of, judged


def infimum(counts: list[int], l: int) -> float | None:
    observed: float | None = judged(RecursiveCLDiversity(column="illness", l=l), block_of(illness=[counts])).observed
    return observed


@pytest.mark.parametrize(
    ("counts", "l", "expected"),
    [
        ([6, 3, 1], 3, 6.0),
        ([6, 3, 1], 2, 1.5),
        ([98, 1, 1], 3, 98.0),
        ([98, 1, 1], 2, 49.0),
        ([5, 5, 5], 3, 1.0),
        ([6, 3, 1], 1, 0.6),
        ([6, 3, 1], 4, None),
    ],
)
def test_infima(counts: list[int], l: int, expected: float | None) -> None:
    """Source: the definition's worked figures (a peer sorts ascending and reports 1 for the first)."""
    assert infimum(counts, l) == expected


@pytest.mark.parametrize("counts", [[1, 3, 6], [3, 6, 1], [6, 1, 3]])
def test_the_order_of_the_codes_does_not_matter(counts: list[int]) -> None:
    assert infimum(counts, 3) == 6.0


def test_the_inequality_is_strict() -> None:
    block = block_of(illness=[[5, 5, 5]])
    assert not judged(RecursiveCLDiversity(column="illness", c=1.0, l=3), block).passed
    assert judged(RecursiveCLDiversity(column="illness", c=1.001, l=3), block).passed
    tenths = block_of(illness=[[3, 10]])
    assert not judged(RecursiveCLDiversity(column="illness", c=10 * 0.1 / 0.3, l=2), tenths).passed


def test_too_few_values_is_not_a_number() -> None:
    verdict = judged(RecursiveCLDiversity(column="illness", c=100.0, l=3), block_of(illness=[[1, 1, 0], [2, 2, 2]]))
    assert (verdict.outcome, verdict.observed, verdict.failing_records) == ("fail", None, 2)
    assert "no c meets it: a class has fewer than 3 values" in verdict.reason
    assert not judged(RecursiveCLDiversity(column="illness", c=100.0, l=4), block_of(illness=[[1, 1]])).passed


def test_a_huge_l_costs_no_memory() -> None:
    verdict = judged(RecursiveCLDiversity(column="illness", c=2.0, l=10**15), block_of(illness=[[1, 1]]), Facts())
    assert (verdict.outcome, verdict.observed) == ("fail", None)


def test_the_whole_table_is_noted() -> None:
    verdict = judged(RecursiveCLDiversity(column="illness", c=2.0, l=2), block_of(illness=[[8, 1], [1, 0]]))
    assert verdict.observed is None
    assert "cannot be met without suppression: all records as one class would have 9" in verdict.reason


@pytest.mark.parametrize(
    ("parameters", "text"),
    [({"c": 0.0, "l": 2}, "c must"), ({"c": 1.0, "l": 0}, "l must"), ({"c": float("inf"), "l": 2}, "c must")],
)
def test_ranges(parameters: dict[str, float], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        RecursiveCLDiversity(column="illness", **parameters)
