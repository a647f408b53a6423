"""How much noise is left on a person's number when all releases of it are averaged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.grouping.word_groups import group_rows

__all__ = ["left_ratios"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def left_ratios(units: Ints, keys: Ints, draws: Ints, values: Ints, ratios: Floats, *, moving: bool) -> Floats:
    """Variance ratio that is left of the noise on each unit's number when releases are averaged.

    Independent draws weighted by their variances leave 1 / sum 1/ratio. One draw seen twice is one. Draws under one key
    that hide different values are of different quantities: of each key the value that is seen best counts. Draws under
    different keys count together whatever they hide, since a number may have changed but little.

    Parameters
    ----------
    units : ndarray of int64, shape (n,)
        0 .. u - 1, each at least once.
    keys, draws, values : ndarray of int64, shape (n,)
        Numbers of the stage key, the draw and the hidden value.
    ratios : ndarray of float64, shape (n,)
        At least 0; 0 leaves nothing.
    moving : bool
        Draws under one key count together also where they hide different values.

    Returns
    -------
    ndarray of float64, shape (u,)

    Examples
    --------
    >>> same, other = np.array([0, 0]), np.array([0, 1])
    >>> half = np.array([0.2, 0.2])
    >>> left_ratios(same, other, other, same, half, moving=False).tolist()  # two plans
    [0.1]
    >>> left_ratios(same, same, same, same, half, moving=False).tolist()  # one plan, one value
    [0.2]
    >>> [left_ratios(same, same, other, other, half, moving=m).tolist() for m in (False, True)]  # one plan, two values
    [[0.2], [0.1]]
    """
    count = int(units.max()) + 1 if len(units) else 0
    seen = _first_of(units, keys, draws)
    units, keys, values, ratios = units[seen], keys[seen], values[seen], ratios[seen]
    with np.errstate(divide="ignore"):
        told = 1.0 / ratios
    if not moving:
        groups, firsts = group_rows(np.column_stack([units, keys, values]))
        told = _sums(groups, told, len(firsts))
        units, keys = units[firsts], keys[firsts]
        groups, firsts = group_rows(np.column_stack([units, keys]))
        best = np.zeros(len(firsts))
        np.maximum.at(best, groups, told)
        told, units = best, units[firsts]
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / _sums(units, told, count), dtype=np.float64)


def _first_of(*columns: Ints) -> Ints:
    return np.sort(group_rows(np.column_stack(columns))[1])


def _sums(groups: Ints, figures: Floats, count: int) -> Floats:
    """Sums that do not depend on the order of the releases: each group's figures are added in order of size."""
    order = np.lexsort((figures, groups))
    return np.asarray(np.bincount(groups[order], weights=figures[order], minlength=count), dtype=np.float64)
