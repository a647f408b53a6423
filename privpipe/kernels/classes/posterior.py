"""The worst posterior of a class's values for an intruder with background knowledge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["insider_posterior", "ruled_out_posterior"]


def insider_posterior(offsets: NDArray[np.int64], counts: NDArray[np.int64], insiders: int) -> NDArray[np.float64]:
    """max_v c_v / (f - min(r, f - c_v)) of each class: r of its members know themselves and each other.

    Source: Martin, Kifer, Machanavajjhala, Gehrke, Halpern, ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
    insiders : int
        r, at least 0.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In (0, 1].

    Examples
    --------
    >>> insider_posterior(np.array([0, 2, 4]), np.array([2, 1, 2, 2]), 1).round(3).tolist()
    [1.0, 0.667]
    """
    return np.asarray(_insiders(read_only(offsets, np.int64), read_only(counts, np.int64), insiders))


def ruled_out_posterior(offsets: NDArray[np.int64], counts: NDArray[np.int64], values: int) -> NDArray[np.float64]:
    """max_v c_v / (f - E) of each class, E the b largest counts among other values: the intruder rules b out.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007.

    Parameters
    ----------
    offsets, counts
        As in `insider_posterior`.
    values : int
        b, at least 0.

    Examples
    --------
    >>> ruled_out_posterior(np.array([0, 2, 5]), np.array([1, 2, 3, 2, 1]), 1).round(3).tolist()
    [1.0, 0.75]
    """
    return np.asarray(_ruled_out(read_only(offsets, np.int64), read_only(counts, np.int64), values))


@njit(nogil=True, cache=True)
def _insiders(offsets: NDArray[np.int64], counts: NDArray[np.int64], insiders: int) -> NDArray[np.float64]:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = 0
        for i in range(offsets[c], offsets[c + 1]):
            size += counts[i]
        for i in range(offsets[c], offsets[c + 1]):
            out[c] = max(out[c], counts[i] / (size - min(insiders, size - counts[i])))
    return out


@njit(nogil=True, cache=True)
def _ruled_out(offsets: NDArray[np.int64], counts: NDArray[np.int64], values: int) -> NDArray[np.float64]:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        descending = np.sort(counts[offsets[c] : offsets[c + 1]])[::-1]
        size = descending.sum()
        for i in range(len(descending)):
            # The b largest of the others: of the first b + 1, all but this one.
            others = descending[: values + 1].sum() - (descending[i] if i <= values else descending[values])
            if values >= len(descending) - 1:
                others = size - descending[i]
            out[c] = max(out[c], descending[i] / (size - others))
    return out
