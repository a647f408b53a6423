"""What microaggregation learns of a table: the records of each part, the trees that cut it into blocks, the
conditions that blocks must meet, and the loss of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from privpipe.blocks import Facts, FactsRequest, Moments, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.draws import Stream
from privpipe.errors import DataError, NoSolutionError
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.microaggregation.group_plan import (
    PART,
    Encoding,
    GroupPlan,
    Part,
    SensitiveValues,
    missing_cells,
)
from privpipe.transforms.microaggregation.record_groups import GroupingRules
from privpipe.transforms.strata import ByStratum, PersonCounts, Persons, Strata, stratum_keys, units_of

if TYPE_CHECKING:
    from privpipe.draws import Draws
    from privpipe.kernels.exact_sums import ExactSums
    from privpipe.kernels.microaggregation.kd_tree import BlockTree

__all__ = [
    "AFTERWARDS",
    "Kept",
    "blocks_of_persons",
    "blocks_that_meet",
    "learn_parts",
    "losses_of",
    "moments_by_stratum",
    "sensitive_values",
]


PUBLIC = Stream(b"privpipe/sampled")
"""Which records are sampled is not secret: it moves borders of blocks and reveals no record."""


@dataclass(frozen=True)
class Kept:
    """The records of strata that are large enough."""

    strata: Strata

    def __call__(self, rows: RowBlock) -> RowBlock:
        return self.strata.kept(rows)[0]


Counted = dict[tuple[int, int], tuple[int, tuple[Floats, ...]]]


@dataclass(frozen=True)
class _Sums:
    """Exact sums of each column."""

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> tuple[ExactSums, ...]:
        from privpipe.kernels.exact_sums import measure_sums

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
            points: tuple[Floats, ...] = ()
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

    def _drawn(self, block: RowBlock) -> Bools:
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
    points: tuple[Floats, ...],
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


def _between_values(tree: BlockTree, points: Floats) -> BlockTree:
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
    """Refuse strata without a group of k; records without any value need none where they are kept."""
    if count >= group.k or (records and not count):
        return
    named = ", ".join(map(repr, group.columns))
    if missing:
        raise NoSolutionError(
            f"{context.place}: {count:,} records miss {', '.join(map(repr, missing))}, too few for "
            f"a group of k = {group.k} of {named}; lower k, suppress them first, or set `nulls: keep`"
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


T = TypeVar("T")


def _leaves(
    rows: RowBlock, group: GroupPlan, strata: Strata, encoding: Encoding
) -> Iterator[tuple[tuple[int, int], Ints]]:
    """Part and block of the first pass, with the places of the records in them that are grouped."""
    known = np.full(len(rows), group.by_pattern) | ~missing_cells(rows, group.columns).all(axis=1)
    for number, places in group.parts_of(rows, strata):
        here = places[known[places]]
        part = group.parts[number]
        leaves = part.trees[0].path(group.points(rows.take(here), part.stratum, encoding))
        for leaf in np.unique(leaves).tolist():
            yield (number, leaf), here[leaves == leaf]


@dataclass(frozen=True)
class _LeafCounts:
    """Records of each sensitive value in each block of the first pass: (part, block) -> counts."""

    group: GroupPlan
    sensitive: SensitiveValues
    strata: Strata
    encoding: Encoding

    def measure(self, block: RowBlock, facts: Facts) -> dict[tuple[int, int], Ints]:
        codes, values = self.sensitive.codes(block), len(self.sensitive.keys)
        leaves = _leaves(block, self.group, self.strata, self.encoding)
        return {key: np.bincount(codes[here], minlength=values) for key, here in leaves}

    def merge(
        self, left: dict[tuple[int, int], Ints], right: dict[tuple[int, int], Ints]
    ) -> dict[tuple[int, int], Ints]:
        return {key: left.get(key, 0) + right.get(key, 0) for key in {*left, *right}}  # type: ignore[misc]


@dataclass(frozen=True)
class _LeafPersons:
    """Persons in each block of the first pass, up to k: (part, block) -> persons."""

    group: GroupPlan
    persons: PersonCounts
    strata: Strata
    encoding: Encoding

    def measure(self, block: RowBlock, facts: Facts) -> dict[tuple[int, int], Persons]:
        codes = self.persons.codes(block)
        leaves = _leaves(block, self.group, self.strata, self.encoding)
        return {key: self.persons.of(codes, here) for key, here in leaves}

    def merge(
        self, left: dict[tuple[int, int], Persons], right: dict[tuple[int, int], Persons]
    ) -> dict[tuple[int, int], Persons]:
        found = dict(left)
        for key, persons in right.items():
            found[key] = self.persons.merged(found[key], persons) if key in found else persons
        return found


def blocks_that_meet(
    engine: Primitives, table: Any, group: GroupPlan, strata: Strata, encoding: Encoding, context: StageContext
) -> GroupPlan:
    """The plan with its first blocks joined until each can meet the condition on the sensitive column.

    Raises
    ------
    NoSolutionError
        A part cannot, even as one block.
    """
    from privpipe.kernels.microaggregation.groups import meets

    bound = group.sensitive
    if bound is None:
        return group
    columns = tuple(dict.fromkeys((*strata.by, *group.columns, bound.column)))
    found = engine.reduce_rows(table, columns, _LeafCounts(group, bound, strata, encoding), Facts()) or {}
    shares = np.array(bound.counts, np.float64) / sum(bound.counts)
    limit = np.inf if bound.t is None else bound.t

    def fine(each: Ints) -> bool:
        return not each.sum() or bool(meets(each, int(each.sum()), shares, bound.l, limit))

    def unmet(part: Part, whole: Ints) -> str:
        return (
            f"{part.records:,} records together do not meet the condition on {bound.column!r}; ask for less, or merge "
            "strata"
        )

    return _with_joined(group, found, fine, np.add, np.zeros(len(shares), np.int64), unmet, context)


def blocks_of_persons(
    engine: Primitives, table: Any, group: GroupPlan, strata: Strata, encoding: Encoding, context: StageContext
) -> GroupPlan:
    """The plan with its first blocks joined until each is of k persons, where the policy distinguishes them.

    Raises
    ------
    NoSolutionError
        A part has fewer.
    """
    persons = PersonCounts(units_of(context), group.k)
    if not persons.columns:
        return group
    columns = tuple(dict.fromkeys((*strata.by, *group.columns, *persons.columns)))
    found = engine.reduce_rows(table, columns, _LeafPersons(group, persons, strata, encoding), Facts()) or {}
    nothing: Persons = tuple(np.empty(0, np.int64) for _ in persons.columns)

    def fine(each: Persons) -> bool:
        return persons.number(each) in (0, group.k)

    def unmet(part: Part, whole: Persons) -> str:
        return (
            f"k = {group.k} is more than the {persons.number(whole):,} persons of {part.records:,} records with a "
            f"value in {', '.join(map(repr, group.columns))}; lower k, or merge strata"
        )

    return _with_joined(group, found, fine, persons.merged, nothing, unmet, context)


def _with_joined(
    group: GroupPlan,
    found: Mapping[tuple[int, int], T],
    fine: Callable[[T], bool],
    merge: Callable[[T, T], T],
    nothing: T,
    unmet: Callable[[Part, T], str],
    context: StageContext,
) -> GroupPlan:
    """The plan with the first blocks of each part joined until each is fine."""
    parts = []
    for number, part in enumerate(group.parts):
        own = {leaf: each for (at, leaf), each in found.items() if at == number}
        tree, whole = _joined(part.trees[0], own, fine, merge, nothing)
        if not fine(whole):
            raise NoSolutionError(f"{context.place}: {unmet(part, whole)}")
        parts.append(replace(part, trees=(tree, *part.trees[1:]) if tree.columns else (tree,)))
    return replace(group, parts=tuple(parts))


def _joined(
    tree: BlockTree,
    found: Mapping[int, T],
    fine: Callable[[T], bool],
    together: Callable[[T, T], T],
    nothing: T,
) -> tuple[BlockTree, T]:
    """The tree without cuts that leave an unusable side, and the contents of all its blocks."""
    from privpipe.kernels.microaggregation.kd_tree import BlockTree

    nodes: list[list[Any]] = []

    def build(child: int) -> tuple[Any, T]:
        if child < 0:
            return None, found.get(-1 - child, nothing)
        left, of_left = build(tree.left[child])
        right, of_right = build(tree.right[child])
        if not (fine(of_left) and fine(of_right)):
            return None, together(of_left, of_right)
        return (child, left, right), together(of_left, of_right)

    kept, whole = build(0 if tree.columns else -1)
    leaves = 0

    def number(node: Any) -> int:
        nonlocal leaves
        if node is None:
            leaves += 1
            return -leaves
        at = len(nodes)
        nodes.append([tree.columns[node[0]], tree.thresholds[node[0]], 0, 0])
        nodes[at][2], nodes[at][3] = number(node[1]), number(node[2])
        return at

    number(kept)
    return (BlockTree(*map(tuple, zip(*nodes, strict=True))) if nodes else BlockTree()), whole


AFTERWARDS = ("losses", "loss", "lower_bound", "above_bound", "suppressed_records")
"""Figures of a plan that its groups, and the draws, do not depend on."""

Gathered = dict[int, tuple[tuple[Floats, Ints], ...]]


@dataclass(frozen=True)
class _Points:
    """The points of each part, with the ids of their records."""

    group: GroupPlan
    strata: Strata
    encoding: Encoding

    def measure(self, block: RowBlock, facts: Facts) -> Gathered:
        held = np.full(len(block), self.group.by_pattern) | ~missing_cells(block, self.group.columns).all(axis=1)
        found: Gathered = {}
        for number, places in self.group.parts_of(block, self.strata):
            inside = block.take(places[held[places]])
            stratum = self.group.parts[number].stratum
            found[number] = ((self.group.points(inside, stratum, self.encoding), inside.record_ids),)
        return found

    def merge(self, left: Gathered, right: Gathered) -> Gathered:
        return {key: (*left.get(key, ()), *right.get(key, ())) for key in {*left, *right}}


def losses_of(engine: Primitives, table: Any, plan: StagePlan, draws: Draws, rules: GroupingRules) -> dict[str, Any]:
    """The loss of each list of columns, 100 SSE / SST, and how far above the least possible it is at most.

    Only of lists whose every part is one block small enough for a proof; nothing where there is none. Private: a
    released row does not show them.
    """
    strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
    found = []
    for data in plan.detail["groups"]:
        group = GroupPlan.from_dict(data, plan.seed_key)
        if not _provable(group):
            continue
        kept = engine.map_rows(table, Kept(strata), table.schema) if strata.suppressed else table
        asked = _Points(group, strata, Encoding(group.kinds))
        columns = tuple(dict.fromkeys((*strata.by, *group.columns)))
        gathered: Gathered = engine.reduce_rows(kept, columns, asked, Facts()) or {}
        figures = _figures(group, gathered, draws.of("/".join(group.columns)), rules)
        if figures is not None:
            found.append({"columns": list(group.columns), **figures})
    if not found:
        return {}
    whole = found[0] if len(found) == 1 == len(plan.detail["groups"]) else {}
    return {"losses": found, **{name: figure for name, figure in whole.items() if name != "columns"}}


def _provable(group: GroupPlan) -> bool:
    """Whether each part is one block, not cut and not chunked, and all of them fit on the driver."""
    from privpipe.kernels.microaggregation.lower_bound import MOST_PROVED, provable

    sizes = [part.records for part in group.parts if part.records]
    largest = max(group.block, group.k) if group.block is not None else MOST_PROVED
    whole = all(len(part.trees) == 1 and part.trees[0].blocks == 1 for part in group.parts)
    few = 0 < sum(sizes) <= MOST_PROVED and max(sizes) < 2 * largest
    return group.prove and whole and few and all(provable(size, group.k) for size in sizes)


def _figures(
    group: GroupPlan, gathered: Gathered, stream: Stream, rules: GroupingRules
) -> Mapping[str, float | None] | None:
    """Loss, the least possible one, and by how much of it the one may be above the other; all in percent."""
    from privpipe.kernels.microaggregation.blocks import Refinement, block_proof

    lost, least, total = 0.0, 0.0, 0.0
    for number, pieces in sorted(gathered.items()):
        points = np.concatenate([each for each, _ in pieces])
        order = stream.arrange(np.concatenate([ids for _, ids in pieces]))
        if not len(points) or not points.shape[1]:
            continue
        searching = stream.child(str(number * PART))
        refinement = Refinement(group.neighbours, group.cells, searching, rules.iterations, True)
        gamma = rules.gamma if rules.method == "v_mdav" else None
        proof = block_proof(points, order, group.k, refinement, gamma)
        if proof is None:
            return None
        lost, least = lost + proof[0], least + proof[1]
        arranged = points[order]
        total += float(((arranged - arranged.mean(axis=0)) ** 2).sum())
    if not total > 0:
        return None
    known = {"loss": round(100 * lost / total, 6), "lower_bound": None, "above_bound": None}
    if lost > 0 and not least > 0:
        return known  # no bound was found
    above = math.ceil(1e4 * (lost / least - 1)) / 1e2 if lost > 0 else 0.0
    return known | {
        "lower_bound": _outward(100 * least / total, ROUND_FLOOR),
        "above_bound": _outward(above, ROUND_CEILING),
    }


def _outward(value: float, rounding: str) -> float:
    """Four digits, as reports show, rounded against the claim."""
    return float(Context(prec=4, rounding=rounding).create_decimal_from_float(value))
