"""Microaggregation of one list of columns on an engine: which block and group a record is in, and what becomes of a
block; groups along one column in which values of k records or more stay unchanged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import NoSolutionError
from privpipe.transforms.microaggregation.group_plan import PART, Encoding, GroupPlan, missing_cells
from privpipe.transforms.microaggregation.parameters import Aggregate, Groups
from privpipe.transforms.numeric_columns import masked_type, written
from privpipe.transforms.strata import Strata, person_codes

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.kernels.microaggregation.groups import GroupCondition

__all__ = [
    "GROUP",
    "NEXT",
    "BlockKey",
    "GroupingRules",
    "Membership",
    "NextKey",
    "Pass",
    "carried",
    "carried_schema",
    "in_turn",
    "out_of_turn",
    "tied_apart",
    "with_columns",
    "with_tied_values",
]


def tied_apart(values: Floats, labels: Ints, k: int) -> Ints:
    """The groups, with a separate group for each value that k records or more share.

    What is between two such values and is fewer than k records joins the nearer one, the lower at equal distance; of
    other cuts those stay that leave k records on both sides.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    labels : ndarray of int64, shape (n,)
        Groups of at least k records, ascending with the value.
    k : int

    Returns
    -------
    ndarray of int64, shape (n,)
        Ascending with the value; every group has at least k records.

    Examples
    --------
    >>> zeros = np.array([0, 0, 0, 0, 2, 3, 4, 5.0])
    >>> tied_apart(zeros, np.array([0, 0, 0, 0, 0, 1, 1, 1]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    >>> tied_apart(np.array([0, 0, 0, 1, 9, 9, 9.0]), np.array([0, 0, 0, 0, 1, 1, 1]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 1]
    """
    order = np.argsort(values, kind="stable")
    ordered, n = values[order], len(values)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], n]
    tied = ends - starts >= k
    if not tied.any():
        return labels
    cuts = np.cumsum(np.bincount(labels[order]))[:-1]
    found: list[int] = []
    gaps = zip([0, *ends[tied].tolist()], [*starts[tied].tolist(), n], strict=True)
    for first, last in gaps:
        found += _cuts_of_gap(ordered, cuts, first, last, k)
    every = np.array([each for each in found if 0 < each < n], dtype=np.int64)
    apart = np.empty(n, dtype=np.int64)
    apart[order] = np.searchsorted(np.unique(every), np.arange(n), side="right")
    return apart


def _cuts_of_gap(ordered: Floats, cuts: Ints, first: int, last: int, k: int) -> list[int]:
    """Cuts at the ends of what is between two tied values, and in it."""
    n = len(ordered)
    if last - first >= k:
        inside = cuts[np.searchsorted(cuts, first + k) : np.searchsorted(cuts, last - k, "right")]
        return [first, *inside.tolist(), last]
    if first == last:
        return [first]
    if first == 0 or last == n:
        return []
    middle = ordered[first:last].mean()
    return [last if middle - ordered[first - 1] <= ordered[last] - middle else first]


def with_tied_values(means: Floats, values: Floats, labels: Ints, k: int, owners: Sequence[Ints] = ()) -> Floats:
    """The value of each group, which is that of `k` records, or owners, or more where so many share one.

    The mean of such a group and the tied value, which everyone knows, would give back the few others exactly.

    Parameters
    ----------
    means : ndarray of float64, shape (groups,)
    values : ndarray of float64, shape (n,)
    labels : ndarray of int64, shape (n,)
        The group of each record.
    k : int
    owners : sequence of ndarray of int64, shape (n,)
        Owner of each record, where persons or households are counted instead of records.

    Returns
    -------
    ndarray of float64, shape (groups,)
        Of several such values the most frequent, the least of equally frequent ones.

    Examples
    --------
    >>> with_tied_values(np.array([-2.0]), np.array([-8.0, 0, 0, 0]), np.array([0, 0, 0, 0]), 3).tolist()
    [0.0]
    """
    order = np.lexsort((values, labels))
    group, ordered = labels[order], values[order]
    starts = np.flatnonzero(np.r_[True, (group[1:] != group[:-1]) | (ordered[1:] != ordered[:-1])])
    sizes = np.diff(np.r_[starts, len(order)])
    run = np.repeat(np.arange(len(starts)), sizes)
    for each in owners:
        pairs = np.unique(np.column_stack([run, each[order]]), axis=0)
        sizes = np.minimum(sizes, np.bincount(pairs[:, 0], minlength=len(starts)))
    found = means.copy()
    tied = np.flatnonzero(sizes >= k)
    tied = tied[np.lexsort((-ordered[starts[tied]], sizes[tied]))]  # the last one of each group stays
    found[group[starts[tied]]] = ordered[starts[tied]]
    return found


_turn = threading.Lock()


def _anew() -> None:
    global _turn
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)  # the thread that held it is not in the child


@contextmanager
def in_turn() -> Iterator[None]:
    """Wait for the other threads that are in turn.

    Examples
    --------
    >>> with in_turn():
    ...     with out_of_turn():
    ...         pass  # another thread may be in turn
    """
    with _turn:
        yield


@contextmanager
def out_of_turn() -> Iterator[None]:
    """Let other threads have their turn meanwhile; only inside `in_turn`."""
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()


GROUP, NEXT = "__privpipe_group", "__privpipe_next"


def carried_schema(schema: pa.Schema) -> pa.Schema:
    """The schema between two passes."""
    import pyarrow as pa

    return schema.append(pa.field(GROUP, pa.int64())).append(pa.field(NEXT, pa.int64()))


def carried(rows: RowBlock, name: str) -> Ints:
    """The numbers that records carry in a column."""
    return np.asarray(rows.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)


def with_columns(rows: RowBlock, columns: dict[str, Ints]) -> RowBlock:
    """The rows with these columns at the end; they replace any of the same name."""
    import pyarrow as pa

    rows = rows.drop([name for name in columns if name in rows.schema.names])
    arrays: list[Any] = [*rows.batch.columns, *(pa.array(values) for values in columns.values())]
    return RowBlock(pa.record_batch(arrays, names=[*rows.schema.names, *columns]), rows.record_ids)


INSIDE = 1 << 31
"""Groups of one block are numbered this far from those of the next."""


@dataclass(frozen=True, kw_only=True)
class GroupingRules:
    """How records are grouped and which value a group releases: the parameters of the stage."""

    method: str = "mdav"
    refine: bool = True
    iterations: int | None = None
    gamma: float = 0.2
    keep_ties: bool = False
    by_position: bool = False
    gower: bool = False
    aggregate: Aggregate = "mean"
    trim: float = 0.1
    weight: str | None = None
    rounded: bool = False

    def type_of(self, column: pa.Field) -> pa.DataType:
        """Type in which a masked number is released: integers stay integers where values are from the data."""
        return masked_type(column, self.rounded or self.aggregate in ("mode", "medoid"))


@dataclass(frozen=True, kw_only=True)
class Membership:
    """Published groups other than a record's own: drawn by nearness (fuzzy microaggregation)."""

    neighbours: int
    fuzziness: float
    stream: Stream = field(repr=False)


@dataclass(frozen=True)
class BlockKey:
    """The block of each record in the first pass, a function of only its values."""

    group: GroupPlan
    strata: Strata
    encoding: Encoding

    def __call__(self, rows: RowBlock) -> Ints:
        group = self.group
        keys = np.empty(len(rows), dtype=np.int64)
        for number, here in group.parts_of(rows, self.strata):
            part = group.parts[number]
            tree = part.trees[0]
            if tree.blocks == 1:
                keys[here] = number * PART
                continue
            inside = rows if len(here) == len(rows) else rows.take(here)
            keys[here] = number * PART + tree.path(group.points(inside, part.stratum, self.encoding))
            if not group.by_pattern:
                # Records without any value belong to no group: dealt out, so that no block grows by all of them.
                nothing = here[missing_cells(inside, group.columns).all(axis=1)]
                keys[nothing] = number * PART + _dealt(rows.record_ids[nothing], tree.blocks)
        return keys


@dataclass(frozen=True)
class NextKey:
    """The block that the pass before sent each record to."""

    def __call__(self, rows: RowBlock) -> Ints:
        return carried(rows, NEXT)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The result of one pass for one block: groups, and in the last pass their released values.

    `units` are the columns of persons (and households), k of whom are in each group, where a policy distinguishes them.
    """

    number: int
    group: GroupPlan
    strata: Strata
    encoding: Encoding
    rules: GroupingRules
    stream: Stream = field(repr=False)
    units: tuple[str, ...] = ()
    membership: Membership | None = None

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        with in_turn():
            return self._made(rows, key)

    def _made(self, rows: RowBlock, key: int) -> RowBlock:
        group = self.group
        part, last = group.parts[key // PART], self.number == group.passes - 1
        held = np.arange(len(rows))
        if not group.by_pattern:
            held = np.flatnonzero(~missing_cells(rows, group.columns).all(axis=1))
        labels = order = points = None
        if len(held) and group.varying(part.stratum):
            self._require_enough(len(held))
            inside = rows if len(held) == len(rows) else rows.take(held)
            # The order in which an engine returns the records of a block carries no information.
            ids = rows.record_ids[held]
            order = np.arange(len(held)) if self.rules.by_position else self.stream.arrange(ids)
            if not (self.rules.gower and last):
                points = group.points(inside, part.stratum, self.encoding)
            labels = self._labels(inside, part.stratum, order, points, key)
            if points is not None:
                labels = self._of_persons(inside, labels, order, points)
            if last:
                return self._released(rows, inside, held, labels, order, part.stratum)
        if last:
            return self._unchanged(rows)
        return self._carrying(rows, held, labels, order, points, key)

    def _labels(
        self,
        inside: RowBlock,
        stratum: int,
        order: Ints,
        points: Floats | None,
        key: int,
    ) -> Ints:
        """Group of each record, 0 .. groups - 1."""
        from privpipe.kernels.microaggregation.blocks import Refinement, block_groups, regroup

        group, rules = self.group, self.rules
        condition = self._condition(inside)
        if rules.gower or points is None:
            return self._by_gower(inside, stratum, order)
        known = carried(inside, GROUP) if self.number else None
        with out_of_turn():
            if known is not None:
                return regroup(
                    points, known, order, group.k, neighbours=group.neighbours, cells=group.cells, condition=condition
                )
            if rules.method in ("univariate", "fixed"):
                return self._along(points[:, 0], order, condition)
            searching = self.stream.child(str(key)) if group.search else None
            refinement = Refinement(group.neighbours, group.cells, searching, rules.iterations, group.prove)
            return block_groups(
                points,
                order,
                group.k,
                refinement=refinement if rules.refine else None,
                largest=group.block,
                gamma=rules.gamma if rules.method == "v_mdav" else None,
                condition=condition,
            )

    def _of_persons(self, inside: RowBlock, labels: Ints, order: Ints, points: Floats) -> Ints:
        """The groups, joined until each is of k persons, where the policy distinguishes them."""
        from privpipe.kernels.microaggregation.groups import by_first_member, groups_of_persons, restored

        for unit in self.units:
            persons = person_codes(inside.batch, unit, b"")
            with out_of_turn():
                found = groups_of_persons(points[order], labels[order], persons[order], self.group.k)
            labels = restored(by_first_member(self._enough(found)), order)
        return labels

    def _enough(self, found: Ints | None) -> Ints:
        if found is None:
            raise NoSolutionError(
                f"a block of {', '.join(map(repr, self.group.columns))} is of fewer than k = {self.group.k} persons: "
                "the plan was made for another table"
            )
        return found

    def _condition(self, inside: RowBlock) -> GroupCondition:
        from privpipe.kernels.microaggregation.groups import no_condition

        return self.group.sensitive.condition(inside) if self.group.sensitive else no_condition()

    def _along(self, values: Floats, order: Ints, condition: GroupCondition) -> Ints:
        from privpipe.kernels.microaggregation.groups import merged_groups
        from privpipe.kernels.microaggregation.univariate import fixed_groups, univariate_groups

        groups_of = univariate_groups if self.rules.method == "univariate" else fixed_groups
        found = groups_of(values[order], self.group.k, keep_ties=self.rules.keep_ties)
        if self.rules.keep_ties:
            found = tied_apart(values[order], found, self.group.k)
        merged = merged_groups(values[order][:, None], found, condition.of(order))
        if merged is None:
            raise NoSolutionError("the records together do not meet the condition on the sensitive column")
        labels = np.empty(len(order), dtype=np.int64)
        labels[order] = np.unique(merged, return_inverse=True)[1].reshape(-1)
        return labels

    def _by_gower(self, inside: RowBlock, stratum: int, order: Ints) -> Ints:
        from privpipe.kernels.microaggregation.gower import descend_by_gower, gower_groups

        group = self.group
        mixed = self.encoding.mixed(inside.take(order), group.centre[stratum], group.scale[stratum])
        labels = np.empty(len(order), dtype=np.int64)
        with out_of_turn():
            found = gower_groups(mixed, group.k)
            labels[order] = descend_by_gower(mixed, found, group.k) if self.rules.refine else found
        return labels

    def _carrying(
        self,
        rows: RowBlock,
        held: Ints,
        labels: Ints | None,
        order: Ints | None,
        points: Floats | None,
        key: int,
    ) -> RowBlock:
        """The rows with the group of each record and the block that its centroid falls into next."""
        from privpipe.kernels.microaggregation.blocks import group_means

        number, block = divmod(key, PART)
        part = self.group.parts[number]
        # A part of fewer passes than another keeps its one block.
        tree = part.trees[min(self.number + 1, len(part.trees) - 1)]
        groups = np.full(len(rows), -1, dtype=np.int64)
        following = number * PART + _dealt(rows.record_ids, tree.blocks)
        if labels is not None and order is not None and points is not None:
            means = group_means(points, labels, order)
            groups[held] = block * INSIDE + labels
            following[held] = number * PART + tree.path(means)[labels]
        return with_columns(rows, {GROUP: groups, NEXT: following})

    def _released(
        self,
        rows: RowBlock,
        inside: RowBlock,
        held: Ints,
        labels: Ints,
        order: Ints,
        stratum: int,
    ) -> RowBlock:
        """Each record with the aggregates of its group, or of the one that was drawn for it."""
        groups, published = Groups(labels, order), labels
        if self.membership is not None:
            published = self._drawn(self.membership, inside, labels, order, stratum)
        apart = self._to_centre(inside, labels, order, stratum) if self.rules.aggregate == "medoid" else None
        weights = inside[self.rules.weight] if self.rules.weight is not None else None
        varying = set(self.group.varying(stratum))
        for column in self.group.columns:
            if column not in varying:
                rows = self._as_it_is(rows, column)
                continue
            member = self._member(groups, inside, column, apart)
            if member is None:
                each = groups.numbers(inside[column], self.rules.aggregate, trim=self.rules.trim, weights=weights)
                if self.rules.keep_ties:
                    owners = [person_codes(inside.batch, unit, b"") for unit in self.units]
                    each = with_tied_values(each, inside[column], labels, self.group.k, owners)
                values = rows[column].copy()
                values[held] = np.where(np.isnan(values[held]), np.nan, each[published])
                rows = rows.replace(column, self._written(values, rows, column))
            else:
                rows = rows.replace(column, _taken(rows, column, held, held[member][published], member[published] < 0))
                if self.group.kinds[column] == "number":
                    rows = self._as_it_is(rows, column)
        return rows.drop([name for name in (GROUP, NEXT) if name in rows.schema.names])

    def _drawn(
        self,
        membership: Membership,
        inside: RowBlock,
        labels: Ints,
        order: Ints,
        stratum: int,
    ) -> Ints:
        """The group whose values each record publishes; each has k holders, or k persons hold it."""
        from privpipe.kernels.microaggregation.blocks import group_means
        from privpipe.kernels.microaggregation.fuzzy_membership import drawn_groups
        from privpipe.kernels.microaggregation.groups import held_by_persons

        points = self.group.points(inside, stratum, self.encoding)
        uniforms = membership.stream.uniform(inside.record_ids)
        with out_of_turn():
            published = drawn_groups(
                points,
                labels,
                order,
                uniforms,
                self.group.k,
                neighbours=membership.neighbours,
                fuzziness=membership.fuzziness,
            )
        for unit in self.units:
            means, persons = group_means(points, labels, order), person_codes(inside.batch, unit, b"")
            published = self._enough(held_by_persons(published, means, persons, self.group.k))
        return published

    def _member(self, groups: Groups, inside: RowBlock, column: str, apart: Floats | None) -> Ints | None:
        """The record of each group whose value all its members release; None where that is not a record's value."""
        kind = self.group.kinds[column]
        if apart is not None:
            return groups.medoid(apart, ~missing_cells(inside, (column,))[:, 0])
        if kind == "nominal":
            return groups.mode(self.encoding.codes(inside, column), smallest=False)
        if kind == "ordinal":
            ranks = self.encoding.ranks(inside, column)
            return groups.mode(ranks, smallest=True) if self.rules.aggregate == "mode" else groups.lower_median(ranks)
        return None

    def _to_centre(self, inside: RowBlock, labels: Ints, order: Ints, stratum: int) -> Floats:
        """Squared distance of each record to the mean of its group, on the scales of the plan."""
        from privpipe.kernels.microaggregation.blocks import group_means

        points = self.group.points(inside, stratum, self.encoding)
        gaps = points - group_means(points, labels, order)[labels]
        total = np.zeros(len(points))
        for column in gaps.T:
            total += column * column
        return total

    def _unchanged(self, rows: RowBlock) -> RowBlock:
        for column in self.group.columns:
            rows = self._as_it_is(rows, column)
        return rows.drop([name for name in (GROUP, NEXT) if name in rows.schema.names])

    def _as_it_is(self, rows: RowBlock, column: str) -> RowBlock:
        import pyarrow as pa

        field = rows.schema.field(column)
        kept = field.type == self.rules.type_of(field) and not pa.types.is_floating(field.type)
        if self.group.kinds[column] != "number" or kept:
            return rows  # not by way of doubles, which lose integers beyond 2^53
        return rows.replace(column, self._written(rows[column], rows, column))

    def _written(self, values: Floats, rows: RowBlock, column: str) -> pa.Array:
        target = self.rules.type_of(rows.schema.field(column))
        return written(values, target, column=column, rounded=self.rules.rounded)

    def _require_enough(self, records: int) -> None:
        if records < self.group.k:
            raise NoSolutionError(
                f"a block of {', '.join(map(repr, self.group.columns))} has {records:,} records, fewer than "
                f"k = {self.group.k}: the plan was made for another table"
            )


def _dealt(ids: Ints, blocks: int) -> Ints:
    return np.asarray(ids[:, 1] % blocks)


def _taken(rows: RowBlock, column: str, held: Ints, members: Ints, none: Bools) -> pa.Array:
    """Values of other records instead of a record's own; a missing value stays missing."""
    import pyarrow as pa

    source = np.arange(len(rows))
    source[held] = members
    gaps = missing_cells(rows, (column,))[:, 0]
    gaps[held[none]] = True
    return rows.column(column).take(pa.array(source, mask=gaps))
