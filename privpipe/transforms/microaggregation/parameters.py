"""Parameters of microaggregation, their checks and warnings, and what a group of records releases: a mean, a median,
the most frequent value, or the values of one member.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.blocks.parameters import check_parameters, require_integer
from privpipe.errors import DataError, UsageError
from privpipe.tolerance import floor_share
from privpipe.transforms.base import Transformer, checked_columns
from privpipe.transforms.numeric_columns import require_summable
from privpipe.transforms.strata import SmallStrata, Strata, checked_by

if TYPE_CHECKING:
    from privpipe.blocks import Facts, Moments
    from privpipe.transforms.base import StageContext

__all__ = [
    "ONE_COLUMN",
    "OWNER",
    "Aggregate",
    "GroupingParameters",
    "Groups",
    "Method",
    "Nulls",
    "Refine",
    "SensitiveRule",
    "check_together",
    "check_weights",
    "lists_of",
    "spread_of",
    "warnings_of",
]


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
        # Equal values stay unchanged; between -0.0 and 0.0 the order of the records would decide.
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


Method = Literal["mdav", "v_mdav", "univariate", "fixed"]
Refine = Literal["none", "descent", "search", "proof"]
Nulls = Literal["refuse", "keep", "own_group"]
ONE_MEMBER = ("median", "trimmed_mean", "mode", "medoid")
"""Aggregates that eight records of one person decide, regardless of the rest of the group."""
ONE_COLUMN = ("univariate", "fixed")
OWNER = "Microaggregate"


@dataclass(frozen=True, kw_only=True)
class SensitiveRule:
    """What each group must meet next to k: at least `l` distinct values of a column, or shares within `t` of all.

    Parameters
    ----------
    column : str
    l : int, optional
        At least 2.
    t : float, optional
        In [0, 1]: half the sum of the differences of shares. Exactly one of the two.

    Examples
    --------
    >>> SensitiveRule(column="illness", l=3)
    SensitiveRule(column='illness', l=3, t=None)
    """

    column: str
    l: Annotated[int | None, Ge(2)] = None
    t: Annotated[float | None, Ge(0), Le(1)] = None

    def __post_init__(self) -> None:
        if (self.l is None) == (self.t is None):
            raise UsageError(f"{OWNER}: sensitive needs one of l and t")
        check_parameters(self, OWNER, "sensitive.")


def lists_of(columns: Any) -> tuple[tuple[str, ...], ...]:
    """Lists of columns, also of a single one.

    Examples
    --------
    >>> lists_of(["a", "b"]), lists_of([["a"], ["b", "c"]])
    ((('a', 'b'),), (('a',), ('b', 'c')))
    """
    if not isinstance(columns, list | tuple) or not columns:
        raise UsageError(f"{OWNER}: columns must be a list of column names, or a list of such lists")
    flat = isinstance(columns[0], str)
    if any(isinstance(names, str) != flat or not isinstance(names, str | list | tuple) for names in columns):
        raise UsageError(f"{OWNER}: columns must be a list of column names, or a list of such lists")
    if flat:
        return (tuple(columns),)
    return tuple(checked_columns(OWNER, names) for names in columns)


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupingParameters(Transformer):
    """The parameters of a stage that groups records, and which of them go together."""

    columns: Annotated[
        tuple[str, ...] | tuple[tuple[str, ...], ...],
        Columns(),
        Doc("columns to mask: one list is one group of columns, or several lists"),
    ]
    k: Annotated[
        Annotated[int, Ge(2)] | tuple[Annotated[int, Ge(2)], ...],
        Doc("least number of records in a group, or one number a list of columns"),
    ]
    method: Annotated[
        Method, Doc("mdav or v_mdav (several columns at once), univariate (optimal, one column) or fixed")
    ] = "mdav"
    refine: Annotated[
        Refine | None, Doc("descent, search, proof or none: how groups are improved; default descent")
    ] = None
    iterations: Annotated[
        Annotated[int, Ge(0)] | Literal["auto"], Doc("search and proof: steps in each block, or auto")
    ] = "auto"
    gamma: Annotated[float, Ge(0), Doc("v_mdav: how readily a group takes in more than k records")] = 0.2
    block: Annotated[int | Literal["auto"], Doc("most records of a block that is grouped by itself, or auto")] = "auto"
    passes: Annotated[
        Annotated[int, Ge(0), Le(2)] | Literal["auto"],
        Doc("passes of descent over the borders of blocks, 0 to 2, or auto"),
    ] = "auto"
    aggregate: Annotated[Aggregate, Doc("mean, median, trimmed_mean, weighted_mean, mode or medoid of the group")] = (
        "mean"
    )
    trim: Annotated[float, Ge(0), Lt(0.5), Doc("trimmed_mean: share dropped at each end, in [0, 0.5)")] = 0.1
    weight: Annotated[str | None, Doc("weighted_mean: column of weights above 0")] = None
    distance: Annotated[
        Literal["euclidean", "gower"], Doc("euclidean (standardised numbers) or gower (mixed types)")
    ] = "euclidean"
    order: Annotated[
        Mapping[str, tuple[str, ...]] | None, Doc("gower: values of ordinal columns, from least to greatest")
    ] = None
    weights: Annotated[
        Mapping[str, Annotated[float, Gt(0)]] | None, Doc("gower: weight of each column in the distance")
    ] = None
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns within whose combinations records are grouped")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata of fewer than k records: refuse, suppress or merge")] = "refuse"
    sensitive: Annotated[SensitiveRule | None, Doc("the rule for each group: {column, l} or {column, t}")] = None
    keep_ties: Annotated[bool, Doc("univariate, fixed: keep equal values together, k of them or more as a group")] = (
        False
    )
    nulls: Annotated[Nulls | None, Doc("refuse, keep or own_group")] = None
    round: Annotated[bool, Doc("round to whole numbers")] = False
    ties: Annotated[Literal["keyed", "position"], Doc("keyed, or position to compare with other programs")] = "keyed"

    def __post_init__(self) -> None:
        super().__post_init__()
        lists = lists_of(self.columns)
        checked_columns(OWNER, [name for names in lists for name in names])
        nested = not isinstance(self.columns[0], str)
        object.__setattr__(self, "columns", lists if nested else lists[0])
        if isinstance(self.k, list | tuple):
            object.__setattr__(self, "k", tuple(self.k))
        if isinstance(self.sensitive, Mapping):
            object.__setattr__(self, "sensitive", SensitiveRule(**self.sensitive))
        object.__setattr__(self, "by", checked_by(OWNER, self.by, self.masked_columns(), self.small_strata))
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)
        check_together(self)

    @property
    def shows_values(self) -> str:
        if self.aggregate == "medoid":
            return "the values of one member of each group"
        if self.aggregate == "mode" or self.distance == "gower":
            return "the value that most members of a group have, or of equally frequent ones that of one member"
        if self.nulls == "keep" and any(len(columns) > 1 for columns, _ in self.groups()):
            return "in a group in which one member has a value of a column, that value"
        return ""

    def groups(self) -> list[tuple[tuple[str, ...], int]]:
        """The lists of columns that are grouped by themselves, each with its k."""
        lists = lists_of(self.columns)
        pairs = list(zip(lists, self.sizes(len(lists)), strict=True))
        return [((name,), k) for names, k in pairs for name in names] if self.method in ONE_COLUMN else pairs

    def masked_columns(self) -> tuple[str, ...]:
        return tuple(name for names in lists_of(self.columns) for name in names)

    def uncounted_persons(self) -> str:
        if self.distance == "gower":
            return "distance: gower releases for text the value of a member; leave it out, or person_id"
        if self.aggregate in ONE_MEMBER:
            return (
                f"aggregate: {self.aggregate} releases what may be the value of one person of a group; say "
                "aggregate: mean"
            )
        return ""

    def sizes(self, lists: int) -> tuple[int, ...]:
        return self.k if isinstance(self.k, tuple) else (self.k,) * lists


def check_together(stage: GroupingParameters) -> None:
    """Refuse parameters out of range and those that do not go together.

    Raises
    ------
    UsageError
    """
    lists = lists_of(stage.columns)
    if isinstance(stage.k, tuple) and len(stage.k) != len(lists):
        raise UsageError(f"{OWNER}: k has {len(stage.k)} numbers for {len(lists)} lists of columns")
    for k in stage.sizes(len(lists)):
        if stage.block != "auto":
            require_integer(OWNER, "block", stage.block, least=2 * k)
    _check_method(stage)
    _check_beside(stage)
    _check_gower(stage)


def _check_method(stage: GroupingParameters) -> None:
    if stage.refine not in (None, "none") and stage.method in ONE_COLUMN:
        raise UsageError(f"{OWNER}: refine serves mdav and v_mdav; leave it out")
    if stage.refine in ("search", "proof") and stage.distance == "gower":
        raise UsageError(f"{OWNER}: with the distance gower, refine is descent or none")
    if stage.iterations != "auto" and stage.refine not in ("search", "proof"):
        raise UsageError(f"{OWNER}: iterations are steps of the search; add refine: search, or leave them out")
    if stage.keep_ties and stage.method not in ONE_COLUMN:
        raise UsageError(f"{OWNER}: keep_ties requires the methods univariate and fixed")


def _check_beside(stage: GroupingParameters) -> None:
    if (stage.aggregate == "weighted_mean") != (stage.weight is not None):
        raise UsageError(f"{OWNER}: weight and the aggregate weighted_mean go together")
    beside = {"weight": stage.weight, "sensitive": stage.sensitive.column if stage.sensitive else None}
    for name, column in beside.items():
        if column in stage.masked_columns():
            raise UsageError(f"{OWNER}: {name} names a column that the stage masks itself")


def _check_gower(stage: GroupingParameters) -> None:
    gower = stage.distance == "gower"
    if gower and (stage.method != "mdav" or stage.sensitive is not None):
        raise UsageError(f"{OWNER}: the distance gower requires the method mdav, without sensitive")
    for name, given in (("order", stage.order), ("weights", stage.weights)):
        if given is not None and not gower:
            raise UsageError(f"{OWNER}: {name} requires the distance gower")
        strange = sorted(set(given or ()) - set(stage.masked_columns()))
        if strange:
            raise UsageError(f"{OWNER}: {name} names {', '.join(map(repr, strange))}, not among columns")
    for column, texts in (stage.order or {}).items():
        if len(texts) < 2 or len(set(texts)) != len(texts):
            raise UsageError(f"{OWNER}: order of {column!r} needs two or more values, each once")


def check_weights(stage: GroupingParameters, facts: Facts, context: StageContext) -> None:
    """Refuse weights that are missing or not above 0.

    Raises
    ------
    DataError
    """
    if stage.weight is None:
        return
    figures = facts.moments[stage.weight]
    if figures.nulls or not figures.minimum > 0:
        raise DataError(
            f"{context.place}: the weights in column {stage.weight!r} must all be above 0 and none missing "
            f"({figures.nulls:,} are)"
        )


def warnings_of(stage: GroupingParameters, nulls: Mapping[str, int], strata: Strata) -> list[str]:
    """What a reader of the report must know: where k-anonymity does not hold, and what is published or left out."""
    found = []
    if stage.method in ONE_COLUMN and len(stage.masked_columns()) > 1:
        found.append(
            "columns microaggregated one by one do not make records k-anonymous: nearly every combination may be "
            "unique; judge k_anonymity on the output"
        )
    elif len(stage.groups()) > 1:
        found.append("each list of columns is k-anonymous by itself; their combination need not be")
    if stage.aggregate == "medoid":
        found.append("medoid releases values of a real record for each group")
    kept = sorted(name for name, count in nulls.items() if count)
    if kept and stage.nulls == "keep" and any(len(columns) > 1 for columns, _ in stage.groups()):
        found.append(
            f"missing values of {', '.join(map(repr, kept))} stay where they are, so records of a group may "
            "differ by them; judge k_anonymity on the output"
        )
    if strata.suppressed:
        found.append(f"{strata.suppressed:,} records of strata that are too small are suppressed")
    if strata.merged:
        found.append(f"{strata.merged:,} strata that are too small are grouped together")
    return found


def spread_of(column: str, figures: Moments, *, gower: bool, place: str) -> float:
    """What distances of a number are counted in: its range, or its deviation; 0: it takes no part.

    Raises
    ------
    DataError
        Numbers too large to be added up.
    """
    require_summable(column, figures.minimum, figures.maximum, place)
    if gower:
        return figures.maximum - figures.minimum if figures.records else 0.0
    return figures.sd if figures.records > 1 else 0.0
