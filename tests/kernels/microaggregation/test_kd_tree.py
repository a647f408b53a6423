"""The block tree: cuts by definition, sizes, JSON, and independence of the order of the records."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.kd_tree import BlockTree, learn_tree


@st.composite
def weighted(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int64], int, int, int]:
    s, k = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cells = st.lists(st.integers(-4, 4), min_size=s, max_size=s)
    points = np.array(draw(st.lists(cells, min_size=1, max_size=40)), dtype=np.float64)
    weights = np.array(draw(st.lists(st.integers(1, 5), min_size=len(points), max_size=len(points))))
    return points, weights, k, draw(st.integers(2 * k, 12)), draw(st.integers(0, 3))


def variance(values: list[float], weights: list[int]) -> Fraction:
    total = sum(weights)
    mean = Fraction(sum(int(v) * w for v, w in zip(values, weights, strict=True)), total)
    return sum((w * (int(v) - mean) ** 2 for v, w in zip(values, weights, strict=True)), Fraction(0)) / total


def oracle_cut(points: NDArray[np.float64], weights: list[int], k: int, share: Fraction) -> tuple[int, float] | None:
    """Column and threshold by the words of the specification, on values whose variances are clearly apart."""
    total = sum(weights)
    spreads = [variance(column.tolist(), weights) for column in points.T]
    for column in sorted(range(points.shape[1]), key=lambda j: (-spreads[j], j)):
        options = []
        for value in sorted(set(points[:, column].tolist())):
            below = sum(w for v, w in zip(points[:, column], weights, strict=True) if v <= value)
            if below >= k and total - below >= k:
                options.append((abs(below - share * total), value))
        if options:
            return column, min(options)[1]
    return None


@given(weighted())
def test_each_node_cuts_as_defined(case: tuple[NDArray[np.float64], NDArray[np.int64], int, int, int]) -> None:
    points, weights, k, block, shift = case
    tree = learn_tree(points, k, block, weights=weights, shift=shift)
    below: list[tuple[int, Any, int]] = [(0 if tree.columns else -1, np.arange(len(points)), 0)]
    while below:
        node, members, level = below.pop()
        share = Fraction(1, 4) if level < shift else Fraction(1, 2)
        cut = oracle_cut(points[members], weights[members].tolist(), k, share)
        if node < 0:
            assert weights[members].sum() <= block or cut is None
            assert weights[members].sum() >= min(k, weights.sum())
            continue
        assert weights[members].sum() > block
        assert cut is not None
        spreads = [variance(column.tolist(), weights[members].tolist()) for column in points[members].T]
        if spreads.count(max(spreads)) == 1:  # equal ones may differ on the grid
            assert (tree.columns[node], tree.thresholds[node]) == cut
        left = points[members, tree.columns[node]] <= tree.thresholds[node]
        below += [(tree.left[node], members[left], level + 1), (tree.right[node], members[~left], level + 1)]


@given(weighted(), st.randoms(use_true_random=False))
def test_row_order_and_json_change_nothing(
    case: tuple[NDArray[np.float64], NDArray[np.int64], int, int, int], shuffler: Any
) -> None:
    points, weights, k, block, shift = case
    tree = learn_tree(points, k, block, weights=weights, shift=shift)
    order = np.random.default_rng(shuffler.getrandbits(32)).permutation(len(points))
    assert learn_tree(points[order], k, block, weights=weights[order], shift=shift) == tree
    repeated = learn_tree(np.repeat(points, weights, axis=0), k, block, shift=shift)
    assert repeated == tree
    again = BlockTree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again == tree
    assert (again.path(points)[order] == tree.path(points[order])).all()
    assert (np.bincount(tree.path(points), minlength=tree.blocks) > 0).all()
    assert len(set(tree.names())) == tree.blocks == len(tree.names())


def test_equal_variances_take_the_first_column() -> None:
    column = np.arange(8.0)
    assert learn_tree(np.column_stack([column, column[::-1]]), 2, 4).columns[0] == 0
    assert learn_tree(np.column_stack([column, column[::-1] * 1.1]), 2, 4).columns[0] == 1


def test_a_column_that_cannot_be_cut_gives_way_to_the_next() -> None:
    outlier = np.array([0.0, 0, 0, 0, 0, 0, 0, 100])
    tree = learn_tree(np.column_stack([outlier, np.arange(8.0)]), 2, 4)
    assert tree.columns == (1,)
    assert learn_tree(outlier[:, None], 2, 4) == BlockTree()


def test_negative_zero_is_zero() -> None:
    points = np.array([[-0.0], [0.0], [1.0], [2.0]])
    for order in ([0, 1, 2, 3], [1, 0, 3, 2]):
        tree = learn_tree(points[order], 1, 2)
        assert str(tree.thresholds[0]) == "0.0"


def test_no_records_and_wrong_arguments() -> None:
    assert learn_tree(np.empty((0, 2)), 3, 10) == BlockTree()
    assert BlockTree().path(np.zeros((3, 2))).tolist() == [0, 0, 0]
    assert BlockTree().names() == ("",)
    for points, k, block in ((np.zeros(3), 1, 2), (np.array([[np.nan]]), 1, 2), (np.zeros((3, 1)), 0, 2)):
        with pytest.raises(UsageError):
            learn_tree(points, k, block)
