"""Local recoding by clusters: blocks of close combinations, grouped and labelled by their lowest common ancestors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Codes, Ints
from privpipe.draws import Stream
from privpipe.kernels.cluster_labels import FORBIDDEN, UNIT, Labels, labels_of, nearest
from privpipe.kernels.cluster_search import Combinations, searched
from privpipe.kernels.lattice.node_classes import class_numbers
from privpipe.kernels.mondrian.cuts import ALL
from privpipe.progress import within
from privpipe.transforms.local_recoding.rounds import GONE, Tuples
from privpipe.transforms.local_recoding.sweep import MOST_VECTORS, Sweep, column_losses, lattice_size
from privpipe.transforms.mondrian.cut_columns import CutColumn
from privpipe.transforms.mondrian.cut_search import CutProblem, cut_tables, grow, with_persons
from privpipe.transforms.mondrian.cut_tree import CutTree
from privpipe.transforms.recoding.encoded_table import EncodedTable
from privpipe.transforms.recoding.labelling import cell_loss, loss_units, weight_units
from privpipe.transforms.suppression.combinations import Classes, Counted
from privpipe.transforms.suppression.combinations import Combinations as TupleRows

__all__ = ["Clusters", "block_tree", "clustered", "cut_parts", "parts_of", "pools_of"]


def block_tree(tuples: Tuples, most: int) -> CutTree:
    """The tree whose leaves hold at most a number of combinations, or have no part that meets the guarantees."""
    if len(tuples) <= most:
        return _tree(np.array([-1]), np.zeros(1, np.int64))
    tree = _grown(tuples)
    kept, ends = _folded(tree.columns, np.bincount(parts_of(tuples, tree), minlength=tree.leaves), most)
    return _tree(np.where(ends, -1, tree.columns)[kept], tree.cuts[kept])


def parts_of(tuples: Tuples, tree: CutTree) -> Ints:
    """Leaf of each combination, shape (t,)."""
    from privpipe.kernels.mondrian.sides import leaf_numbers

    return leaf_numbers(_codes(tuples), np.empty(0, np.int64), tree.columns, tree.cuts, tree.ties)


def cut_parts(tuples: Tuples) -> Ints:
    """Leaf of each combination in the tree of all cuts whose sides meet the guarantees, shape (t,)."""
    return parts_of(tuples, _grown(tuples))


def pools_of(tuples: Tuples, least: int, most: int) -> tuple[NDArray[np.intp], Ints]:
    """The combinations in an order in which those that lie together are side by side; where each pool of them begins.

    Parameters
    ----------
    least : int
        Records that a cut leaves on either side.
    most : int
        Combinations of a pool.

    Returns
    -------
    (ndarray of int, shape (t,), ndarray of int64, shape (p + 1,))
    """
    from privpipe.kernels.mondrian.tree import grown

    tables = cut_tables(_columns(tuples), len(tuples.columns), by_loss=True)
    nodes = grown(_codes(tuples), tuples.rows.counts.copy(), least, tables)
    leaves = parts_of(tuples, _tree(nodes.columns, nodes.cuts))
    kept, ends = _folded(nodes.columns, np.bincount(leaves), most)
    starts = nodes.starts[kept & ends].tolist()
    pools = [
        at for start, stop in zip(starts, [*starts[1:], len(tuples)], strict=True) for at in range(start, stop, most)
    ]
    return np.argsort(leaves, kind="stable"), np.array([*pools, len(tuples)])


def _folded(columns: Ints, sizes: Ints, most: int) -> tuple[Bools, Bools]:
    """Which nodes of a tree in preorder are left when those that hold at most so many become leaves, and these leaves.

    Parameters
    ----------
    sizes : ndarray of int64, shape (leaves,)
        What each leaf holds.
    """
    from privpipe.kernels.mondrian.sides import leaves_below

    is_leaf, many = columns < 0, leaves_below(columns)
    first: Ints = np.cumsum(is_leaf) - is_leaf
    ends = np.concatenate([[0], np.cumsum(sizes)])
    small = is_leaf | (ends[first + many] - ends[first] <= most)
    # A node is below an earlier one that ends where its subtree does or later.
    reach = np.arange(len(columns)) + 2 * many - 1
    covered = np.maximum.accumulate(np.where(small, reach, 0))
    kept = np.concatenate([[0], covered[:-1]]) <= np.arange(len(columns))
    return kept, small


def _tree(columns: Ints, cuts: Ints) -> CutTree:
    none = np.empty((int((columns < 0).sum()), 0), dtype=np.int64)
    return CutTree(columns, cuts, np.full(len(columns), ALL), none, none)


def _grown(tuples: Tuples) -> CutTree:
    """All cuts whose sides meet the guarantees, by loss."""
    sets = tuples.sets
    models = tuple(model for model in sets.class_models[sets.keys[0]] if model.is_gate())
    columns = _columns(tuples)
    coded = [_codes(tuples), *(codes[:, None].astype(np.int32) for codes in tuples.rows.sensitive.values())]
    codes, persons, who = np.hstack(coded), 0, tuples.rows.persons
    if who is not None:
        codes, persons = with_persons(codes, who.numbers, who.counts)
    problem = CutProblem(
        columns=columns,
        cut=len(tuples.columns),
        codes=codes,
        counts=tuples.rows.counts.copy(),
        keys=np.empty(0, np.int64),
        sensitive={
            name: (len(columns) + at, int(codes.max(initial=0)) + 1)
            for at, (name, codes) in enumerate(tuples.rows.sensitive.items())
        },
        models=models,
        facts=tuples.facts,
        by_loss=True,
        persons=persons,
    )
    return grow(problem, max([1, *(model.least_size() for model in models)]))[0]


def _columns(tuples: Tuples) -> tuple[CutColumn, ...]:
    none, empty = pa.nulls(0), np.empty(0, np.int64)
    cut = [
        CutColumn(name, none, empty, hierarchy=hierarchy)
        for name, hierarchy in zip(tuples.columns, tuples.hierarchies, strict=True)
    ]
    sizes = tuples.codes.max(axis=0, initial=-1)[len(cut) :].tolist()
    return (
        *cut,
        *(CutColumn(name, none, empty, ("",) * (size + 1)) for name, size in zip(tuples.fixed, sizes, strict=True)),
    )


def _codes(tuples: Tuples) -> Codes:
    """Codes as a tree cuts them: labels of the lowest level."""
    codes = tuples.codes.copy()
    for at, hierarchy in enumerate(tuples.hierarchies):
        codes[:, at] = hierarchy.codes(hierarchy.min_level)[codes[:, at]]
    return np.ascontiguousarray(codes, dtype=np.int32)


Levels = NDArray[np.int16]
DRAWS = Stream(b"privpipe/cluster")
"""The search adds no noise: its draws are public, and the same for everyone."""
NEIGHBOURS = 20
POOL = 500
"""Combinations among which neighbours are looked for."""
RESETS = 4
"""How often the columns' weights are updated by their losses."""
MOST_TRIES = 4
SMALL = 4096
"""A table of fewer combinations is searched as long as one of this many, several times and from two starts."""
MOST_RECORDS = 1 << 26
"""Records of a block whose losses are counted in full units; beyond, in coarser ones."""


class Clusters:
    """The groups of all blocks, and the labels that they give each combination."""

    def __init__(self, tuples: Tuples, steps: int, block: int) -> None:
        self.steps = steps
        self.tree = block_tree(tuples, block)
        self.levels = clustered(tuples, self.tree, steps)
        self.left = self.fewest = tuples.left(self.levels)
        self.checked = 0

    def unlimited(self) -> Clusters:
        """These: no limit was set."""
        return self

    def detail(self) -> dict[str, Any]:
        """What a plan states about them."""
        return {"method": "search", "steps": self.steps, "tree": self.tree.packed()}


def clustered(tuples: Tuples, tree: CutTree, steps: int) -> Levels:
    """Levels of each combination under the labels of its group, `GONE` where no group can take it, shape (t, m).

    Parameters
    ----------
    tree : CutTree
        Its leaves are recoded apart.
    steps : int
        Of the search, for each combination.
    """
    levels = np.full((len(tuples), len(tuples.columns)), GONE, dtype=np.int16)
    many = max(1, SMALL * MOST_TRIES // max(SMALL, len(tuples)))
    steps *= max(1, SMALL // max(1, len(tuples)))
    leaves = parts_of(tuples, tree)
    order = np.argsort(leaves, kind="stable")
    for number, rows in enumerate(np.split(order, np.searchsorted(leaves[order], np.arange(1, tree.leaves)))):
        levels[rows] = _block_levels(tuples.part(rows), steps, many, DRAWS.child(str(number)))
        within("blocks", number + 1, tree.leaves)
    return levels


def _block_levels(tuples: Tuples, steps: int, many: int, stream: Stream) -> Levels:
    """The best of some searches from the sweep's classes, and from Mondrian's parts where there are to be many."""
    starts = []
    if lattice_size(tuples) <= MOST_VECTORS:
        starts.append(_swept(tuples))
    if many > 1 or not starts or (starts[0] == GONE).all():
        starts.append(_cut(tuples))
    best, least = None, (0, 0.0)
    for number, start in enumerate(starts):
        kept = np.flatnonzero(start[:, 0] != GONE)
        if not len(kept):
            continue
        block = _Block(tuples.part(kept), start[kept])
        for again in range(many):
            found = np.full_like(start, GONE)
            found[kept] = block.searched(steps * len(kept), stream.child(f"{number}/{again}"))
            cost = _cost(tuples, found)
            if best is None or cost < least:
                best, least = found, cost
    return starts[0] if best is None else best


def _swept(tuples: Tuples) -> Levels:
    table = EncodedTable(
        columns=tuples.columns,
        fixed=tuples.fixed,
        hierarchies=tuples.hierarchies,
        codes=tuples.codes,
        rows=tuples.rows,
        records=int(tuples.rows.counts.sum()),
        unknown=0,
    )
    sweep = Sweep(table, tuples)
    sweep.run(0.0, 0)
    return sweep.levels


def _cut(tuples: Tuples) -> Levels:
    """The labels of Mondrian's parts, where they meet the guarantees."""
    levels = _common_levels(tuples, cut_parts(tuples))
    levels[tuples.failing(levels)] = GONE
    return levels


def _cost(tuples: Tuples, levels: Levels) -> tuple[int, float]:
    left = tuples.left(levels)
    return left, cell_loss(list(column_losses(tuples, levels, left).values()))


def _common_levels(tuples: Tuples, groups: Ints) -> Levels:
    """Levels of the lowest common ancestors of each group, `GONE` where a label may not be given."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    found = np.empty((len(groups), len(tuples.columns)), dtype=np.int16)
    for at, hierarchy in enumerate(tuples.hierarchies):
        codes = tuples.codes[order, at]
        low, high = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
        level = np.maximum(hierarchy.common_level(low, high), hierarchy.min_level)
        found[order, at] = np.repeat(np.where(level > hierarchy.max_level, GONE, level), sizes)
    found[(found == GONE).any(axis=1)] = GONE
    return found


@dataclass(frozen=True)
class _Block:
    """What is searched at once, and the levels it starts from."""

    tuples: Tuples
    start: Levels = field(repr=False)

    @cached_property
    def _numbers(self) -> tuple[Ints, NDArray[np.intp]]:
        """Number of each row's combination, and a row of each; in the order of their codes."""
        codes = self.tuples.codes
        order = np.lexsort(codes.T[::-1])
        fresh = np.concatenate([[True], (codes[order[1:]] != codes[order[:-1]]).any(axis=1)])
        numbers = np.empty(len(codes), dtype=np.int64)
        numbers[order] = np.cumsum(fresh) - 1
        return numbers, order[fresh]

    @cached_property
    def _held(self) -> Ints:
        """Records (or persons, where these are counted) and sensitive values of each combination."""
        numbers, firsts = self._numbers
        own = self.tuples.by_class
        everybody = Counted.of(self.tuples.rows, Classes(numbers, len(firsts)), np.zeros(len(numbers), dtype=np.bool_))
        held = np.zeros((len(firsts), 2), dtype=np.int64)
        held[:, 0] = everybody.sizes
        if own is not None and own.values:
            np.bitwise_or.at(held[:, 1], numbers, np.left_shift(np.int64(1), own.coded.values))
        return held

    @cached_property
    def _single(self) -> Tuples:
        """The combinations without their sensitive values."""
        _, firsts = self._numbers
        one = self.tuples.part(firsts)
        return replace(one, rows=TupleRows(self._held[:, 0]))

    @cached_property
    def _groups(self) -> Ints:
        """The classes of the start."""
        _, firsts = self._numbers
        levels, own = self.start[firsts], self.tuples.part(firsts)
        columns = [own.labels(at, levels)[0] for at in range(len(own.columns))]
        named = np.column_stack([*columns, own.codes[:, len(own.columns) :]]).astype(np.int32)
        many = (named.max(axis=0, initial=-1) + 1).tolist()
        return class_numbers(named, [(at, np.arange(size), size) for at, size in enumerate(many)])[0]

    def searched(self, steps: int, stream: Stream) -> Levels:
        """Levels after a number of steps; the start's where these lose less."""
        order, _ = self._pools
        rows = Combinations(self._leaves[order], self._held[order], self._around)
        groups = self._groups[order]
        for part in range(RESETS):
            labels = _labels(self._single, self._weights(groups))
            made = searched(
                labels,
                rows,
                groups,
                self._rule,
                (steps * part // RESETS, steps * (part + 1) // RESETS),
                stream.key_words,
            )
            groups = self._sound(groups, made)
        levels = self._levels(groups)
        return min((self.start, levels), key=lambda one: _cost(self.tuples, one))

    @cached_property
    def _rule(self) -> tuple[int, int]:
        own = self.tuples.by_class
        return (1, 0) if own is None else (own.k, own.values)

    @cached_property
    def _pools(self) -> tuple[NDArray[np.intp], Ints]:
        return pools_of(self._single, self._rule[0], POOL)

    @cached_property
    def _leaves(self) -> Codes:
        return np.ascontiguousarray(self._single.codes, dtype=np.int32)

    @cached_property
    def _around(self) -> Codes:
        order, pools = self._pools
        return nearest(_labels(self._single), self._leaves[order], pools, NEIGHBOURS)

    def _levels(self, groups: Ints) -> Levels:
        """Levels of each row from the groups of the combinations, which are given in the order of the pools."""
        numbers, firsts = self._numbers
        placed = np.empty(len(firsts), dtype=np.int64)
        placed[self._pools[0]] = groups
        return _common_levels(self.tuples, placed[numbers])

    def _weights(self, groups: Ints) -> list[int]:
        """For each column, 1 / (1 + u) in units: the weight of its loss in that of the geometric mean."""
        single, counts = self._single, self._held[:, 0]
        placed = np.empty(len(groups), dtype=np.int64)
        placed[self._pools[0]] = groups
        levels, found = _common_levels(single, placed), []
        for at, hierarchy in enumerate(single.hierarchies):
            units = np.array([loss_units(hierarchy, level) for level in range(hierarchy.height + 1)])
            lost = int((units[levels[:, at], single.codes[:, at]] * counts).sum())
            found.append(weight_units(lost, int(counts.sum())))
        return found

    def _sound(self, before: Ints, after: Ints) -> Ints:
        """The new groups where they meet every guarantee; where they do not, the ones before that they were made of."""
        own = self.tuples.by_class
        if own is None or own.exact:
            return after
        numbers, _ = self._numbers
        order = self._pools[0]
        while True:
            bad = np.zeros(len(order), dtype=np.bool_)
            bad[numbers[self.tuples.failing(self._levels(after))]] = True
            bad = bad[order] & (after < len(order))
            if not bad.any():
                return np.unique(after, return_inverse=True)[1].reshape(-1)
            bad = _spread(bad, before, after)
            # Separate numbers, because groups of both kinds may have the same.
            after = np.where(bad, before + len(order), after)


def _spread(bad: Bools, before: Ints, after: Ints) -> Bools:
    """All that hangs together with some combinations by groups of the one kind or the other."""
    many = -1
    while many < (many := int(bad.sum())):
        for groups in (before, after):
            names = np.zeros(int(groups.max()) + 1, dtype=np.bool_)
            names[groups[bad]] = True
            bad = names[groups]
    return bad


def _labels(tuples: Tuples, weights: list[int] | None = None) -> Labels:
    """The columns' trees; a column that stays unchanged has only its values as labels."""
    coarser = 1
    while int(tuples.rows.counts.sum()) * len(tuples.columns) // coarser > MOST_RECORDS * 16:
        coarser *= 2
    levels, lost = [], []
    for at, hierarchy in enumerate(tuples.hierarchies):
        used = range(hierarchy.min_level, hierarchy.max_level + 1)
        own = [hierarchy.codes(level).astype(np.int64) for level in used]
        weight = UNIT if weights is None else weights[at]
        lost.append([loss_units(hierarchy, level) * weight // UNIT // coarser for level in used])
        levels.append(own)
    for at in range(len(tuples.columns), tuples.codes.shape[1]):
        values = np.arange(int(tuples.codes[:, at].max(initial=0)) + 1)
        levels.append([values])
        lost.append([np.zeros_like(values)])
    for own, cost in zip(levels, lost, strict=True):
        if own[-1].max(initial=0) > 0:
            own.append(np.zeros_like(own[-1]))
            cost.append(np.full(len(own[-1]), FORBIDDEN // coarser))
    return labels_of(levels, lost, FORBIDDEN // coarser)
