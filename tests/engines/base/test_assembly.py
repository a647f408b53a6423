"""Class blocks from joint cells, and the kernels under them, against dictionaries of plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import ClassQuery
from privpipe.engines.base.class_blocks import (
    COUNT,
    block_of_cells,
    combined_ids,
    grouping_columns,
    require_query_columns,
)
from privpipe.errors import DataError
from privpipe.kernels.classes.cells import marginal_cells

CODES = st.integers(0, 3)
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), CODES, CODES, st.sampled_from(["p", "q", "r"])), min_size=1
)


def cells_of(rows: list[tuple[str | None, int, int, str]], names: list[str]) -> pa.Table:
    whole = ["key", "x", "y", "who"]
    counts = Counter(tuple(row[whole.index(name)] for name in names) for row in rows)
    columns = {name: [key[at] for key in counts] for at, name in enumerate(names)}
    return pa.table({**columns, COUNT: list(counts.values())})


@settings(deadline=None)  # kernels compile on their first call
@given(ROWS)
def test_marginal_cells_add_up_joint_ones(rows: list[tuple[str | None, int, int, str]]) -> None:
    block = block_of_cells(cells_of(rows, ["key", "x", "y"]), ClassQuery(keys=("key",), columns=("x", "y")))
    assert sorted(block.sizes.tolist()) == sorted(Counter(row[0] for row in rows).values())
    for at, name in ((1, "x"), (2, "y")):
        cells = block.cells[name]
        found = [sorted(cells.counts[a:b].tolist()) for a, b in zip(cells.offsets, cells.offsets[1:], strict=False)]
        per_class: dict[str | None, Counter[int]] = {}
        for row in rows:
            per_class.setdefault(row[0], Counter())[int(row[at])] += 1
        assert sorted(found) == sorted(sorted(counts.values()) for counts in per_class.values())
        assert [sum(counts) for counts in found] == block.sizes.tolist()


@settings(deadline=None)  # kernels compile on their first call
@given(ROWS)
def test_persons_are_counted_once(rows: list[tuple[str | None, int, int, str]]) -> None:
    query = ClassQuery(keys=("key",), columns=("x",), person="who")
    block = block_of_cells(cells_of(rows, list(grouping_columns(query))), query)
    sizes = Counter(key for key, _ in {(row[0], row[3]) for row in rows})
    pairs = Counter((key, x) for key, x, _ in {(row[0], row[1], row[3]) for row in rows})
    assert sorted(block.sizes.tolist()) == sorted(sizes.values())
    assert sorted(block.cells["x"].counts.tolist()) == sorted(pairs.values())


def test_large_classes_are_sorted_too() -> None:
    codes = np.random.default_rng(1).permutation(500)
    offsets, found, counts = marginal_cells(np.array([0, 500]), codes % 250, np.ones(500, np.int64))
    assert offsets.tolist() == [0, 250]
    assert found.tolist() == list(range(250))
    assert set(counts.tolist()) == {2}


def test_ids_stay_exact_when_the_radix_overflows() -> None:
    rng = np.random.default_rng(2)
    columns = [rng.integers(0, 1000, 5000) for _ in range(9)]  # 10^27 combinations
    ids = combined_ids([pa.array(column) for column in columns], 5000)
    assert len(set(ids.tolist())) == len(set(zip(*map(np.ndarray.tolist, columns), strict=True)))
    assert combined_ids([], 3).tolist() == [0, 0, 0]


def test_weights_must_be_there() -> None:
    cells = pa.table({"key": ["a", "a"], "w": pa.array([0.5, None]), COUNT: [2, 3]})
    with pytest.raises(DataError, match="'w' has 3 missing"):
        block_of_cells(cells, ClassQuery(keys=("key",), weight="w"))
    with pytest.raises(DataError, match="'who'"):
        block_of_cells(
            pa.table({"key": ["a"], "who": pa.array([None], pa.string()), COUNT: [1]}),
            ClassQuery(keys=("key",), person="who"),
        )
    with pytest.raises(DataError, match="must be numbers"):
        require_query_columns(pa.schema([("key", pa.string())]), ClassQuery(keys=(), weight="key"))
