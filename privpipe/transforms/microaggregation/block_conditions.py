"""What the blocks that records are first grouped in must hold: sensitive values enough, and persons enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.errors import NoSolutionError
from privpipe.transforms.base import StageContext
from privpipe.transforms.microaggregation.group_plan import GroupPlan, SensitiveValues
from privpipe.transforms.microaggregation.mixed_records import Encoding, missing_cells
from privpipe.transforms.person_counts import PersonCounts, Persons, units_of
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    from privpipe.kernels.microaggregation.kd_tree import BlockTree

__all__ = ["blocks_of_persons", "blocks_that_meet"]

T = TypeVar("T")


def _leaves(
    rows: RowBlock, group: GroupPlan, strata: Strata, encoding: Encoding
) -> Iterator[tuple[tuple[int, int], NDArray[np.int64]]]:
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

    def measure(self, block: RowBlock, facts: Facts) -> dict[tuple[int, int], NDArray[np.int64]]:
        codes, values = self.sensitive.codes(block), len(self.sensitive.keys)
        leaves = _leaves(block, self.group, self.strata, self.encoding)
        return {key: np.bincount(codes[here], minlength=values) for key, here in leaves}

    def merge(
        self, left: dict[tuple[int, int], NDArray[np.int64]], right: dict[tuple[int, int], NDArray[np.int64]]
    ) -> dict[tuple[int, int], NDArray[np.int64]]:
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
    from privpipe.kernels.microaggregation.group_condition import meets

    bound = group.sensitive
    if bound is None:
        return group
    columns = tuple(dict.fromkeys((*strata.by, *group.columns, bound.column)))
    found = engine.reduce_rows(table, columns, _LeafCounts(group, bound, strata, encoding), Facts()) or {}
    shares = np.array(bound.counts, np.float64) / sum(bound.counts)
    limit = np.inf if bound.t is None else bound.t

    def fine(each: NDArray[np.int64]) -> bool:
        return not each.sum() or bool(meets(each, int(each.sum()), shares, bound.l, limit))

    nothing = np.zeros(len(shares), np.int64)
    parts = []
    for number, part in enumerate(group.parts):
        tree, whole = _joined(part.trees[0], _of_part(found, number), fine, np.add, nothing)
        if not fine(whole):
            raise NoSolutionError(
                f"{context.place}: {part.records:,} records together do not meet the condition on "
                f"{bound.column!r}; ask for less, or merge strata"
            )
        parts.append(replace(part, trees=(tree, *part.trees[1:]) if tree.columns else (tree,)))
    return replace(group, parts=tuple(parts))


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

    parts = []
    for number, part in enumerate(group.parts):
        tree, whole = _joined(part.trees[0], _of_part(found, number), fine, persons.merged, nothing)
        if not fine(whole):
            raise NoSolutionError(
                f"{context.place}: k = {group.k} is more than the {persons.number(whole):,} persons of "
                f"{part.records:,} records with a value in {', '.join(map(repr, group.columns))}; lower k, or merge "
                "strata"
            )
        parts.append(replace(part, trees=(tree, *part.trees[1:]) if tree.columns else (tree,)))
    return replace(group, parts=tuple(parts))


def _of_part(found: Mapping[tuple[int, int], T], number: int) -> dict[int, T]:
    return {leaf: each for (at, leaf), each in found.items() if at == number}


def _joined(
    tree: BlockTree,
    found: Mapping[int, T],
    fine: Callable[[T], bool],
    together: Callable[[T, T], T],
    nothing: T,
) -> tuple[BlockTree, T]:
    """The tree without the cuts that leave a side which will not do, and what all its blocks hold together."""
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
