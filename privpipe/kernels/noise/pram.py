"""Post-randomisation: transition matrices that keep the shares of the categories, and draws along their rows.

Source: Gouweleeuw, Kooiman, Willenborg, de Wolf, Journal of Official Statistics 14(4), 1998.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only, require_codes
from privpipe.compiled import njit

__all__ = ["diagonal_matrix", "draw_categories", "invariant_matrix", "posterior", "transition_matrix"]

Spread = Literal["even", "adjacent"]


def diagonal_matrix(diagonal: Floats, spread: Spread = "even", forbidden: Bools | None = None) -> Floats:
    """P: the given diagonal, and the rest of each row spread over other categories.

    Parameters
    ----------
    diagonal : ndarray of float64, shape (m,)
        Probability to stay, in (0, 1].
    spread : {"even", "adjacent"}
        Over all others, or over the one or two neighbours in order.
    forbidden : ndarray of bool, shape (m,), optional
        Categories that no record is moved into or stays in. A row without an allowed target stays unchanged.

    Returns
    -------
    ndarray of float64, shape (m, m)
        Rows sum to 1.

    Examples
    --------
    >>> diagonal_matrix(np.array([0.8, 0.6, 1.0])).round(3).tolist()
    [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.0, 0.0, 1.0]]
    >>> diagonal_matrix(np.array([0.8, 0.8, 0.8]), "adjacent")[0].round(3).tolist()
    [0.8, 0.2, 0.0]
    """
    m = len(diagonal)
    places = np.arange(m)
    open_to = places[:, None] != places[None, :]
    if spread == "adjacent":
        open_to &= abs(places[:, None] - places[None, :]) == 1
    stay = np.asarray(diagonal, np.float64).copy()
    if forbidden is not None:
        open_to &= ~forbidden[None, :]
        stay[forbidden] = 0.0
    ways = open_to.sum(axis=1)
    stay[ways == 0] = 1.0
    matrix = np.where(open_to, ((1.0 - stay) / np.maximum(ways, 1))[:, None], 0.0)
    matrix[places, places] = stay
    return matrix


def invariant_matrix(matrix: Floats, shares: Floats) -> Floats:
    """R = P Q with Q_kl = t_l P_lk / sum_j t_j P_jk, so that t R = t; a category of share 0 is not a target.

    Parameters
    ----------
    matrix : ndarray of float64, shape (m, m)
        P, rows summing to 1.
    shares : ndarray of float64, shape (m,)
        t, at least 0, summing to 1.

    Examples
    --------
    >>> t = np.array([0.5, 0.3, 0.15, 0.05])
    >>> R = invariant_matrix(diagonal_matrix(np.full(4, 0.8)), t)
    >>> np.diag(R).round(2).tolist(), bool(abs(t @ R - t).max() < 1e-15)
    ([0.78, 0.69, 0.55, 0.31], True)
    """
    joint = shares[:, None] * matrix
    seen = joint.sum(axis=0)
    back = np.where(seen[:, None] > 0, joint.T / np.where(seen > 0, seen, 1.0)[:, None], np.eye(len(shares)))
    return np.asarray(matrix @ back)


def transition_matrix(matrix: Floats, shares: Floats, *, invariant: bool, alpha: float) -> Floats:
    """A = alpha R + (1 - alpha) I, where R is P itself unless it is to be invariant.

    Categories of share 0 take no part in a matrix that is not invariant either: what P sends there stays with the
    others in proportion, or with the record when there are none.

    Examples
    --------
    >>> A = transition_matrix(diagonal_matrix(np.array([0.6, 0.6])), np.array([0.5, 0.5]), invariant=False, alpha=0.5)
    >>> A.round(3).tolist()
    [[0.8, 0.2], [0.2, 0.8]]
    """
    if invariant:
        mixed = invariant_matrix(matrix, shares)
    else:
        mixed = np.where(shares[None, :] > 0, matrix, 0.0)
        sums = mixed.sum(axis=1)
        mixed = np.where(sums[:, None] > 0, mixed / np.where(sums > 0, sums, 1.0)[:, None], np.eye(len(shares)))
    made: Floats = alpha * mixed + (1.0 - alpha) * np.eye(len(shares))
    return made


def posterior(matrix: Floats, shares: Floats) -> float:
    """The largest P(original = l | released = l) over l: how certain an intruder can be of a released category.

    Examples
    --------
    >>> posterior(np.eye(2), np.array([0.5, 0.5]))
    1.0
    """
    seen = shares @ matrix
    kept = shares * np.diag(matrix)
    return float(np.max(kept[seen > 0] / seen[seen > 0], initial=0.0))


def draw_categories(codes: Ints, uniforms: Floats, matrix: Floats) -> Ints:
    """A new category for each record: the first whose cumulative probability exceeds the record's uniform.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        In 0 .. m - 1; -1 stays -1.
    uniforms : ndarray of float64, shape (n,)
        In (0, 1).
    matrix : ndarray of float64, shape (m, m)

    Examples
    --------
    >>> draw_categories(np.array([0, 0, -1]), np.array([0.2, 0.95, 0.5]), np.array([[0.9, 0.1], [0.0, 1.0]])).tolist()
    [0, 1, -1]
    """
    require_codes(codes, len(matrix), "the transition matrix", least=-1)
    steps = np.cumsum(matrix, axis=1)
    return np.asarray(
        _draw(read_only(codes, np.int64), read_only(uniforms, np.float64), read_only(steps, np.float64), _last(matrix))
    )


def _last(matrix: Floats) -> Ints:
    """The last category each row can reach: rounding may leave a cumulative sum below 1."""
    reached = matrix > 0
    return np.asarray(matrix.shape[1] - 1 - np.argmax(reached[:, ::-1], axis=1), np.int64)


@njit(nogil=True, cache=True)
def _draw(codes: Ints, uniforms: Floats, steps: Floats, last: Ints) -> Ints:
    out = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        code = codes[i]
        if code < 0:
            out[i] = -1
            continue
        low, high = 0, last[code]
        while low < high:
            middle = (low + high) // 2
            if steps[code, middle] > uniforms[i]:
                high = middle
            else:
                low = middle + 1
        out[i] = low
    return out
