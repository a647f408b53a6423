"""Two aligned files brought to the scale on which an intruder compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FilePair
from privpipe.blocks.arrays import Bools, Floats, Ints, numbered
from privpipe.blocks.file_pair import Side
from privpipe.blocks.verdict import Comparison
from privpipe.errors import DataError
from privpipe.hierarchies import canonical_text
from privpipe.measures.label_meaning import explained, range_members
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = [
    "NEEDS_ORIGINAL",
    "SIDES",
    "ComparedLabels",
    "Linkable",
    "Metric",
    "Standardise",
    "block_of",
    "coded_texts",
    "compared_labels",
    "gower_files",
    "linkable",
    "moments",
    "partners_in_block",
    "plain",
    "standardised",
]

Metric = Literal["euclidean", "gower", "mahalanobis"]
Standardise = Literal["own", "original"]
Scale = tuple[float, float]
NEEDS_ORIGINAL = "it compares the release with the original table, which was not given or lacks its columns"
"""Why an entry over two tables is an error over one."""
SIDES: tuple[Side, Side] = ("original", "released")


@dataclass(frozen=True)
class Linkable:
    """Both files as linkage sees them.

    Parameters
    ----------
    original, released : LinkedFile
        Row i of both is the same record.
    squared : bool
        Whether distances are Euclidean (else Gower's mean).
    metric : str
        Which was chosen.
    left_out : tuple of str
        Constant columns, which distinguish no records.
    """

    original: LinkedFile = field(repr=False)
    released: LinkedFile = field(repr=False)
    squared: bool
    metric: Metric
    left_out: tuple[str, ...] = ()


def linkable(
    files: FilePair, columns: Sequence[str], metric: Metric | None, standardise: Standardise
) -> Linkable | None:
    """The files on the scale of a metric; None where no column distinguishes records.

    Parameters
    ----------
    metric : {"euclidean", "gower", "mahalanobis"}, optional
        Left out: euclidean where every column is a number in both files, else gower.
    standardise : {"own", "original"}
        Each file by its own mean and deviation, or both by the original's. Gower divides by the range over both files.

    Raises
    ------
    DataError
        Euclidean or Mahalanobis distance over a column that is not a number in one of the files; an infinite value.

    Notes
    -----
    Euclidean: a missing number is placed at the mean, and one more dimension shows that it is missing: 1 away from any
    number, and at distance 0 of another missing one. Gower: 1 and 0 alike. A generalised label is at distance 0 of the
    values it covers (by the column's declared hierarchy, or as a range or set), and at distance 1 of the others; one
    that nothing explains, where records are paired, is at distance 0 of all.
    """
    numeric = {name: files.finite_numbers(name, f"{metric or 'euclidean'} distance") for name in columns}
    texts = [name for name, sides in numeric.items() if sides is None]
    chosen: Metric = metric or ("gower" if texts else "euclidean")
    if chosen != "gower" and texts:
        raise DataError(f"{chosen} distance needs numbers in both tables; column {texts[0]!r} is none: use gower")
    if chosen == "gower":
        return Linkable(*gower_files(files, numeric, of=len(files), constant=True), False, "gower") if numeric else None
    numbers = {name: sides for name, sides in numeric.items() if sides is not None}
    return _euclidean(files, numbers, standardise, mahalanobis=chosen == "mahalanobis")


def _euclidean(
    files: FilePair, numbers: dict[str, tuple[Floats, Floats]], standardise: Standardise, *, mahalanobis: bool
) -> Linkable | None:
    from privpipe.kernels.linkage.distance import LinkedFile

    scales = {}
    for name, sides in numbers.items():
        before, after = (moments(files.by_record(side, each)) for side, each in zip(SIDES, sides, strict=True))
        scales[name] = before, before if standardise == "original" else after
    first, second = standardised(numbers, scales)
    if not first.shape[1]:
        return None
    if mahalanobis:
        factor = _whitening(first - second)
        first, second = first @ factor, second @ factor
    none = np.zeros((len(first), 0), dtype=np.int64)
    metric: Metric = "mahalanobis" if mahalanobis else "euclidean"
    left_out = tuple(name for name, own in scales.items() if not _varies(own))
    return Linkable(LinkedFile(first, none), LinkedFile(second, none), True, metric, left_out)


def standardised(
    numbers: Mapping[str, tuple[Floats, Floats]], scales: Mapping[str, tuple[Scale, Scale]]
) -> tuple[Floats, Floats]:
    """Numbers of both sides by the mean and deviation of each, without those that do not vary.

    A missing number is placed at the mean; where there are any, one more column shows which.
    """
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    for name, pair in numbers.items():
        if not _varies(scales[name]):
            continue
        for to, values, (mean, sd) in zip(sides, pair, scales[name], strict=True):
            to.append(np.nan_to_num((values - mean) / sd, nan=0.0))
        gaps = [np.isnan(values) for values in pair]
        if gaps[0].any() or gaps[1].any():
            for to, missing in zip(sides, gaps, strict=True):
                to.append(missing.astype(np.float64))
    return _stacked(sides[0], 0), _stacked(sides[1], 0)


def _varies(scales: tuple[Scale, Scale]) -> bool:
    return all(sd > 0 for _, sd in scales)


def moments(values: Floats) -> Scale:
    """Mean and deviation (divisor n - 1) of the known values; 0 for equal ones, where rounding may give another."""
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return 0.0, 0.0
    mean = float(np.mean(known))
    return mean, 0.0 if known.min() == known.max() else float(np.std(known, ddof=1))


def _whitening(differences: Floats) -> Floats:
    """The factor that makes plain distances those of Mahalanobis, by the pseudo-inverse of the covariance."""
    covariance = np.atleast_2d(np.cov(differences, rowvar=False))
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-10 * max(float(values.max()), 0.0)
    factor: Floats = vectors[:, kept] / np.sqrt(values[kept])
    return np.ascontiguousarray(factor) if kept.any() else np.eye(len(values))


def gower_files(
    pair: FilePair, columns: Mapping[str, tuple[Floats, Floats] | None], *, of: int, constant: bool = False
) -> tuple[LinkedFile, LinkedFile]:
    """Both sides on the scale of Gower's distance: numbers over their range, texts as codes.

    Parameters
    ----------
    columns : mapping of column to pair of ndarray of float64, or None
        None: it is not a number.
    of : int
        So many rows of the first side, with all of the second, give the ranges.
    constant : bool
        Whether a number with one value is a column too, which lowers every distance.
    """
    from privpipe.kernels.linkage.distance import LinkedFile

    sides: tuple[list[Floats], list[Floats]] = ([], [])
    for before, after in filter(None, columns.values()):
        both = np.concatenate([before[:of], after])
        known = both[~np.isnan(both)]
        least = known.min(initial=np.inf)
        span = float(known.max() - least) if len(known) else 0.0
        if not (span > 0 or constant):
            continue
        for to, values in zip(sides, (before, after), strict=True):
            # From the least value on: of values far from 0 a quotient has no digits left for what ties them.
            to.append((values - least) / span if span > 0 else np.where(np.isnan(values), np.nan, 0.0))
    coded: list[Any] = [coded_texts(pair, name) for name, numbers in columns.items() if numbers is None]
    tables = tuple(table for _, _, table in coded)
    turned = tuple(None if table is None else np.ascontiguousarray(table.T) for table in tables)
    rows = len(pair), pair.released.num_rows
    codes = [_stacked([each[at] for each in coded], rows[at]).astype(np.int64) for at in (0, 1)]
    first = LinkedFile(_stacked(sides[0], rows[0]), codes[0], tables)
    return first, LinkedFile(_stacked(sides[1], rows[1]), codes[1], turned)


def plain(file: LinkedFile) -> LinkedFile:
    """A table to be compared with itself, or with another of its kind: labels have nothing to cover."""
    return replace(file, mismatch=(None,) * file.codes.shape[1])


def _stacked(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.column_stack(columns)) if columns else np.zeros((rows, 0))


def coded_texts(files: FilePair, column: str) -> tuple[Ints, Ints, Bools | None]:
    """Codes of both sides, and where they mismatch: by equality of texts, or by the values that labels cover."""
    found = compared_labels(files, column)
    return found.value_of, found.label_of, found.apart


@dataclass(frozen=True)
class ComparedLabels:
    """A column of both files by its texts; in memory only.

    Parameters
    ----------
    values, labels : list of str or None
        Distinct texts of the original and of the release; the same list where only equal texts match.
    value_of, label_of : ndarray of int64, shapes (n,) and (n',)
        Of each row.
    apart : ndarray of bool, shape (len(values), len(labels)), or None
        Where a label does not cover a value; None: where the two differ.
    """

    values: list[str | None] = field(repr=False)
    labels: list[str | None] = field(repr=False)
    value_of: Ints = field(repr=False)
    label_of: Ints = field(repr=False)
    apart: Bools | None = field(repr=False)


def compared_labels(files: FilePair, column: str) -> ComparedLabels:
    """A column by equality of texts, or by the values that released labels cover."""
    before, after = _texts(files.original, column), _texts(files.released, column)
    own, own_places = numbered(before)
    labels, label_places = numbered(after)
    if column not in files.hierarchies and set(labels) <= set(own):
        every, places = numbered([*before, *after])
        return ComparedLabels(every, every, places[: len(before)], places[len(before) :], None)
    apart = _mismatch(files, column, own, labels, own_places)
    return ComparedLabels(own, labels, own_places, label_places, apart)


def block_of(files: FilePair, columns: tuple[str, ...]) -> tuple[Ints, Ints]:
    """The block of each record on either side: numbers of the combinations of texts."""
    sides = []
    for batch in (files.original, files.released):
        texts = [canonical_text(batch.column(name), None, column=name).to_pylist() for name in columns]
        sides.append(list(zip(*texts, strict=True)))
    seen: dict[tuple[Any, ...], int] = {}
    numbers = [np.array([seen.setdefault(key, len(seen)) for key in side], dtype=np.int64) for side in sides]
    return numbers[0], numbers[1]


def partners_in_block(attacked: int, of: int) -> tuple[Comparison, ...]:
    """How many attacked records could be linked at all, their partner being in the same block."""
    remedy = "block by columns that the release left as they were, or not at all"
    return (Comparison(attacked, of, "attacked records have their partner in the same block", remedy),)


def _texts(batch: pa.RecordBatch, column: str) -> list[str | None]:
    values = batch.column(column)
    found: list[str | None] = canonical_text(values, column_type_of(values.type), column=column).to_pylist()
    return found


def _mismatch(files: FilePair, column: str, own: list[str | None], labels: list[str | None], places: Ints) -> Bools:
    """Where a released label covers no original value: by no level of the hierarchy, no range, no set.

    Where records are paired, a label that nothing explains covers every value. A row
    that belongs to no record may have a value that no original has.
    """
    kind = column_type_of(files.original.schema.field(column).type)
    at = {label: place for place, label in enumerate(labels)}
    apart = np.ones((len(own), len(labels)), dtype=np.bool_)
    for value, text in enumerate(own):
        if text in at:
            apart[value, at[text]] = False
    hierarchy: Any = None
    if column in files.hierarchies:
        counts = np.bincount(places, weights=files.original_counts(), minlength=len(own)).astype(np.int64).tolist()
        hierarchy = files.hierarchies[column].build(own, counts, kind)
        codes = hierarchy.encode(own).tolist()
        for level in range(1, hierarchy.height + 1):
            # Releases of before wrote a label for missing values.
            shown = list(zip(hierarchy.released(level), hierarchy.texts(level), strict=True))
            for value, code in enumerate(codes):
                for label in shown[code] if code >= 0 else ():
                    if label in at:
                        apart[value, at[label]] = False
    for label, place in at.items():
        if apart[:, place].all():
            apart[:, place] = ~np.array(range_members(label, own, kind), dtype=np.bool_)
    if len(files.ids):
        apart[:, ~explained(labels, own, kind, hierarchy)] = False
    return apart
