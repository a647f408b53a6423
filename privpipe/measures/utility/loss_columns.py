"""Columns of two aligned files as information loss reads them, and losses of a general form, registered from Python.

The general form is divergence(f(original), f(released)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FilePair
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.verdict import Comparison
from privpipe.errors import UsageError
from privpipe.hierarchies import canonical_text
from privpipe.measures.label_meaning import ANY, explained, range_members
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.losses.column_losses import LabelledColumn

__all__ = [
    "MOST_LEVELS",
    "NAMES",
    "REGISTERED",
    "Design",
    "NumberColumns",
    "RegisteredLoss",
    "coded",
    "columns_entered",
    "design_of",
    "infinite_columns",
    "labelled_column",
    "number_columns",
    "numbers_compared",
    "register_loss",
]


Summary = Callable[["pa.RecordBatch"], Any]
Divergence = Callable[[Any, Any], float]
NAMES = (
    *("il1s", "il1", "sse_sst", "moments", "correlation", "eigen", "propensity", "discernibility", "c_avg", "ncp"),
    *("entropy", "kl", "classifier", "regression", "arctan"),
    *("hellinger", "wasserstein", "contingency", "specks"),
)
"""Losses that are ours."""
REGISTERED: dict[str, RegisteredLoss] = {}
"""Registered losses by name, in this process only."""


@dataclass(frozen=True)
class RegisteredLoss:
    """A summary of a table, and how far two of them are apart.

    Parameters
    ----------
    summary : callable
        From a RecordBatch of the columns compared, in keyed order of records, to anything.
    divergence : callable
        From two summaries to a number, 0 for equal ones.
    """

    summary: Summary = field(repr=False)
    divergence: Divergence = field(repr=False)

    def __call__(self, before: pa.RecordBatch, after: pa.RecordBatch) -> float:
        """Their divergence; NaN where it is not a number."""
        found = float(self.divergence(self.summary(before), self.summary(after)))
        return found if math.isfinite(found) else math.nan


def register_loss(name: str, summary: Summary, divergence: Divergence | None = None) -> None:
    """Offer a loss of one's own as `information_loss: {measure: name}`.

    Parameters
    ----------
    name : str
        A snake_case word that no loss of ours has.
    summary : callable
        f: from a pyarrow RecordBatch of the columns compared to a figure, or what `divergence` takes.
    divergence : callable, optional
        Default: the absolute difference of two figures.

    Raises
    ------
    UsageError
        The name is taken, or no word.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> register_loss("largest_age", lambda table: pc.max(table["age"]).as_py())
    >>> "largest_age" in REGISTERED
    True
    """
    if not name.isidentifier() or name != name.lower():
        raise UsageError(f"a loss is named by a snake_case word, got {name!r}")
    if name in NAMES:
        raise UsageError(f"information_loss has a measure {name!r} of its own; choose another name")
    REGISTERED[name] = RegisteredLoss(summary, divergence or (lambda before, after: abs(before - after)))


Text = str | None
DesignColumn = tuple[str, str, Floats, Floats]
"""The column it comes from, its label, and its numbers in both files."""
MOST_LEVELS = 20
"""Categories of a column that enters a regression."""
MOST_DESIGN = 400
LARGEST_DESIGN = 40_000_000
LARGEST_COVER = 20_000_000


@dataclass(frozen=True)
class NumberColumns:
    """The columns that are numbers on both sides.

    Parameters
    ----------
    names : tuple of str
    before, after : list of ndarray of float64, shape (n,)
    left_out : tuple of str
        Columns that are not numbers on some side.
    """

    names: tuple[str, ...]
    before: list[Floats] = field(repr=False)
    after: list[Floats] = field(repr=False)
    left_out: tuple[str, ...]

    def only(self, kept: Sequence[bool]) -> NumberColumns:
        """Some of them; the others are left out."""
        places = [at for at, stays in enumerate(kept) if stays]
        gone = tuple(name for name, stays in zip(self.names, kept, strict=True) if not stays)
        names = tuple(self.names[at] for at in places)
        before, after = ([side[at] for at in places] for side in (self.before, self.after))
        return NumberColumns(names, before, after, (*self.left_out, *gone))


def number_columns(files: FilePair, names: Sequence[str]) -> NumberColumns:
    """Those of the columns that are numbers (or dates, in days) in both files."""
    sides = {name: (files.numbers("original", name), files.numbers("released", name)) for name in names}
    both = {name: (x, y) for name, (x, y) in sides.items() if x is not None and y is not None}
    left_out = tuple(name for name in names if name not in both)
    return NumberColumns(tuple(both), [x for x, _ in both.values()], [y for _, y in both.values()], left_out)


def numbers_compared(files: FilePair, names: Sequence[str]) -> Comparison:
    """How many cells of number columns of the original are numbers in the release too.

    Of paired records those with an original number; else all rows of the release.
    """
    told = asked = 0
    for name in names:
        before, after = files.numbers("original", name), files.numbers("released", name)
        if before is None:
            continue
        known = ~np.isnan(before) if len(files.ids) else np.ones(files.released.num_rows, dtype=np.bool_)
        asked += int(known.sum())
        told += 0 if after is None else int((known & ~np.isnan(after)).sum())
    what = "cells of the original's number columns are numbers in the release"
    return Comparison(told, asked, what, "name columns that are numbers in both tables")


def columns_entered(files: FilePair, names: Sequence[str]) -> Comparison:
    """How many of the columns enter a model, which takes numbers and at most `MOST_LEVELS` categories."""
    told = sum(bool(_numbers_of(files, name)) or len(coded(files, name)[0]) <= MOST_LEVELS for name in names)
    what = f"columns enter the model: numbers, and those of at most {MOST_LEVELS} categories"
    return Comparison(told, len(names), what, "group their values first, or name other columns")


def infinite_columns(files: FilePair) -> list[str]:
    """Number columns that hold an infinity in one of the files."""
    found = []
    for name in files.original.schema.names:
        sides = (files.numbers("original", name), files.numbers("released", name))
        if any(values is not None and np.isinf(values).any() for values in sides):
            found.append(name)
    return found


@dataclass(frozen=True)
class Design:
    """Design matrices of both files over the same columns, an intercept first.

    Parameters
    ----------
    before, after : ndarray of float64, shape (n, q)
    names : tuple of str
        Of the columns: ``age``, ``zip=3``, ``age missing``, ``age * zip=3``. The level is a number, not the value.
    left_out : tuple of str
        Columns with too many categories, or with one value on both sides.
    products : bool
        Whether pairwise products are among them.
    """

    before: Floats = field(repr=False)
    after: Floats = field(repr=False)
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    products: bool


def design_of(files: FilePair, names: Sequence[str], *, products: bool, standardise: bool) -> Design:
    """The matrices of a regression over these columns.

    Numbers enter unchanged, with a column for missing ones (placed at the mean); other columns by a column for
    each category but the first, of at most `MOST_LEVELS` in both files together.

    Parameters
    ----------
    products : bool
        Add the product of every two columns of different origin, where the matrix stays within `MOST_DESIGN` columns.
    standardise : bool
        By mean and deviation over both files.
    """
    columns: list[DesignColumn] = []
    left_out = []
    for name in names:
        found = _varying_columns(files, name)
        if not found:
            left_out.append(name)
        columns += [(name, label, *(_standardised(x, y) if standardise else (x, y))) for label, x, y in found]
    width = 1 + len(columns) + len(columns) * (len(columns) - 1) // 2
    added = products and width <= MOST_DESIGN and width * max(len(files), files.released.num_rows) <= LARGEST_DESIGN
    if added:
        columns += _products_of(columns)
    before = np.column_stack([np.ones(len(files)), *(x for _, _, x, _ in columns)])
    after = np.column_stack([np.ones(files.released.num_rows), *(y for _, _, _, y in columns)])
    return Design(before, after, ("intercept", *(label for _, label, _, _ in columns)), tuple(left_out), added)


def _varying_columns(files: FilePair, name: str) -> list[tuple[str, Floats, Floats]]:
    """The columns as which a column enters, without those that have one value on both sides."""
    found = _numbers_of(files, name) or _categories_of(files, name)
    return [(label, x, y) for label, x, y in found if not (x == x[0]).all() or not (y == x[0]).all()]


def _products_of(columns: Sequence[DesignColumn]) -> list[DesignColumn]:
    """The product of every two columns of different origin."""
    pairs = [(a, b) for a, b in combinations(columns, 2) if a[0] != b[0]]
    return [("", f"{a[1]} * {b[1]}", a[2] * b[2], a[3] * b[3]) for a, b in pairs]


def _numbers_of(files: FilePair, name: str) -> list[tuple[str, Floats, Floats]]:
    x, y = files.numbers("original", name), files.numbers("released", name)
    if x is None or y is None:
        return []
    gaps = np.isnan(x), np.isnan(y)
    if gaps[0].all() or gaps[1].all():
        return []
    found = [(name, np.where(gaps[0], _mean(x), x), np.where(gaps[1], _mean(y), y))]
    if gaps[0].any() or gaps[1].any():
        found.append((f"{name} missing", gaps[0].astype(np.float64), gaps[1].astype(np.float64)))
    return found


def _categories_of(files: FilePair, name: str) -> list[tuple[str, Floats, Floats]]:
    levels, (before, after) = coded(files, name)
    if len(levels) > MOST_LEVELS:
        return []
    places = range(1, len(levels))
    return [(f"{name}={at}", (before == at).astype(np.float64), (after == at).astype(np.float64)) for at in places]


def _standardised(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    from privpipe.kernels.exact_sums import measure_sums

    sums = measure_sums([x]).merge(measure_sums([y]))
    mean, sd = sums.mean(), sums.sd()
    return (x - mean) / sd, (y - mean) / sd


def _mean(values: Floats) -> float:
    from privpipe.kernels.exact_sums import measure_sums

    return measure_sums([values]).mean()


def coded(files: FilePair, name: str) -> tuple[list[Text], tuple[Ints, Ints]]:
    """The texts of a column in both files, ascending with None last, and the place of each record's."""
    sides = [_texts(files, side, name) for side in ("original", "released")]
    levels = sorted(set(sides[0]) | set(sides[1]), key=lambda text: (text is None, text or ""))
    number = {text: at for at, text in enumerate(levels)}
    before, after = (np.array([number[text] for text in side], dtype=np.int64) for side in sides)
    return levels, (before, after)


def _texts(files: FilePair, side: Any, name: str) -> list[Text]:
    batch = files.original if side == "original" else files.released
    values = batch.column(name)
    found: list[Text] = canonical_text(values, column_type_of(values.type), column=name).to_pylist()
    return found


def labelled_column(files: FilePair, name: str) -> LabelledColumn | None:
    """A column in codes with the values of its labels; None where values times labels are too many for an array.

    A label represents a value that is the same text, that the column's hierarchy puts under it, or that the range or
    set it names includes; ``*``, a missing cell and a label that nothing explains represent every value. Where no
    records are paired a missing cell does so only if the original has none, and a text that nothing explains is a
    value that the original lacks.
    """
    from privpipe.kernels.losses.column_losses import LabelledColumn

    texts, (before, after) = coded(files, name)
    own, values = np.unique(before, return_inverse=True)
    shown, labels = np.unique(after, return_inverse=True)
    if len(own) * len(shown) > LARGEST_COVER:
        return None
    values, labels = values.ravel(), labels.ravel()
    domain, names = [texts[at] for at in own], [texts[at] for at in shown]
    covers = own[:, None] == shown[None, :]
    leaves, kind = np.zeros(len(names)), column_type_of(files.original.schema.field(name).type)
    hierarchy: Any = None
    if name in files.hierarchies:
        hierarchy = files.hierarchies[name].build(domain, np.bincount(values).tolist(), kind)
        _by_hierarchy(hierarchy, domain, names, covers, leaves)
    else:
        known = set(domain)
        for at, label in enumerate(names):
            if label not in known:
                covers[:, at] |= range_members(label, domain, kind)
    if len(files.ids):
        strayed = np.unique(labels[~covers[values, labels]]).tolist()
        covers[:, ~explained(names, domain, kind, hierarchy)] = True
    else:
        strayed = [at for at, label in enumerate(names) if label not in domain]
    covers[:, [at for at in strayed if names[at] in (ANY, None)]] = True
    leaves = np.maximum(np.maximum(leaves, covers.sum(axis=0)), 1.0)
    return LabelledColumn(values, labels, covers, leaves)


def _by_hierarchy(hierarchy: Any, domain: list[Text], labels: list[Text], covers: Bools, leaves: Floats) -> None:
    """Fill in the values that the labels of the hierarchy's levels cover, each by its lowest level."""
    codes = hierarchy.encode(domain)
    known = codes >= 0
    for level in range(hierarchy.height, -1, -1):
        of = hierarchy.codes(level)
        number = {text: at for at, text in enumerate(hierarchy.released_labels(level))}
        for at, label in enumerate(labels):
            if label in number:
                covers[known, at] = of[codes[known]] == number[label]
                leaves[at] = float((of == number[label]).sum())
