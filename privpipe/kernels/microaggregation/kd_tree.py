"""A tree of cuts that assigns records to blocks of near ones: a record's block is a function of its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only, require_codes
from privpipe.compiled import njit
from privpipe.errors import UsageError

__all__ = ["BlockTree", "learn_tree", "with_distance"]


@dataclass(frozen=True)
class BlockTree:
    """Cuts as parallel tuples, one entry per node; small enough to broadcast, plain enough for a plan.

    Parameters
    ----------
    columns : tuple of int
        Column that a node cuts; s, one past the last, is the squared distance to the origin (see `learn_tree`).
    thresholds : tuple of float
        Records with a value up to this go left, the others right.
    left, right : tuple of int
        The child: a node from 0 on, or -1 - b for block b. Without nodes, all is block 0.

    Examples
    --------
    >>> tree = BlockTree((0, 1), (0.5, 2.0), (1, -2), (-3, -1))
    >>> tree.path(np.array([[0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])).tolist()
    [1, 0, 2]
    >>> tree.blocks, tree.names()
    (3, ('01', '00', '1'))
    """

    columns: tuple[int, ...] = ()
    thresholds: tuple[float, ...] = ()
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()

    @property
    def blocks(self) -> int:
        """Number of blocks: one more than cuts."""
        return len(self.columns) + 1

    def path(self, points: Floats) -> Ints:
        """Block of each record, shape (n,), from points of shape (n, s) on the scale the tree was learnt on."""
        children = np.array([self.left, self.right], dtype=np.int64).reshape(2, len(self.columns))
        if max(self.columns, default=-1) == points.shape[1]:
            points = with_distance(points)
        require_codes(np.array(self.columns, dtype=np.int64), points.shape[1], "the points of a tree")
        return np.asarray(
            _descend(
                read_only(points, np.float64),
                read_only(self.columns, np.int64),
                read_only(self.thresholds, np.float64),
                read_only(children, np.int64),
            )
        )

    def names(self) -> tuple[str, ...]:
        """The path to each block from the root, 0 for left and 1 for right; a block's key is derived from it."""
        found = dict(self._ways())
        return tuple(found[block] for block in range(self.blocks))

    def _ways(self) -> Iterator[tuple[int, str]]:
        below = [(0 if self.columns else -1, "")]
        while below:
            child, way = below.pop()
            if child < 0:
                yield -1 - child, way
            else:
                below += [(self.left[child], way + "0"), (self.right[child], way + "1")]

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain JSON."""
        return {
            "columns": list(self.columns),
            "thresholds": list(self.thresholds),
            "left": list(self.left),
            "right": list(self.right),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BlockTree:
        """The tree of a plan.

        Raises
        ------
        UsageError
            Not a tree: a path down may never end, or lead outside.

        Examples
        --------
        >>> tree = BlockTree((0,), (0.1,), (-1,), (-2,))
        >>> BlockTree.from_dict(tree.to_dict()) == tree
        True
        """
        found = cls(
            tuple(int(column) for column in data["columns"]),
            tuple(float(threshold) for threshold in data["thresholds"]),
            tuple(int(child) for child in data["left"]),
            tuple(int(child) for child in data["right"]),
        )
        nodes = len(found.columns)
        whole = len(found.thresholds) == nodes and min(found.columns, default=0) >= 0
        if not whole or sorted(found.left + found.right) != [*range(-1 - nodes if nodes else 0, 0), *range(1, nodes)]:
            raise UsageError(f"the plan contains an invalid tree of {nodes} cuts: make a new plan")
        return found


def learn_tree(
    points: Floats,
    k: int,
    block: int,
    *,
    weights: Ints | None = None,
    shift: int = 0,
    shell: bool = False,
) -> BlockTree:
    """Cut until no block holds more than `block` records, or none of its columns can be cut.

    A node takes its column of largest variance (the first of equal ones) and cuts between the two values nearest
    to the weighted median that leave k records on either side (the lower of equally near ones); where a column
    has no such place, the next column. Depends only on the multiset of the points: variances are compared exactly,
    on a grid of the node's range.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised and finite.
    k : int
        Least weight of a block, at least 1.
    block : int
        Largest weight of a block, at least 2k for cuts to be found.
    weights : ndarray of int64, shape (n,), optional
        Records that a point represents, such as the size of a group whose mean it is. Default: 1 each.
    shift : int
        Number of top levels that cut at the quarter instead of the median, to move the borders of a later pass.
    shell : bool
        Cut off the `block` records farthest from the origin first, as one block. Where tails are heavy they hold most
        of the variance, and cuts at medians would distribute them over blocks of near records.

    Examples
    --------
    >>> tree = learn_tree(np.arange(8.0)[:, None], k=2, block=4)
    >>> tree.thresholds, tree.path(np.arange(8.0)[:, None]).tolist()
    ((3.0,), [0, 0, 0, 0, 1, 1, 1, 1])
    >>> learn_tree(np.arange(8.0)[:, None], k=2, block=6, shift=1).thresholds
    (1.0,)
    """
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or k < 1 or block < 1 or not np.isfinite(array).all():
        raise UsageError("a block tree needs finite points of shape (n, s), k >= 1 and block >= 1")
    counts = np.array(np.ones(len(array)) if weights is None else weights, dtype=np.int64)
    nodes: list[list[Any]] = []
    leaves = 0
    columns = np.array(array.T, order="C")
    outer = _outer(with_distance(array).T[-1], counts, k, block) if shell and counts.sum() > block else None
    # An entry: the columns and weights of a node's points, its level, and where its parent refers to it.
    below: list[tuple[Floats, Ints, int, tuple[int, int] | None]]
    below = [(columns, counts, 0, None)]
    if outer is not None:
        ranged = np.concatenate([columns, with_distance(array).T[-1:]])
        nodes.append([len(columns), outer, None, None])
        left, left_counts, right, right_counts = _divide(ranged, counts, len(columns), outer)
        below = [(right[:-1].copy(), right_counts, 0, (0, 3)), (left[:-1].copy(), left_counts, 0, (0, 2))]
    while below:
        columns, counts, level, parent = below.pop()
        cut = _cut(columns, counts, k, 1 if level < shift else 2) if counts.sum() > block else None
        if cut is None:
            me, leaves = -1 - leaves, leaves + 1
        else:
            me = len(nodes)
            nodes.append([*cut, None, None])
            left, left_counts, right, right_counts = _divide(columns, counts, *cut)
            below.append((right, right_counts, level + 1, (me, 3)))
            below.append((left, left_counts, level + 1, (me, 2)))
        if parent is not None:
            nodes[parent[0]][parent[1]] = me
    return BlockTree(*zip(*nodes, strict=True)) if nodes else BlockTree()


def _cut(columns: Floats, counts: Ints, k: int, quarters: int) -> tuple[int, float] | None:
    """Column and threshold of a node's cut, or None where no column can be cut."""
    total = int(counts.sum())
    spreads = _variances(columns, counts, total)
    for column in sorted(range(len(columns)), key=lambda j: (-spreads[j], j)):
        if total == len(counts):
            values, below = np.sort(columns[column]), np.arange(1, total + 1)
        else:
            order = np.argsort(columns[column])  # the order of equal values does not matter
            values, below = columns[column][order], np.cumsum(counts[order])
        ends = np.flatnonzero(values[1:] != values[:-1])
        ends = ends[(below[ends] >= k) & (total - below[ends] >= k)]
        if len(ends):
            nearest = ends[np.argmin(np.abs(4 * below[ends] - quarters * total))]
            return column, float(values[nearest]) + 0.0  # otherwise the sort would choose between -0.0 and 0.0
    return None


def with_distance(points: Floats) -> Floats:
    """The points with their squared distance to the origin as one more column.

    Examples
    --------
    >>> with_distance(np.array([[3.0, 4.0]])).tolist()
    [[3.0, 4.0, 25.0]]
    """
    total = np.zeros(len(points))
    for column in points.T:  # column by column, so that no library chooses the order of the sum
        total += column * column
    return np.column_stack([points, total])


def _outer(apart: Floats, counts: Ints, k: int, block: int) -> float | None:
    """The distance beyond which there are about `block` records, k or more on either side; None where there is none."""
    order = np.argsort(apart)
    values, below = apart[order], np.cumsum(counts[order])
    total = int(below[-1])
    ends = np.flatnonzero(values[1:] != values[:-1])
    ends = ends[(below[ends] >= k) & (total - below[ends] >= k)]
    if not len(ends):
        return None
    return float(values[ends[np.argmin(np.abs(total - block - below[ends]))]])


def _variances(columns: Floats, counts: Ints, total: int) -> list[Fraction]:
    """A multiple of the variance of each column, exact for values on a grid of 2^bits steps over their range."""
    bits = (62 - total.bit_length()) // 2  # the sum of squares stays below 2^62
    widths, sums = _grid_sums(columns, counts, 2.0**bits)
    return [
        Fraction(float(width)) ** 2 * (total * int(squares) - int(places) ** 2)
        for width, (places, squares) in zip(widths, sums, strict=True)
    ]


@njit(nogil=True, cache=True)
def _grid_sums(columns: Floats, counts: Ints, steps: float) -> tuple[Floats, Ints]:
    """Range of each column, and weighted sum and sum of squares of its grid places: integers, so in any order."""
    widths, sums = np.zeros(len(columns), np.float64), np.zeros((len(columns), 2), np.int64)
    for j in range(len(columns)):
        low, high = np.inf, -np.inf
        for x in columns[j]:
            low = x if x < low else low
            high = x if x > high else high
        if not high > low:
            continue
        widths[j] = high - low
        for i in range(columns.shape[1]):
            place = np.int64((columns[j, i] - low) / widths[j] * steps)
            sums[j, 0] += counts[i] * place
            sums[j, 1] += counts[i] * place * place
    return widths, sums


@njit(nogil=True, cache=True)
def _divide(columns: Floats, counts: Ints, column: int, threshold: float) -> tuple[Floats, Ints, Floats, Ints]:
    """Points and weights on the left of a cut, and on its right."""
    s, n = columns.shape
    below = 0
    for x in columns[column]:
        below += 1 if x <= threshold else 0
    left, left_counts = np.empty((s, below), np.float64), np.empty(below, np.int64)
    right, right_counts = np.empty((s, n - below), np.float64), np.empty(n - below, np.int64)
    for j in range(s + 1):
        l, r = 0, 0
        for i in range(n):
            if columns[column, i] <= threshold:
                if j < s:
                    left[j, l] = columns[j, i]
                else:
                    left_counts[l] = counts[i]
                l += 1
            else:
                if j < s:
                    right[j, r] = columns[j, i]
                else:
                    right_counts[r] = counts[i]
                r += 1
    return left, left_counts, right, right_counts


@njit(nogil=True, cache=True)
def _descend(
    points: Floats,
    columns: Ints,
    thresholds: Floats,
    children: Ints,
) -> Ints:
    out = np.zeros(len(points), np.int64)
    for i in range(len(points)):
        node = 0 if len(columns) > 0 else -1
        while node >= 0:
            side = 0 if points[i, columns[node]] <= thresholds[node] else 1
            node = children[side, node]
        out[i] = -1 - node
    return out
