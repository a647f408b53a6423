"""Share of unique records."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.blocks.public_edition import PublicRules
from privpipe.errors import UsageError
from privpipe.models import SampleUniqueness
from privpipe.testing import judged


def test_uniques_are_counted_over_records() -> None:
    verdict = judged(SampleUniqueness(at_most=0.2), ClassBlock(np.array([1, 1, 3, 5])))
    assert (verdict.outcome, verdict.observed, verdict.failing_records) == ("pass", 0.2, None)
    assert judged(SampleUniqueness(at_most=0.19), ClassBlock(np.array([1, 1, 3, 5]))).outcome == "fail"


def test_the_public_edition_withholds_a_share_of_few_records() -> None:
    rules, shares = PublicRules(columns=frozenset(), least=5), SampleUniqueness.counts_records()
    few, enough = (
        judged(SampleUniqueness(), ClassBlock(np.array([*[1] * ones, 100 - ones]))).observed for ones in (4, 5)
    )
    assert (rules.reported(few, 100, shares=shares), rules.reported(enough, 100, shares=shares)) == (None, 0.05)


def test_zero_is_two_anonymity() -> None:
    assert judged(SampleUniqueness(at_most=0), ClassBlock(np.array([2, 3]))).passed
    assert not judged(SampleUniqueness(at_most=0), ClassBlock(np.array([1, 3]))).passed


def test_one_record_is_unique_whatever_is_done() -> None:
    verdict = judged(SampleUniqueness(at_most=0.5), ClassBlock(np.array([1])))
    assert (verdict.observed, verdict.outcome) == (1.0, "fail")
    assert "cannot be met by this table" in verdict.reason


def test_the_shortest_prefix_that_helps() -> None:
    """Removing classes by ascending size only lowers the share, so a prefix can be bisected."""
    model, facts = SampleUniqueness(at_most=0.1), Facts()
    sizes = np.array([1] * 4 + [2] * 3 + [10])
    met = [model.met_by(*np.unique(sizes[start:], return_counts=True), facts) for start in range(len(sizes) + 1)]
    assert met == sorted(met)
    assert met.index(True) == 3
    assert model.prefix_monotone


@pytest.mark.parametrize("at_most", [-0.1, 1.1, float("inf"), "0"])
def test_a_share(at_most: float) -> None:
    with pytest.raises(UsageError, match="SampleUniqueness: at_most"):
        SampleUniqueness(at_most=at_most)
