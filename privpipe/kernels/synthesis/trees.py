"""Trees of the distribution of a column's codes given other columns: growth, pruning, traversal and draws.

Source: Reiter, Using CART to generate partially synthetic public use microdata, J. Official Statistics 21(3), 2005;
Nowok, Raab, Dibben, synthpop, J. Statistical Software 74(11), 2016. Unordered predictors are put in an order by the
first principal component of the target's shares (Coppersmith, Hong, Hosking, Data Mining and Knowledge Discovery 3,
1999), so that each takes one column and one threshold.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import SMALL, njit
from privpipe.errors import UnsupportedError, UsageError
from privpipe.kernels.synthesis.additive_scores import Score, score_of

__all__ = [
    "CodeTree",
    "category_order",
    "entropy",
    "mutual_information",
    "packed",
    "pruned",
    "require_trees",
    "unpacked",
]


def pruned(left: Ints, right: Ints, leaves: Ints, persons: Sequence[Ints], least: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The tree without the splits that leave a side with fewer persons than `least`.

    Parameters
    ----------
    left, right : ndarray of int64, shape (nodes,)
        Children, numbered above their parent; -1 in a leaf.
    leaves : ndarray of int64, shape (n,)
        Leaf of each record.
    persons : sequence of ndarray of int64, shape (n,)
        The person of each record, unit by unit (persons, households).

    Returns
    -------
    kept : ndarray of int64
        The remaining nodes, by their old numbers, a parent before its children.
    left, right : ndarray of int64
        By the new numbers.
    leaves : ndarray of int64, shape (n,)
        Likewise.

    Examples
    --------
    >>> left, right = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
    >>> found = pruned(left, right, np.array([1, 1, 3, 4, 4]), [np.array([7, 8, 9, 9, 6])], 2)
    >>> [each.tolist() for each in found]
    [[0, 1, 2], [1, -1, -1], [2, -1, -1], [1, 1, 2, 2, 2]]
    """
    counts = np.min([_persons_below(left, right, leaves, each) for each in persons], axis=0)
    kept: list[int] = []
    number = np.full(len(left), -1, np.int64)
    waiting = [0]
    while waiting:
        at = waiting.pop()
        number[at] = len(kept)
        kept.append(at)
        if left[at] >= 0 and min(counts[left[at]], counts[right[at]]) >= least:
            waiting += [int(right[at]), int(left[at])]
    nodes = np.array(kept, np.int64)
    split = [left[at] >= 0 and number[left[at]] >= 0 for at in kept]
    place = number.copy()
    for at in range(len(left)):
        for child in (left[at], right[at]):
            if child >= 0 and number[child] < 0:
                place[child] = place[at]  # its own children come later
    return (
        nodes,
        np.where(split, number[left[nodes]], -1),
        np.where(split, number[right[nodes]], -1),
        place[leaves],
    )


def _persons_below(left: Ints, right: Ints, leaves: Ints, persons: Ints) -> Ints:
    """Different persons among the records of each node."""
    nodes = len(left)
    parent, depth = np.full(nodes, -1, np.int64), np.zeros(nodes, np.int64)
    for at in np.flatnonzero(left >= 0).tolist():
        for child in (left[at], right[at]):
            parent[child], depth[child] = at, depth[at] + 1
    _, codes = np.unique(persons, return_inverse=True)
    width = int(codes.max(initial=0)) + 1
    pairs = np.unique(leaves * width + codes.reshape(-1))
    counts = np.zeros(nodes, np.int64)
    for level in range(int(depth.max()), -1, -1):
        own = depth[pairs // width] == level
        here = pairs[own]
        counts += np.bincount(here // width, minlength=nodes)
        if level:
            pairs = np.union1d(pairs[~own], parent[here // width] * width + here % width)
    return counts


def require_trees(place: str) -> Any:
    """scikit-learn's module of trees.

    Raises
    ------
    UnsupportedError
        The extra is not installed.
    """
    try:
        import sklearn.tree
    except ImportError:
        raise UnsupportedError(
            f"{place}: method: cart needs scikit-learn, which is not installed; `pip install 'privpipe[utility]'`, "
            "or use `method: copula`"
        ) from None
    return sklearn.tree


def packed(numbers: NDArray[Any]) -> str:
    """Integers as text: base64 of little-endian words of 32 bits.

    Examples
    --------
    >>> packed(np.array([1, 2])), unpacked("AQAAAAIAAAA=").tolist()
    ('AQAAAAIAAAA=', [1, 2])
    """
    return base64.b64encode(np.asarray(numbers).astype("<i4").tobytes()).decode()


def unpacked(text: str) -> Ints:
    """The integers of `packed`."""
    return np.frombuffer(base64.b64decode(text), "<i4").astype(np.int64)


def _walk_columns(features: Any, feature: Any, threshold: Any, left: Any, right: Any) -> Any:
    at = np.zeros(len(features), np.int64)
    while True:
        inner = np.flatnonzero(left[at] >= 0)
        if not len(inner):
            return at
        node = at[inner]
        below = features[inner, feature[node]] <= threshold[node]
        at[inner] = np.where(below, left[node], right[node])


@njit(small=SMALL, plain=_walk_columns, nogil=True, cache=True)
def _walk(features: Any, feature: Any, threshold: Any, left: Any, right: Any) -> Any:
    out = np.empty(len(features), np.int64)
    for i in range(len(features)):
        at = 0
        while left[at] >= 0:
            at = left[at] if features[i, feature[at]] <= threshold[at] else right[at]
        out[i] = at
    return out


@dataclass(frozen=True)
class CodeTree:
    """A tree over columns of codes with the counts of the target's codes in each leaf.

    Parameters
    ----------
    orders : mapping of predictor to ndarray of int64
        For each predictor in use, the place of each of its codes; thresholds apply to places.
    feature, threshold, left, right : ndarray of int64, shape (nodes,)
        Records whose place is at most the threshold go left; -1 in `left`: a leaf.
    offsets : ndarray of int64, shape (nodes + 1,)
        Where the codes of each leaf begin.
    codes, ends : ndarray of int64
        Codes in each leaf, ascending, and the running sum of their records, over all leaves.
    scores : sequence of Score
        Features after the predictors: sums over columns of a number for each code.
    """

    orders: Mapping[str, Ints] = field(repr=False)
    feature: Ints = field(repr=False)
    threshold: Ints = field(repr=False)
    left: Ints = field(repr=False)
    right: Ints = field(repr=False)
    offsets: Ints = field(repr=False)
    codes: Ints = field(repr=False)
    ends: Ints = field(repr=False)
    scores: Sequence[Score] = field(default=(), repr=False)

    @classmethod
    def grown(
        cls,
        target: Ints,
        outputs: Floats | None,
        predictors: Mapping[str, Ints],
        orders: Mapping[str, Ints],
        min_leaf: int,
        scores: Sequence[Score] = (),
        place: str = "synthesize",
        persons: Sequence[Ints] = (),
    ) -> Self:
        """A tree of these records; the same for the same records in the same order.

        Parameters
        ----------
        target : ndarray of int64, shape (n,)
            Codes from 0.
        outputs : ndarray of float64, shape (n, o), optional
            Outputs of an ordered target, for squared errors; none: the entropy of the codes.
        predictors : mapping of column to ndarray of int64, shape (n,)
        orders : mapping of column to ndarray of int64
        min_leaf : int
            Least records of a leaf.
        scores : sequence of Score
            Over columns among the predictors.
        persons : sequence of ndarray of int64, shape (n,)
            The person of each record (and the household): a leaf has at least `min_leaf` different ones of each.
        """
        names = [name for name in predictors if len(target) and predictors[name].min() != predictors[name].max()]
        if not names or len(target) < 2 * min_leaf or target.min() == target.max():
            return cls._leaf(target)
        trees = require_trees(place)
        placed = [orders[name][predictors[name]] for name in names]
        X = np.column_stack([*placed, *(score_of(score, predictors) for score in scores)]).astype(np.float32)
        same = {"min_samples_leaf": min_leaf, "random_state": 0}
        if outputs is None:
            # Entropy also separates rare categories, to which the Gini impurity is hardly sensitive.
            fitted = trees.DecisionTreeClassifier(criterion="entropy", **same).fit(X, target).tree_
        else:
            fitted = trees.DecisionTreeRegressor(**same).fit(X, outputs).tree_
        left, right = fitted.children_left.astype(np.int64), fitted.children_right.astype(np.int64)
        kept, reached = np.arange(len(left)), fitted.apply(X).astype(np.int64)
        if persons:
            kept, left, right, reached = pruned(left, right, reached, persons, min_leaf)
        inner = left >= 0
        feature = np.where(inner, fitted.feature[kept], 0).astype(np.int64)
        threshold = np.where(inner, np.floor(fitted.threshold[kept]), 0).astype(np.int64)
        used = sorted(set(feature[inner].tolist()))
        renumbered = np.zeros(len(names) + len(scores), np.int64)
        renumbered[used] = np.arange(len(used))
        offsets, codes, ends = _counted(reached, target, len(left))
        return cls(
            {names[at]: orders[names[at]] for at in used if at < len(names)},
            renumbered[feature],
            threshold,
            left,
            right,
            offsets,
            codes,
            ends,
            [scores[at - len(names)] for at in used if at >= len(names)],
        )

    @classmethod
    def _leaf(cls, target: Ints) -> Self:
        none = np.full(1, -1, np.int64)
        counted = _counted(np.zeros(len(target), np.int64), target, 1)
        return cls({}, np.zeros(1, np.int64), np.zeros(1, np.int64), none, none, *counted)

    def leaves(self, columns: Mapping[str, Ints], n: int) -> Ints:
        """Leaf of each record, by its codes."""
        if not self.orders and not self.scores:
            return np.zeros(n, np.int64)
        placed = [order[columns[name]] for name, order in self.orders.items()]
        features = np.column_stack([*placed, *(score_of(score, columns) for score in self.scores)])
        words = [read_only(each, np.int64) for each in (features, self.feature, self.threshold, self.left, self.right)]
        return np.asarray(_walk(*words))

    def drawn(self, leaves: Ints, uniforms: Floats) -> Ints:
        """A code from each leaf by its counts; -1 for a tree without records.

        Examples
        --------
        >>> tree = CodeTree.grown(np.array([0, 0, 0, 2]), None, {}, {}, 5)
        >>> tree.drawn(np.zeros(3, np.int64), np.array([0.1, 0.7, 0.8])).tolist()
        [0, 0, 2]
        """
        if not len(self.codes):
            return np.full(len(leaves), -1, np.int64)
        running = np.concatenate([[0], self.ends])
        first, last = running[self.offsets[leaves]], running[self.offsets[leaves + 1]]
        # The records of all leaves are in one array, so one search is enough for all.
        picked = np.minimum(first + np.floor(uniforms * (last - first)).astype(np.int64), last - 1)
        return np.asarray(self.codes[np.searchsorted(self.ends, picked, side="right")])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; long rows of integers as text."""
        arrays = {name: packed(getattr(self, name)) for name in ARRAYS}
        # A list: thresholds refer to predictors by place, and JSON may sort the keys of a mapping.
        orders = [[name, order.tolist()] for name, order in self.orders.items()]
        scores = [[[name, packed(weights)] for name, weights in score.items()] for score in self.scores]
        return {"orders": orders, "scores": scores, **arrays}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The tree of `to_dict`.

        Raises
        ------
        UsageError
            Not a tree: a path down may never end, or lead outside.
        """
        orders = {name: np.array(order, np.int64) for name, order in data["orders"]}
        # A plan made before scores existed has none, and still draws the same records.
        scores = [{name: unpacked(weights) for name, weights in score} for score in data.get("scores", ())]
        found = cls(orders, **{name: unpacked(data[name]) for name in ARRAYS}, scores=scores)
        if not found._is_whole():
            raise UsageError(f"the plan contains an invalid tree of {len(found.left)} nodes: make a new plan")
        return found

    def fits(self, sizes: Mapping[str, int], own: int) -> bool:
        """Whether it looks up only codes of these columns, within their sizes, and draws codes of the target.

        Examples
        --------
        >>> tree = CodeTree.grown(np.array([0, 2]), None, {}, {}, 5)
        >>> tree.fits({}, 3), tree.fits({}, 2)
        (True, False)
        """
        looked_up = [*self.orders.items(), *(part for score in self.scores for part in score.items())]
        return int(self.codes.max(initial=-1)) < own and all(
            name in sizes and each.shape == (sizes[name],) for name, each in looked_up
        )

    def _is_whole(self) -> bool:
        nodes, inner = len(self.left), self.left >= 0
        lengths = {nodes, len(self.feature), len(self.threshold), len(self.right), len(self.offsets) - 1}
        if lengths != {nodes} or not nodes or len(self.codes) != len(self.ends):
            return False
        below = np.sort(np.concatenate([self.left[inner], self.right[inner]]))
        features = self.feature[inner]
        steps = np.diff(self.offsets)
        return bool(
            np.array_equal(below, np.arange(1, nodes))
            and ((features >= 0) & (features < len(self.orders) + len(self.scores))).all()
            and self.offsets[0] == 0
            and (steps >= 0).all()
            and self.offsets[-1] == len(self.codes)
            and (not len(self.codes) or (steps[~inner] > 0).all())
            and (np.diff(self.ends, prepend=0) > 0).all()
            and (self.codes >= 0).all()
        )


ARRAYS = ("feature", "threshold", "left", "right", "offsets", "codes", "ends")


def _counted(leaves: Ints, target: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    width = int(target.max(initial=0)) + 1
    cells, counts = np.unique(leaves * width + target, return_counts=True)
    offsets = np.searchsorted(cells // width, np.arange(nodes + 1))
    return offsets.astype(np.int64), cells % width, np.cumsum(counts).astype(np.int64)


def category_order(codes: Ints, size: int, outputs: Floats) -> Ints:
    """Place of each code among `size`, by the first principal component of the mean outputs of its records.

    Parameters
    ----------
    outputs : ndarray of float64, shape (n, o)
        An ordered target's scores, or one column for each code of an unordered one.

    Examples
    --------
    >>> category_order(np.array([0, 1, 2, 1]), 3, np.array([[9.0], [1.0], [5.0], [2.0]])).tolist()
    [2, 0, 1]
    """
    counts = np.bincount(codes, minlength=size).astype(np.float64)
    held = np.flatnonzero(counts)
    sums = np.stack([np.bincount(codes, weights=each, minlength=size) for each in outputs.T], axis=1)
    means = sums[held] / counts[held, None]
    centred = means - (means * counts[held, None]).sum(0) / counts.sum()
    if centred.shape[1] > 1:
        _, vectors = np.linalg.eigh((centred * counts[held, None]).T @ centred)
        first = vectors[:, -1]
        score = centred @ (first * np.sign(first[np.abs(first).argmax()] or 1.0))
    else:
        score = centred[:, 0]
    found = np.zeros(size, np.int64)
    # Rounded: values that differ only in the last bits tie, and ties go by code.
    found[held[np.argsort(np.round(score, 12), kind="stable")]] = np.arange(len(held))
    return found


def mutual_information(columns: Sequence[Ints]) -> Floats:
    """Share of each column's entropy that each other one explains, shape (c, c): I(row; column) / H(row).

    Minus the expectation by chance, (rows - 1)(columns - 1) / 2n nats, but at least 0.

    Examples
    --------
    >>> a, b = np.repeat([0, 1], 500), np.tile([0, 1], 500)
    >>> mutual_information([a, a, b]).round(2).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    c = len(columns)
    found = np.eye(c)
    coded = [np.unique(each, return_inverse=True)[1] for each in columns]
    entropies = [entropy(np.bincount(each)) for each in coded]
    for i in range(c):
        for j in range(i + 1, c):
            a, b = int(coded[i].max(initial=0)) + 1, int(coded[j].max(initial=0)) + 1
            joint = entropy(np.bincount(coded[i] * b + coded[j]))
            shared = entropies[i] + entropies[j] - joint - (a - 1) * (b - 1) / (2 * max(len(coded[i]), 1))
            for one, other in ((i, j), (j, i)):
                found[one, other] = max(shared, 0.0) / entropies[one] if entropies[one] > 0 else 0.0
    return found


def entropy(counts: Ints) -> float:
    """Entropy of the shares of these counts, in nats.

    Examples
    --------
    >>> round(entropy(np.array([2, 2, 0])), 3)
    0.693
    """
    held = counts[counts > 0]
    shares = held / max(held.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
