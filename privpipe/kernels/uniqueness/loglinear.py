"""Fitted means of a log-linear model: products of margins where the terms allow it, iterative fitting elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.kernels.classes.coded_classes import projected_counts

__all__ = ["NotSettled", "TooManyCells", "fitted_means", "fitted_with_offset", "separators"]

Term = tuple[int, ...]
MOST_CYCLES = 20_000


class TooManyCells(ValueError):
    """The grid of a part of the model that needs one is larger than allowed; `cells` says how large."""

    def __init__(self, cells: int) -> None:
        super().__init__(f"{cells} cells")
        self.cells = cells


class NotSettled(ArithmeticError):
    """Iterative fitting did not come to rest."""


def fitted_means(codes: Ints, counts: Ints, terms: Sequence[Term], max_cells: int) -> Floats:
    """Maximum-likelihood mean of each observed cell, of Poisson counts on the full grid of observed levels.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Distinct cells; codes of a column from 0, each in use.
    counts : ndarray of int64, shape (t,)
        Records of each.
    terms : sequence of tuples of int
        Columns of each term; every column is in one. A term holds all its smaller ones.
    max_cells : int
        Largest grid to fit by iteration.

    Returns
    -------
    ndarray of float64, shape (t,)

    Raises
    ------
    TooManyCells, NotSettled

    Notes
    -----
    Parts of the model without a common column are independent. A part whose terms can be taken off one by one, each
    meeting the rest within a single other term, is a product of margins over the margins of what they share.

    Examples
    --------
    >>> codes, counts = np.array([[0, 0], [0, 1], [1, 0]]), np.array([2, 1, 1])
    >>> fitted_means(codes, counts, [(0,), (1,)], 100).tolist()
    [2.25, 0.75, 0.75]
    """
    n = int(counts.sum())
    means = np.full(len(counts), float(n))
    for part in _parts(terms):
        shared = separators(part)
        if shared is None:
            found = _iterated(codes, counts, part, max_cells)
        else:
            found = np.ones(len(counts))
            for term, separator in zip(part, shared, strict=True):
                margin = _margin(codes, counts, separator)
                found = found * np.divide(
                    _margin(codes, counts, term), margin, out=np.zeros_like(margin), where=margin > 0
                )
            found = found * n
        means = means * (found / n)
    return means


def fitted_with_offset(
    codes: Ints,
    counts: Ints,
    terms: Sequence[Term],
    max_cells: int,
    offsets: tuple[Floats, float],
) -> Floats:
    """The same, where the mean of each cell has a known factor: iterative fitting that starts from it.

    Parameters
    ----------
    offsets : (ndarray of float64, shape (t,), float)
        The factor of each observed cell, and that of all others; above 0.

    Examples
    --------
    >>> codes, counts = np.array([[0, 0], [0, 1], [1, 0]]), np.array([2, 1, 1])
    >>> fitted_with_offset(codes, counts, [(0,), (1,)], 100, (np.ones(3), 1.0)).round(6).tolist()
    [2.25, 0.75, 0.75]
    """
    largest = [term for part in _parts(terms) for term in part]
    return _iterated(codes, counts, largest, max_cells, offsets)


def separators(terms: list[Term]) -> list[Term] | None:
    """Columns that each term shares with those behind it, once `terms` is sorted in place so that these lie in one
    of them; None where no such order exists.

    Examples
    --------
    >>> separators([(0, 1), (1, 2)]), separators([(0, 1), (1, 2), (0, 2)])
    ([(1,), ()], None)
    """
    left, order, shared = sorted(terms), [], []
    while left:
        for at, term in enumerate(left):
            others = [set(other) for place, other in enumerate(left) if place != at]
            meets = set(term) & set().union(*others)
            if not others or any(meets <= other for other in others):
                order.append(left.pop(at))
                shared.append(tuple(sorted(meets)))
                break
        else:
            return None
    terms[:] = order
    return shared


def _parts(terms: Sequence[Term]) -> list[list[Term]]:
    """The largest terms, by sets of columns that no term connects."""
    sets = {frozenset(term) for term in terms}
    largest = sorted(tuple(sorted(one)) for one in sets if not any(one < other for other in sets))
    parts: list[list[Term]] = []
    for term in largest:
        touching = [part for part in parts if any(set(term) & set(other) for other in part)]
        parts = [part for part in parts if part not in touching]
        parts.append([*(one for part in touching for one in part), term])
    return sorted(parts)


def _margin(codes: Ints, counts: Ints, columns: Term) -> Floats:
    numbers, totals = projected_counts(codes[:, list(columns)], counts)
    return totals[numbers].astype(np.float64)


def _iterated(
    codes: Ints,
    counts: Ints,
    terms: list[Term],
    max_cells: int,
    offsets: tuple[Floats, float] | None = None,
) -> Floats:
    """Iterative proportional fitting on the grid of the terms' columns, from a constant start or from offsets."""
    columns = sorted({column for term in terms for column in term})
    shape = tuple(int(codes[:, column].max()) + 1 for column in columns)
    if prod(shape) > max_cells:
        raise TooManyCells(prod(shape))
    cells = np.ravel_multi_index(tuple(codes[:, column] for column in columns), shape)
    observed = np.bincount(cells, weights=counts, minlength=prod(shape)).reshape(shape)
    summed = [tuple(at for at, column in enumerate(columns) if column not in term) for term in terms]
    margins = [observed.sum(axis=axes, keepdims=True) for axes in summed]
    fitted = np.full(shape, float(counts.sum()) / prod(shape))
    if offsets is not None:
        fitted = np.full(shape, offsets[1])
        fitted.ravel()[cells] = offsets[0]
    for _ in range(MOST_CYCLES):
        before = fitted
        for axes, margin in zip(summed, margins, strict=True):
            current = fitted.sum(axis=axes, keepdims=True)
            fitted = fitted * np.divide(margin, current, out=np.zeros_like(margin), where=current > 0)
        if (np.abs(fitted - before) < 1e-10 + 1e-13 * fitted).all():  # of each cell: the rare ones are what counts
            return np.asarray(fitted.ravel()[cells], dtype=np.float64)
    raise NotSettled(f"no rest after {MOST_CYCLES} cycles")
