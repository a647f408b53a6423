"""Distances to the closest record of another table, and figures of the distances between a release, its original and
other people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.file_pair import TableFiles
from privpipe.measures.risk.linkage.linkable_files import gower_files, moments, plain, standardised

if TYPE_CHECKING:
    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = ["Compared", "DistanceFigures", "closest", "compared", "distance_figures", "nearest_two", "within"]


TREE_COLUMNS = 10
TILE = 20_000_000


@dataclass(frozen=True)
class Compared:
    """Tables on one scale; `holdout` and `reference` have no rows where none was given.

    `metric` is euclidean where every column is a number everywhere (by mean and deviation of the original), else gower.
    """

    original: LinkedFile = field(repr=False)
    released: LinkedFile = field(repr=False)
    holdout: LinkedFile = field(repr=False)
    reference: LinkedFile = field(repr=False)
    metric: str


def compared(files: TableFiles, columns: Sequence[str], *, gower: bool = False) -> Compared | None:
    """The tables on the scale they are compared on; None where no column distinguishes records.

    With `gower` Gower's distance also where all columns are numbers. Neither holdout nor reference moves a scale.
    """
    from privpipe.kernels.linkage.distance import LinkedFile

    pair = files.with_others(files.holdout, files.reference)
    n, others = files.original.num_rows, 0 if files.holdout is None else files.holdout.num_rows
    found = {name: pair.finite_numbers(name, "distance to the closest record") for name in columns}
    numbers = {name: sides for name, sides in found.items() if sides is not None}
    gower = gower or len(numbers) < len(found)
    if gower:
        known, released = gower_files(pair, found, of=n)
    else:
        own = {name: moments(before[:n]) for name, (before, _) in numbers.items()}
        sides = standardised(numbers, {name: (scale, scale) for name, scale in own.items()})
        known, released = (LinkedFile(side, np.zeros((len(side), 0), np.int64)) for side in sides)
    if not known.numbers.shape[1] + known.codes.shape[1]:
        return None
    parts = [known.take(np.arange(start, stop)) for start, stop in ((0, n), (n, n + others), (n + others, len(pair)))]
    return Compared(parts[0], released, parts[1], parts[2], "gower" if gower else "euclidean")


def closest(asked: LinkedFile, among: LinkedFile, metric: str) -> Floats:
    """For each queried record the distance to the closest one among others, shape (n,)."""
    if metric == "euclidean" and asked.numbers.shape[1] <= TREE_COLUMNS:
        from scipy.spatial import cKDTree

        return np.asarray(cKDTree(among.numbers).query(asked.numbers)[0], dtype=np.float64)
    groups, kept, _, among = _grouped(asked, among)
    tiles = [tile.min(axis=1) for _, tile in _tiles(kept, among, squared=metric == "euclidean")]
    return np.asarray(np.concatenate(tiles)[groups]) if tiles else np.zeros(0)


def nearest_two(asked: LinkedFile, among: LinkedFile, *, itself: bool = False) -> Floats:
    """For each queried record Gower's distance to the closest and to the second closest one, shape (n, 2).

    Parameters
    ----------
    itself : bool
        The queried records are the first of the others: none is compared with itself.
    """
    groups, kept, hunted, others = _grouped(asked, among)
    counts = np.bincount(hunted, minlength=len(others))
    own = np.full(len(kept), -1, np.int64)
    if itself:
        own[groups] = hunted[: len(asked)]
    found = np.full((len(kept), 2), np.inf)
    for at, tile in _tiles(kept, others, squared=False):
        rows, itself_at = np.arange(len(tile)), own[at : at + len(tile)]
        alone = (itself_at >= 0) & (counts[itself_at] == 1)
        tile[rows[alone], itself_at[alone]] = np.inf
        nearest = tile.argmin(axis=1)
        found[at : at + len(tile), 0] = tile[rows, nearest]
        once = counts[nearest] - (nearest == itself_at) == 1
        tile[rows[once], nearest[once]] = np.inf
        found[at : at + len(tile), 1] = tile.min(axis=1)
    return np.asarray(found[groups])


def within(asked: LinkedFile, among: LinkedFile, radius: float) -> Ints:
    """For each queried record how many others are at most `radius` away by Gower's distance, shape (n,)."""
    reach = radius + 1e-12 * (1 + radius)
    groups, kept, hunted, others = _grouped(asked, among)
    counts = np.bincount(hunted, minlength=len(others))
    tiles = [(tile <= reach) @ counts for _, tile in _tiles(kept, others, squared=False)]
    return np.concatenate(tiles).astype(np.int64)[groups] if tiles else np.zeros(0, dtype=np.int64)


def _grouped(asked: LinkedFile, among: LinkedFile) -> tuple[Ints, LinkedFile, Ints, LinkedFile]:
    """Of each side the group of each record, and one record of each group: equal ones are compared once."""
    from privpipe.kernels.linkage.distance import distinct_records

    (groups, firsts), (hunted, kept) = distinct_records(asked), distinct_records(among)
    return groups, asked.take(firsts), hunted, among.take(kept)


def _tiles(asked: LinkedFile, among: LinkedFile, *, squared: bool) -> Iterator[tuple[int, Floats]]:
    """Distances of batches of queried records to all, with the place of the first of each batch."""
    from privpipe.kernels.linkage.distance import pair_distances

    step = max(1, TILE // max(len(among), 1))
    for at in range(0, len(asked), step):
        yield at, pair_distances(asked.take(np.arange(at, min(at + step, len(asked)))), among, squared=squared)


EQUAL = 1e-12


@dataclass(frozen=True, kw_only=True)
class DistanceFigures:
    """Gower's distances of released rows to as many originals as others.

    Parameters
    ----------
    rows, cut : int
        Released rows looked at; records of the original and of the holdout they are compared with.
    closer : float
        Rows nearer to an original than to one of the others, half of those as near: hits.
    copies, copies_others : int
        Rows at distance 0 from an original, and from one of the others.
    shown : mapping
        Ratios of nearest to second nearest, and adversarial accuracies.
    """

    rows: int
    cut: int
    closer: float
    copies: int
    copies_others: int
    shown: dict[str, Any]


def distance_figures(found: Compared, sample: int | None) -> DistanceFigures | None:
    """The figures; None without a holdout.

    Parameters
    ----------
    found : Compared
        By Gower's distance.
    sample : int, optional
        Rows of each table that are looked at, at most; None: all.
    """
    if not len(found.holdout):
        return None
    cut = min(len(found.original), len(found.holdout))
    sides = found.original.take(np.arange(cut)), found.holdout.take(np.arange(cut))
    released = found.released if sample is None else found.released.take(np.arange(min(sample, len(found.released))))
    near = [nearest_two(released, side) for side in sides]
    first, others = near[0][:, 0], near[1][:, 0]
    tied = _equal(first, others)
    size = min(len(found.original), len(found.released), len(found.holdout), sample or len(found.released))
    accuracies = [_accuracy(side.take(np.arange(size)), released) for side in sides]
    return DistanceFigures(
        rows=len(released),
        cut=cut,
        closer=float(((first < others) & ~tied).sum() + tied.sum() / 2),
        copies=int((first <= EQUAL).sum()),
        copies_others=int((others <= EQUAL).sum()),
        shown={
            "nndr": _nndr(near[0]),
            "nndr_holdout": _nndr(near[1]),
            "adversarial_accuracy": accuracies[0],
            "adversarial_accuracy_holdout": accuracies[1],
            "privacy_loss": None if None in accuracies else accuracies[1] - accuracies[0],  # type: ignore[operator]
        },
    )


def _equal(one: Floats, other: Floats) -> Bools:
    larger = np.maximum(one, other)
    same: Bools = np.abs(one - other) <= EQUAL * (1 + larger)
    return same


def _nndr(near: Floats) -> float | None:
    """The 5 % quantile of nearest over second nearest, 1 for 0 / 0; None where there is no second."""
    if not np.isfinite(near).all():
        return None
    zero = near[:, 1] <= EQUAL
    ratios = np.where(zero, 1.0, near[:, 0] / np.where(zero, 1.0, near[:, 1]))
    return float(np.quantile(ratios, 0.05))


def _accuracy(table: LinkedFile, released: LinkedFile) -> float | None:
    """How often a record of either table is nearer to its own; None where one has no other record."""
    if min(len(table), len(released)) < 2:
        return None
    own, shown = plain(table), plain(released)
    sides = (
        (nearest_two(table, released), nearest_two(own, own, itself=True)),
        (nearest_two(released, table), nearest_two(shown, shown, itself=True)),
    )
    shares = [
        float(((across[:, 0] > among[:, 0]) & ~_equal(across[:, 0], among[:, 0])).mean()) for across, among in sides
    ]
    return sum(shares) / 2
