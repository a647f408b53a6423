"""Cells of rows and of lists that meet, beside the kernel that sorts joint cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.blocks.arrays import read_only
from privpipe.kernels.classes.cells import marginal_cells, merged_cells, row_cells
from privpipe.kernels.grouping.word_groups import group_rows, number_words, ordered_by_group


def longs(*arrays: Any) -> list[Any]:
    """As the engines hand them over, for which kernels are compiled."""
    return [read_only(each, np.int64) for each in arrays]


@pytest.mark.parametrize(("classes", "values"), [(1, 1), (3, 2), (3, 400), (200, 5), (200, 90)])
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_cells_of_rows_and_of_lists_are_those_of_joint_cells(classes: int, values: int, rows: int) -> None:
    rng = np.random.default_rng([classes, values, rows])
    groups, codes = rng.integers(0, classes, rows), rng.integers(0, values, rows)
    order, offsets = ordered_by_group(groups, classes)
    expected = [part.tolist() for part in marginal_cells(*longs(offsets, codes[order], np.ones(rows)))]
    found = row_cells(*longs(offsets), read_only(codes[order], np.int32), values)
    assert [part.tolist() for part in found] == expected

    halves = [np.flatnonzero(rng.random(rows) < 0.5)]
    halves.append(np.setdiff1d(np.arange(rows), halves[0]))
    parts = []
    for half in halves:
        own, starts = ordered_by_group(groups[half], classes)
        parts.append(row_cells(*longs(starts), read_only(codes[half][own], np.int32), values))
    lists = np.tile(np.arange(classes), 2)
    lengths = np.concatenate([np.diff(part[0]) for part in parts])
    given = [read_only(np.concatenate([part[at] for part in parts]), np.int32) for at in (1, 2)]
    order, offsets = ordered_by_group(lists, classes)
    met = merged_cells(*longs(offsets, order, np.concatenate([[0], np.cumsum(lengths)])), *given, values)
    assert [part.tolist() for part in met] == expected


@pytest.mark.parametrize("room", [1, 7, 1000])
def test_words_numbered_by_a_table_are_grouped_as_by_hashing(room: int) -> None:
    words = np.random.default_rng(room).integers(0, room, 500)
    (groups, firsts), (hashed, others) = number_words(words, room), group_rows(words[:, None])
    assert len(set(zip(groups.tolist(), hashed.tolist(), strict=True))) == len(firsts) == len(others)
    assert words[firsts[groups]].tolist() == words.tolist()
    assert sorted(firsts.tolist()) == sorted(others.tolist())
