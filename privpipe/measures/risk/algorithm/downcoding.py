"""Downcoding: guessing finer labels, one level below those of a release, from what an algorithm did not split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import FilePath, LargestShare, OptionalNumber, OwnColumns, Stricter
from privpipe.blocks.verdict import EXPLAIN, Comparison
from privpipe.errors import UsageError
from privpipe.hierarchies import canonical_text
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Downcoding",
    "Finer",
    "finer_labels",
    "texts_of",
]


Text = str | None


@dataclass(frozen=True)
class Finer:
    """A column of both files, seen through its hierarchy.

    Parameters
    ----------
    values, labels : list of str or None
        Distinct originals (and any others requested), and distinct released labels.
    value_of, label_of : ndarray of int64, shape (n,)
        Of each record.
    children : list of ndarray of int64, shape (len(values),), or None
        Of each label the child that each value is under, -1: not under the label; None: the label is not
        a generalization, or nothing finer is known.
    leaves : list of ndarray of int64, or None
        For each label, how many values of the hierarchy each child represents.
    """

    values: list[Text] = field(repr=False)
    labels: list[Text] = field(repr=False)
    value_of: Ints = field(repr=False)
    label_of: Ints = field(repr=False)
    children: list[Ints | None] = field(repr=False)
    leaves: list[Ints | None] = field(repr=False)

    def covers(self, label: int) -> Bools:
        """The values that the label represents."""
        own = self.children[label]
        if own is None:
            return np.array([value == self.labels[label] for value in self.values], dtype=np.bool_)
        return np.asarray(own >= 0, dtype=np.bool_)


def finer_labels(files: FilePair, column: str, others: Sequence[Text] = ()) -> Finer:
    """The column's labels and what each of them can be split into.

    Parameters
    ----------
    others : sequence of str or None
        Further values, of another table.
    """
    before, after = texts_of(files.original, column), texts_of(files.released, column)
    seen: dict[Text, int] = {}
    value_of = np.array([seen.setdefault(text, len(seen)) for text in before], dtype=np.int64)
    counts = np.bincount(value_of, minlength=len(seen)).tolist()
    for text in others:
        seen.setdefault(text, len(seen))
    values = list(seen)
    counts += [1] * (len(values) - len(counts))
    told: dict[Text, int] = {}
    label_of = np.array([told.setdefault(text, len(told)) for text in after], dtype=np.int64)
    labels = list(told)
    if column not in files.hierarchies:
        return Finer(values, labels, value_of, label_of, [None] * len(labels), [None] * len(labels))
    kind = column_type_of(files.original.schema.field(column).type)
    hierarchy: Any = files.hierarchies[column].build(values, counts, kind)
    codes = np.asarray(hierarchy.encode(values), dtype=np.int64)
    levels = [hierarchy.released(level) for level in range(hierarchy.height + 1)]
    split = [_split(label, levels, codes) for label in labels]
    return Finer(values, labels, value_of, label_of, [each[0] for each in split], [each[1] for each in split])


def texts_of(batch: pa.RecordBatch | pa.Table, column: str) -> list[Text]:
    """Canonical texts of a column."""
    values = batch.column(column)
    found: list[Text] = canonical_text(values, column_type_of(values.type), column=column).to_pylist()
    return found


def _split(label: Text, levels: list[list[Text]], codes: Ints) -> tuple[Ints | None, Ints | None]:
    """Children of a label at the first level below it that has several."""
    for level in range(1, len(levels)):
        under = [code for code, text in enumerate(levels[level]) if text == label]
        finer = dict.fromkeys(levels[level - 1][code] for code in under)
        if len(finer) < 2:
            continue
        numbers = {text: number for number, text in enumerate(finer)}
        child = np.full(len(levels[level]), -1, dtype=np.int64)
        child[under] = [numbers[levels[level - 1][code]] for code in under]
        return np.where(codes >= 0, child[codes], -1), np.bincount(child[under], minlength=len(finer))
    return None, None


LARGEST = 20_000


@dataclass(frozen=True, kw_only=True, repr=False)
class Downcoding(FilePairMeasure):
    """Gain over the prior in guessing the cells of unsplit classes one level finer.

    Experimental: an indicator, not the published attack.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    prior : str
        Where prior counts come from: `released`, cells that the release publishes finer, or the path of a table of raw
        values.
    k : int, optional
        Size below which the algorithm does not split; default: that of the smallest released class.

    Notes
    -----
    For each generalised cell the child of its label with the largest prior probability given the class's other labels
    is guessed, ties shared; without counts children are weighted by the values they represent. `right` is the share of
    cells guessed correctly, `expected` what the prior expects of these guesses; the difference is compared. An
    algorithm that splits whenever both parts have k records leaves min(a, s - a) < k: `conditioned` is what follows
    from that.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privpipe.hierarchies import HierarchySpec
    >>> tree = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"]}}, column="town")
    >>> x, y = pa.record_batch({"town": ["Bonn"] * 5 + ["Graz"]}), pa.record_batch({"town": ["Europe"] * 6})
    >>> files = FilePair(
    ...     original=x, released=y, ids=np.zeros((6, 2), dtype=np.int64), records=6, released_records=6,
    ...     hierarchies={"town": tree},
    ... )
    >>> verdict = Downcoding(columns=("town",), at_most=0.1, k=2).judge_files(files)
    >>> verdict.outcome, verdict.observed["right"], verdict.observed["expected"]
    ('pass', 0.5, 0.5)
    """

    observes = dict[str, Any]
    source = "Cohen, Attacks on Deidentification's Defenses, USENIX Security 2022"
    threat = "An intruder knows that a class was left coarse because it could not be split, and guesses why."
    formula = "share of cells guessed correctly one level finer - share the prior expects"
    choose = "Experimental: 0.1 to 0.2. What helps: a search that is not minimal, or noise."

    at_most: Annotated[LargestShare, Doc("largest gain over the prior that is tolerated")] = None
    prior: Annotated[
        str,
        FilePath(words=("released",)),
        Stricter("equal"),
        Doc("released (cells published finer) or the path of a table of raw values"),
    ] = "released"
    k: Annotated[
        OptionalNumber, Doc("size below which the algorithm does not split; left out: that of the smallest class")
    ] = None

    columns: Annotated[OwnColumns, Doc("columns whose labels are guessed finer; left out: all quasi-identifiers")] = (
        None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "Downcoding"
        self.hold_columns()
        if not isinstance(self.prior, str) or not self.prior:
            raise UsageError(f"{owner}: prior must be released, or the path of a table")

    def table_beside(self) -> str | None:
        return None if self.prior == "released" else self.prior

    def judge_files(self, files: FilePair) -> Verdict:
        names = list(files.original.schema.names)
        told = {name: [] if files.beside is None else texts_of(files.beside, name) for name in names}
        columns = [finer_labels(files, name, told[name]) for name in names]
        classes, first, sizes = _classes([column.label_of for column in columns])
        if len(sizes) > LARGEST:
            return self.not_judged(
                f"each class is compared with each, {LARGEST:,} at most, and there are {len(sizes):,}"
            )
        k = int(sizes.min()) if self.k is None else self.k
        priors = None if files.beside is None else _raw(columns, list(told.values()))
        right = expected = conditioned = 0.0
        cells = 0
        members = np.split(np.argsort(classes, kind="stable"), np.cumsum(sizes)[:-1])
        for at, column in enumerate(columns):
            shares = _Shares(columns, at, first, sizes, priors)
            for number in range(len(sizes)):
                label = int(column.label_of[first[number]])
                children = column.children[label]
                if children is None:
                    continue
                share = shares.of(number, label)
                held = children[column.value_of[members[number]]]
                tied = np.flatnonzero(share >= share.max() - 1e-12)
                right += float(np.isin(held, tied).sum()) / len(tied)
                expected += float(share.max()) * len(held)
                conditioned += _unsplit(len(held), k, float(share.max())) * len(held)
                cells += len(held)
        if not cells:
            return self.not_judged("no cell is generalised by a declared hierarchy, so none can be guessed finer")
        recoded = sum(_recoded(column) for column in columns)
        what = "cells that were recoded are under a label of a declared hierarchy"
        verdict = self._verdict(right / cells, expected / cells, conditioned / cells, cells)
        return replace(verdict, compared=(Comparison(cells, max(cells, recoded), what, EXPLAIN),))

    def _verdict(self, right: float, expected: float, conditioned: float, cells: int) -> Verdict:
        gain = right - expected
        observed = {"gain": gain, "right": right, "expected": expected, "conditioned": conditioned, "cells": cells}
        return self.judged(
            gain,
            observed,
            reason=(
                f"at least {short(right)} of {cells:,} cells are guessed right one level finer, {short(gain)} more "
                f"than the prior expects{self.asked} (experimental)."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.2, k=5), cls(columns=("age",), prior="census.csv", at_most=1.0)]


def _recoded(column: Finer) -> int:
    """Cells that no longer show their value, missing ones left out."""
    values, labels = (np.array(texts, dtype=object) for texts in (column.values, column.labels))
    shown = labels[column.label_of]
    return int(((values[column.value_of] != shown) & (shown != None)).sum())  # noqa: E711  # elementwise


def _classes(labels: Sequence[Ints]) -> tuple[Ints, Ints, Ints]:
    """Class of each record, its first record, and the sizes."""
    rows = np.column_stack(labels)
    _, first, numbers, sizes = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return numbers.reshape(-1), first, sizes


def _raw(columns: Sequence[Finer], texts: Sequence[Sequence[str | None]]) -> list[Ints]:
    """Places of a table's raw values among the values of each column."""
    return [
        np.array([place[text] for text in told], dtype=np.int64)
        for told, place in ((t, {v: n for n, v in enumerate(c.values)}) for t, c in zip(texts, columns, strict=True))
    ]


class _Shares:
    """Prior shares of the children of one column's labels, given a class's other labels where these have been seen."""

    def __init__(self, columns: Sequence[Finer], at: int, first: Ints, sizes: Ints, raw: Sequence[Ints] | None) -> None:
        self._columns, self._at, self._first, self._sizes, self._raw = columns, at, first, sizes, raw
        self._labels = np.column_stack([column.label_of[first] for column in columns])
        self._covers: dict[tuple[int, int], Any] = {}

    def of(self, number: int, label: int) -> Floats:
        """Shares of the children of a class's label, shape (children,)."""
        leaves = np.asarray(self._columns[self._at].leaves[label], dtype=np.float64)
        counts = next((each for each in self._counts(number, label, len(leaves)) if each.any()), leaves)
        return np.asarray(counts / counts.sum(), dtype=np.float64)

    def _counts(self, number: int, label: int, children: int) -> list[Floats]:
        """Prior counts given all other labels, then by this column alone."""
        column = self._columns[self._at]
        others = [other for other in range(len(self._columns)) if other != self._at]
        if self._raw is None:
            finer = [self._child(label, own) for own in range(len(column.labels))]
            child = np.array(finer, dtype=np.int64)[self._labels[:, self._at]]
            alike = (self._labels[:, others] == self._labels[number, others]).all(axis=1)
            weights = self._sizes.astype(np.float64)
        else:
            own = column.children[label]
            child = np.full(len(self._raw[self._at]), -1) if own is None else own[self._raw[self._at]]
            alike = np.ones(len(child), dtype=np.bool_)
            for other in others:
                alike &= self._covered(other, int(self._labels[number, other]))
            weights = np.ones(len(child))
        masks = alike & (child >= 0), child >= 0
        return [np.bincount(child[m], weights=weights[m], minlength=children).astype(np.float64) for m in masks]

    def _child(self, label: int, finer: int) -> int:
        """The child of a label that another label is under, or -1."""
        key = label, finer
        if key not in self._covers:
            column = self._columns[self._at]
            own = column.children[label]
            under = np.zeros(0, np.int64) if own is None or finer == label else np.unique(own[column.covers(finer)])
            self._covers[key] = int(under[0]) if len(under) == 1 else -1
        return int(self._covers[key])

    def _covered(self, other: int, label: int) -> Bools:
        key = -1 - other, label
        if key not in self._covers and self._raw is not None:
            self._covers[key] = self._columns[other].covers(label)[self._raw[other]]
        return np.asarray(self._covers[key], dtype=np.bool_)


def _unsplit(size: int, k: int, share: float) -> float:
    """Expected share of the guessed child in a class of `size` that could not be split into parts of k."""
    from scipy.stats import binom

    if size < 2 * k:
        return share
    counts = np.concatenate([np.arange(k), np.arange(size - k + 1, size + 1)])
    weights = binom.pmf(counts, size, share)
    total = float(weights.sum())
    return float((weights * counts).sum()) / total / size if total > 0 else share
