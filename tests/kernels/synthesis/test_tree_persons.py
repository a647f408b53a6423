"""Trees of which each leaf is of enough persons, looked at record by record."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.kernels.synthesis.trees import CodeTree

LEAST = 6


def grown(persons: list[np.ndarray], seed: int = 4) -> tuple[CodeTree, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = len(persons[0]) if persons else 400
    a, b = rng.integers(0, 6, n), rng.integers(0, 5, n)
    target = (a + b + rng.integers(0, 2, n)) % 4
    orders = {"a": np.arange(6), "b": np.arange(5)}
    tree = CodeTree.grown(target, None, {"a": a, "b": b}, orders, LEAST, persons=persons)
    return tree, tree.leaves({"a": a, "b": b}, n)


@pytest.mark.parametrize("seed", range(8))
def test_each_leaf_is_of_enough_persons_and_households(seed: int) -> None:
    rng = np.random.default_rng(seed)
    who = np.concatenate([np.arange(100), np.zeros(150, np.int64), rng.integers(0, 30, 150)])
    units = [who, who // 3]
    tree, leaves = grown(units, seed)
    assert len(np.unique(leaves)) > 1
    for leaf in np.unique(leaves):
        assert min(len(np.unique(each[leaves == leaf])) for each in units) >= LEAST
    again = CodeTree.from_dict(tree.to_dict())  # refuses what is no whole tree
    assert again.left.tolist() == tree.left.tolist()
    counted = {leaf: int((leaves == leaf).sum()) for leaf in np.unique(leaves).tolist()}
    ends = np.concatenate([[0], tree.ends])
    held = {leaf: int(ends[tree.offsets[leaf + 1]] - ends[tree.offsets[leaf]]) for leaf in counted}
    assert held == counted


def test_persons_of_one_record_change_nothing() -> None:
    plain, own = grown([])[0], grown([np.arange(400)])[0]
    assert plain.to_dict() == own.to_dict()


def test_one_person_alone_makes_one_leaf() -> None:
    tree, leaves = grown([np.zeros(400, np.int64)])
    assert len(tree.left) == 1
    assert set(leaves.tolist()) == {0}
