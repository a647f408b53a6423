"""Blocks on threads: results in order, errors and early ends let through."""

from __future__ import annotations

import itertools
import time

import pytest

from privpipe.blocks import Facts
from privpipe.engines.base.batches import in_order, reduce_blocks


@pytest.mark.parametrize("threads", [1, 4])
def test_results_come_in_order(threads: int) -> None:
    def slow(item: int) -> int:
        time.sleep(0.001 * (item % 3))
        return item * 10

    assert list(in_order(slow, range(50), threads)) == [item * 10 for item in range(50)]


def test_only_a_few_items_are_taken_ahead() -> None:
    source = itertools.count()
    found = in_order(lambda item: item, source, 2)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    found.close()
    assert next(source) < 10


def test_an_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda item: 1 // (item - 3), range(10), 2))


def test_merging_keeps_the_order() -> None:
    class Words:
        def measure(self, block: str, facts: Facts) -> str:
            return block.upper()

        def merge(self, left: str, right: str) -> str:
            return left + right

    assert reduce_blocks(Words(), "abc", Facts(), 3) == "ABC"
    assert reduce_blocks(Words(), "", Facts(), 3) is None
