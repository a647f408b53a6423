"""Grow a tree of cuts over a table whose combinations do not fit: counted pass by pass, finished part by part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassModel, ClassQuery, Facts, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.progress import advanced, within
from privpipe.transforms.base import StageContext
from privpipe.transforms.mondrian.cut_columns import CutColumn
from privpipe.transforms.mondrian.cut_search import CutProblem, Parts, by_combination, cut_tables
from privpipe.transforms.mondrian.cut_tree import CutTree, Leaves

__all__ = ["MOST_COMBINATIONS", "InPasses", "combinations_exceed"]

MOST_COMBINATIONS = 50_000_000
"""Distinct combinations that are held on the driver at a time."""
MOST_COUNTERS = 1 << 24
"""Counters of one pass: a code of a column in a part has one."""
ALL = np.iinfo(np.int64).max


def combinations_exceed(engine: Any, table: Any, columns: Iterable[str], most: int) -> bool:
    """Whether a table has more than `most` distinct combinations; counted on the engine."""
    if engine.count(table) <= most:
        return False
    return (engine.reduce_classes(table, ClassQuery(keys=tuple(columns)), _Number(), Facts()) or 0) > most


@dataclass(frozen=True)
class _Number:
    """A reduction: how many classes there are."""

    def measure(self, block: ClassBlock, facts: Facts) -> int:
        return len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


@dataclass(frozen=True)
class InPasses(CutProblem):
    """A problem whose rows stay on the engine; its tree is that of `CutProblem`, only for rules on sizes.

    While a part has more than `most` records, one pass counts the codes of all such parts and each is cut by the
    rule; what is left is fetched and grown as many parts at a time as fit.

    Parameters
    ----------
    engine, table
    context : StageContext
    total : int
        Records of the table.
    most : int
    """

    engine: Any = field(default=None, repr=False)
    table: Any = field(default=None, repr=False)
    context: StageContext | None = field(default=None, repr=False)
    total: int = 0
    most: int = MOST_COMBINATIONS

    @classmethod
    def of(
        cls,
        engine: Any,
        table: Any,
        columns: tuple[CutColumn, ...],
        cut: int,
        models: tuple[ClassModel, ...],
        context: StageContext,
        most: int,
    ) -> InPasses:
        """A problem over a table on the engine."""
        none = np.empty(0, np.int64)
        return cls(
            columns=columns,
            cut=cut,
            codes=np.empty((0, len(columns)), np.int32),
            counts=none,
            keys=none,
            sensitive={},
            models=models,
            facts=context.base,
            engine=engine,
            table=table,
            context=context,
            total=engine.count(table),
            most=most,
        )

    @property
    def records(self) -> int:
        return self.total

    @property
    def tuples(self) -> int | None:
        return None

    def grown(self, least: int) -> Parts:
        """The tree and the records of its leaves, and nothing to say which row is where."""
        top = _Top.whole(self)
        while len(chosen := top.open(self.most)):
            top = self._cut(top, chosen, least)
            advanced("passes")
        subtrees: dict[int, tuple[CutTree, Ints]] = {}
        bundles = _bundles(top, self.most)
        for number, bundle in enumerate(bundles, 1):
            subtrees |= self._finished(top, bundle, least)
            within("bundles of parts", number, len(bundles))
        return top.joined(subtrees)

    def _cut(self, top: _Top, chosen: Ints, least: int) -> _Top:
        """Every chosen leaf cut once, or known to be a leaf."""
        sizes = [column.size for column in self.columns]
        tables = cut_tables(self.columns, self.cut, False)
        batch = max(1, MOST_COUNTERS // max(1, sum(sizes)))
        cuts: dict[int, tuple[int, int]] = {}
        for start in range(0, len(chosen), batch):
            own = chosen[start : start + batch]
            places = np.full(top.tree.leaves, -1, dtype=np.int64)
            places[own] = np.arange(len(own))
            leaves = Leaves(self.columns, top.tree, {})
            names = [column.name for column in self.columns]
            counted = self.engine.reduce_rows(self.table, names, _Histograms(leaves, places, len(own)), Facts())
            for leaf, histogram in zip(own.tolist(), counted, strict=True):
                found = _cut_of(histogram, tables, least, self)
                cuts[leaf] = (-1, 0) if found is None else found[:2]
                top.note(leaf, np.split(histogram, np.cumsum(sizes)[:-1]), found)
        return top.divided(cuts)

    def _finished(self, top: _Top, bundle: Ints, least: int) -> dict[int, tuple[CutTree, Ints]]:
        """The trees below some leaves, from their combinations."""
        from privpipe.kernels.mondrian.sides import leaf_numbers

        assert self.context is not None
        wanted = np.zeros(top.tree.leaves, dtype=np.bool_)
        wanted[bundle] = True
        kept = self.engine.map_rows(self.table, _Kept(Leaves(self.columns, top.tree, {}), wanted), self.table.schema)
        distinct = self.engine.distinct(kept, [column.name for column in self.columns])
        found = by_combination(distinct, self.columns, self.cut, self.models, (), self.context)
        tree = top.tree
        numbers = leaf_numbers(found.codes.astype(np.int32), found.keys, tree.columns, tree.cuts, tree.ties)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], bundle, side="right")
        trees = {}
        for leaf, rows in zip(bundle.tolist(), np.split(order, ends[:-1]), strict=True):
            own = found.codes[rows], found.counts[rows], found.keys
            below = CutProblem(self.columns, self.cut, *own, {}, self.models, self.facts).grown(least)
            trees[leaf] = (below.tree, below.sizes)
        return trees


@dataclass(frozen=True)
class _Top:
    """The tree so far, the contents of its leaves, and which of them are final."""

    tree: CutTree
    sizes: Ints
    done: Bools
    halves: dict[int, tuple[Ints, Ints, Ints]] = field(default_factory=dict)

    @classmethod
    def whole(cls, problem: InPasses) -> _Top:
        none, width = np.zeros(1, np.int64), len(problem.columns)
        tree = CutTree(none - 1, none, none, np.zeros((1, width), np.int64), np.zeros((1, width), np.int64))
        return cls(tree, np.array([problem.total], dtype=np.int64), np.zeros(1, dtype=np.bool_))

    def open(self, most: int) -> Ints:
        """Leaves that are too large to be fetched."""
        return np.flatnonzero(~self.done & (self.sizes > most)).astype(np.int64)

    def note(self, leaf: int, histograms: list[Ints], found: tuple[int, int, int] | None) -> None:
        """Remember the records of both halves, and the ends of the values of a leaf that stays whole."""
        low = np.array([int(np.flatnonzero(own)[0]) for own in histograms])
        high = np.array([int(np.flatnonzero(own)[-1]) for own in histograms])
        total = int(histograms[0].sum())
        sizes = np.array([total] if found is None else [found[2], total - found[2]], dtype=np.int64)
        self.halves[leaf] = (sizes, low, high)

    def divided(self, cuts: dict[int, tuple[int, int]]) -> _Top:
        """With these leaves cut, or known to stay unchanged."""
        columns: list[int] = []
        at: list[int] = []
        sizes: list[int] = []
        done: list[bool] = []
        ends: list[tuple[Ints, Ints]] = []
        leaf = 0
        for column, cut in zip(self.tree.columns.tolist(), self.tree.cuts.tolist(), strict=True):
            if column >= 0:
                columns.append(column)
                at.append(cut)
                continue
            own = (self.tree.lows[leaf], self.tree.highs[leaf])
            if leaf not in cuts:
                columns.append(-1)
                at.append(0)
                sizes.append(int(self.sizes[leaf]))
                done.append(bool(self.done[leaf]))
                ends.append(own)
            else:
                made, low, high = self.halves[leaf]
                whole = cuts[leaf][0] < 0
                columns += [-1] if whole else [cuts[leaf][0], -1, -1]
                at += [0] if whole else [cuts[leaf][1], 0, 0]
                sizes += made.tolist()
                done += [whole] * len(made)
                ends += [(low, high)] * len(made)
            leaf += 1
        ties = np.full(len(columns), ALL)
        lows, highs = (np.array([end[side] for end in ends], dtype=np.int64) for side in (0, 1))
        tree = CutTree(np.array(columns), np.array(at), ties, lows, highs)
        return _Top(tree, np.array(sizes, dtype=np.int64), np.array(done, dtype=np.bool_))

    def joined(self, subtrees: dict[int, tuple[CutTree, Ints]]) -> Parts:
        """The whole tree, with those of the leaves in their places."""
        columns, cuts, lows, highs, sizes = [], [], [], [], []
        leaf = 0
        for node in range(len(self.tree.columns)):
            if self.tree.columns[node] >= 0:
                columns.append(self.tree.columns[node : node + 1])
                cuts.append(self.tree.cuts[node : node + 1])
                continue
            below = subtrees.get(leaf)
            own = slice(leaf, leaf + 1)
            columns.append(np.array([-1]) if below is None else below[0].columns)
            cuts.append(np.array([0]) if below is None else below[0].cuts)
            lows.append(self.tree.lows[own] if below is None else below[0].lows)
            highs.append(self.tree.highs[own] if below is None else below[0].highs)
            sizes.append(self.sizes[own] if below is None else below[1])
            leaf += 1
        nodes = np.concatenate(columns)
        leaves = nodes < 0
        ties = np.where(leaves, 0, ALL)
        tree = CutTree(nodes, np.concatenate(cuts), ties, np.concatenate(lows), np.concatenate(highs))
        return Parts(tree, np.concatenate(sizes), None)


@dataclass(frozen=True)
class _Histograms:
    """A reduction: records of each code of each column, in some leaves of a tree, shape (leaves, codes)."""

    leaves: Leaves
    places: Ints = field(repr=False)
    many: int

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        codes = self.leaves.codes(block)
        places = self.places[self.leaves.numbers_of(codes, block)]
        inside = places >= 0
        sizes = [column.size for column in self.leaves.columns]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        counted = np.zeros(self.many * int(starts[-1]), dtype=np.int64)
        for at, start in enumerate(starts[:-1].tolist()):
            keys = places[inside] * int(starts[-1]) + start + codes[inside, at]
            counted += np.bincount(keys, minlength=len(counted))
        return counted.reshape(self.many, -1)

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right


@dataclass(frozen=True)
class _Kept:
    """A function of one block: the records of some leaves."""

    leaves: Leaves
    wanted: Bools = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(self.wanted[self.leaves.numbers(rows)]))


def _bundles(top: _Top, most: int) -> list[Ints]:
    """Leaves still to be grown, as many at a time as have no more than `most` records together."""
    bundles: list[list[int]] = []
    held = most + 1
    for leaf in np.flatnonzero(~top.done).tolist():
        if held + int(top.sizes[leaf]) > most:
            bundles.append([])
            held = 0
        bundles[-1].append(leaf)
        held += int(top.sizes[leaf])
    return [np.array(bundle, dtype=np.int64) for bundle in bundles]


def _cut_of(histogram: Ints, tables: Any, least: int, problem: CutProblem) -> tuple[int, int, int] | None:
    """The cut of a part whose codes are counted, column after column: column, code, records that come first."""
    from privpipe.kernels.mondrian.tree import cuts_of_counts

    cuts, forced = cuts_of_counts(histogram, least, tables)
    ends = np.cumsum(histogram)
    total = int(ends[tables.starts[1] - 1])
    before = ends[tables.starts[cuts.where] + cuts.at] - total * cuts.where  # every column counts all records
    sides = np.stack([before, total - before], axis=1)
    passed = np.flatnonzero(forced | problem.passing(ClassBlock(sides.ravel())).reshape(-1, 2).all(axis=1))
    if not len(passed):
        return None
    return int(cuts.where[passed[0]]), int(cuts.at[passed[0]]), int(before[passed[0]])
