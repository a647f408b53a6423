"""Local suppression on codes: covers and dropped blanks against brute force, by two ways of counting."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privpipe.kernels.local_suppression.blanks import (
    BlankingTable,
    cheapest_rescue,
    cheapest_rescue_in_rings,
    columns_to_meet,
    drop_blanks,
    members_of_ring,
)
from privpipe.kernels.local_suppression.wildcard_matching import (
    blank_costs,
    cheapest_covers,
    cheapest_first,
    informative_sizes,
    matches,
    matching_sizes,
    packed,
)


def matched(codes: Any, counts: Any, informative: bool = False) -> list[int]:
    """Straight from the definition: equal in every column, or a blank on either side.

    `informative`: who is blank in every column matches others that are, and nobody else.
    """

    def match(one: Any, other: Any) -> bool:
        if informative and all(a < 0 for a in one) != all(a < 0 for a in other):
            return False
        return all(a == b or a < 0 or b < 0 for a, b in zip(one, other, strict=True))

    return [sum(int(n) for other, n in zip(codes, counts, strict=True) if match(one, other)) for one in codes]


def judged_bits(codes: Any, informative: bool) -> Any:
    bits = np.zeros(packed(codes, codes.shape[1])[0].shape[1], np.uint64)
    return np.bitwise_or.reduce(packed(codes, codes.shape[1])[2], axis=0) if informative else bits


def blanked(codes: Any, blanks: Any) -> Any:
    found = codes.copy()
    for column in range(codes.shape[1]):
        found[(blanks >> column) & 1 == 1, column] = -1
    return found


tables = st.integers(1, 4).flatmap(
    lambda m: st.tuples(
        arrays(np.int64, st.tuples(st.integers(1, 9), st.just(m)), elements=st.integers(-1, 2)),
        st.integers(2, 5),
        st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=m, max_size=m),
    )
)


@pytest.mark.deep
@given(tables, st.integers(0, 2**31), st.booleans())
def test_covers_are_the_cheapest_and_dropping_keeps_every_record_safe(case: Any, seed: int, informative: bool) -> None:
    codes, k, weights = case
    codes = np.unique(codes, axis=0)
    codes = codes[(codes >= 0).any(axis=1)] if informative else codes
    if not len(codes):
        return
    counts = np.random.default_rng(seed).integers(1, 4, len(codes)).astype(np.int64)
    if seed % 2:  # another way where nothing is missing
        codes = np.unique(np.abs(codes), axis=0)
        counts = counts[: len(codes)]
    words, missing, fields = packed(codes, codes.shape[1])
    order, cost = cheapest_first(np.array(weights))
    judged = judged_bits(codes, informative)
    sizes = matches(words, missing, judged, counts)
    assert sizes.tolist() == matched(codes, counts, informative)
    covers = cheapest_covers(words, missing, judged, fields, counts, sizes, order, k)
    for at, cover in enumerate(covers.tolist()):
        enough = []
        for blank in range(len(cost)):
            tried = codes.copy()
            tried[at] = blanked(codes[[at]], np.array([blank]))[0]
            if informative and (tried[at] < 0).all():
                continue
            if matched(tried, counts, informative)[at] >= k:
                enough.append(cost[blank])
        assert (cover < 0) == (not enough)
        assert cover < 0 or cost[cover] == min(enough)
    if (covers < 0).any():
        assert informative or counts.sum() < k
        return
    table = BlankingTable(words, missing, judged, fields, counts, np.array(weights), cost)
    before = blank_costs(covers, counts, cost)
    for passes, most in ((0, None), (3, cost[covers]), (3, None)):
        found = drop_blanks(table, covers, k, passes=passes, most=most)
        assert min(matched(blanked(codes, found), counts, informative)) >= k
        after = blank_costs(found, counts, cost)
        assert after <= before + 1e-9
        before = after if passes == 0 else before
        if most is not None:
            assert (cost[found] <= np.maximum(most, cost[found & covers]) + 1e-9).all()


@given(tables, st.integers(0, 2**31))
def test_what_is_blank_everywhere_can_be_taken_back_too(case: Any, seed: int) -> None:
    """From any feasible start, some combinations of it blank in every column: always feasible, and never dearer."""
    codes, k, weights = case
    codes = np.unique(codes, axis=0)
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, 4, len(codes)).astype(np.int64)
    words, missing, fields = packed(codes, codes.shape[1])
    cost, judged = cheapest_first(np.array(weights))[1], judged_bits(codes, True)
    start = np.where(draw.random(len(codes)) < 0.6, len(cost) - 1, draw.integers(0, len(cost), len(codes)))
    start &= ~((codes < 0) @ (1 << np.arange(codes.shape[1])))
    if min(matched(blanked(codes, start), counts, True)) < k:
        return
    table = BlankingTable(words, missing, judged, fields, counts, np.array(weights), cost)
    for passes in (0, 3):
        found = drop_blanks(table, start, k, passes=passes)
        assert min(matched(blanked(codes, found), counts, True)) >= k
        assert blank_costs(found, counts, cost) <= blank_costs(start, counts, cost) + 1e-9


def test_fields_over_two_words_and_columns_that_must_match() -> None:
    codes = np.array([[2**31 - 1, 2**30, 1], [0, 2**30, 1], [0, 2**30, 0]], dtype=np.int64)
    words, missing, fields = packed(codes, 2)
    assert (words.shape, fields.shape) == ((3, 1), (2, 1))
    wide = np.hstack([codes, codes])
    two, none, parts = packed(wide, 2)
    assert two.shape == (3, 2)
    ones = np.array([1, 1, 5])
    by_set = cheapest_first(np.ones(2))[0]
    assert cheapest_covers(two, none, none[0], parts, ones, matches(two, none, none[0], ones), by_set, 2).tolist() == [
        -1,
        -1,
        0,
    ]
    counts = np.array([1, 1, 5])
    order, _ = cheapest_first(np.ones(2))
    sizes = matches(words, missing, missing[0], counts)
    # The last column cannot be blanked: the two that agree in it can only meet each other.
    assert cheapest_covers(words, missing, missing[0], fields, counts, sizes, order, 2).tolist() == [1, 1, 0]
    assert cheapest_covers(words, missing, missing[0], fields, counts, sizes, order, 3).tolist() == [-1, -1, 0]


def test_sets_of_columns_go_by_weight_then_size_then_column_order() -> None:
    order, cost = cheapest_first(np.array([1.0, 1.0, 2.0]))
    assert order.tolist() == [0, 1, 2, 4, 3, 5, 6, 7]
    assert cost[order].tolist() == sorted(cost.tolist())


def columns_of(blank: int) -> list[int]:
    return [column for column in range(3) if blank >> column & 1]


def ring_of(codes: Any, blank: set[int]) -> list[int]:
    """Of each row, the next one that is equal outside these columns; the last leads to the first."""
    shown = [tuple(code for at, code in enumerate(row) if at not in blank) for row in codes.tolist()]
    return [
        next(at % len(shown) for at in range(one + 1, one + 1 + len(shown)) if shown[at % len(shown)] == shown[one])
        for one in range(len(shown))
    ]


@pytest.mark.parametrize("k", [2, 3])
def test_a_rescue_is_the_least_cost_a_record(k: int) -> None:
    """Over every set of columns, what it costs to bring a class, and those like it, to k."""
    rng = np.random.default_rng(k)
    for _ in range(20):
        codes = np.unique(rng.integers(0, 3, (8, 3)), axis=0)
        sizes = rng.integers(1, 5, len(codes)).astype(np.int64)
        words, hidden, fields = packed(codes, 3)
        order, cost = cheapest_first(np.array([1.0, 2.0, 1.5]))
        blanks = np.zeros(len(codes), np.int64)
        one = int(np.argmin(sizes))
        needs = columns_to_meet(words, hidden, fields, blanks, sizes, one)
        found = cheapest_rescue(needs, blanks, sizes, order, cost, 0, k)
        prices = {}
        for columns in itertools.chain.from_iterable(itertools.combinations(range(3), r) for r in range(4)):
            blank = sum(1 << column for column in columns)
            near = [at for at in range(len(codes)) if set(np.flatnonzero(codes[at] != codes[one])) <= set(columns)]
            small = sum(int(sizes[at]) for at in near if sizes[at] < k)
            large = [int(sizes[at]) for at in near if sizes[at] >= k]
            more = max(0, k - small)
            if not small or (more and not large):
                continue
            taken = more if sum(large) - k * len(large) >= more else min(large, default=0)
            prices[blank] = (small + (taken if more else 0)) * cost[blank] / small
        if sizes[one] >= k:
            continue
        assert (found < 0) == (not prices)
        assert found < 0 or prices[found] == pytest.approx(min(prices.values()))
        rings = np.array([ring_of(codes, set(columns_of(int(blank)))) for blank in order], np.int32)
        assert cheapest_rescue_in_rings(rings, blanks, sizes, order, cost, one, k, 0.0) == (found, True)
        place = int(np.flatnonzero(order == max(found, 0))[0])
        near = np.flatnonzero((codes == codes[one])[:, sorted({0, 1, 2} - set(columns_of(max(found, 0))))].all(axis=1))
        assert members_of_ring(rings[place], one).tolist() == near.tolist()


def test_the_two_ways_of_counting_agree() -> None:
    codes = np.unique(np.random.default_rng(0).integers(-1, 3, (60, 5)), axis=0)
    counts = np.random.default_rng(1).integers(1, 6, len(codes)).astype(np.int64)
    words, missing, _ = packed(codes, 5)
    assert (matches(words, missing, judged_bits(codes, False), counts) == matching_sizes(codes, counts)).all()
    assert (matches(words, missing, judged_bits(codes, True), counts) == informative_sizes(codes, counts)).all()
