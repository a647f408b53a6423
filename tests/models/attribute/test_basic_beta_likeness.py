"""Basic beta-likeness."""

from __future__ import annotations

import pytest

from privpipe.errors import UsageError
from privpipe.models import BasicBetaLikeness
from privpipe.testing import block_of, judged

BLOCK = block_of(illness=[[2, 2, 0], [0, 2, 2]])  # base 1/4, 1/2, 1/4


def test_gains_are_relative_and_losses_free() -> None:
    assert judged(BasicBetaLikeness(column="illness"), BLOCK).observed == 1.0
    assert judged(BasicBetaLikeness(column="illness", beta=1.0), BLOCK).passed
    assert not judged(BasicBetaLikeness(column="illness", beta=0.99), BLOCK).passed


def test_one_class_gains_nothing() -> None:
    assert judged(BasicBetaLikeness(column="illness"), block_of(illness=[[3, 5]])).observed == 0.0


def test_a_rare_value_gains_most() -> None:
    block = block_of(illness=[[1, 1], [0, 98]])
    assert judged(BasicBetaLikeness(column="illness"), block).observed == pytest.approx(49)


def test_the_range_of_beta() -> None:
    with pytest.raises(UsageError, match="beta must"):
        BasicBetaLikeness(column="illness", beta=0)
