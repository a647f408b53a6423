"""What a group of records releases: a mean, a median, the most frequent value, or the values of one member."""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.tolerance import floor_share

__all__ = ["Aggregate", "Groups"]

Aggregate = Literal["mean", "median", "trimmed_mean", "weighted_mean", "mode", "medoid"]


class Groups:
    """Records by group, each group's in keyed order, so that every sum and tie is a function of the records.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Group numbers 0 .. groups - 1, every one in use.
    order : ndarray of int64, shape (n,)
        Positions in keyed order.

    Examples
    --------
    >>> groups = Groups(np.array([0, 0, 1, 0]), np.arange(4))
    >>> groups.numbers(np.array([1.0, np.nan, 7.0, 4.0]), "mean").tolist()
    [2.5, 7.0]
    """

    def __init__(self, labels: Ints, order: Ints) -> None:
        self.labels = labels
        self.count = int(labels.max(initial=-1)) + 1
        self.arranged = order[np.argsort(labels[order], kind="stable")]

    def numbers(
        self,
        values: Floats,
        aggregate: Aggregate,
        *,
        trim: float = 0.0,
        weights: Floats | None = None,
    ) -> Floats:
        """One number per group, of its known values; NaN where there is none. Never outside their range.

        Parameters
        ----------
        values : ndarray of float64, shape (n,)
        aggregate : Aggregate
            The median is the mean of two middle values, so that it is not the value of a single record: of an even
            number the two inner ones, of an odd number the middle one and the nearer of those next to it. Of equally
            frequent values the mode is the smallest.
        trim : float
            Share of the values that `trimmed_mean` drops at each end, rounded down; two are kept at least.
        weights : ndarray of float64, shape (n,), optional
            Of `weighted_mean`, all above 0.

        Examples
        --------
        >>> one = Groups(np.zeros(5, np.int64), np.arange(5))
        >>> x = np.array([1.0, 2.0, 2.0, 3.0, 92.0])
        >>> [float(one.numbers(x, kind, trim=0.2)[0]) for kind in ("mean", "median", "mode", "trimmed_mean")]
        [20.0, 2.0, 2.0, 2.3333333333333335]
        >>> float(one.numbers(np.array([1.0, 2.0, 4.0, 7.0, 92.0]), "median")[0])
        3.0
        """
        out = np.full(self.count, np.nan)
        held = self._known(values)
        if not len(held):
            return out
        if aggregate in ("median", "trimmed_mean"):
            held = held[np.lexsort((values[held], self.labels[held]))]
        if aggregate == "mode":
            chosen = self.mode(values, smallest=True)
            known = chosen >= 0
            out[known] = values[chosen[known]]
            return out + 0.0
        groups, starts, sizes = self._runs(held)
        ordered = values[held]
        if aggregate == "median":
            low, high = _two_middle(ordered, starts, sizes)
            middle = low + (high - low) / 2.0
        elif aggregate == "trimmed_mean":
            drop = {size: min(floor_share(trim, size), max(0, size - 2) // 2) for size in np.unique(sizes).tolist()}
            cut = np.array([drop[int(size)] for size in sizes])
            place = np.arange(len(held)) - np.repeat(starts, sizes)
            kept = (place >= np.repeat(cut, sizes)) & (place < np.repeat(sizes - cut, sizes))
            middle = _sums(np.where(kept, ordered, 0.0), starts) / (sizes - 2 * cut)
        elif aggregate == "weighted_mean" and weights is not None:
            mass = weights[held]
            middle = _sums(ordered * mass, starts) / _sums(mass, starts)
        else:
            middle = _sums(ordered, starts) / sizes
        low, high = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
        # Equal values stay what they are; of -0.0 and 0.0 the order of the records would choose.
        out[groups] = np.clip(middle, low, high) + 0.0
        return out

    def mode(self, values: Floats, *, smallest: bool) -> Ints:
        """A record of each group that carries its most frequent known value; -1 where none is known.

        Of equally frequent values the smallest, or else the one that comes first in keyed order.

        Examples
        --------
        >>> groups = Groups(np.zeros(4, np.int64), np.array([2, 0, 1, 3]))
        >>> codes = np.array([0.0, 0.0, 1.0, 1.0])
        >>> groups.mode(codes, smallest=True).tolist(), groups.mode(codes, smallest=False).tolist()
        ([0], [2])
        """
        places = np.flatnonzero(~np.isnan(values[self.arranged]))
        held = self.arranged[places]
        by_value = np.lexsort((places, values[held], self.labels[held]))
        held, places = held[by_value], places[by_value]
        found, keys = values[held], self.labels[held]
        first = np.flatnonzero(
            np.concatenate([np.ones(min(1, len(held)), np.bool_), (keys[1:] != keys[:-1]) | (found[1:] != found[:-1])])
        )
        often = np.diff(first, append=len(held))
        tie = np.arange(len(first)) if smallest else places[first]
        best = first[np.lexsort((tie, -often, keys[first]))]
        return self._firsts(held[best])

    def lower_median(self, ranks: Floats) -> Ints:
        """A record of each group that carries the lower median of its known ranks; -1 where none is known.

        Examples
        --------
        >>> Groups(np.zeros(4, np.int64), np.arange(4)).lower_median(np.array([3.0, 0.0, 1.0, 2.0])).tolist()
        [2]
        """
        held = self.arranged[~np.isnan(ranks[self.arranged])]
        held = held[np.lexsort((ranks[held], self.labels[held]))]
        out = np.full(self.count, -1, np.int64)
        if len(held):
            groups, starts, sizes = self._runs(held)
            out[groups] = held[starts + (sizes - 1) // 2]
        return out

    def medoid(self, apart: Floats, known: Bools) -> Ints:
        """The known record of each group with the least distance to its centre; ties by keyed order; -1: none.

        Examples
        --------
        >>> groups = Groups(np.array([0, 0, 1]), np.arange(3))
        >>> groups.medoid(np.array([2.0, 1.0, 0.0]), np.array([True, True, False])).tolist()
        [1, -1]
        """
        held = self.arranged[known[self.arranged]]
        return self._firsts(held[np.lexsort((apart[held], self.labels[held]))])

    def _firsts(self, held: Ints) -> Ints:
        """The first of each group of records that are sorted by group."""
        out = np.full(self.count, -1, np.int64)
        if len(held):
            groups, starts, _ = self._runs(held)
            out[groups] = held[starts]
        return out

    def _known(self, values: Floats) -> Ints:
        """The records with a value, by group."""
        gaps = np.isnan(values)
        return self.arranged[~gaps[self.arranged]] if gaps.any() else self.arranged

    def _runs(self, held: Ints) -> tuple[Ints, Ints, Ints]:
        """Groups that occur among records sorted by group, where each begins, and its size."""
        if held is self.arranged:  # every group occurs, once for all columns without a gap
            return self._whole
        keys = self.labels[held]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        return keys[starts], starts, np.diff(starts, append=len(held))

    @functools.cached_property
    def _whole(self) -> tuple[Ints, Ints, Ints]:
        sizes = np.bincount(self.labels, minlength=self.count)
        return np.arange(self.count), np.cumsum(sizes) - sizes, sizes


def _two_middle(ordered: Floats, starts: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """The two middle values of each group, of an odd number the middle one and the nearer of its neighbours."""
    low, high = starts + (sizes - 1) // 2, starts + sizes // 2
    odd = (low == high) & (sizes > 1)
    below, above = np.where(odd, low - 1, low), np.where(odd, high + 1, high)
    nearer_below = odd & (ordered[high] - ordered[below] <= ordered[above] - ordered[low])
    low, high = np.where(nearer_below, below, low), np.where(odd & ~nearer_below, above, high)
    return ordered[low], ordered[high]


def _sums(values: Floats, starts: Ints) -> Floats:
    return np.asarray(np.add.reduceat(values, starts))
