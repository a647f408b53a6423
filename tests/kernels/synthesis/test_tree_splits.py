"""The first split of a tree, beside the information gain of every split there is."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.synthesis.trees import CodeTree

LEAST = 2


def entropy(codes: list[int]) -> float:
    return -sum(c / len(codes) * math.log(c / len(codes)) for c in Counter(codes).values())


def gain(target: list[int], places: list[int], threshold: float) -> float:
    below = [t for t, place in zip(target, places, strict=True) if place <= threshold]
    above = [t for t, place in zip(target, places, strict=True) if place > threshold]
    if min(len(below), len(above)) < LEAST:
        return -1.0
    parts = (len(below) * entropy(below) + len(above) * entropy(above)) / len(target)
    return entropy(target) - parts


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)), min_size=8, max_size=40))
def test_no_other_first_split_gains_more_information(rows: list[tuple[int, int, int]]) -> None:
    target, *columns = ([row[at] for row in rows] for at in range(3))
    predictors = {str(at): np.array(column) for at, column in enumerate(columns)}
    orders = {name: np.arange(5) for name in predictors}
    tree = CodeTree.grown(np.array(target), None, predictors, orders, LEAST)
    best = max(gain(target, column, threshold) for column in columns for threshold in range(5))
    if tree.left[0] < 0:
        assert best < 1e-9
        return
    used = list(tree.orders)[int(tree.feature[0])]
    assert gain(target, columns[int(used)], int(tree.threshold[0])) >= best - 1e-9
