"""Additive scores beside a ridge regression of the records themselves, and the sums they are learnt from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.kernels.synthesis.additive_scores import (
    GRAIN,
    LARGEST,
    SHRINKAGE,
    CodeMoments,
    additive_scores,
    category_features,
    features_each,
    number_features,
    score_of,
)
from privpipe.kernels.synthesis.trees import CodeTree

N = 400
Ints = NDArray[np.int64]


def table(seed: int = 3) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Codes of a number, two categories and a number that depends on them, and the features of each code."""
    rng = np.random.default_rng(seed)
    codes = {"age": rng.integers(0, 8, N), "town": rng.integers(0, 3, N), "sex": rng.integers(1, 3, N)}
    codes["pay"] = np.clip(codes["age"] + 2 * (codes["town"] == 1) + codes["sex"] + rng.integers(-1, 2, N), 0, 12)
    codes["job"] = (codes["age"] // 3 + codes["town"] + rng.integers(0, 2, N)) % 4
    sizes = {"age": 8, "town": 3, "sex": 3, "pay": 13, "job": 4}
    counts = {name: np.bincount(each, minlength=sizes[name]) for name, each in codes.items()}
    features = {name: category_features(each, 100) for name, each in counts.items()}
    for name in ("age", "pay"):
        features[name] = number_features(counts[name], np.arange(1.0, sizes[name]) ** 2)
    return codes, features


def ridge(codes: dict[str, Ints], features: dict[str, Ints], before: list[str], y: list[float]) -> NDArray[np.float64]:
    """Fitted values by the definition: least squares of the records, and a record of nothing for each feature."""
    rows = [[float(v) / GRAIN for name in before for v in features[name][codes[name][at]]] for at in range(len(y))]
    X = np.array(rows) - np.mean(rows, axis=0)
    penalty = np.sqrt(SHRINKAGE) * np.eye(X.shape[1])
    told = np.array(y) - np.mean(y)
    beta = np.linalg.lstsq(np.vstack([X, penalty]), np.concatenate([told, np.zeros(X.shape[1])]), rcond=None)[0]
    return np.asarray(X @ beta)


def same_but_for_scale(score: Ints, fitted: NDArray[np.float64]) -> bool:
    away = score - score.mean()
    scale = (away @ fitted) / (fitted @ fitted)
    return bool(scale > 0 and np.abs(away / scale - fitted).max() < 1e-3 * np.abs(fitted).max())


def test_a_number_has_the_fitted_values_of_a_ridge_regression() -> None:
    codes, features = table()
    before = ["age", "town", "sex"]
    moments = CodeMoments.of(codes, features)
    scores = additive_scores(moments, before, "pay", ordered=True)
    assert len(scores) == 6  # rank, value and gaps have one each, and one that leaves a column out
    for at, (score, rest) in enumerate(zip(scores[::2], scores[1::2], strict=True)):
        [left_out] = set(score) - set(rest)
        assert left_out == max(score, key=lambda name: score[name].std())
        for name, each in rest.items():
            away, same = each - each[0], score[name] - score[name][0]
            scale = away @ same / (same @ same)
            assert np.abs(away - scale * same).max() <= 1 + scale
        y = [float(features["pay"][code, at]) for code in codes["pay"]]
        assert same_but_for_scale(score_of(score, codes), ridge(codes, features, before, y))


def test_scores_of_a_category_tell_all_that_the_fitted_shares_of_its_codes_tell() -> None:
    codes, features = table()
    before = ["age", "town", "sex", "pay"]
    scores = additive_scores(CodeMoments.of(codes, features), before, "job", ordered=False)
    scores = scores[::2]
    assert 1 <= len(scores) <= 3  # four shares add up to one
    made = np.column_stack([np.ones(N), *(score_of(score, codes) for score in scores)])
    for code in range(4):
        fitted = ridge(codes, features, before, [float(each == code) for each in codes["job"]])
        rest = fitted - made @ np.linalg.lstsq(made, fitted, rcond=None)[0]
        assert np.abs(rest).max() < 1e-3


def test_of_two_codes_the_one_score_is_that_of_either() -> None:
    codes, features = table()
    [score] = additive_scores(CodeMoments.of(codes, features), ["age", "pay"], "sex", ordered=False)
    fitted = ridge(codes, features, ["age", "pay"], [float(each == 2) for each in codes["sex"]])
    found = score_of(score, codes)
    assert same_but_for_scale(found, fitted) or same_but_for_scale(-found, fitted)


@given(seed=st.integers(0, 2**16), cut=st.integers(0, N))
def test_sums_are_exact_in_any_order_and_parts(seed: int, cut: int) -> None:
    codes, features = table(seed)
    whole = CodeMoments.of(codes, features)
    order = np.random.default_rng(seed).permutation(N)
    mixed = CodeMoments.of({name: each[order] for name, each in codes.items()}, features)
    left = whole.without(CodeMoments.of({name: each[:cut] for name, each in codes.items()}, features))
    right = CodeMoments.of({name: each[cut:] for name, each in codes.items()}, features)
    for one, other in ((whole, mixed), (left, right)):
        assert one.sums.tobytes() == other.sums.tobytes()
        assert one.products.tobytes() == other.products.tobytes()
    for score in additive_scores(mixed, ["age", "town", "sex"], "pay", ordered=True):
        assert all(each.dtype == np.int64 for each in score.values())
        assert np.abs(score_of(score, codes)).max() <= LARGEST + len(score)


@pytest.mark.parametrize("target", ["flat", "random"])
def test_what_nothing_tells_has_no_score(target: str) -> None:
    codes = {"a": np.zeros(50, np.int64), "b": np.ones(50, np.int64), "flat": np.ones(50, np.int64)}
    codes["random"] = np.arange(50) % 2
    features = {name: category_features(np.bincount(each, minlength=2), 9) for name, each in codes.items()}
    moments = CodeMoments.of(codes, features)
    assert additive_scores(moments, ["a", "b"], target, ordered=False) == []
    assert additive_scores(moments, [], target, ordered=False) == []


def test_the_rarest_codes_of_wide_tables_share_a_feature() -> None:
    found = category_features(np.array([5, 1, 9, 2]), features_each(10_000))
    assert found.tolist() == [[0, GRAIN, 0], [0, 0, GRAIN], [GRAIN, 0, 0], [0, 0, GRAIN]]
    assert number_features(np.array([0, *[1] * 40]), np.arange(40.0), 3).shape == (41, 6)
    assert number_features(np.array([4]), np.empty(0)).tolist() == [[0, 0, GRAIN]]


def test_weak_relations_that_add_up_are_seen_through_a_score() -> None:
    """Thirty columns, none of which parts a leaf alone, tell four fifths of what varies."""
    rng = np.random.default_rng(8)
    codes = {f"c{at}": rng.integers(0, 2, 2000) for at in range(30)}
    total = np.sum([*codes.values()], axis=0)
    target = np.clip(total + rng.integers(-2, 3, 2000), 0, 39)
    features = {name: category_features(np.bincount(each), 9) for name, each in codes.items()}
    features["y"] = number_features(np.bincount(target, minlength=40), np.arange(1.0, 40.0))
    scores = additive_scores(CodeMoments.of({**codes, "y": target}, features), [*codes], "y", ordered=True)
    outputs = target[:, None].astype(np.float64)
    orders = {name: np.arange(2) for name in codes}
    left = []
    for seen in ((), scores):
        leaves = CodeTree.grown(target, outputs, codes, orders, 50, seen).leaves(codes, 2000)
        assert np.bincount(leaves)[np.unique(leaves)].min() >= 50
        means = np.bincount(leaves, weights=target) / np.maximum(np.bincount(leaves), 1)
        left.append(float(np.var(target - means[leaves]) / np.var(target)))
    assert left[1] < 0.25 < 0.5 < left[0]
