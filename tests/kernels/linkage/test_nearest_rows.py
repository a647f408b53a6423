"""The nearest rows are those of all distances, in one leaf and in many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from privpipe.kernels.linkage import nearest_rows
from privpipe.kernels.linkage.distance import LinkedFile
from privpipe.kernels.linkage.nearest_rows import SearchedRows, distinct_rows
from tests.gathering import gathered

VALUES = [0.0, 0.25, 0.5, 1.0, math.nan]


def tables(seed: int, rows: int) -> tuple[LinkedFile, LinkedFile]:
    rng = np.random.default_rng(seed)
    columns, coded = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    columns += not columns + coded
    mismatch = tuple(rng.random((4, 4)) < 0.5 if rng.random() < 0.5 else None for _ in range(coded))
    files = []
    for count in (9, rows):
        numbers = rng.choice(VALUES, (count, columns), p=[0.3, 0.2, 0.2, 0.2, 0.1])
        files.append(LinkedFile(numbers, rng.integers(0, 4, (count, coded)), mismatch))
    return files[0], files[1]


def distance(asked: LinkedFile, rows: LinkedFile, i: int, j: int) -> float:
    total = 0.0
    for one, other in zip(asked.numbers[i], rows.numbers[j], strict=True):
        missing = math.isnan(one) + math.isnan(other)
        total += abs(one - other) if not missing else float(missing == 1)
    for column, table in enumerate(asked.mismatch):
        one, other = asked.codes[i, column], rows.codes[j, column]
        total += float(one != other if table is None else table[one, other])
    return total


@pytest.mark.parametrize("leaf", [1, 2, 7, 256])
def test_members_are_all_rows_up_to_the_kth_distance(monkeypatch: pytest.MonkeyPatch, leaf: int) -> None:
    monkeypatch.setattr(nearest_rows, "LEAF", leaf)
    monkeypatch.setattr(nearest_rows, "CHUNK", 4)
    with gathered() as case:
        for seed in range(15):
            with case(seed):
                members_are_right(seed)


def members_are_right(seed: int) -> None:
    asked, rows = tables(seed, 40)
    searched = SearchedRows(rows)
    for k in (1, 2, 5, 40):
        near = searched.nearest(asked, k)
        for i in range(len(asked)):
            apart = [distance(asked, rows, i, j) for j in range(len(rows))]
            reach = sorted(apart)[k - 1]
            span = slice(near.offsets[i], near.offsets[i + 1])
            found: Any = dict(zip(near.members[span].tolist(), near.nearer[span].tolist(), strict=True))
            assert len(found) == near.offsets[i + 1] - near.offsets[i]
            assert found == {int(searched.place[j]): apart[j] < reach for j in range(len(rows)) if apart[j] <= reach}
            assert near.distance[i] == pytest.approx(reach)


@pytest.mark.parametrize("seed", range(10))
def test_rows_are_one_where_all_their_values_are_equal_or_missing(seed: int) -> None:
    _, rows = tables(seed, 60)
    keys = [(*map(str, numbers), *codes) for numbers, codes in zip(rows.numbers, rows.codes.tolist(), strict=True)]
    first, place, counts = distinct_rows(rows)
    assert len(first) == len(set(keys))
    assert [keys[first[at]] for at in place] == keys
    assert [keys.index(keys[at]) for at in first] == first.tolist()
    assert counts.tolist() == [keys.count(keys[at]) for at in first]
