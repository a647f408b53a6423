"""Many entries over one count: what they saw of blocks is what they see of all classes."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.judging import rules
from privpipe.judging.rules import Composite
from privpipe.models import KAnonymity

SIZES = [4, 9, 2, 7, 3]
MARKED = [False, True, False, False, True]


def block(first: int, last: int) -> ClassBlock:
    return ClassBlock(np.array(SIZES[first:last]), marked=np.array(MARKED[first:last]))


def test_records_of_released_and_of_marked_classes_are_counted_apart() -> None:
    found = Composite((KAnonymity(k=2), KAnonymity(k=5))).measure(block(0, 5), Facts())
    assert (found.released, found.marked, found.classes) == (4 + 2 + 7, 9 + 3, 3)
    assert [tally.observed for tally in found.tallies] == [2, 2]
    assert [tally.failing_records for tally in found.tallies] == [0, 6]


def test_blocks_merged_in_any_order_are_all_classes() -> None:
    composite = Composite((KAnonymity(k=5),))
    whole = composite.measure(block(0, 5), Facts())
    parts = [composite.measure(block(first, last), Facts()) for first, last in ((0, 1), (1, 3), (3, 5))]
    assert composite.merge(composite.merge(parts[0], parts[1]), parts[2]) == whole
    assert composite.merge(parts[2], composite.merge(parts[1], parts[0])) == whole


def test_how_far_a_count_is_follows_from_the_classes_of_both_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(rules, "within", lambda what, number: told.append((what, number)))
    whole = Composite((KAnonymity(k=5),))
    whole.merge(*(whole.measure(block(first, last), Facts()) for first, last in ((0, 3), (3, 5))))
    assert told == [("classes", 3)]
