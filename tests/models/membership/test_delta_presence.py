"""delta-presence."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import UsageError
from privpipe.models import DeltaPresence
from privpipe.testing import judged

BLOCK = ClassBlock(np.array([1, 2, 0]), population=np.array([4, 4, 7]))


def test_a_class_without_a_released_record_has_presence_zero() -> None:
    verdict = judged(DeltaPresence(min=0.25, max=0.5), BLOCK, Facts())
    assert (verdict.outcome, verdict.observed) == ("fail", {"min": 0.0, "max": 0.5})
    assert (verdict.failing_classes, verdict.failing_records) == (1, 0)
    assert "1 of 3 classes, 0 of 3 records fail" in verdict.reason
    assert judged(DeltaPresence(min=0.25, max=0.5), BLOCK.take(BLOCK.sizes > 0), Facts()).passed


def test_both_bounds_are_inclusive_within_tolerance() -> None:
    thirds = ClassBlock(np.array([1]), population=np.array([3]))
    assert judged(DeltaPresence(min=0.333333333333, max=0.333333333333), thirds, Facts()).passed
    assert not judged(DeltaPresence(min=0.0, max=0.3333), thirds, Facts()).passed


def test_without_max_it_reports() -> None:
    model = DeltaPresence()
    assert not model.is_gate()
    assert judged(model, BLOCK, Facts()).observed == {"min": 0.0, "max": 0.5}


def test_merging_classes_keeps_the_ratio_between_its_parts() -> None:
    """G: a merged ratio is between those of its parts."""
    for sizes, population in (([1, 2], [4, 4]), ([0, 5], [9, 5])):
        fine = ClassBlock(np.array(sizes), population=np.array(population))
        coarse = ClassBlock(np.array([sum(sizes)]), population=np.array([sum(population)]))
        inner, outer = (judged(DeltaPresence(), block, Facts()).observed for block in (coarse, fine))
        assert outer["min"] <= inner["min"] <= inner["max"] <= outer["max"]


def test_without_a_population_it_says_so() -> None:
    with pytest.raises(UsageError, match="population"):
        DeltaPresence(max=0.5).measure(ClassBlock(np.array([2])), Facts())


@pytest.mark.parametrize("given", [{"max": 1.5}, {"min": -0.1, "max": 0.5}, {"min": 0.6, "max": 0.5}, {"max": True}])
def test_bounds_are_shares_in_order(given: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="DeltaPresence"):
        DeltaPresence(**given)


def test_who_is_alone_in_the_population_is_in_the_table_or_is_not() -> None:
    verdict = judged(DeltaPresence(max=0.9), ClassBlock(np.array([1, 0]), population=np.array([1, 1])), Facts())
    assert (verdict.outcome, verdict.observed) == ("fail", {"min": 0.0, "max": 1.0})
