"""Descent inside a neighbourhood: what comes out is no worse, and no single swap or move betters it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from privpipe.draws import Stream
from privpipe.kernels.microaggregation.neighbourhood_descent import Inside, descend_inside, grow, inner_products, padded
from privpipe.kernels.microaggregation.neighbourhood_search import _spread_between
from privpipe.kernels.microaggregation.refine import group_sse

Points = NDArray[np.float64]


def test_no_single_swap_or_move_inside_helps_when_it_is_over() -> None:
    for seed in range(8):
        rng, k, t = np.random.default_rng(seed), 3 + seed % 3, 2 + seed % 4
        m = t * k + seed % k
        points = rng.normal(size=(m, 1 + seed % 4))
        wide = padded(m)
        gram, local = np.zeros((m, wide)), np.zeros((points.shape[1], wide))
        labels, sizes, dots = np.zeros(wide, np.int64), np.zeros(t, np.int64), np.zeros((t, wide))
        inner_products(points, np.arange(m), m, local, gram)
        grow(Stream(bytes(16)).key_words, seed, t, k, gram, labels[:m], sizes, dots)
        before = group_sse(points, labels[:m].copy())
        spread = descend_inside(m, t, k, gram, labels, sizes, dots, Inside(*np.ones((5, wide))))
        found = labels[:m].copy()
        lost = group_sse(points, found)
        centred = points - points.mean(axis=0)
        assert spread == pytest.approx((centred**2).sum() - lost)
        assert spread == pytest.approx(_spread_of_sorted(points, found))
        assert lost <= before + 1e-9
        assert sizes.tolist() == np.bincount(found, minlength=t).tolist()
        for other in _one_step_away(found, k):
            assert group_sse(points, other) >= lost - 1e-8


def _spread_of_sorted(points: Points, labels: NDArray[np.int64]) -> float:
    """The spread between groups whose members stand side by side, as the search weighs those that it frees."""
    order, m = np.argsort(labels, kind="stable"), len(labels)
    gram, local = np.zeros((m, padded(m))), np.zeros((points.shape[1], padded(m)))
    inner_products(points, order, m, local, gram)
    return float(_spread_between(labels[order], m, gram))


def _one_step_away(labels: NDArray[np.int64], k: int) -> list[NDArray[np.int64]]:
    """All groups that one swap makes of the given ones, or one move that leaves k and makes fewer than 2k."""
    found, sizes = [], np.bincount(labels)
    for i in range(len(labels)):
        for u in range(i):
            if labels[i] != labels[u]:
                found.append(labels.copy())
                found[-1][[i, u]] = labels[[u, i]]
        for g in range(len(sizes)):
            if g != labels[i] and sizes[labels[i]] > k and sizes[g] < 2 * k - 1:
                found.append(labels.copy())
                found[-1][i] = g
    return found
