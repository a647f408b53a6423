"""Tilts of leaves beside regressions of the records themselves, and what coins may do to a leaf."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.synthesis.additive_scores import (
    GRAIN,
    SHRINKAGE,
    CodeMoments,
    category_features,
    number_features,
)
from privpipe.kernels.synthesis.leaf_tilts import STEPS, LeafTilt, Tilting
from privpipe.kernels.synthesis.trees import CodeTree
from tests.tiers import at_most

N = 600
BEFORE = ["age", "town", "sex"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Made = tuple[dict[str, Ints], dict[str, Ints], CodeTree]


def made(target: str, seed: int = 3, min_leaf: int = 40) -> Made:
    """Codes, features of each code, and a tree that sees the age alone: the rest is left to the tilt."""
    rng = np.random.default_rng(seed)
    codes = {"age": rng.integers(0, 8, N), "town": rng.integers(0, 3, N), "sex": rng.integers(1, 3, N)}
    codes["pay"] = np.clip(codes["age"] + (codes["town"] == 1) + codes["sex"] + rng.integers(0, 11, N), 1, 18)
    codes["job"] = (codes["age"] // 3 + codes["town"] * (rng.random(N) < 0.2) + rng.integers(0, 3, N)) % 4
    sizes = {"age": 8, "town": 3, "sex": 3, "pay": 19, "job": 4}
    counts = {name: np.bincount(each, minlength=sizes[name]) for name, each in codes.items()}
    features = {name: category_features(each, 100) for name, each in counts.items()}
    for name in ("age", "pay"):
        features[name] = number_features(counts[name], np.arange(1.0, sizes[name]) ** 2)
    outputs = features[target][codes[target], :2].astype(np.float64) if target == "pay" else None
    tree = CodeTree.grown(codes[target], outputs, {"age": codes["age"]}, {"age": np.arange(8)}, min_leaf)
    return codes, features, tree


def within_leaves(codes: dict[str, Ints], features: dict[str, Ints], leaves: Ints) -> Floats:
    """Features of each record less their mean in its leaf, record by record."""
    rows = np.array([[v / GRAIN for name in BEFORE for v in features[name][codes[name][at]]] for at in range(N)])
    return np.array([rows[at] - rows[leaves == leaves[at]].mean(axis=0) for at in range(N)])


def learnt(target: str, seed: int = 3, min_leaf: int = 40) -> tuple[Made, LeafTilt, Tilting, Ints]:
    codes, features, tree = made(target, seed, min_leaf)
    tilt = LeafTilt.learnt(tree, codes, BEFORE, target, CodeMoments.of(codes, features), target == "pay")
    tilt = LeafTilt.from_dict(json.loads(json.dumps(tilt.to_dict())))
    ready = Tilting.of(tilt, tree, features, BEFORE, target, target == "pay")
    return (codes, features, tree), tilt, ready, tree.leaves(codes, N)


def chances(tree: CodeTree, ready: Tilting, codes: dict[str, Ints], leaves: Ints, size: int) -> Floats:
    """Of each record, how likely each code is: every pair of codes of its leaf, by its shares and the coin."""
    found = np.zeros((N, size))
    records = np.diff(tree.ends, prepend=0)
    columns = {name: codes[name] for name in BEFORE}
    for leaf in np.unique(leaves):
        here = np.flatnonzero(leaves == leaf)
        cells = slice(tree.offsets[leaf], tree.offsets[leaf + 1])
        shares = dict(zip(tree.codes[cells].tolist(), (records[cells] / records[cells].sum()).tolist(), strict=True))
        theirs = {name: each[here] for name, each in columns.items()}
        for first, second in product(shares, repeat=2):
            pair = (np.full(len(here), first), np.full(len(here), second))
            lean = np.zeros(len(here))
            # Where the coin turns, by halves: `taken` is all that is looked at.
            for step in 2.0 ** -np.arange(1.0, 13.0):
                taken = ready.taken(leaves[here], theirs, *pair, lean + step) == first
                lean = np.where(taken & (first != second), lean + step, lean)
            lean = np.where(first == second, 1.0, lean)
            found[here, first] += shares[first] * shares[second] * lean
            found[here, second] += shares[first] * shares[second] * (1.0 - lean)
    return found


def test_a_number_is_tilted_by_least_squares_within_leaves() -> None:
    (codes, features, _), tilt, _, leaves = learnt("pay")
    X = within_leaves(codes, features, leaves)
    y = features["pay"][codes["pay"], :3] / GRAIN
    y = np.array([y[at] - y[leaves == leaves[at]].mean(axis=0) for at in range(N)])
    rows = np.vstack([X, np.sqrt(SHRINKAGE) * np.eye(X.shape[1])])
    beta = np.linalg.lstsq(rows, np.vstack([y, np.zeros((X.shape[1], 3))]), rcond=None)[0]
    assert np.abs(tilt.weights / STEPS - beta).max() < 1.0 / STEPS


def test_a_category_is_tilted_by_a_step_of_newton() -> None:
    """What weights move, by the definition: covariances of the features and of shares that lean by the weights."""
    (codes, features, _), tilt, _, leaves = learnt("job")
    X, job = within_leaves(codes, features, leaves), np.eye(4)[codes["job"]]
    shares = np.array([job[leaves == leaf].mean(axis=0) for leaf in leaves])
    wanted = X.T @ (job - shares)
    lean = X @ (tilt.weights / STEPS)
    moved = X.T @ (shares * (lean - (shares * lean).sum(axis=1, keepdims=True))) + SHRINKAGE * tilt.weights / STEPS
    assert np.abs(moved - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize(("target", "size"), [("pay", 19), ("job", 4)])
def test_a_leaf_keeps_its_shares_and_covariances_come_back(target: str, size: int) -> None:
    (codes, features, tree), tilt, ready, leaves = learnt(target)
    found = chances(tree, ready, codes, leaves, size)
    own = np.eye(size)[codes[target]]
    shares = np.array([own[leaves == leaf].mean(axis=0) for leaf in leaves])
    assert (found <= 2 * shares + 1e-3).all()
    for leaf in np.unique(leaves):
        assert np.abs(found[leaves == leaf].mean(axis=0) - shares[leaves == leaf][0]).max() < 0.01
    X = within_leaves(codes, features, leaves)
    outputs = features["pay"][:, :3] / GRAIN if target == "pay" else np.eye(4)
    lost, left = X.T @ (own - shares) @ outputs, X.T @ (own - found) @ outputs
    assert np.abs(lost).max() > 15  # records: the tree alone loses town and sex
    # What stays away is what the ridge holds back, and little for outputs that are softened.
    assert np.abs(left - SHRINKAGE * tilt.weights / STEPS).max() < 0.1 * np.abs(lost).max()
    assert np.abs(left).max() < 0.5 * np.abs(lost).max()


@settings(max_examples=at_most(25))
@given(seed=st.integers(0, 2**16), min_leaf=st.integers(1, 200), target=st.sampled_from(["pay", "job"]))
def test_a_coin_takes_one_of_the_two_whatever_the_tree(seed: int, min_leaf: int, target: str) -> None:
    (codes, _, tree), _, ready, leaves = learnt(target, seed, min_leaf)
    rng = np.random.default_rng(seed)
    first, second = (tree.drawn(leaves, rng.random(N)) for _ in range(2))
    columns, coins = {name: codes[name] for name in BEFORE}, rng.random(N)
    taken = ready.taken(leaves, columns, first, second, coins)
    assert ((taken == first) | (taken == second)).all()
    assert np.isfinite(ready._lean(leaves, columns, first, second)).all()
    for start in range(0, N, 101):  # blocks of any length
        part = slice(start, start + 101)
        theirs = {name: each[part] for name, each in columns.items()}
        again = ready.taken(leaves[part], theirs, first[part], second[part], coins[part])
        assert again.tolist() == taken[part].tolist()


def test_a_tilt_is_the_same_in_any_order_of_records() -> None:
    codes, features, tree = made("pay")
    order = np.random.default_rng(1).permutation(N)
    mixed = {name: each[order] for name, each in codes.items()}
    one, other = (
        LeafTilt.learnt(tree, each, BEFORE, "pay", CodeMoments.of(each, features), ordered=True).to_dict()
        for each in (codes, mixed)
    )
    assert one == other


def test_weights_that_do_not_fit_are_refused() -> None:
    (_, features, tree), tilt, _, _ = learnt("job")
    for wrong in (LeafTilt(tilt.weights[1:], tilt.means), LeafTilt(tilt.weights, tilt.means[1:])):
        with pytest.raises(UsageError, match="do not fit its trees"):
            Tilting.of(wrong, tree, features, BEFORE, "job", ordered=False)
    with pytest.raises(UsageError, match="do not fit"):
        LeafTilt.from_dict({**tilt.to_dict(), "outputs": 7})
    with pytest.raises(UsageError, match="do not fit its trees"):
        Tilting.of(tilt, tree, {**features, "job": features["job"][:2]}, BEFORE, "job", ordered=False)
