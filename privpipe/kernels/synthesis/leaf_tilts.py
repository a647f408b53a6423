"""Draws from leaves, tilted by the earlier columns: this preserves relations that are too weak for splits.

Two codes are drawn from a leaf, and a coin chooses one of them. It is biased by the sum of the weights of the record's
codes minus the leaf's mean of this sum, so that the shares of a leaf are preserved on average over its records, and a
code is drawn at most twice as often as its share. Weights are learnt such that the covariances of the column with every
feature of every earlier column are those of the records, as far as coins can be biased: for a number by least squares
within leaves, for a category by one Newton step towards the maximum-likelihood odds, with an intercept per leaf and
code.

Source: Mundlak, On the pooling of time series and cross section data, Econometrica 46, 1978 (within groups); Landwehr,
Hall, Frank, Logistic model trees, Machine Learning 59, 2005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import UsageError
from privpipe.kernels.synthesis.additive_scores import GRAIN, LEAST, ROWS, SHRINKAGE
from privpipe.kernels.synthesis.trees import CodeTree, packed, unpacked

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.additive_scores import CodeMoments

__all__ = ["LeafTilt", "Tilting"]

STEPS = 4096
"""Integer that represents a weight of 1; sums of weights and features are integers, too."""
HEAVIEST = 1 << 18
"""Largest weight: coins cannot be biased further."""
WHOLE = STEPS * GRAIN
LONGEST = 2**31 - 1
OUTPUTS = 3
"""Outputs of a number: rank, value, and whether it is missing; these are its first features."""
SOFTENING = 0.02
"""Share of an output's variance in a leaf that is added to it, since rank and value hardly differ in some leaves."""
ROUNDS = 8
CLOSE = 1e-3
"""Squared relative residual at which the iteration stops."""


@dataclass(frozen=True)
class LeafTilt:
    """Weight of each feature of the earlier columns, for each output of a column, and the means of the sums in leaves.

    Parameters
    ----------
    weights : ndarray of int64, shape (features, outputs)
        For a number, outputs are its features rank, value and missing; for a category, its codes.
    means : ndarray of int64, shape (nodes, outputs)
        0 for a node that is not a leaf.
    """

    weights: Ints = field(repr=False)
    means: Ints = field(repr=False)

    @classmethod
    def learnt(
        cls,
        tree: CodeTree,
        columns: Mapping[str, Ints],
        before: Sequence[str],
        target: str,
        moments: CodeMoments,
        ordered: bool,
    ) -> Self:
        """Learn from the records that the tree was grown from, and their moments.

        Parameters
        ----------
        tree : CodeTree
        columns : mapping of column to ndarray of int64, shape (n,)
            Codes of the earlier columns and of the target.
        before : sequence of str
            At least one.
        target : str
        moments : CodeMoments
            Moments of these records.
        ordered : bool
            Whether the target is a number.
        """
        relations = _LeafRelations.of(tree, columns, before, target, moments)
        found = relations.of_number(moments.tables[target][:, :OUTPUTS]) if ordered else relations.of_category()
        weights = np.clip(np.rint(found * STEPS), -HEAVIEST, HEAVIEST).astype(np.int64)
        # A leaf's mean of its records' sums is the sum of the mean features: both start as whole numbers.
        means = np.zeros((len(tree.left), weights.shape[1]))
        means[relations.held] = (relations.sums @ weights) / relations.counts[:, None]
        return cls(weights, np.clip(np.rint(means), -LONGEST, LONGEST).astype(np.int64))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"outputs": self.weights.shape[1], "weights": packed(self.weights), "means": packed(self.means)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The tilt of `to_dict`."""
        outputs = max(int(data["outputs"]), 1)
        try:
            return cls(*(unpacked(data[name]).reshape(-1, outputs) for name in ("weights", "means")))
        except ValueError:
            raise UsageError("the plan holds weights of leaves that do not fit: make a new plan") from None


@dataclass(frozen=True)
class _LeafRelations:
    """The relation of a column to features within the leaves of its tree."""

    columns: Mapping[str, Ints]
    tables: Mapping[str, Ints]
    target: Ints
    leaves: Ints  # place of each record's leaf among those with records
    held: Ints
    counts: Ints  # of each leaf
    shares: Floats  # of each leaf and code
    sums: Floats  # of the features, of each leaf; whole numbers
    crossed: Floats  # of the features, of each code, minus the part explained by its leaves' means: in records
    within: Floats  # covariances of features within leaves, in records

    @classmethod
    def of(
        cls, tree: CodeTree, columns: Mapping[str, Ints], before: Sequence[str], target: str, moments: CodeMoments
    ) -> Self:
        known, y, n = {name: columns[name] for name in before}, columns[target], len(columns[target])
        held, leaves = np.unique(tree.leaves(known, n), return_inverse=True)
        tables = {name: moments.tables[name] for name in before}
        size = len(moments.tables[target])
        counts = np.bincount(leaves, minlength=len(held))
        table = np.bincount(leaves * size + y, minlength=len(held) * size).reshape(len(held), size)
        sums = _summed(leaves, len(held), known, tables)
        shares = table / counts[:, None]
        crossed = (_summed(y, size, known, tables) - shares.T @ sums) / GRAIN
        places = moments.places(before)
        products = moments.products[np.ix_(places, places)]
        scaled = sums / np.sqrt(counts)[:, None]
        within = (products - scaled.T @ scaled) / GRAIN**2
        return cls(known, tables, y, leaves, held, counts, shares, sums, crossed, within)

    def of_number(self, outputs: Ints) -> Floats:
        """Weight of each feature for the outputs of a number, in deviations: least squares within leaves."""
        crossed = self.crossed.T @ (outputs / GRAIN)
        return np.asarray(np.linalg.solve(self.within + SHRINKAGE * np.eye(len(self.within)), crossed), np.float64)

    def of_category(self) -> Floats:
        """Weight of each feature for the odds of each code: one Newton step, by conjugate gradients."""
        roots, vectors = np.linalg.eigh(self.within)
        totals = self.counts @ self.shares / self.counts.sum()
        scales = np.maximum(roots, 0.0)[:, None] * totals + SHRINKAGE
        rest = self.crossed.T
        found = np.zeros(rest.shape)
        ahead = vectors @ (vectors.T @ rest / scales)
        slope = first = float((rest * ahead).sum())
        way = ahead
        for _ in range(ROUNDS):
            if not slope > CLOSE * first:
                break
            moved = self._moved(way)
            length = slope / float((way * moved).sum())
            found, rest = found + length * way, rest - length * moved
            ahead = vectors @ (vectors.T @ rest / scales)
            before, slope = slope, float((rest * ahead).sum())
            way = ahead + slope / before * way
        return found

    def _moved(self, weights: Floats) -> Floats:
        """How far these weights move the sums of the features of each code, plus the ridge term."""
        means, moved = (self.sums @ weights) / (self.counts[:, None] * GRAIN), SHRINKAGE * weights
        for start in range(0, len(self.target), ROWS):
            here = slice(start, start + ROWS)
            parts = [table[self.columns[name][here]] for name, table in self.tables.items()]
            features = np.column_stack(parts) / GRAIN
            shares = self.shares[self.leaves[here]]
            lean = features @ weights - means[self.leaves[here]]
            moved = moved + features.T @ (shares * (lean - (shares * lean).sum(axis=1, keepdims=True)))
        return moved


def _summed(groups: Ints, count: int, columns: Mapping[str, Ints], tables: Mapping[str, Ints]) -> Floats:
    """Sums of the features of the records of each group: whole numbers, the same in any order."""
    from scipy.sparse import csr_matrix

    parts = []
    for name, table in tables.items():
        ones = np.ones(len(groups))
        cells = csr_matrix((ones, (groups, columns[name])), shape=(count, len(table)))
        parts.append(np.asarray(cells @ table.astype(np.float64)))
    return np.column_stack(parts)


@dataclass(frozen=True)
class Tilting:
    """A tilt prepared for draws: sums by code instead of by feature.

    Parameters
    ----------
    added : mapping of column to ndarray of int64, shape (codes, outputs)
    means : ndarray of int64, shape (nodes, outputs)
    outputs : ndarray of int64, shape (codes of the target, outputs), optional
        Only for a number.
    inverses : ndarray of float64, shape (nodes, outputs, outputs), optional
        Only for a number: inverses of the covariances of its outputs in each leaf.
    """

    added: Mapping[str, Ints] = field(repr=False)
    means: Ints = field(repr=False)
    outputs: Ints | None = field(default=None, repr=False)
    inverses: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        tilt: LeafTilt,
        tree: CodeTree,
        features: Mapping[str, Ints],
        before: Sequence[str],
        target: str,
        ordered: bool,
    ) -> Self:
        """From the features of each column's codes, and the earlier columns.

        Raises
        ------
        UsageError
            Weights, features and tree do not fit each other.
        """
        widths = [features[name].shape[1] for name in before]
        outputs = features[target][:, :OUTPUTS] if ordered else None
        wanted = len(features[target]) if outputs is None else outputs.shape[1]
        fits = len(tilt.weights) == sum(widths) and len(tilt.means) == len(tree.left)
        if not fits or wanted != tilt.weights.shape[1] or tree.codes.max(initial=0) >= len(features[target]):
            raise UsageError("the plan holds weights of leaves that do not fit its trees: make a new plan")
        parts = zip(before, np.split(tilt.weights, np.cumsum(widths)[:-1]), strict=True)
        added = {name: features[name] @ each for name, each in parts}
        return cls(added, tilt.means, outputs, None if outputs is None else _inverses(tree, outputs))

    def taken(self, leaves: Ints, columns: Mapping[str, Ints], first: Ints, second: Ints, coins: Floats) -> Ints:
        """For each record, the one of two codes from its leaf that its coin, a uniform, chooses.

        Examples
        --------
        >>> tilt = Tilting({"sex": np.array([[0, 0], [0, WHOLE // 2]])}, np.zeros((1, 2), np.int64))
        >>> two = {"sex": np.array([0, 1])}, np.zeros(2, np.int64), np.ones(2, np.int64)
        >>> tilt.taken(np.zeros(2, np.int64), *two, np.array([0.4, 0.4])).tolist()
        [0, 1]
        """
        lean = self._lean(leaves, columns, first, second)
        return np.where(coins < 0.5 + 0.5 * lean, first, second)

    def _lean(self, leaves: Ints, columns: Mapping[str, Ints], first: Ints, second: Ints) -> Floats:
        if self.outputs is None or self.inverses is None:
            total = self.means[leaves, second] - self.means[leaves, first]
            for name, added in self.added.items():
                total = total + added[columns[name], first] - added[columns[name], second]
            return np.asarray(total / WHOLE)
        away = -self.means[leaves]
        for name, added in self.added.items():
            away = away + added[columns[name]]
        apart = (self.outputs[first] - self.outputs[second]) / GRAIN
        inverses = self.inverses[leaves]
        lean = np.zeros(len(leaves))
        for i in range(apart.shape[1]):  # term by term, so that blocks of any length give the same bits
            for j in range(apart.shape[1]):
                lean += away[:, i] / WHOLE * inverses[:, i, j] * apart[:, j]
        return lean


def _inverses(tree: CodeTree, outputs: Ints) -> Floats:
    """For each leaf, the inverse of its covariances of the outputs; integer sums, independent of the record order."""
    nodes, width = len(tree.left), outputs.shape[1]
    records = np.diff(tree.ends, prepend=0)
    at = np.repeat(np.arange(nodes), np.diff(tree.offsets))
    n = np.maximum(np.bincount(at, weights=records, minlength=nodes), 1.0)
    values = outputs[tree.codes] / GRAIN
    first = [np.bincount(at, weights=each * records, minlength=nodes) / n for each in values.T]
    found = np.empty((nodes, width, width))
    for i in range(width):
        for j in range(width):
            away = (values[:, i] - first[i][at]) * (values[:, j] - first[j][at])
            found[:, i, j] = np.bincount(at, weights=away * records, minlength=nodes) / n
    own = np.arange(width)
    found[:, own, own] += SOFTENING * found[:, own, own] + LEAST
    return np.asarray(np.linalg.inv(found), np.float64)
