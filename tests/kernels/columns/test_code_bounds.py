"""Compiled loops never read beside a table: codes of another table, and trees that are none, are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privpipe.errors import UsageError
from privpipe.kernels.classes.distance import cells_by_rank, emd_hierarchical_by_class
from privpipe.kernels.classes.information import capped_gain_by_class, gain_by_class, gains, log2_ratio_by_class
from privpipe.kernels.linkage.fellegi_sunter import Agreement, CodeColumn
from privpipe.kernels.microaggregation.kd_tree import BlockTree
from privpipe.kernels.noise.pram import draw_categories
from privpipe.kernels.synthesis.trees import CodeTree

P = [0.25, 0.75]
TREE = np.array([[0, 1], [0, 0]])
TABLE = np.array([[False, True], [True, False]])


def agreement(original: list[int], released: list[int]) -> Any:
    sides = (np.array(side, dtype=np.int64) for side in (original, released))
    return Agreement([CodeColumn(*sides, TABLE)]).counts(np.arange(2), np.arange(2))


SIZES = np.array([4])


def cells(read: Callable[..., Any], *tables: Any) -> Callable[[list[int]], Any]:
    return lambda codes: read(np.array([0, 2]), np.array(codes), np.array([1, 3]), *tables)


LOOPS: dict[str, Callable[[list[int]], Any]] = {
    "gain_by_class": cells(gain_by_class, SIZES, P),
    "capped_gain_by_class": cells(capped_gain_by_class, SIZES, P, [9.0, 9.0]),
    "gains": cells(gains, SIZES, P),
    "log2_ratio_by_class": cells(log2_ratio_by_class, SIZES, P),
    "cells_by_rank": cells(cells_by_rank, np.array([1, 0])),
    "emd_hierarchical_by_class": cells(emd_hierarchical_by_class, np.array([1, 1]), TREE),
    "draw_categories": lambda codes: draw_categories(np.array(codes), np.array([0.5, 0.5]), np.eye(2)),
    "Agreement, original": lambda codes: agreement(codes, [0, 1]),
    "Agreement, released": lambda codes: agreement([0, 1], codes),
}


@pytest.mark.parametrize("name", LOOPS)
def test_codes_without_a_place_are_refused(name: str) -> None:
    LOOPS[name]([0, 1])
    for codes in ([0, 2], [-2, 1], [0, 10**12]):
        with pytest.raises(UsageError, match="no place for the codes"):
            LOOPS[name](codes)


def test_a_cap_is_asked_of_every_value() -> None:
    with pytest.raises(UsageError, match="table of caps has 1 places"):
        capped_gain_by_class(np.array([0, 2]), np.array([0, 1]), np.array([1, 3]), SIZES, P, [9.0])


@pytest.mark.parametrize(
    "change",
    [
        {"left": [0, -2]},  # a way that never ends
        {"left": [5, -2]},
        {"left": [1, -9]},
        {"right": [-3, -3]},
        {"columns": [-1, 1]},
        {"thresholds": [0.5]},
    ],
)
def test_a_tree_of_a_plan_that_is_none_is_refused(change: dict[str, Any]) -> None:
    tree = BlockTree((0, 1), (0.5, 2.0), (1, -2), (-3, -1)).to_dict()
    assert BlockTree.from_dict(tree).blocks == 3
    assert BlockTree.from_dict(BlockTree().to_dict()).blocks == 1
    with pytest.raises(UsageError, match="make a new plan"):
        BlockTree.from_dict({**tree, **change})


def test_a_tree_asks_for_its_columns() -> None:
    with pytest.raises(UsageError, match="points of a tree"):
        BlockTree((3,), (0.5,), (-1,), (-2,)).path(np.zeros((2, 2)))


def code_tree(**changes: list[int]) -> CodeTree:
    arrays = {
        "feature": [0, 0, 0],
        "threshold": [0, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "offsets": [0, 0, 1, 2],
        "codes": [0, 1],
        "ends": [2, 5],
    }
    held = {name: np.array(values, np.int64) for name, values in {**arrays, **changes}.items()}
    return CodeTree({"age": np.array([0, 1])}, **held)


@pytest.mark.parametrize(
    "change",
    [
        {"left": [0, -1, -1]},
        {"right": [7, -1, -1]},
        {"feature": [1, 0, 0]},
        {"feature": [-1, 0, 0]},
        {"threshold": [0]},
        {"offsets": [0, 0, 1, 9]},
        {"offsets": [0, 0, 2, 2]},
        {"offsets": [0, 0, -1, 2]},
        {"codes": [0, -1]},
        {"ends": [5, 2]},
        {"ends": [2]},
        {name: [] for name in ("feature", "threshold", "left", "right", "codes", "ends")} | {"offsets": [0]},
    ],
)
def test_a_tree_of_codes_that_is_none_is_refused(change: dict[str, list[int]]) -> None:
    assert CodeTree.from_dict(code_tree().to_dict()).leaves({"age": np.array([0, 1])}, 2).tolist() == [1, 2]
    with pytest.raises(UsageError, match="make a new plan"):
        CodeTree.from_dict(code_tree(**change).to_dict())
