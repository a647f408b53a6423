"""Scores that sum the relations of a column to all earlier ones: a tree splits by them where single columns fail.

A score is the fitted value of a ridge regression of the column on features of the codes of all earlier ones, hence a
sum of one number for each column's code. Numbers are whole: a record's score is the same in any order of addition.

Source: Hoerl, Kennard, Ridge regression, Technometrics 12, 1970; Gama, Functional trees, Machine Learning 55, 2004.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from privpipe.blocks.arrays import Floats, Ints

__all__ = [
    "GRAIN",
    "LEAST",
    "ROWS",
    "SHRINKAGE",
    "CodeMoments",
    "Score",
    "additive_scores",
    "category_features",
    "features_each",
    "number_features",
    "score_of",
]

Score = dict[str, Ints]
"""For each column, the number that each of its codes adds."""
GRAIN = 256
"""Integer that represents a feature of 1, or of one deviation: sums of products stay exact in floats."""
GROUPS = 10
"""Most groups of consecutive codes of a number that have a separate level."""
MOST_FEATURES = 1500
"""Approximate limit of the features of all columns: codes of wide tables share some."""
SHRINKAGE = 5.0
"""Strength, in records, with which each feature is shrunk towards 0: a rare category has little influence."""
DIRECTIONS = 8
"""Most scores of a category."""
LEAST = 1e-6
"""Least share of the variance; a score that explains less is rounding."""
LARGEST = 1 << 16
"""Largest score: fine enough to separate records, too coarse for the last bits of a solved equation to matter."""
ROWS = 8192


def features_each(columns: int) -> int:
    """Most features that a category, or the groups of a number, may have.

    Examples
    --------
    >>> features_each(15), features_each(300)
    (100, 5)
    """
    return max(MOST_FEATURES // max(columns, 1), 3)


def category_features(counts: Ints, most: int) -> Ints:
    """A feature for each code of a category; the rarest share the last of `most`.

    Parameters
    ----------
    counts : ndarray of int64, shape (codes,)
        Records of each code.
    most : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (codes, features)
        In 256ths.

    Examples
    --------
    >>> category_features(np.array([1, 9, 2]), 2).tolist()
    [[0, 256], [256, 0], [0, 256]]
    """
    place = np.empty(len(counts), np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.asarray(np.eye(min(most, len(counts)), dtype=np.int64)[np.minimum(place, most - 1)] * GRAIN)


def number_features(counts: Ints, means: Floats, most: int = GROUPS) -> Ints:
    """Features of each code of a number: its rank and value in deviations, whether it is missing, and its group.

    Parameters
    ----------
    counts : ndarray of int64, shape (codes,)
        Records of each code; the first is missing.
    means : ndarray of float64, shape (codes - 1,)
        Value of each other code, ascending.
    most : int
        Most groups.

    Returns
    -------
    ndarray of int64, shape (codes, 3 or more)
        In 256ths.

    Examples
    --------
    >>> number_features(np.array([0, 1, 1]), np.array([3.0, 5.0])).tolist()
    [[0, 0, 256, 0, 0], [-256, -256, 0, 256, 0], [256, 256, 0, 0, 256]]
    """
    held = counts[1:].astype(np.float64)
    middles = np.cumsum(held) - held / 2.0
    missing = np.zeros(len(counts))
    missing[0] = 1.0
    groups = np.floor(middles * min(most, GROUPS) / max(held.sum(), 1.0)).astype(np.int64)
    found = np.unique(groups)
    levels = np.concatenate([np.zeros((1, len(found))), (groups[:, None] == found) * 1.0])
    ordered = [np.concatenate([[0.0], _scaled(each, held)]) for each in (middles, means)]
    return np.asarray(np.rint(np.column_stack([*ordered, missing, levels]) * GRAIN), np.int64)


def _scaled(values: Floats, weights: Floats) -> Floats:
    total = max(float(weights.sum()), 1.0)
    away = values - float((values * weights).sum()) / total
    sd = float(np.sqrt((away * away * weights).sum() / total))
    return away / sd if sd > 0 else np.zeros(len(values))


@dataclass(frozen=True)
class CodeMoments:
    """Sums of features, and of their products, over records: whole numbers, the same in any order.

    Parameters
    ----------
    tables : mapping of column to ndarray of int64, shape (codes, features)
    sums : ndarray of float64, shape (1 + features of all,)
        Number of records, then the features'.
    products : ndarray of float64, shape (features of all, features of all)
    """

    tables: Mapping[str, Ints] = field(repr=False)
    sums: Floats = field(repr=False)
    products: Floats = field(repr=False)

    @classmethod
    def of(cls, codes: Mapping[str, Ints], tables: Mapping[str, Ints]) -> Self:
        """Moments of records with these codes."""
        width = sum(table.shape[1] for table in tables.values())
        sums, products = np.zeros(1 + width), np.zeros((width, width))
        n = len(next(iter(codes.values()))) if codes else 0
        for start in range(0, n, ROWS):
            parts = [table[codes[name][start : start + ROWS]] for name, table in tables.items()]
            features = np.column_stack(parts).astype(np.float64)
            sums += np.concatenate([[len(features)], features.sum(axis=0)])
            products += features.T @ features
        return cls(tables, sums, products)

    def without(self, other: CodeMoments) -> CodeMoments:
        """Moments of the records that are not among these."""
        return CodeMoments(self.tables, self.sums - other.sums, self.products - other.products)

    def places(self, names: Sequence[str]) -> Ints:
        """Places of the features of these columns."""
        ends = dict(zip(self.tables, np.cumsum([table.shape[1] for table in self.tables.values()]), strict=True))
        ranges = [np.arange(ends[name] - self.tables[name].shape[1], ends[name]) for name in names]
        return np.concatenate(ranges).astype(np.int64) if ranges else np.empty(0, np.int64)

    def centred(self, rows: Ints, columns: Ints) -> Floats:
        """Covariances of features, in records."""
        n = max(float(self.sums[0]), 1.0)
        first, second = self.sums[1:][rows], self.sums[1:][columns]
        return np.asarray((self.products[np.ix_(rows, columns)] - np.outer(first, second) / n) / GRAIN**2)


def additive_scores(moments: CodeMoments, before: Sequence[str], target: str, ordered: bool) -> list[Score]:
    """Scores of a column from those before it.

    Parameters
    ----------
    moments : CodeMoments
    before : sequence of str
    target : str
    ordered : bool
        Whether it is a number: its rank, its value and whether it is missing have a score each. A category has one
        for each of the leading directions that separate its codes.

    Returns
    -------
    list of Score
        Without those that explain nothing. Each is followed by the same score without the column whose codes differ
        most in it: a tree splits by that column anyway, and it would hide weak relations.
    """
    rows, columns = moments.places(before), moments.places([target])
    columns = columns[:3] if ordered else columns
    own = moments.centred(columns, columns).diagonal()
    columns, own = columns[own > LEAST], own[own > LEAST]
    if not len(rows) or not len(columns):
        return []
    covariance = moments.centred(rows, rows)
    weights = np.linalg.solve(covariance + SHRINKAGE * np.eye(len(rows)), moments.centred(rows, columns)) / np.sqrt(own)
    if not ordered:
        weights = weights @ _directions(weights.T @ covariance @ weights)
    found = [_parts(moments.tables, before, each) for each in weights.T if each @ covariance @ each > LEAST]
    return [_whole(each) for parts in found for each in (parts, _without_widest(parts)) if each]


def _directions(explained: Floats) -> Floats:
    """Leading directions of fitted shares, each share in units of its deviation."""
    vectors = np.linalg.eigh(explained)[1][:, ::-1]
    leading = vectors[:, : min(DIRECTIONS, max(len(vectors) - 1, 1))]  # shares add up to one: the last adds nothing
    largest = np.abs(np.round(leading, 9)).argmax(axis=0)
    return np.asarray(leading * np.sign(leading[largest, np.arange(leading.shape[1])]))


def _parts(tables: Mapping[str, Ints], before: Sequence[str], weights: Floats) -> dict[str, Floats]:
    """The number that each code adds; without columns that add the same to every record."""
    ends = np.cumsum([tables[name].shape[1] for name in before])
    parts = zip(before, np.split(weights, ends[:-1]), strict=True)
    found = {name: (tables[name] / GRAIN) @ each for name, each in parts}
    return {name: each for name, each in found.items() if np.ptp(each) > LEAST}


def _without_widest(parts: Mapping[str, Floats]) -> dict[str, Floats]:
    """The parts without the column whose codes differ most, unless fewer than two would remain."""
    widest = max(parts, key=lambda name: round(float(parts[name].std()), 9))
    return {name: each for name, each in parts.items() if name != widest} if len(parts) > 2 else {}


def _whole(parts: Mapping[str, Floats]) -> Score:
    scale = LARGEST / sum(float(np.abs(each).max()) for each in parts.values())
    return {name: np.rint(each * scale).astype(np.int64) for name, each in parts.items()}


def score_of(score: Mapping[str, Ints], codes: Mapping[str, Ints]) -> Ints:
    """The score of each record.

    Examples
    --------
    >>> score = {"age": np.array([0, 5]), "town": np.array([1, -1])}
    >>> score_of(score, {"age": np.array([1, 0]), "town": np.array([0, 1])}).tolist()
    [6, -1]
    """
    total: Ints = np.zeros((), np.int64)
    for name, weights in score.items():
        total = total + weights[codes[name]]
    return total
