"""Entropy l-diversity."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privpipe.blocks import Facts
from privpipe.errors import UsageError
from privpipe.models import EntropyLDiversity
from privpipe.testing import block_of, judged


@pytest.mark.parametrize("values", [2, 3, 4, 5, 6, 7, 8, 10])
@pytest.mark.parametrize("times", [1, 2, 7, 1000])
def test_even_values_reach_their_number(values: int, times: int) -> None:
    """A peer reports 1 for two values and refuses 1, 1, 1 for l = 3: floats met the threshold bare."""
    verdict = judged(EntropyLDiversity(column="illness", l=values), block_of(illness=[[times] * values]))
    assert verdict.outcome == "pass"
    assert verdict.observed == pytest.approx(values, rel=1e-12)


def test_the_figure_is_never_cut() -> None:
    """Source: by hand; -(2/3 ln 2/3 + 1/3 ln 1/3) = 0.6365141682948128."""
    observed = judged(EntropyLDiversity(column="illness", l=2), block_of(illness=[[4, 2]])).observed
    assert math.log(observed) == pytest.approx(0.6365141682948128, rel=1e-12)


def test_the_bound_of_the_whole_table_is_reported() -> None:
    verdict = judged(EntropyLDiversity(column="illness", l=1.9), block_of(illness=[[8, 1], [1, 0]]))
    assert "cannot be met without suppression: all records as one class would have 1.38" in verdict.reason
    over = judged(EntropyLDiversity(column="illness", l=2.5), block_of(illness=[[1, 1]]))
    assert "cannot be met by this table: 'illness' has 2 distinct values" in over.reason


def test_a_single_value_is_one() -> None:
    for estimator in ("shannon", "grassberger"):
        model = EntropyLDiversity(column="illness", l=1.5, estimator=estimator)
        verdict = judged(model, block_of(illness=[[7, 0], [3, 3]]))
        assert (verdict.observed, verdict.failing_records) == (1.0, 7)


def test_grassberger_by_hand() -> None:
    """Counts 1, 1, 1: G(3) - G(1) = 2, and exp(2) = 7.389 exceeds the three values there are."""
    model = EntropyLDiversity(column="illness", l=3, estimator="grassberger")
    assert judged(model, block_of(illness=[[1, 1, 1]])).observed == pytest.approx(math.exp(2), rel=1e-12)


def test_grassberger_needs_the_values_too() -> None:
    """exp(H) of counts 1, 1 is 7.389, and there are two values all the same."""
    block = block_of(illness=[[1, 1, 0, 0], [5, 5, 5, 5], [4, 5, 5, 5]])
    verdict = judged(EntropyLDiversity(column="illness", l=3, estimator="grassberger"), block)
    assert (verdict.outcome, verdict.failing_records) == ("fail", 2)
    assert verdict.observed > 3, "over the classes that have enough values"
    assert "1 have fewer than 3" in verdict.reason


def test_no_class_with_enough_values_has_no_figure() -> None:
    model = EntropyLDiversity(column="illness", l=3, estimator="grassberger")
    verdict = judged(model, block_of(illness=[[1, 1, 0], [0, 1, 1]]))
    assert (verdict.outcome, verdict.observed, verdict.failing_classes) == ("fail", None, 2)


def test_merging_can_fail_by_grassberger() -> None:
    """So a search must not conclude from a failing class to its parts."""
    model = EntropyLDiversity(column="illness", l=2, estimator="grassberger")
    assert judged(model, block_of(illness=[[1, 1], [1, 1]])).passed
    assert not judged(model, block_of(illness=[[2, 2]])).passed
    assert not model.convex
    assert EntropyLDiversity(column="illness", l=2).convex


def test_passing_agrees_with_the_verdict() -> None:
    block = block_of(illness=[[1, 1, 0], [2, 2, 2], [9, 0, 0], [5, 1, 1]])
    for estimator in ("shannon", "grassberger"):
        model = EntropyLDiversity(column="illness", l=2.2, estimator=estimator)
        failing = ~model.passing(block, Facts())
        assert judged(model, block).failing_records == block.sizes[failing].sum()


def test_both_estimators_live_side_by_side() -> None:
    """Figures of a block are remembered by name."""
    block = block_of(illness=[[3, 2, 1]])
    shannon = EntropyLDiversity(column="illness").scores(block, Facts())
    grassberger = EntropyLDiversity(column="illness", estimator="grassberger").scores(block, Facts())
    assert np.all(grassberger > shannon)


@pytest.mark.parametrize("l", [0.5, float("nan"), float("inf"), True, "3"])
def test_l_is_a_number_from_one(l: float) -> None:
    with pytest.raises(UsageError, match="EntropyLDiversity: l"):
        EntropyLDiversity(column="illness", l=l)


def test_the_estimator_is_known() -> None:
    with pytest.raises(UsageError, match="did you mean 'shannon'"):
        EntropyLDiversity(column="illness", l=2, estimator="shanon")
