"""What microaggregation learns of a table: the records of each part of it, and the trees that cut it in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Moments, Primitives, RowBlock
from privpipe.draws import Stream
from privpipe.errors import DataError, NoSolutionError
from privpipe.transforms.base import StageContext
from privpipe.transforms.microaggregation.group_plan import GroupPlan, Part, SensitiveValues
from privpipe.transforms.microaggregation.mixed_records import Encoding, missing_cells
from privpipe.transforms.strata import ByStratum, Strata, stratum_keys

if TYPE_CHECKING:
    from privpipe.kernels.microaggregation.kd_tree import BlockTree
    from privpipe.kernels.sums.exact import ExactSums

__all__ = ["Kept", "learn_parts", "moments_by_stratum", "sensitive_values"]

PUBLIC = Stream(b"privpipe/sampled")
"""Which records are sampled is no secret: it moves borders of blocks, and no record is told by it."""


@dataclass(frozen=True)
class Kept:
    """The records of strata that are large enough."""

    strata: Strata

    def __call__(self, rows: RowBlock) -> RowBlock:
        return self.strata.kept(rows)[0]


Counted = dict[tuple[int, int], tuple[int, tuple[NDArray[np.float64], ...]]]


@dataclass(frozen=True)
class _Sums:
    """Exact sums of each column."""

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> tuple[ExactSums, ...]:
        from privpipe.kernels.sums.exact import measure_sums

        return tuple(measure_sums([block[name]]) for name in self.columns)

    def merge(self, left: tuple[ExactSums, ...], right: tuple[ExactSums, ...]) -> tuple[ExactSums, ...]:
        return tuple(a.merge(b) for a, b in zip(left, right, strict=True))


def moments_by_stratum(
    engine: Primitives, table: Any, strata: Strata, columns: tuple[str, ...], facts: Facts
) -> tuple[Mapping[str, Moments], ...]:
    """Moments of the columns in each stratum; without strata those of the whole table, which `facts` holds."""
    if not strata.by or not columns:
        return tuple(facts.moments for _ in range(len(strata)))
    found = engine.reduce_rows(table, (*strata.by, *columns), ByStratum(strata, _Sums(columns)), Facts()) or []
    return tuple(dict(zip(columns, map(_moments, sums), strict=True)) for sums in found)


def _moments(sums: ExactSums) -> Moments:
    return Moments(
        records=sums.count,
        nulls=sums.missing,
        mean=sums.mean() if sums.count else float("nan"),
        sd=sums.sd(),
        minimum=sums.minima[0],
        maximum=sums.maxima[0],
    )


@dataclass(frozen=True)
class _Sampled:
    """Records of each part, and points of those that are sampled: (stratum, pattern) -> (records, points)."""

    group: GroupPlan
    strata: Strata
    encoding: Encoding
    share: float

    def measure(self, block: RowBlock, facts: Facts) -> Counted:
        gaps = missing_cells(block, self.group.columns)
        numbers = self.strata.of(block)
        held = (numbers >= 0) & (self.group.by_pattern | ~gaps.all(axis=1))
        width = gaps.shape[1] if self.group.by_pattern else 0
        keys = numbers << width
        for at in range(width):
            keys |= gaps[:, at].astype(np.int64) << at
        chosen = held if self.share >= 1 else held & self._drawn(block)
        found: Counted = {}
        one = len(self.strata) == 1 and not width
        for key in [0] if one and held.any() else np.unique(keys[held]).tolist():
            here = held & (keys == key)
            points: tuple[NDArray[np.float64], ...] = ()
            if self.group.block is not None:
                sampled = block.take(np.flatnonzero(here & chosen))
                points = (self.group.points(sampled, key >> width, self.encoding),)
            found[key >> width, key & ((1 << width) - 1)] = (int(here.sum()), points)
        return found

    def merge(self, left: Counted, right: Counted) -> Counted:
        merged = dict(left)
        for key, (records, points) in right.items():
            had, before = merged.get(key, (0, ()))
            merged[key] = (had + records, (*before, *points))
        return merged

    def _drawn(self, block: RowBlock) -> NDArray[np.bool_]:
        bound = np.int64(min(round(self.share * 2.0**64) - 2**63, 2**63 - 1))
        return np.asarray(PUBLIC.order(block.record_ids) < bound)


def learn_parts(
    engine: Primitives,
    table: Any,
    group: GroupPlan,
    strata: Strata,
    encoding: Encoding,
    shifts: tuple[int, ...],
    context: StageContext,
    *,
    shell: bool,
) -> tuple[Part, ...]:
    """The parts of the table and the trees over them.

    Parameters
    ----------
    shifts : tuple of int
        Levels that the tree of each border pass cuts at the quarter.
    shell : bool
        The records farthest out are a block of the first pass; later ones carry it on with the rest.

    Raises
    ------
    NoSolutionError
        A part has fewer than k records.
    """
    from privpipe.kernels.microaggregation.blocks import sampled_share

    records = sum(strata.records)
    share = 1.0
    if group.block is not None:
        share = sampled_share(records, group.k, group.block)
    columns = tuple(dict.fromkeys((*strata.by, *group.columns)))
    sampled = _Sampled(group, strata, encoding, share)
    found: Counted = engine.reduce_rows(table, columns, sampled, Facts()) or {}
    if not found:
        found = {(stratum, 0): (0, ()) for stratum in range(len(strata))}
    parts = []
    for (stratum, pattern), (count, points) in sorted(found.items()):
        missing = tuple(name for at, name in enumerate(group.columns) if pattern >> at & 1)
        _require_enough(count, missing, group, records, context)
        parts.append(Part(stratum, missing, count, _trees(points, count, group, share, shifts, shell)))
    missed = sorted(set(range(len(strata))) - {part.stratum for part in parts})
    return (*parts, *(Part(stratum, (), 0, (_one_block(),)) for stratum in missed if not group.by_pattern))


def _one_block() -> BlockTree:
    from privpipe.kernels.microaggregation.kd_tree import BlockTree

    return BlockTree()


def _trees(
    points: tuple[NDArray[np.float64], ...],
    records: int,
    group: GroupPlan,
    share: float,
    shifts: tuple[int, ...],
    shell: bool,
) -> tuple[BlockTree, ...]:
    """The tree of the first pass and of each border pass."""
    from privpipe.kernels.microaggregation.kd_tree import learn_tree

    if group.block is None or records <= group.block or not points:
        return (_one_block(),)
    whole = np.concatenate(points)
    largest = max(int(group.block * share), 1)

    def tree_of(number: int, shift: int) -> BlockTree:
        tree = learn_tree(whole, group.k, largest, shift=shift, shell=shell and not number)
        return _between_values(tree, whole)

    levels = (0, *shifts)
    # Sorts and kernels leave the interpreter's lock.
    with ThreadPoolExecutor(len(levels), thread_name_prefix="privpipe-trees") as pool:
        trees = tuple(pool.map(tree_of, range(len(levels)), levels))
    return trees if trees[0].columns else trees[:1]


def _between_values(tree: BlockTree, points: NDArray[np.float64]) -> BlockTree:
    """The tree with cuts between two values: a plan holds no value of the data."""
    from privpipe.kernels.microaggregation.kd_tree import BlockTree, with_distance

    ranged = with_distance(points)
    ordered = {column: np.unique(ranged[:, column]) for column in set(tree.columns)}
    thresholds = []
    for column, threshold in zip(tree.columns, tree.thresholds, strict=True):
        values = ordered[column]
        following = values[np.searchsorted(values, threshold, side="right")]
        middle = threshold + (following - threshold) / 2.0
        thresholds.append(float(middle if middle < following else threshold))
    return BlockTree(tree.columns, tuple(thresholds), tree.left, tree.right)


def _require_enough(
    count: int, missing: tuple[str, ...], group: GroupPlan, records: int, context: StageContext
) -> None:
    """Refuse what has no group of k; records without any value need none where they are kept."""
    if count >= group.k or (records and not count):
        return
    named = ", ".join(map(repr, group.columns))
    if missing:
        raise NoSolutionError(
            f"{context.place}: {count:,} records miss {', '.join(map(repr, missing))}, too few for "
            f"a group of k = {group.k} of {named}; lower k, suppress them first, or say `nulls: keep`"
        )
    raise NoSolutionError(
        f"{context.place}: k = {group.k} is more than the {count:,} records that have a value in {named}"
    )


def sensitive_values(
    engine: Primitives, table: Any, column: str, l: int, t: float | None, context: StageContext
) -> SensitiveValues:
    """The values of a sensitive column, by hash, with their counts.

    Raises
    ------
    NoSolutionError
        The whole table has fewer than `l` distinct values.
    """
    import pyarrow as pa

    histogram = engine.facts(table, FactsRequest(histograms=(column,))).histograms[column]
    if len(histogram) < l:
        raise NoSolutionError(
            f"{context.place}: column {column!r} has {len(histogram):,} distinct values, fewer than l = {l}"
        )
    keys = stratum_keys(pa.table({column: histogram.values}), context.seed_key)
    if len(set(keys.tolist())) != len(keys):
        raise DataError(f"{context.place}: two values of column {column!r} share a hash; recode one of them")
    order = np.argsort(keys)
    hashes, counts = tuple(keys[order].tolist()), tuple(histogram.counts[order].tolist())
    return SensitiveValues(column, hashes, counts, l, t, context.seed_key)
