"""Enhanced beta-likeness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts, Tally
from privpipe.errors import UsageError
from privpipe.models import EnhancedBetaLikeness
from privpipe.testing import block_of, judged


def test_no_beta_helps_where_a_value_exceeds_its_cap() -> None:
    """Base u 8, v 2 of 10, a class with only v: gain 4 > -ln 0.2 = 1.609 (specification; a peer reports 1.609)."""
    verdict = judged(EnhancedBetaLikeness(column="illness", beta=1e9), block_of(illness=[[0, 2], [8, 0]]))
    assert (verdict.observed, verdict.passed, verdict.failing_classes) == (None, False, 2)
    assert "unsatisfiable" in verdict.reason


def test_the_least_beta_is_the_largest_gain() -> None:
    block = block_of(illness=[[6, 4], [4, 6]])
    observed = judged(EnhancedBetaLikeness(column="illness"), block).observed
    assert observed == pytest.approx(0.2)
    assert judged(EnhancedBetaLikeness(column="illness", beta=observed), block).passed
    assert not judged(EnhancedBetaLikeness(column="illness", beta=0.19), block).passed


def test_the_cap_is_that_of_the_value_itself() -> None:
    """A rare value gains 1.9, under its cap of 2.3; a common one has a cap of 0.1."""
    block = block_of(illness=[[29, 71], [5, 235]])
    base = 34 / 340
    verdict = judged(EnhancedBetaLikeness(column="illness", beta=2.0), block)
    assert verdict.observed == pytest.approx(0.29 / base - 1)
    assert verdict.observed > -math.log(1 - base)
    assert verdict.passed


def test_a_value_that_everybody_has_gains_nothing() -> None:
    verdict = judged(EnhancedBetaLikeness(column="illness", beta=0.5), block_of(illness=[[4], [2]]))
    assert (verdict.observed, verdict.passed) == (0.0, True)


def test_the_range_of_beta() -> None:
    with pytest.raises(UsageError, match="beta must"):
        EnhancedBetaLikeness(column="illness", beta=-1)


def test_without_a_class_no_cap_is_exceeded() -> None:
    model = EnhancedBetaLikeness(column="illness", beta=1.0)
    assert model.seen(Tally()) == "no class to judge"
    assert model.measure(ClassBlock(np.zeros(0, np.int64)), Facts()).sums == {}
