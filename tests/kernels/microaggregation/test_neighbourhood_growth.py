"""Groups grown from freed records, against plain sums of their points; what stands beside the records is moot."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from privpipe.draws import Stream
from privpipe.draws.siphash import word_of_2
from privpipe.kernels.microaggregation.neighbourhood_descent import grow, inner_products, padded

KEY = Stream(bytes(range(16))).key_words
Floats = NDArray[np.float64]
Grown = tuple[Floats, NDArray[np.int64], NDArray[np.int64], Floats]


def grown(points: Floats, t: int, k: int, step: int, beside: float = 0.0) -> Grown:
    """Products, labels, sizes and products with the sums of groups, in rooms that hold something else before."""
    m, wide = len(points), padded(len(points)) + 8
    local, gram = np.full((points.shape[1], wide), beside), np.full((m + 3, wide), beside)
    labels, sizes, dots = np.zeros(wide, np.int64), np.zeros(t, np.int64), np.full((t, wide), beside)
    inner_products(points, np.arange(m), m, local, gram)
    grow(KEY, step, t, k, gram, labels[:m], sizes, dots)
    return gram[:m, :m], labels[:m], sizes, dots[:, :m]


def plainly(points: Floats, t: int, k: int, step: int) -> list[int]:
    """The same by the definition, with means and distances in place of products."""
    x, left = points - points.mean(axis=0), list(range(len(points)))
    groups: list[list[int]] = []
    for g in range(t):
        coin = int(word_of_2(KEY[0], KEY[1], np.uint64(step), np.uint64(1000 + g)))
        apart = [float(((x[i] - x[left].mean(axis=0)) ** 2).sum()) for i in left]
        groups.append([])
        at = (coin * len(left)) >> 64 if coin & 1 else int(np.argmax(apart))
        for _ in range(k):
            groups[g].append(left[at])
            left[at] = left[-1]  # the last one left takes the place
            left.pop()
            if left:
                at = int(np.argmin([((x[i] - x[groups[g]].mean(axis=0)) ** 2).sum() for i in left]))
    for i in left:
        rise = [
            len(group) / (len(group) + 1) * ((x[i] - x[group].mean(axis=0)) ** 2).sum()
            if len(group) < 2 * k - 1
            else np.inf
            for group in groups
        ]
        groups[int(np.argmin(rise))].append(i)
    return [next(g for g, group in enumerate(groups) if i in group) for i in range(len(points))]


@pytest.mark.parametrize("columns", [1, 2, 3, 6])
@pytest.mark.parametrize(("m", "t", "k"), [(4, 2, 2), (8, 2, 3), (17, 5, 3), (23, 4, 5), (33, 3, 10)])
def test_groups_grow_by_nearness_to_their_mean(m: int, t: int, k: int, columns: int) -> None:
    for step in range(6):
        points = np.random.default_rng(step).normal(size=(m, columns))
        gram, labels, sizes, dots = grown(points, t, k, step)
        centred = points - points.mean(axis=0)
        assert np.allclose(gram, centred @ centred.T)
        assert labels.tolist() == plainly(points, t, k, step)
        assert sizes.tolist() == np.bincount(labels, minlength=t).tolist()
        assert np.allclose(dots, [centred @ centred[labels == g].sum(axis=0) for g in range(t)])


@pytest.mark.parametrize("columns", [1, 4, 5])
def test_what_stood_in_the_rooms_before_changes_nothing(columns: int) -> None:
    points = np.random.default_rng(9).integers(-2, 3, (13, columns)).astype(np.float64)
    for one, other in zip(grown(points, 3, 4, 1), grown(points, 3, 4, 1, beside=7e3), strict=True):
        assert one.tolist() == other.tolist()


def test_equal_records_make_groups_too() -> None:
    _, labels, sizes, _ = grown(np.ones((11, 3)), 3, 3, 2)
    assert sorted(np.bincount(labels).tolist()) == sorted(sizes.tolist())
    assert sizes.min() >= 3
    assert sizes.sum() == 11
