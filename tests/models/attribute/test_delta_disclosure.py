"""delta-disclosure privacy."""

from __future__ import annotations

import math

import pytest

from privpipe.errors import UsageError
from privpipe.models import DeltaDisclosure
from privpipe.testing import block_of, facts_of, judged

BLOCK = block_of(illness=[[2, 2, 0], [0, 2, 2]])  # base 1/4, 1/2, 1/4


def test_the_logarithm_is_to_base_two() -> None:
    assert judged(DeltaDisclosure(column="illness"), BLOCK).observed == 1.0


def test_the_inequality_is_strict() -> None:
    assert not judged(DeltaDisclosure(column="illness", delta=1.0), BLOCK).passed
    assert judged(DeltaDisclosure(column="illness", delta=1.001), BLOCK).passed


def test_a_value_that_a_class_lacks_is_infinitely_far_only_when_strict() -> None:
    verdict = judged(DeltaDisclosure(column="illness", delta=50.0, absent="strict"), BLOCK)
    assert (verdict.observed, verdict.passed, verdict.failing_classes) == (None, False, 2)
    assert "infinite" in verdict.reason


def test_losing_counts_as_much_as_gaining() -> None:
    block = block_of(illness=[[1, 7], [7, 1]])
    observed = judged(DeltaDisclosure(column="illness"), block).observed
    assert observed == pytest.approx(abs(math.log2((1 / 8) / (1 / 2))))


def test_one_class_is_at_no_distance() -> None:
    block = block_of(illness=[[3, 5, 9]])
    assert judged(DeltaDisclosure(column="illness", delta=1e-6), block, facts_of(block)).observed == 0.0


def test_present_only_promises_nothing_of_merged_classes() -> None:
    """A class without s and one with it: the merged class has a tiny share of s."""
    base = facts_of(block_of(illness=[[50, 50]]))
    apart, merged = block_of(illness=[[100, 0], [49, 51]]), block_of(illness=[[149, 51]])
    model = DeltaDisclosure(column="illness", delta=1.0, absent="present_only")
    many = block_of(illness=[[900, 0], [49, 51]])
    assert not DeltaDisclosure(column="illness", delta=1.0).convex
    assert judged(model, merged, base).passed
    assert not judged(model, block_of(illness=[[949, 51]]), base).passed
    loose = DeltaDisclosure(column="illness", delta=1.1)
    assert judged(loose, many, base).passed
    assert judged(loose, apart, base).passed
    assert not judged(loose, block_of(illness=[[949, 51]]), base).passed


@pytest.mark.parametrize(
    ("parameters", "text"),
    [({"delta": 0}, "delta must"), ({"delta": math.inf}, "delta must"), ({"absent": "all"}, "absent must")],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        DeltaDisclosure(column="illness", **parameters)
