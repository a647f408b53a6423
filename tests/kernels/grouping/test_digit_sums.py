"""Records of each digit: counted one by one, and in the database's way of packing."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.grouping import word_groups as module
from privpipe.kernels.grouping.word_groups import digit_sums

RADICES = st.lists(st.integers(1, 9), min_size=0, max_size=5)


def by_hand(words: list[int], records: list[int], radices: list[int]) -> list[list[int]]:
    sums = [[0] * radix for radix in radices]
    for word, count in zip(words, records, strict=True):
        for place in reversed(range(len(radices))):
            word, digit = divmod(word, radices[place])
            sums[place][digit] += count
    return sums


@given(RADICES, st.data())
def test_sums_are_those_counted_by_hand(radices: list[int], data: st.DataObject) -> None:
    words = data.draw(st.lists(st.integers(0, prod(radices) - 1), max_size=20))
    records = data.draw(st.lists(st.integers(0, 5), min_size=len(words), max_size=len(words)))
    found = digit_sums(np.array(words, np.int64), np.array(records, np.int64), radices)
    assert [sums.tolist() for sums in found] == by_hand(words, records, radices)


@pytest.mark.parametrize("radices", [[76, 1001, 3, 51], [1, 1, 1], [1 << 20, 1 << 20, (1 << 22) - 1]])
def test_compiled_and_plain_code_agree_up_to_the_largest_words(radices: list[int]) -> None:
    rng = np.random.default_rng(4)
    words = np.append(rng.integers(0, prod(radices), 200_000), [0, prod(radices) - 1]).astype(np.int64)
    records = rng.integers(1, 1000, len(words))
    found = digit_sums(words, records, radices)
    starts = np.concatenate([[0], np.cumsum(radices, dtype=np.int64)])
    sums = np.zeros(starts[-1], np.int64)
    module._add_plain(words, records, np.array(radices, np.int64), starts, sums)
    assert np.array_equal(np.concatenate(found), sums)
    assert {int(each.sum()) for each in found} == {int(records.sum())}
