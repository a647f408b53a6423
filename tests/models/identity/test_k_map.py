"""k-map."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts, Tally
from privpipe.errors import UsageError
from privpipe.models import KMap
from privpipe.testing import judged

BLOCK = ClassBlock(np.array([1, 2, 0]), population=np.array([8, 4, 1]))


def test_classes_without_a_released_record_do_not_count() -> None:
    verdict = judged(KMap(k=5), BLOCK, Facts())
    assert (verdict.outcome, verdict.observed, verdict.failing_classes, verdict.failing_records) == ("fail", 4, 1, 2)
    assert verdict.failing_share == pytest.approx(2 / 3)
    assert verdict.reason == "observed 4, required at least 5; 1 of 2 classes, 2 of 3 records fail."
    assert judged(KMap(k=4), BLOCK, Facts()).passed


def test_k_anonymity_of_the_sample_implies_it() -> None:
    sizes = np.array([3, 5])
    assert judged(KMap(k=3), ClassBlock(sizes, population=sizes + 7), Facts()).passed


def test_nothing_released_has_no_figure() -> None:
    empty = ClassBlock(np.array([0]), population=np.array([4]))
    assert KMap(k=2).measure(empty, Facts()) == Tally()


def test_without_a_population_it_says_so() -> None:
    with pytest.raises(UsageError, match="population"):
        KMap(k=2).measure(ClassBlock(np.array([2])), Facts())


def test_nothing_is_said_of_what_the_sample_cannot_tell() -> None:
    assert KMap(k=100).unattainable(5, Facts()) == KMap(k=100).needs_suppression(5, Facts()) == ""


@pytest.mark.parametrize("k", [0, 2.5, True])
def test_k_is_a_positive_integer(k: object) -> None:
    with pytest.raises(UsageError, match="KMap: k must be an integer"):
        KMap(k=k)  # type: ignore[arg-type]
