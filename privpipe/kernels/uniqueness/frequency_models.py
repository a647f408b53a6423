"""Risk of a record given the frequencies of its combination, and fitted means of log-linear models of frequencies.

Products of margins where the terms allow it, iterative fitting elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.classes.coded_classes import projected_counts

__all__ = [
    "NotSettled",
    "TooManyCells",
    "fitted_means",
    "fitted_with_offset",
    "household_risk",
    "individual_risk",
    "separators",
    "shared_risk",
]


QUICK = 0.7
"""Up to this 1 - p the series needs at most about a hundred terms."""
LARGE = 25
"""From this many records on the series needs about forty terms."""
MOST_STEPS = 5_000_000


def individual_risk(sample: Floats, population: Floats, *, approximate: bool = False) -> Floats:
    """E(1/F | f) where the population count F is negative binomial given the sample count f.

    Parameters
    ----------
    sample : ndarray of float64, shape (n,)
        f, at least 1; fractional counts (wildcards) are allowed.
    population : ndarray of float64, shape (n,)
        Estimate of F, the sum of the sampling weights, at least f; smaller values are replaced by f.
    approximate : bool
        p / (f - (1 - p)) for f > 2, with p = f/F.

    Returns
    -------
    ndarray of float64, shape (n,)
        In (0, 1/f], and 1/f where p = 1.

    Notes
    -----
    r = (p/f) 2F1(1, 1; f+1; 1-p), a series of positive terms with ratio (m/(f+m))(1-p): no digit is lost at any size.
    Where it is slow (few records, small p) a recursion from the closed form for f = 1 is used, for fractional f a
    continued fraction. Source: Benedetti, Franconi, NTTS 1998; Franconi, Polettini, PSD 2004.

    Examples
    --------
    >>> individual_risk(np.array([1.0, 3.0, 2.0]), np.array([2.0, 149.0, 2.0])).round(9).tolist()
    [0.693147181, 0.009885636, 0.5]
    """
    f = read_only(sample, np.float64)
    total = read_only(np.maximum(np.asarray(population, dtype=np.float64), f), np.float64)
    return np.asarray(_risks(f, total, approximate), dtype=np.float64)


def household_risk(households: Ints, risks: Floats, records: Ints) -> tuple[Floats, Ints]:
    """1 - prod(1 - r) over the members of each household, and how many members it has.

    Parameters
    ----------
    households : ndarray of int64, shape (k,)
        Household of each group of members, at least 0; -1: each record is its own household.
    risks : ndarray of float64, shape (k,)
        In [0, 1].
    records : ndarray of int64, shape (k,)
        Members of the household with that risk.

    Returns
    -------
    (ndarray of float64, ndarray of int64), shape (h,)
        The same for any order of the groups.

    Examples
    --------
    >>> found = household_risk(np.array([0, 1, 0]), np.array([0.5, 0.1, 0.5]), np.array([1, 1, 2]))
    >>> found[0].round(3).tolist(), found[1].tolist()
    ([0.875, 0.1], [3, 1])
    """
    single = households < 0
    apart, sizes = risks[single], records[single]
    households, risks, records = households[~single], risks[~single], records[~single]
    order = np.lexsort((records, risks, households))
    with np.errstate(divide="ignore"):  # a risk of 1 makes the household's 1
        logs = np.log1p(-risks[order]) * records[order]
    _, starts = np.unique(households[order], return_index=True)
    if not len(starts):
        return apart, sizes
    together = -np.expm1(np.add.reduceat(logs, starts))
    members = np.add.reduceat(records[order], starts)
    return np.concatenate([together, apart]), np.concatenate([members, sizes])


def shared_risk(households: Ints, risks: Floats) -> Floats:
    """1 - prod(1 - r) over the household of each record, given to every member.

    Parameters
    ----------
    households : ndarray of int64, shape (n,)
        -1 for a record without a household.
    risks : ndarray of float64, shape (n,)
        In [0, 1].

    Examples
    --------
    >>> shared_risk(np.array([0, -1, 0]), np.array([0.5, 0.5, 0.2])).round(3).tolist()
    [0.6, 0.5, 0.6]
    """
    at = np.where(households < 0, int(households.max(initial=-1)) + 1 + np.arange(len(risks)), households)
    with np.errstate(divide="ignore"):
        together = -np.expm1(np.bincount(at, weights=np.log1p(-risks)))
    return np.asarray(np.where(households < 0, risks, together[at]), dtype=np.float64)


@njit(cache=True, nogil=True)
def _risks(sample: Any, population: Any, approximate: bool) -> Any:
    found = np.empty(len(sample), np.float64)
    for i in range(len(sample)):
        f = sample[i]
        p = f / population[i]
        rest = (population[i] - f) / population[i]  # 1 - p, without cancellation where p is near 1
        if approximate and f > 2:
            risk = p / (f - rest)
        elif rest <= QUICK or f >= LARGE:
            risk = p / f * _series(f, rest)
        elif f == np.floor(f):
            risk = _recursion(f, p, rest)
        else:
            risk = _fraction(f, (population[i] - f) / f)
        found[i] = min(risk, 1.0 / f)
    return found


@njit(cache=True, nogil=True)
def _series(f: float, rest: float) -> float:
    term = total = 1.0
    m = 0
    while term >= 1e-17 * total:
        m += 1
        term *= m / (f + m) * rest
        total += term
    return total


@njit(cache=True, nogil=True)
def _recursion(f: float, p: float, rest: float) -> Any:
    """r(1) = (p/q) ln(1/p) and r(g + 1) = (p/q)(1/g - r(g)), which damps errors while p/q < 1."""
    risk = -p / rest * np.log(p)
    for g in range(1, int(f)):
        risk = p / rest * (1.0 / g - risk)
    return risk


@njit(cache=True, nogil=True)
def _fraction(f: float, odds: float) -> Any:
    """Gauss's continued fraction of the integral of v^(f-1)/(1 + v (1-p)/p) over v in [0, 1], which is r: positive
    throughout, and its remainder shrinks by (1 - sqrt p)/(1 + sqrt p) per level; a step has two levels."""
    root = np.sqrt(1.0 + odds)
    steps = min(int(10.0 * root) + 20, MOST_STEPS)
    level = (f + 2 * steps) * (1.0 + root) / 2.0
    for k in range(steps - 1, -1, -1):
        level = f + 2 * k + 1 + (k + 1.0) * (k + 1.0) * odds / level
        level = f + 2 * k + (f + k) * (f + k) * odds / level
    return 1.0 / level


Term = tuple[int, ...]
MOST_CYCLES = 20_000


class TooManyCells(ValueError):
    """The grid of a part of the model that needs one is larger than allowed; `cells` is its size."""

    def __init__(self, cells: int) -> None:
        super().__init__(f"{cells} cells")
        self.cells = cells


class NotSettled(ArithmeticError):
    """Iterative fitting did not converge."""


def fitted_means(codes: Ints, counts: Ints, terms: Sequence[Term], max_cells: int) -> Floats:
    """Maximum-likelihood mean of each observed cell, of Poisson counts on the full grid of observed levels.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Distinct cells; codes of a column from 0, each in use.
    counts : ndarray of int64, shape (t,)
        Records of each.
    terms : sequence of tuples of int
        Columns of each term; every column is in one. A term implies all terms of a subset of its columns.
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
    Parts of the model without a common column are independent. A part whose terms can be removed one by one, each
    meeting the rest within a single other term, is a product of margins over the margins of the columns they share.

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
    """As `fitted_means`, where the mean of each cell has a known factor: iterative fitting starts from it.

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
    """Columns that each term shares with those after it, once `terms` is sorted in place so that one of those contains
    them all; None where no such order exists.

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
        if (np.abs(fitted - before) < 1e-10 + 1e-13 * fitted).all():  # for each cell: the rare ones matter most
            return np.asarray(fitted.ravel()[cells], dtype=np.float64)
    raise NotSettled(f"no convergence after {MOST_CYCLES} cycles")
