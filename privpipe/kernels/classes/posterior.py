"""The worst posterior of a class's values for an intruder with background knowledge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["insider_posterior", "ruled_out_posterior"]

Ints = NDArray[np.int64]


def insider_posterior(offsets: Ints, counts: Ints, sizes: Ints, insiders: int) -> NDArray[np.float64]:
    """max_v c_v / (f - min(r, f - c_v)) of each class: r of its f members know themselves and each other.

    Source: Martin, Kifer, Machanavajjhala, Gehrke, Halpern, ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, or persons who have its value.
    sizes : ndarray of int64, shape (n_classes,)
        Records of each class, or its persons, of whom one may be in several cells.
    insiders : int
        r, at least 0.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In (0, 1].

    Examples
    --------
    >>> insider_posterior(np.array([0, 2, 4]), np.array([2, 1, 2, 2]), np.array([3, 4]), 1).round(3).tolist()
    [1.0, 0.667]
    """
    return np.asarray(_insiders(*_arrays(offsets, counts, sizes), insiders))


def ruled_out_posterior(offsets: Ints, counts: Ints, sizes: Ints, values: int) -> NDArray[np.float64]:
    """max_v c_v / (f - E) of each class, E the b largest counts among other values: the intruder rules b out.

    E is at most f - c_v. Over persons, who may have several values, that is the worst that the counts allow.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007.

    Parameters
    ----------
    offsets, counts, sizes
        As in `insider_posterior`.
    values : int
        b, at least 0.

    Examples
    --------
    >>> ruled_out_posterior(np.array([0, 2, 5]), np.array([1, 2, 3, 2, 1]), np.array([3, 6]), 1).round(3).tolist()
    [1.0, 0.75]
    """
    return np.asarray(_ruled_out(*_arrays(offsets, counts, sizes), values))


def _arrays(*arrays: Ints) -> tuple[Ints, ...]:
    return tuple(read_only(array, np.int64) for array in arrays)


@njit(nogil=True, cache=True)
def _insiders(offsets: Ints, counts: Ints, sizes: Ints, insiders: int) -> NDArray[np.float64]:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = sizes[c]
        for i in range(offsets[c], offsets[c + 1]):
            out[c] = max(out[c], counts[i] / (size - min(insiders, size - counts[i])))
    return out


@njit(nogil=True, cache=True)
def _ruled_out(offsets: Ints, counts: Ints, sizes: Ints, values: int) -> NDArray[np.float64]:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        descending = np.sort(counts[offsets[c] : offsets[c + 1]])[::-1]
        size = sizes[c]
        for i in range(len(descending)):
            # The b largest of the others: of the first b + 1, all but this one.
            others = descending[: values + 1].sum() - (descending[i] if i <= values else descending[values])
            out[c] = max(out[c], descending[i] / (size - min(others, size - descending[i])))
    return out
