"""Cuts and trees against the definition, on small tables of codes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.hierarchies import Hierarchy
from privpipe.kernels.mondrian.sides import (
    folded,
    leaf_cells,
    leaf_numbers,
    side_beside,
    side_cells,
    side_cells_of_persons,
    side_persons,
    side_sizes,
)
from privpipe.kernels.mondrian.tree import NO_KEYS, Columns, Rows, cuts_of, cuts_of_counts, divided, grown
from tests.tiers import at_most

SIZES = (6, 4, 3)
TREES = [Hierarchy.from_rows([[f"v{code:02}", f"g{code // 2}", "*"] for code in range(size)]) for size in SIZES]


def columns(by_loss: bool = False, groups: tuple[int, ...] = (6, 4, 3), persons: int = 0) -> Columns:
    """Columns over `TREES`; codes that differ by a multiple of `groups` must be apart."""
    starts = np.concatenate([[0], np.cumsum(SIZES)])
    return Columns(
        spans=np.array(SIZES, dtype=np.float64) - 1,
        groups=np.concatenate([np.arange(size) // group for size, group in zip(SIZES, groups, strict=True)]),
        starts=starts,
        levels=np.full(3, 3),
        labels=np.concatenate([tree.codes(level) for tree in TREES for level in range(3)]).astype(np.int64),
        shares=np.concatenate([tree.shares(level) for tree in TREES for level in range(3)]),
        places=3 * starts[:-1],
        units=np.array([size / (size - 1) for size in SIZES]),
        by_loss=by_loss,
        persons=persons,
    )


def table(seed: int, rows: int = 40) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    codes = np.stack([draw.integers(0, size, rows) ** 2 // size for size in SIZES], axis=1)
    codes, counts = np.unique(codes, axis=0, return_counts=True)
    return codes.astype(np.int32), counts.astype(np.int64)


def ordered_cuts(members: list[tuple[tuple[int, ...], int]], least: int) -> list[tuple[int, int]]:
    """Legal cuts by the definition: widest column first, most even first, then lower code; 8 a column."""
    total = sum(count for _, count in members)
    if total < 2 * least:
        return []
    widths = []
    for column, size in enumerate(SIZES):
        codes = [code[column] for code, _ in members]
        widths.append((max(codes) - min(codes)) / (size - 1))
    found = []
    for column in sorted(range(3), key=lambda column: -widths[column]):
        cuts = []
        for cut in sorted({code[column] for code, _ in members})[:-1]:
            left = sum(count for code, count in members if code[column] <= cut)
            if left >= least and total - left >= least:
                cuts.append((abs(2 * left - total), cut))
        found += [(column, cut) for _, cut in sorted(cuts)[:8]]
    return found


def parts(members: list[tuple[tuple[int, ...], int]], least: int) -> list[list[tuple[int, ...]]]:
    cuts = ordered_cuts(members, least)
    if not cuts:
        return [sorted(code for code, _ in members)]
    column, cut = cuts[0]
    left = [each for each in members if each[0][column] <= cut]
    return [*parts(left, least), *parts([each for each in members if each[0][column] > cut], least)]


def members_of(codes: Any, counts: Any) -> list[tuple[tuple[int, ...], int]]:
    return list(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))


@given(st.integers(0, 2**30), st.integers(1, 9))
def test_a_tree_is_that_of_the_definition(seed: int, least: int) -> None:
    codes, counts = table(seed)
    wanted = parts(members_of(codes, counts), least)
    shuffled = np.random.default_rng(seed).permutation(len(codes))
    mixed, of_them = codes[shuffled].copy(), counts[shuffled].copy()
    nodes = grown(mixed, of_them, least, columns())
    leaves = [
        sorted(map(tuple, mixed[start:stop].tolist()))
        for start, stop, column in zip(nodes.starts, nodes.stops, nodes.columns, strict=True)
        if column < 0
    ]
    assert leaves == wanted
    numbers = leaf_numbers(codes.astype(np.int32), NO_KEYS, nodes.columns, nodes.cuts, nodes.ties)
    assert [sorted(map(tuple, codes[numbers == leaf].tolist())) for leaf in range(len(wanted))] == wanted
    _, first, last = leaf_cells(nodes.columns, nodes.cuts, nodes.ties, np.array(SIZES))
    inside = (first[numbers] <= codes).all() and (codes <= last[numbers]).all()
    volume = np.prod(last - first + 1, axis=1).sum()
    assert inside
    assert volume == np.prod(SIZES)  # cells tile the space


@settings(max_examples=at_most(200))
@given(st.integers(0, 2**30), st.integers(1, 6))
def test_candidates_by_width_and_by_loss(seed: int, least: int) -> None:
    codes, counts = table(seed)
    members = members_of(codes, counts)
    rows, whole = Rows(codes, counts, NO_KEYS), np.array([[0, len(codes)]])
    (where, at, _), forced = cuts_of(rows, whole, least, columns())
    assert not forced.any()
    found = [pair for pair in zip(where[0].tolist(), at[0].tolist(), strict=True) if pair[0] >= 0]
    assert found == ordered_cuts(members, least)
    counted = [np.bincount(codes[:, at], weights=counts, minlength=size) for at, size in enumerate(SIZES)]
    by_counts, forced_by_counts = cuts_of_counts(np.concatenate(counted).astype(np.int64), least, columns())
    assert (list(zip(by_counts.where.tolist(), by_counts.at.tolist(), strict=True)), forced_by_counts) == (found, False)

    def left_over(cut: tuple[int, int]) -> float:
        loss = 0.0
        for side in (True, False):
            mine = [each for each in members if (each[0][cut[0]] <= cut[1]) == side]
            for column, tree in enumerate(TREES):
                own = [code[column] for code, _ in mine]
                level = int(tree.common_level(min(own), max(own)))
                share = float(tree.shares(level)[own[0]])
                loss += sum(count for _, count in mine) * share * SIZES[column] / (SIZES[column] - 1)
        return loss

    (where, at, _), _ = cuts_of(rows, whole, least, columns(by_loss=True))
    by_loss = [pair for pair in zip(where[0].tolist(), at[0].tolist(), strict=True) if pair[0] >= 0]
    assert sorted(by_loss) == sorted(ordered_cuts(members, least))  # fewer than 8 a column here
    losses = [left_over(cut) for cut in by_loss]
    assert losses == pytest.approx(sorted(losses))


def test_columns_that_must_be_cut_come_first() -> None:
    """Records of two groups are never together, however few of them there are."""
    codes, counts = table(3)
    nodes = grown(codes, counts, 1000, columns(groups=(2, 4, 1)))
    leaves = [
        codes[start:stop]
        for start, stop, column in zip(nodes.starts, nodes.stops, nodes.columns, strict=True)
        if column < 0
    ]
    seen = {(int(code[0]) // 2, int(code[2])) for code in codes.tolist()}
    assert [len({(code[0] // 2, code[2]) for code in leaf.tolist()}) for leaf in leaves] == [1] * len(seen)


@pytest.mark.deep
def test_threads_and_wide_codes_change_nothing() -> None:
    draw = np.random.default_rng(5)
    codes = np.stack([draw.integers(0, size, 50_000) for size in (6, 4, 3)], axis=1)
    counts = draw.integers(1, 4, len(codes))
    trees = []
    for workers, kind in ((1, np.uint16), (3, np.int32)):
        mixed = codes.astype(kind)
        nodes = grown(mixed, counts.copy(), 20, columns(), workers=workers)
        trees.append((nodes.columns.tolist(), nodes.cuts.tolist(), nodes.starts.tolist()))
    assert trees[0] == trees[1]


def test_sides_of_a_cut() -> None:
    codes = np.array([[0, 2, 1, 7], [3, 2, 1, 7], [3, 0, 0, 2], [5, 0, 2, 7]], dtype=np.int32)
    counts = np.array([1, 2, 3, 4])
    segments, cuts = np.array([[0, 2], [2, 4]]), np.array([[0, 0, 0], [2, 0, 0]])
    assert side_sizes(codes, counts, NO_KEYS, segments, cuts).tolist() == [1, 2, 3, 4]
    offsets, values, records = side_cells(codes, counts, NO_KEYS, segments, cuts, 3, 8)
    assert (offsets.tolist(), values.tolist(), records.tolist()) == ([0, 1, 2, 3, 4], [7, 7, 2, 7], [1, 2, 3, 4])
    assert divided(Rows(codes, counts, NO_KEYS), (0, 4), (0, 3, 0)) == 3
    assert codes[3].tolist() == [5, 0, 2, 7]


def beside_population(seed: int, size: int) -> tuple[Any, Any, Columns]:
    """Rows of a table and of a population over two columns of so many codes, mixed; strangers have no records."""
    draw = np.random.default_rng(seed)
    mine = np.concatenate([draw.integers(0, size, (12, 2)), draw.integers(0, 3, (12, 1)), np.zeros((12, 1))], axis=1)
    theirs = np.concatenate([draw.integers(0, size, (25, 2)), np.zeros((25, 1)), draw.integers(1, 9, (25, 1))], axis=1)
    theirs[:6, :2] = mine[:6, :2]
    codes = np.concatenate([mine, theirs]).astype(np.int32)
    counts = np.concatenate([draw.integers(1, 4, 12), np.zeros(25)]).astype(np.int64)
    order = draw.permutation(len(codes))
    none = np.zeros(0, np.int64)
    flat = Columns(
        spans=np.array([size - 1.0, size - 1.0]),
        groups=np.zeros(2 * size, np.int64),
        starts=np.array([0, size, 2 * size]),
        levels=np.zeros(2, np.int64),
        labels=none,
        shares=none.astype(np.float64),
        places=np.zeros(2, np.int64),
        units=np.ones(2),
        beside=True,
    )
    return codes[order], counts[order], flat


def between_records(codes: Any, counts: Any, least: int) -> dict[int, list[int]]:
    """Cuts of each column just below a value of the table, by the definition: most even first, then the lower one."""
    found = {}
    for column in range(2):
        known = sorted(set(codes[counts > 0, column].tolist()))
        cuts = []
        for above in known[1:]:
            left = int(counts[codes[:, column] < above].sum())
            if left >= least and counts.sum() - left >= least:
                cuts.append((abs(2 * left - int(counts.sum())), above - 1))
        found[column] = [cut for _, cut in sorted(cuts)[:8]]
    return found


@settings(max_examples=at_most(200))
@given(st.integers(0, 2**30), st.integers(1, 6), st.sampled_from([9, 60, 5000]))
def test_cuts_beside_a_population_lie_between_records(seed: int, least: int, size: int) -> None:
    """Also where codes are too sparse to be counted densely."""
    codes, counts, flat = beside_population(seed, size)
    wanted = between_records(codes, counts, least)
    whole = np.array([[0, len(codes)]])
    rows = Rows(codes, counts, NO_KEYS)
    (where, at, _), forced = cuts_of(rows, whole, least, flat)
    found = [pair for pair in zip(where[0].tolist(), at[0].tolist(), strict=True) if pair[0] >= 0]
    widths = [int(np.ptp(codes[:, column])) for column in range(2)]
    ordered = sorted(range(2), key=lambda column: -widths[column])
    assert not forced.any()
    assert found == [(column, cut) for column in ordered for cut in wanted[column]]

    def left_over(cut: tuple[int, int]) -> float:
        """Records times the share of the codes that a side reaches over, strangers in it among them."""
        sides = [codes[:, cut[0]] <= cut[1], codes[:, cut[0]] > cut[1]]
        return sum(
            int(counts[side].sum()) * (int(np.ptp(codes[side, column])) + 1) / size
            for side in sides
            for column in (0, 1)
        )

    (where, at, _), _ = cuts_of(rows, whole, least, replace(flat, by_loss=True))
    by_loss = [pair for pair in zip(where[0].tolist(), at[0].tolist(), strict=True) if pair[0] >= 0]
    losses = [left_over(cut) for cut in by_loss]
    assert losses == pytest.approx(sorted(losses))
    every = [(column, cut) for column in (0, 1) for cut in between_records(codes, counts, least)[column]]
    assert len(by_loss) == len(every)
    for column, cut in found[:4]:
        cuts = np.array([[column, cut, 0]])
        left = codes[:, column] <= cut
        assert side_sizes(codes, counts, NO_KEYS, whole, cuts).tolist() == [counts[left].sum(), counts[~left].sum()]
        assert side_beside(codes, whole, cuts).tolist() == [codes[left, 3].sum(), codes[~left, 3].sum()]
        offsets, values, many = side_cells(codes, counts, NO_KEYS, whole, cuts, 2, 3)
        for side, inside in enumerate((left, ~left)):
            own = {value: int(counts[inside & (codes[:, 2] == value)].sum()) for value in range(3)}
            cells = slice(offsets[side], offsets[side + 1])
            seen = dict(zip(values[cells].tolist(), many[cells].tolist(), strict=True))
            assert seen == {value: count for value, count in own.items() if count}  # strangers bear no value


def persons_of(seed: int) -> tuple[Any, Any, int]:
    """Rows of persons, some of whom have several; the last ones stand for several who have no other row."""
    draw = np.random.default_rng(seed)
    rows, told = 30, 12
    codes = np.stack([draw.integers(0, size, rows) ** 2 // size for size in SIZES], axis=1)
    who = np.concatenate([draw.integers(0, told, rows - 6), told + np.arange(6)])
    many = np.concatenate([np.ones(rows - 6, np.int64), draw.integers(1, 4, 6)])
    counts = many + draw.integers(0, 3, rows)
    order = draw.permutation(rows)
    coded = np.column_stack([codes, who, many])[order]
    return coded.astype(np.int32), counts[order], told + 6


def different(rows: list[list[int]]) -> int:
    return sum({row[-2]: row[-1] for row in rows}.values())


def cuts_in_persons(rows: list[list[int]], least: int) -> list[tuple[int, int]]:
    """Legal cuts by the definition: the widest column first, then the most even, 8 a column."""
    spans = [max(row[at] for row in rows) - min(row[at] for row in rows) for at in range(3)]
    found = []
    for column in sorted(range(3), key=lambda at: -spans[at] / (SIZES[at] - 1)):
        cuts = []
        for cut in sorted({row[column] for row in rows})[:-1]:
            left = different([row for row in rows if row[column] <= cut])
            right = different([row for row in rows if row[column] > cut])
            if min(left, right) >= least:
                cuts.append((abs(left - right), cut))
        found += [(column, cut) for _, cut in sorted(cuts)[:8]]
    return found


def parts_in_persons(rows: list[list[int]], least: int) -> list[list[list[int]]]:
    for column, cut in cuts_in_persons(rows, least)[:1]:
        left, right = ([row for row in rows if (row[column] <= cut) == side] for side in (True, False))
        return [*parts_in_persons(left, least), *parts_in_persons(right, least)]
    return [sorted(rows)]


@pytest.mark.deep
@settings(max_examples=at_most(200))
@given(st.integers(0, 2**30), st.integers(1, 6))
def test_cuts_in_persons_are_those_of_the_definition(seed: int, least: int) -> None:
    """Who has rows on both sides counts on both."""
    codes, counts, persons = persons_of(seed)
    rows = codes.tolist()
    wanted = cuts_in_persons(rows, least)
    whole, none = np.array([[0, len(codes)]]), NO_KEYS
    (where, at, _), forced = cuts_of(Rows(codes, counts, none), whole, least, columns(persons=persons))
    assert not forced.any()
    assert [pair for pair in zip(where[0].tolist(), at[0].tolist(), strict=True) if pair[0] >= 0] == wanted
    (where, at, _), _ = cuts_of(Rows(codes, counts, none), whole, least, columns(by_loss=True, persons=persons))
    by_loss = [pair for pair in zip(where[0].tolist(), at[0].tolist(), strict=True) if pair[0] >= 0]
    assert sorted(by_loss) == sorted(wanted)
    nodes = grown(codes, counts, least, columns(persons=persons))
    ends = zip(nodes.starts.tolist(), nodes.stops.tolist(), nodes.columns.tolist(), strict=True)
    leaves = [sorted(codes[start:stop].tolist()) for start, stop, column in ends if column < 0]
    assert leaves == parts_in_persons(rows, least)


@pytest.mark.deep
@settings(max_examples=at_most(200))
@given(st.integers(0, 2**30))
def test_sides_in_persons(seed: int) -> None:
    codes, _, persons = persons_of(seed)
    draw = random.Random(seed)
    segments = np.array([[0, 10], [10, 30], [0, 30]])
    cuts = np.array([[0, draw.randrange(6), 0], [1, draw.randrange(4), 0], [2, draw.randrange(3), draw.randrange(30)]])
    keys = np.array(draw.sample(range(30), 30)) if draw.random() < 0.5 else NO_KEYS
    values = SIZES[1]
    sizes = side_persons(codes, keys, segments, cuts, persons)
    offsets, seen, found = side_cells_of_persons(codes, keys, segments, cuts, 1, values, persons)
    for s, ((start, stop), (column, cut, tie)) in enumerate(zip(segments.tolist(), cuts.tolist(), strict=True)):
        first = [
            codes[i, column] < cut or (codes[i, column] == cut and (not len(keys) or keys[i] <= tie))
            for i in range(start, stop)
        ]
        for side, wanted in ((0, True), (1, False)):
            own = [codes[start + at].tolist() for at in range(stop - start) if first[at] == wanted]
            assert sizes[2 * s + side] == different(own)
            cells = slice(offsets[2 * s + side], offsets[2 * s + side + 1])
            by_value = {value: different([row for row in own if row[1] == value]) for value in {row[1] for row in own}}
            assert dict(zip(seen[cells].tolist(), found[cells].tolist(), strict=True)) == by_value
            assert seen[cells].tolist() == sorted(by_value)


def test_a_relaxed_tree_halves_every_part() -> None:
    draw = random.Random(4)
    codes = np.array([[draw.randrange(size) for size in SIZES] for _ in range(64)], dtype=np.int32)
    keys = np.array(draw.sample(range(1 << 40), 64))
    mixed, moved = codes.copy(), keys.copy()
    nodes = grown(mixed, np.ones(64, np.int64), 4, columns(), keys=moved)
    sizes = (nodes.stops - nodes.starts)[nodes.columns < 0]
    assert sizes.tolist() == [4] * 16
    numbers = leaf_numbers(codes.astype(np.int32), keys, nodes.columns, nodes.cuts, nodes.ties)
    assert np.bincount(numbers).tolist() == [4] * 16
    assert not set(nodes.ties.tolist()) & set(keys.tolist())  # no tie is a record's own key
    _, first, last = leaf_cells(nodes.columns, nodes.cuts, nodes.ties, np.array(SIZES))
    assert (first[numbers] <= codes).all()
    assert (codes <= last[numbers]).all()


def test_parents_fold_into_leaves() -> None:
    #      0
    #    1   4      leaves 2, 3, 5, 6 are numbers 0, 1, 2, 3
    tree = np.array([0, 1, -1, -1, 2, -1, -1])
    assert [part.tolist() for part in folded(tree, np.array([1]))] == [[1, 2, 0, 0, 1, 1, 1], [0, 0, 1, 2]]
    assert [part.tolist() for part in folded(tree, np.array([0, 3]))] == [[1, 2, 0, 0, 2, 0, 0], [0, 0, 1, 1]]
    assert [part.tolist() for part in folded(np.array([-1]), np.array([0]))] == [[1], [0]]


def test_copies_of_all_records_change_no_cut() -> None:
    codes, counts = table(11, 120)
    once = grown(codes.copy(), counts.copy(), 5, columns())
    thrice = grown(codes.copy(), 3 * counts, 15, columns())
    assert (once.columns.tolist(), once.cuts.tolist()) == (thrice.columns.tolist(), thrice.cuts.tolist())
