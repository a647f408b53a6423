"""Guessing the commonest value is compared with what anyone can guess."""

from __future__ import annotations

import pytest

from privpipe.blocks import Facts
from privpipe.measures import AttributeInference
from privpipe.testing import block_of, judged

BLOCK = block_of(illness=[[3, 1, 0], [0, 1, 3], [1, 1, 0]])


def test_share_baseline_and_gain() -> None:
    verdict = judged(AttributeInference(column="illness", at_most=0.7), BLOCK)
    assert verdict.observed == pytest.approx({"share": 0.7, "baseline": 0.4, "gain": 0.3})
    assert verdict.passed
    assert not judged(AttributeInference(column="illness", at_most=0.69), BLOCK).passed
    assert judged(AttributeInference(column="illness", at_most=0.3, gain=True), BLOCK).passed
    assert not judged(AttributeInference(column="illness", at_most=0.29, gain=True), BLOCK).passed


def test_blocks_merge_to_the_whole() -> None:
    measure = AttributeInference(column="illness")
    parts = [measure.measure(block_of(illness=[cells]), Facts()) for cells in ([3, 1, 0], [0, 1, 3], [1, 1, 0])]
    whole = measure.merge(measure.merge(parts[2], parts[0]), parts[1])
    assert measure.judge(whole, Facts()).observed == judged(measure, BLOCK).observed
