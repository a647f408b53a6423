"""Fitted means keep the margins of their terms and no more; products of margins agree with iteration."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from privpipe.kernels.uniqueness.frequency_models import TooManyCells, fitted_means, separators


def table(seed: int, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, levels, 80) for levels in shape])
    rows[:, -1] = (rows[:, -1] + rows[:, 0]) % shape[-1]
    codes, counts = np.unique(rows, axis=0, return_counts=True)
    return codes, counts.astype(np.int64)


def iterated(codes: NDArray[np.int64], counts: NDArray[np.int64], terms: list[tuple[int, ...]]) -> NDArray[np.float64]:
    """Iterative proportional fitting as it is written in books, cell by cell."""
    shape = tuple(codes.max(axis=0) + 1)
    observed = np.zeros(shape)
    observed[tuple(codes.T)] = counts
    fitted = np.full(shape, counts.sum() / observed.size)
    for _ in range(3000):
        for term in terms:
            others = tuple(at for at in range(len(shape)) if at not in term)
            wanted, now = observed.sum(axis=others, keepdims=True), fitted.sum(axis=others, keepdims=True)
            fitted = fitted * np.where(now > 0, wanted / np.where(now > 0, now, 1), 0)
    return np.asarray(fitted[tuple(codes.T)])


@pytest.mark.parametrize(
    "terms",
    [
        [(0,), (1,), (2,), (3,)],
        [(0, 1), (1, 2), (3,)],
        [(0, 3), (1,), (2,)],
        [(0, 1), (1, 2), (0, 2), (3,)],
        [(0, 1), (1, 2), (2, 3), (3, 0)],
        [(0, 1, 2), (2, 3), (3,)],
        [(0, 1, 2, 3)],
    ],
    ids=str,
)
def test_they_are_those_of_plain_iteration(terms: list[tuple[int, ...]]) -> None:
    for seed in (1, 2):
        codes, counts = table(seed, (2, 3, 4, 2))
        assert fitted_means(codes, counts, terms, 1000) == pytest.approx(iterated(codes, counts, terms), rel=1e-7)


def test_large_cells_do_not_end_the_fit_of_rare_ones() -> None:
    """A change of 1e-3 is none in a cell of 7 million, and all there is in one of a single record."""
    counts = [2, 3501, 4311, 71, 8, 1, 571, 458, 1, 46, 328658, 21045, 7577977, 1066063, 26302, 20, 782095, 888]
    observed = np.array(counts).reshape(2, 3, 3)
    codes = np.argwhere(observed)
    fitted = fitted_means(codes, np.array(counts), [(0, 1), (1, 2), (0, 2)], 100).reshape(2, 3, 3)
    for axis in range(3):
        assert fitted.sum(axis=axis) == pytest.approx(observed.sum(axis=axis), rel=1e-10)


def test_a_grid_is_needed_only_where_the_terms_make_a_ring() -> None:
    codes, counts = table(3, (5, 6, 7))
    fitted_means(codes, counts, [(0, 1), (1, 2)], 1)
    with pytest.raises(TooManyCells) as caught:
        fitted_means(codes, counts, [(0, 1), (1, 2), (0, 2)], 209)
    assert caught.value.cells == 210
    assert separators([(0, 1), (1, 2), (2, 3), (0, 3)]) is None
    assert separators([(0, 1, 2), (1, 2, 3), (2, 3, 4), (5,)]) is not None
