"""How the columns' figures become one, and the loss of a class by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.quality_spec import Aggregate, LossSpec

__all__ = ["aggregated", "aggregated_levels", "normalised", "own_loss", "total"]

SAME_DIGITS = 12


def total(figures: NDArray[np.float64]) -> float:
    """Their sum, added one by one in their order: a library's own order may differ elsewhere."""
    return float(np.cumsum(figures)[-1]) if len(figures) else 0.0


def normalised(share: NDArray[np.float64], domain_size: float, loss: LossSpec) -> NDArray[np.float64]:
    """u of a kept record that carries a label of this share: 0 at a single value of the domain, 1 at all of it."""
    least = loss.g / domain_size
    if least == 1:
        return np.zeros(len(share))
    return np.maximum(0.0, (loss.g * share - least) / (1.0 - least))


def own_loss(each: NDArray[np.float64], columns: Sequence[str], loss: LossSpec) -> NDArray[np.float64]:
    """Aggregate of per-column losses, shape (n, m) to (n, 1); under `rank` to (n, m), the largest first.

    To twelve digits: what orders classes must not be the rounding of a sum. A quality model without an aggregate
    takes the geometric mean.

    Parameters
    ----------
    columns : sequence of str
        Their names, for the weights, which are brought to a largest of 1 among them.

    Examples
    --------
    >>> own_loss(np.array([[0.0, 1.0]]), ["age", "zip"], LossSpec()).round(4).tolist()
    [[0.4142]]
    >>> own_loss(np.array([[0.5, 1.0]]), ["age", "zip"], LossSpec(aggregate="rank", weights={"age": 4})).tolist()
    [[0.5, 0.25]]
    """
    return np.round(aggregated(each * loss.weights_of(columns), loss.aggregate or "geometric_mean"), SAME_DIGITS)


def aggregated(scaled: NDArray[np.float64], aggregate: Aggregate) -> NDArray[np.float64]:
    """Aggregate of weighted per-column losses, shape (n, m) to (n, 1), under `rank` to (n, m).

    Added and multiplied column by column, so that a row's figure does not depend on its neighbours.
    """
    if aggregate == "rank":
        return -np.sort(-scaled, axis=1)
    n, m = scaled.shape
    total = np.ones(n) if aggregate == "geometric_mean" else np.zeros(n)
    for column in scaled.T:
        if aggregate == "geometric_mean":
            total *= 1.0 + column
        else:
            total = np.maximum(total, column) if aggregate == "max" else total + column
    if aggregate == "geometric_mean":
        total = total ** (1.0 / max(m, 1)) - 1.0
    elif aggregate == "arithmetic_mean":
        total /= max(m, 1)
    return total[:, None]


def aggregated_levels(
    nodes: NDArray[np.int16], figures: NDArray[np.float64], aggregate: Aggregate
) -> NDArray[np.float64]:
    """`aggregated` of vectors of levels whose weighted losses are given by column and level, to the last bit.

    Parameters
    ----------
    nodes : ndarray of int16, shape (n, m)
    figures : ndarray of float64, shape (m, levels)

    Examples
    --------
    >>> nodes, figures = np.array([[0, 1], [1, 1]], dtype=np.int16), np.array([[0.0, 0.5], [0.25, 1.0]])
    >>> aggregated_levels(nodes, figures, "sum").ravel().tolist()
    [1.0, 1.5]
    """
    from privpipe.kernels.lattice.costs import products

    n, m = nodes.shape
    if aggregate == "geometric_mean":
        total = products(nodes, figures)
        found: NDArray[np.float64] = total ** (1.0 / max(m, 1)) - 1.0
        return found[:, None]
    columns = np.empty((n, m), dtype=np.float64)
    for at, each in enumerate(figures):
        columns[:, at] = each[nodes[:, at]]
    return aggregated(columns, aggregate)
