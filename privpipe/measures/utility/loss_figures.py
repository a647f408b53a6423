"""The figure of each kind of information loss over two aligned files: of numbers, labels and distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.kernels.losses.distributions import hellinger, quantile_bins, total_variation, transport
from privpipe.measures.utility.loss_columns import NumberColumns, coded, labelled_column, number_columns

if TYPE_CHECKING:
    from privpipe.blocks import FilePair

__all__ = ["LOSSES", "OF_DISTRIBUTIONS", "LossFigure", "column_means"]


NO_NUMBERS = "no column is a number in both tables"


@dataclass(frozen=True)
class LossFigure:
    """A figure and its basis.

    Parameters
    ----------
    loss : float or None
        None or NaN: undefined; `why` gives the reason.
    columns : mapping of column to float or mapping
        The same column by column, where it can be had so.
    beside : mapping
        Further figures.
    notes : tuple of str
    why : str
    """

    loss: float | None
    columns: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    why: str = ""


def _il1s(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import standardised_loss

    found = number_columns(files, names)
    each = standardised_loss(found.before, found.after, _moments(files, found)[1])
    return _over_cells(found, each, _known(found), "constant or without a number")


def _il1(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import relative_loss

    found = number_columns(files, names)
    each = relative_loss(found.before, found.after)
    figure = _over_cells(found, [loss for loss, _ in each], [cells for _, cells in each], "without a value but 0")
    dropped = sum(_known(found)) - sum(cells for _, cells in each)
    return LossFigure(
        figure.loss, figure.columns, {**figure.beside, "zeros_dropped": dropped}, figure.notes, figure.why
    )


def _arctan(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import arctan_loss

    found = number_columns(files, names)
    figure = _over_cells(found, arctan_loss(found.before, found.after), _known(found), "without a number")
    notes = ("it depends on units and saturates: only to compare", *figure.notes)
    return LossFigure(figure.loss, figure.columns, figure.beside, notes, figure.why)


def _sse_sst(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import squared_loss

    found = number_columns(files, names)
    each = squared_loss(found.before, found.after, *_moments(files, found))
    defined = [not math.isnan(sse) and sst > 0 for sse, sst in each]
    why = "every column is constant" if found.names else NO_NUMBERS
    found, each = found.only(defined), [pair for pair, kept in zip(each, defined, strict=True) if kept]
    if not each:
        return LossFigure(None, why=why)
    columns = {name: 100 * sse / sst for name, (sse, sst) in zip(found.names, each, strict=True)}
    loss = 100 * math.fsum(sse for sse, _ in each) / math.fsum(sst for _, sst in each)
    return LossFigure(loss, columns, _blanks(found), _left_out(found, "no numbers, or constant"))


def _moments_lost(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import moment_loss

    found = number_columns(files, names)
    each = [moment_loss(x, y) for x, y in zip(found.before, found.after, strict=True)]
    defined = [not math.isnan(figures["mean"]) for figures in each]
    found, each = found.only(defined), [figures for figures, kept in zip(each, defined, strict=True) if kept]
    if not each:
        return LossFigure(None, why=NO_NUMBERS)
    means = {f"mean_of_{kind}": column_means([figures[kind] for figures in each]) for kind in each[0]}
    loss = max(max(figures.values()) for figures in each)
    notes = ("the largest shift of any column", *_left_out(found, "no numbers"))
    return LossFigure(loss, dict(zip(found.names, each, strict=True)), means, notes)


def _correlation(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import correlation_loss

    found = _varying(files, names)
    if len(found.names) < 2:
        return LossFigure(None, why="a correlation needs two columns of numbers that are not constant")
    mean, largest = correlation_loss(found.before, found.after)
    return _of_matrices(found, mean, {"largest": largest})


def _eigen(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import eigen_loss

    found = _varying(files, names)
    if len(found.names) < 2:
        return LossFigure(None, why="eigenvalues need two columns of numbers that are not constant")
    return _of_matrices(found, eigen_loss(found.before, found.after), {})


def _entropy(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import entropy_loss

    columns = {}
    for name in names:
        column = labelled_column(files, name)
        if column is None:
            return LossFigure(None, why=f"column {name!r} has too many values and labels to lay out")
        columns[name] = entropy_loss(column)
    return LossFigure(column_means(list(columns.values())), columns)


def _kl(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.losses.column_losses import LARGEST_COMPARED, divergence

    columns = [labelled_column(files, name) for name in names]
    laid = [column for column in columns if column is not None]
    if len(laid) < len(columns):
        return LossFigure(None, why=f"column {names[columns.index(None)]!r} has too many values and labels to lay out")
    loss, smoothed = divergence(laid)
    if math.isnan(loss):
        why = f"more than {LARGEST_COMPARED:,} pairs of an original and a released combination; name fewer columns"
        return LossFigure(None, why=why)
    notes = ("some values are under no released label: 1/2 added to each cell",) if smoothed else ()
    return LossFigure(loss, {}, {"smoothed": smoothed}, notes)


def column_means(values: Sequence[float]) -> float:
    """The mean, rounded once."""
    return math.fsum(values) / len(values)


def _over_cells(found: NumberColumns, each: Sequence[float], cells: Sequence[int], why: str) -> LossFigure:
    """The mean over all cells from the means of columns."""
    defined = [not math.isnan(loss) for loss in each]
    if not any(defined):
        return LossFigure(None, why=f"every column is {why}" if found.names else NO_NUMBERS)
    whole = math.fsum(loss * n for loss, n, kept in zip(each, cells, defined, strict=True) if kept)
    total = sum(n for n, kept in zip(cells, defined, strict=True) if kept)
    kept = found.only(defined)
    columns = {name: loss for name, loss, stays in zip(found.names, each, defined, strict=True) if stays}
    return LossFigure(whole / total, columns, _blanks(found), _left_out(kept, f"no numbers, or {why}"))


def _of_matrices(found: NumberColumns, loss: float, beside: Mapping[str, float]) -> LossFigure:
    if math.isnan(loss):
        return LossFigure(None, why="too few records have a number in every column")
    return LossFigure(loss, {}, beside, _left_out(found, "no numbers, or constant"))


def _varying(files: FilePair, names: Sequence[str]) -> NumberColumns:
    """Columns that vary on both sides, among the records that have all of them."""
    found = number_columns(files, names)
    return found.only([_varies(x) and _varies(y) for x, y in zip(found.before, found.after, strict=True)])


def _varies(values: Any) -> bool:
    known = values[~np.isnan(values)]
    return len(known) > 1 and bool((known != known[0]).any())


def _moments(files: FilePair, found: NumberColumns) -> tuple[list[float], list[float]]:
    """Mean and deviation of the whole original; of the records at hand where they were not learnt."""
    from privpipe.kernels.exact_sums import measure_sums

    means, deviations = [], []
    for name, values in zip(found.names, found.before, strict=True):
        moments = files.original_facts.moments.get(name)
        sums = measure_sums([values]) if moments is None else None
        means.append(moments.mean if moments is not None else sums.mean())  # type: ignore[union-attr]
        deviations.append(moments.sd if moments is not None else sums.sd())  # type: ignore[union-attr]
    return means, [0.0 if math.isnan(sd) else sd for sd in deviations]


def _known(found: NumberColumns) -> list[int]:
    return [int((~np.isnan(x) & ~np.isnan(y)).sum()) for x, y in zip(found.before, found.after, strict=True)]


def _blanks(found: NumberColumns) -> dict[str, Any]:
    """Cells that had a number and have none."""
    lost = sum(int((~np.isnan(x) & np.isnan(y)).sum()) for x, y in zip(found.before, found.after, strict=True))
    return {"blanked_cells": lost} if lost else {}


def _left_out(found: NumberColumns, why: str) -> tuple[str, ...]:
    return (f"left out ({why}): {', '.join(found.left_out)}",) if found.left_out else ()


LOSSES: Mapping[str, Callable[[FilePair, Sequence[str]], LossFigure]] = {
    "il1s": _il1s,
    "il1": _il1,
    "sse_sst": _sse_sst,
    "moments": _moments_lost,
    "correlation": _correlation,
    "eigen": _eigen,
    "entropy": _entropy,
    "kl": _kl,
    "arctan": _arctan,
}
"""Losses that have no parameter but their columns."""


BINS = 20
PAIR_BINS = 5


def _hellinger(files: FilePair, names: Sequence[str]) -> LossFigure:
    columns = {name: hellinger(*_binned(files, name, BINS)) for name in names}
    return _mean_and_largest(columns)


def _wasserstein(files: FilePair, names: Sequence[str]) -> LossFigure:
    from privpipe.kernels.exact_sums import measure_sums

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


def _binned(files: FilePair, name: str, bins: int) -> tuple[Ints, Ints]:
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
