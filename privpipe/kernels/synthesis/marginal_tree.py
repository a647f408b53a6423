"""Noisy marginals over a tree of pairs: chosen, measured, and made one distribution.

Source: McKenna, Miklau, Sheldon, Winning the NIST contest (MST), J. Privacy and Confidentiality 11(3), 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["fitted", "measured", "on_simplex"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDS = 50
GRAIN = 1 << 20


def measured(
    ones: Sequence[Ints],
    pairs: Mapping[tuple[int, int], Ints],
    rho: float,
    most: int,
    noise: Callable[[Fraction], int],
    choice: Callable[[Sequence[int], Fraction], int],
) -> dict[str, Any]:
    """Noisy one-way marginals, a tree of pairs chosen by them, and noisy marginals of its pairs.

    A third of rho goes to each. One unit changes a count by at most `most` records in all.

    Parameters
    ----------
    ones : sequence of ndarray of int64
        Exact counts of each column.
    pairs : mapping of (i, j), i < j, to ndarray of int64, shape (codes of i, codes of j)
    noise, choice : callables
        As in `privpipe.kernels.synthesis.exact_noise`.

    Returns
    -------
    dict
        `ones`, `tree` (list of pairs), `pairs` (noisy counts of each), `spent` (rho, at most as asked).
    """
    d = len(ones)
    third = Fraction(int(rho * GRAIN * GRAIN), 3 * GRAIN * GRAIN)
    first = _variance(d, most, third * 3 if d == 1 else third)
    noisy = [np.array([int(count) + noise(first) for count in counts.tolist()], np.int64) for counts in ones]
    spent = Fraction(most * most * d) / (2 * first)
    tree: list[tuple[int, int]] = []
    tables = []
    if d > 1:
        tree, cost = _chosen_tree(noisy, pairs, third / (d - 1), most, choice)
        second = _variance(d - 1, most, third)
        for pair in tree:
            counts = pairs[pair]
            table = [int(count) + noise(second) for count in counts.ravel().tolist()]
            tables.append(np.array(table, np.int64).reshape(counts.shape))
        spent += cost + Fraction(most * most * (d - 1)) / (2 * second)
    return {"ones": noisy, "tree": tree, "pairs": tables, "spent": float(spent)}


def _variance(queries: int, most: int, rho: Fraction) -> Fraction:
    """Of noise on so many queries; rounded up, so that no more than rho is spent."""
    wanted = Fraction(queries * most * most) / (2 * rho)
    return Fraction(-((-wanted.numerator * 1024) // wanted.denominator), 1024)


def _chosen_tree(
    noisy: Sequence[Ints],
    pairs: Mapping[tuple[int, int], Ints],
    rho: Fraction,
    most: int,
    choice: Callable[[Sequence[int], Fraction], int],
) -> tuple[list[tuple[int, int]], Fraction]:
    """Pairs that differ most from what one-way marginals say, one after the other, each joining two parts."""
    # The exponential mechanism of rate e/2 a unit costs e^2/8; the root is rounded down.
    e = Fraction(int(float(8 * rho) ** 0.5 * GRAIN * (1 - 1e-9)), GRAIN)
    estimates = [on_simplex(counts.astype(np.float64), max(float(counts.sum()), 1.0)) for counts in noisy]
    scores = {}
    for (i, j), counts in pairs.items():
        # Whole numbers, so that one record moves a score by one at most.
        product = np.rint(np.outer(estimates[i], estimates[j]) / max(float(estimates[i].sum()), 1.0)).astype(np.int64)
        scores[i, j] = int(np.abs(counts - product).sum())
    part = list(range(len(noisy)))
    tree: list[tuple[int, int]] = []
    while len(tree) < len(noisy) - 1:
        open_pairs = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        pair = open_pairs[choice([scores[each] for each in open_pairs], e / (2 * most))]
        tree.append(pair)
        part = [part[pair[0]] if each == part[pair[1]] else each for each in part]
    return tree, e * e / 8 * (len(noisy) - 1)


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest numbers from 0 that add up to `total`.

    Examples
    --------
    >>> on_simplex(np.array([6.0, 5.0, -3.0]), 10.0).tolist()
    [5.5, 4.5, 0.0]
    """
    ordered = np.sort(values)[::-1]
    shift = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - shift[np.flatnonzero(ordered > shift)[-1]], 0.0))


def fitted(found: Mapping[str, Any]) -> dict[str, Any]:
    """One distribution of the noisy marginals: `total`, and steps of (column, parent or -1, shares by parent's code).

    Each pair is projected to counts from 0 and scaled in turn to the one-way marginals of its two columns, so that
    pairs agree in the columns they share and the tree needs no further fitting.

    Examples
    --------
    >>> ones = [np.array([50, 50]), np.array([50, 50])]
    >>> model = fitted({"ones": ones, "tree": [(0, 1)], "pairs": [np.array([[50, 0], [0, 50]])]})
    >>> [(column, parent, shares.round(3).tolist()) for column, parent, shares in model["steps"]]
    [(0, -1, [[0.5, 0.5]]), (1, 0, [[1.0, 0.0], [0.0, 1.0]])]
    """
    totals = [float(counts.sum()) for counts in (*found["ones"], *found["pairs"])]
    total = max(round(sum(totals) / len(totals)), 1)
    ones = [on_simplex(counts.astype(np.float64), float(total)) for counts in found["ones"]]
    tables = {}
    for (i, j), counts in zip(found["tree"], found["pairs"], strict=True):
        table = on_simplex(counts.astype(np.float64).ravel(), float(total)).reshape(counts.shape)
        tables[i, j] = _scaled(table, ones[i], ones[j])
    steps: list[tuple[int, int, Floats]] = [(0, -1, ones[0][None, :] / total)]
    placed = {0}
    while len(placed) < len(ones):
        for (i, j), table in tables.items():
            for parent, child, across in ((i, j, table), (j, i, table.T)):
                if parent in placed and child not in placed:
                    sums = across.sum(axis=1, keepdims=True)
                    shares = np.where(sums > 0, across / np.where(sums > 0, sums, 1.0), ones[child] / total)
                    steps.append((child, parent, shares))
                    placed.add(child)
    return {"total": total, "steps": steps}


def _scaled(table: Floats, rows: Floats, columns: Floats) -> Floats:
    # A cell of nothing never grows: a little of independence leaves every marginal within reach.
    table = table + 1e-6 * np.outer(rows, columns) / max(float(rows.sum()), 1.0)
    for _ in range(ROUNDS):
        sums = table.sum(axis=1)
        table = table * np.where(sums > 0, rows / np.where(sums > 0, sums, 1.0), 0.0)[:, None]
        sums = table.sum(axis=0)
        table = table * np.where(sums > 0, columns / np.where(sums > 0, sums, 1.0), 0.0)
    return np.asarray(table)
