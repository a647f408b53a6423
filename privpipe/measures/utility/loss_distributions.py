"""Information loss of the distributions of columns and of pairs of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.losses.distributions import hellinger, quantile_bins, total_variation, transport
from privpipe.measures.utility.loss_columns import coded, number_columns
from privpipe.measures.utility.loss_figures import LossFigure, column_means

if TYPE_CHECKING:
    from privpipe.blocks import FilePair

__all__ = ["OF_DISTRIBUTIONS"]

Codes = NDArray[np.int64]
BINS = 20
PAIR_BINS = 5


def _hellinger(files: FilePair, names: Sequence[str]) -> LossFigure:
    columns = {name: hellinger(*_binned(files, name, BINS)) for name in names}
    return _mean_and_largest(columns)


def _wasserstein(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.sums.exact import measure_sums

    found = number_columns(files, names)
    if not found.names:
        return LossFigure(None, why="no column is a number in both tables")
    columns = {}
    for name, x, y in zip(found.names, found.before, found.after, strict=True):
        sums = measure_sums([x])
        sd = sums.sd() if sums.count > 1 else 0.0
        moved = transport(x, y)
        if math.isnan(moved):
            return LossFigure(None, why=f"column {name!r} has no value in one of the tables")
        # As of moments: a column without deviation is as it was, or it is not.
        columns[name] = moved / sd if sd > 0 else float(moved > 0)
    notes = (f"left out (no numbers): {', '.join(found.left_out)}",) if found.left_out else ()
    return _mean_and_largest(columns, notes)


def _contingency(files: FilePair, names: Sequence[str]) -> LossFigure:
    if len(names) < 2:
        return LossFigure(None, why="a table of two columns needs two of them")
    binned = {name: _binned(files, name, PAIR_BINS) for name in names}
    apart = []
    for one, other in combinations(names, 2):
        sides = [np.stack([binned[one][side], binned[other][side]], axis=1) for side in (0, 1)]
        _, places = np.unique(np.concatenate(sides), axis=0, return_inverse=True)
        places = places.ravel().astype(np.int64)
        apart.append(total_variation(places[: len(sides[0])], places[len(sides[0]) :]))
    return LossFigure(column_means(apart), {}, {"largest": max(apart), "pairs": len(apart)})


def _binned(files: FilePair, name: str, bins: int) -> tuple[Codes, Codes]:
    """A column of both files as codes: numbers by the quantiles of the original, others by text; null is a value."""
    x, y = files.numbers("original", name), files.numbers("released", name)
    if x is None or y is None or np.isnan(x).all():
        return coded(files, name)[1]
    return quantile_bins(x, x, bins), quantile_bins(x, y, bins)


def _mean_and_largest(columns: Mapping[str, float], notes: tuple[str, ...] = ()) -> LossFigure:
    values = list(columns.values())
    return LossFigure(column_means(values), columns, {"largest": max(values)}, notes)


OF_DISTRIBUTIONS: Mapping[str, Callable[[FilePair, Sequence[str]], LossFigure]] = {
    "hellinger": _hellinger,
    "wasserstein": _wasserstein,
    "contingency": _contingency,
}
"""Losses of distributions: no records are paired."""
