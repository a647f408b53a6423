"""Common labels, neighbours and the search over groups against plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from privpipe.draws import Stream
from privpipe.kernels.cluster_labels import FORBIDDEN, UNIT, climbed, labels_of, nearest
from privpipe.kernels.cluster_search import Combinations, searched

KEY = Stream(bytes(16)).key_words


def random_trees(draw: np.random.Generator, columns: int, leaves: int) -> tuple[list[Any], list[Any]]:
    """Levels of nested labels, the last one of one label, and what a leaf loses at each: its label's share."""
    trees, lost = [], []
    for _ in range(columns):
        many = int(draw.integers(1, leaves + 1))
        own = [np.arange(many)]
        while own[-1].max() > 0:
            merged = draw.integers(0, max(1, int(own[-1].max() * 0.7)), own[-1].max() + 1)
            own.append(np.unique(merged[own[-1]], return_inverse=True)[1].astype(np.int64))
        if draw.random() < 0.5:
            own.append(np.zeros_like(own[-1]))
        trees.append([level.astype(np.int64) for level in own])
        shares = [np.bincount(level)[level] for level in own]
        lost.append([((share - 1) * UNIT // max(many - 1, 1)).astype(np.int64) for share in shares])
    return trees, lost


def plain_loss(trees: list[Any], lost: list[Any], members: list[Any]) -> int:
    """What a record loses under the lowest common ancestors of some combinations."""
    total = 0
    for at, (tree, cost) in enumerate(zip(trees, lost, strict=True)):
        level = next(level for level, own in enumerate(tree) if len({int(own[row[at]]) for row in members}) == 1)
        total += int(cost[level][members[0][at]])
    return total


@pytest.mark.parametrize("seed", range(12))
def test_common_labels(seed: int) -> None:
    """By the table of all pairs, and climbed, a row of leaves after the other."""
    draw = np.random.default_rng(seed)
    trees, lost = random_trees(draw, 1, 9)
    pairs, climbs = labels_of(trees, lost), labels_of(trees, lost, largest=0)
    assert (pairs.widths[0], climbs.widths[0]) == (0, len(trees[0][0]))
    for _ in range(30):
        rows = draw.integers(0, len(trees[0][0]), (int(draw.integers(1, 5)), 1)).astype(np.int32)
        node, other = int(pairs.nodes(rows[:1])[0, 0]), int(climbs.nodes(rows[:1])[0, 0])
        spent = int(pairs.lost[node + rows[0, 0]])
        for leaf in rows[:, 0].tolist():
            spent, node = int(pairs.lost[node + leaf]), int(pairs.table[node + leaf])
            other = int(climbed(climbs.table, climbs.firsts[0], climbs.widths[0], other, leaf))
        assert spent == int(climbs.lost[other]) == plain_loss(trees, lost, rows.tolist())


@pytest.mark.parametrize("largest", [0, 1 << 20], ids=["climbed", "by table"])
def test_neighbours(largest: int) -> None:
    draw = np.random.default_rng(7)
    trees, lost = random_trees(draw, 3, 8)
    leaves = np.column_stack([draw.integers(0, len(tree[0]), 40) for tree in trees]).astype(np.int32)
    pools = np.array([0, 15, 16, 40])
    found = nearest(labels_of(trees, lost, largest=largest), leaves, pools, 5)
    for pool, stop in zip(pools[:-1].tolist(), pools[1:].tolist(), strict=True):
        for i in range(pool, stop):
            others = sorted(
                (other for other in range(pool, stop) if other != i),
                key=lambda other: (plain_loss(trees, lost, [leaves[i], leaves[other]]), other),
            )
            assert found[i].tolist() == (others + [-1] * 5)[:5]


def problem(seed: int, t: int, values: int) -> Any:
    draw = np.random.default_rng(seed)
    trees, lost = random_trees(draw, 3, 6)
    leaves = np.unique(np.column_stack([draw.integers(0, len(tree[0]), t) for tree in trees]), axis=0).astype(np.int32)
    held = np.column_stack([draw.integers(1, 4, len(leaves)), 1 << draw.integers(0, 5, len(leaves))]).astype(np.int64)
    return trees, lost, leaves, held, (int(draw.integers(2, 7)), values)


def cost(given: Any, groups: Any) -> int:
    """Of some groups, each of which passes."""
    trees, lost, leaves, held, (k, values) = given
    members = defaultdict(list)
    for row, group in enumerate(groups.tolist()):
        members[group].append(row)
    total = 0
    for rows in members.values():
        records, mask = int(held[rows, 0].sum()), int(np.bitwise_or.reduce(held[rows, 1]))
        assert records >= k
        assert mask.bit_count() >= values
        total += plain_loss(trees, lost, leaves[rows].tolist()) * records
    return total


@pytest.mark.parametrize("values", [0, 2], ids=["records", "records and values"])
@pytest.mark.parametrize("seed", range(10))
def test_groups_pass_and_lose_no_more(seed: int, values: int) -> None:
    given = trees, lost, leaves, held, rule = problem(seed, 60, values)
    groups, costs, found = np.zeros(len(leaves), dtype=np.int64), [], {}
    for largest in (0, 1 << 20):
        labels = labels_of(trees, lost, largest=largest)
        around = nearest(labels, leaves, np.array([0, len(leaves)]), 20)
        rows = Combinations(leaves, held, around)
        found[largest] = groups
        for step in range(0, 800, 100):
            found[largest] = searched(labels, rows, found[largest], rule, (step, step + 100), KEY)
            costs.append(cost(given, found[largest]))
        assert (np.diff(costs[-8:]) <= 0).all()
        at_once = searched(labels, rows, groups, rule, (0, 800), KEY)
        assert cost(given, at_once) <= cost(given, groups)
    assert (found[0] == found[1 << 20]).all()
    assert costs[-1] < cost(given, groups)


def partitions(items: list[int]) -> Any:
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for at in range(len(rest)):
            yield [*rest[:at], [items[0], *rest[at]], *rest[at + 1 :]]


def least_cost(given: Any) -> int | None:
    """By trying all the ways to divide the combinations."""
    best = None
    for parts in partitions(list(range(len(given[2])))):
        groups = np.zeros(len(given[2]), dtype=np.int64)
        for number, part in enumerate(parts):
            groups[part] = number
        try:
            spent = cost(given, groups)
        except AssertionError:
            continue
        best = spent if best is None else min(spent, best)
    return best


def test_few_combinations_are_grouped_about_as_well_as_can_be() -> None:
    exact = tried = 0
    for seed in range(100, 116):
        given = trees, lost, leaves, held, rule = problem(seed, 7, 2)
        best = least_cost(given)
        if best is None:
            continue
        labels = labels_of(trees, lost)
        rows = Combinations(leaves, held, nearest(labels, leaves, np.array([0, len(leaves)]), 20))
        found = cost(given, searched(labels, rows, np.zeros(len(leaves), dtype=np.int64), rule, (0, 2000), KEY))
        assert best <= found <= 1.15 * best
        exact, tried = exact + (found == best), tried + 1
    assert exact >= 0.8 * tried >= 8


def test_a_label_that_may_not_be_given_is_not_given() -> None:
    """Two halves of a tree without a root stay apart, however few their records."""
    halves = np.array([0, 0, 1, 1])
    levels = [[np.arange(4), halves, np.zeros(4, np.int64)]]
    lost = [[np.zeros(4, np.int64), np.full(4, UNIT // 3), np.full(4, FORBIDDEN)]]
    labels, leaves = labels_of(levels, lost), np.arange(4, dtype=np.int32)[:, None]
    rows = Combinations(leaves, np.ones((4, 2), np.int64), nearest(labels, leaves, np.array([0, 4]), 3))
    found = searched(labels, rows, np.array([0, 0, 1, 1]), (2, 0), (0, 500), KEY)
    assert found[0] == found[1] != found[2] == found[3]
