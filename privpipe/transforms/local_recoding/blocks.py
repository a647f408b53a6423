"""Parts of a table whose combinations lie together: nodes of a tree of cuts that hold few enough of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.kernels.mondrian.cuts import ALL
from privpipe.transforms.local_recoding.rounds import Tuples
from privpipe.transforms.mondrian.cut_columns import CutColumn
from privpipe.transforms.mondrian.cut_search import CutProblem, cut_tables, grow
from privpipe.transforms.mondrian.cut_source import with_persons
from privpipe.transforms.mondrian.cut_tree import CutTree

__all__ = ["block_tree", "cut_parts", "parts_of", "pools_of"]

Ints = NDArray[np.int64]


def block_tree(tuples: Tuples, most: int) -> CutTree:
    """The tree whose leaves hold at most so many combinations, or meet the guarantees in no smaller part."""
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


def _folded(columns: Ints, sizes: Ints, most: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
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
    # A node lies below an earlier one that ends where its subtree does or later.
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


def _codes(tuples: Tuples) -> NDArray[np.int32]:
    """Codes as a tree cuts them: labels of the lowest level."""
    codes = tuples.codes.copy()
    for at, hierarchy in enumerate(tuples.hierarchies):
        codes[:, at] = hierarchy.codes(hierarchy.min_level)[codes[:, at]]
    return np.ascontiguousarray(codes, dtype=np.int32)
