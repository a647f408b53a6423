"""Guesses of whole classes, block by block."""

from __future__ import annotations

from functools import reduce

import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.measures.risk.attribute.recovery import Guesses, Guessing
from privpipe.testing import block_of

CLASSES = [[2, 1], [3, 0], [1, 0], [0, 4]]


@pytest.mark.parametrize(("least", "determined"), [(1, 8), (2, 7), (3, 7), (4, 4), (5, 0)])
def test_the_commonest_value_of_each_class_is_guessed(least: int, determined: int) -> None:
    guessing = Guessing("region", least)
    found = guessing.measure(block_of(region=CLASSES), Facts())
    assert found == Guesses(records=11, right=2 + 3 + 1 + 4, determined=determined)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_guesses_of_blocks_add_up(size: int) -> None:
    guessing, block = Guessing("region", 2), block_of(region=CLASSES)
    parts: list[ClassBlock] = list(block.split(size))
    merged = reduce(guessing.merge, [guessing.measure(part, Facts()) for part in parts])
    assert merged == guessing.measure(block, Facts())
