"""How well the declared uses of a table survive: each figure from 0, unchanged, to 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.policy.uses import Use

__all__ = ["Paired", "lost_of_use", "lost_of_uses"]


Z = 1.959963984540054
"""Of a 95 % confidence interval."""
MOST_VALUES = 200
"""Values of a column that a table or a regression may have; of more, numbers alone serve."""


@dataclass(frozen=True)
class _Column:
    """A column before and after, record by record.

    Parameters
    ----------
    before : ndarray of int64
        Code of the value that each record had.
    after : ndarray of int64
        Code of the label that it has.
    shares : ndarray of float64, shape (labels, values)
        What a reader of a label takes it for: each value that has it, as likely as the others.
    numbers : ndarray of float64 or None
        The values, where they are numbers; a missing one is their mean.
    """

    before: Ints
    after: Ints
    shares: Floats
    numbers: Floats | None

    @property
    def seen(self) -> Floats:
        """What each record is taken for, as a number: the mean of the values that its label may represent."""
        assert self.numbers is not None
        found: Floats = (self.shares @ self.numbers)[self.after]
        return found


class Paired:
    """Records of a table with what a release made of them.

    Parameters
    ----------
    before, after : pyarrow.Table
        The same records in the same order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> paired = Paired(pa.table({"age": [20, 30, 40]}), pa.table({"age": ["20-39", "20-39", "40"]}))
    >>> paired.column("age").seen.tolist()
    [25.0, 25.0, 40.0]
    """

    def __init__(self, before: Any, after: Any) -> None:
        self._before, self._after = before, after

    def has(self, names: Sequence[str]) -> bool:
        """Whether these columns are released."""
        return set(names) <= set(self._after.column_names)

    def covered(self, name: str) -> float:
        """Mean share of the other values that a record's label bears too: 0 for its own value alone, 1 for all."""
        column = self.column(name)
        others = column.shares.shape[1] - 1
        borne = (column.shares > 0).sum(axis=1) - 1
        return float(borne[column.after].mean() / others) if others > 0 and len(column.after) else 0.0

    def column(self, name: str) -> _Column:
        """One column of both."""
        before, values = _codes(self._before.column(name))
        after, labels = _codes(self._after.column(name))
        borne = np.zeros((len(labels), len(values)))
        borne[after, before] = 1
        return _Column(before, after, borne / np.maximum(borne.sum(axis=1, keepdims=True), 1), _numbers(values))


def lost_of_uses(uses: Sequence[Use], paired: Paired) -> float:
    """The mean of what the uses lost."""
    return float(np.mean([lost_of_use(use, paired) for use in uses]))


def lost_of_use(use: Use, paired: Paired) -> float:
    """What one use lost; all, where a column of it is not released or cannot serve.

    A label stands for each value that bears it, as likely as the others.

    - table: the total variation between the tables of shares, before and after.
    - mean: the mean over the records of how far the mean of their group moved, in standard deviations of the number,
      at most 1.
    - regression: least squares with a constant, a text column as indicators. The mean over the coefficients of how
      little their 95 % confidence intervals overlap, each as long as that of the original: `|b' - b| / (2 x 1.96 se)`,
      at most 1 (Karr, Kohnen, Oganian, Reiter, Sanil, The American Statistician 60(3), 2006).

    Examples
    --------
    >>> import pyarrow as pa
    >>> before = pa.table({"sex": ["f", "f", "m", "m"]})
    >>> lost_of_use(Use("table", "sex"), Paired(before, before))
    0.0
    >>> round(lost_of_use(Use("table", "sex"), Paired(before.slice(0, 3), pa.table({"sex": ["*", "*", "*"]}))), 3)
    0.167
    """
    if not paired.has(use.columns):
        return 1.0
    columns = [paired.column(name) for name in use.columns]
    if use.kind != "table" and columns[0].numbers is None:
        return 1.0
    if any(len(each.shares.T) > MOST_VALUES and each.numbers is None for each in columns):
        return 1.0
    if not len(columns[0].before):
        return 1.0
    measure = {"table": _table, "mean": _means, "regression": _regression}[use.kind]
    return float(min(max(measure(columns), 0.0), 1.0))


def _table(columns: Sequence[_Column]) -> float:
    narrow = [_narrow(each) for each in columns]
    shape = tuple(each.shares.shape[1] for each in narrow)
    if np.prod([float(size) for size in shape]) > MOST_VALUES**3:
        return 1.0
    before = _counts([each.before for each in narrow], shape)
    labels = np.stack([each.after for each in narrow], axis=1)
    combined, counts = np.unique(labels, axis=0, return_counts=True)
    after = np.zeros(shape)
    for row, count in zip(combined.tolist(), counts.tolist(), strict=True):
        cell = np.array(float(count))
        for each, label in zip(narrow, row, strict=True):
            cell = np.multiply.outer(cell, each.shares[label])
        after += cell
    return float(np.abs(before / before.sum() - after / after.sum()).sum() / 2)


def _counts(codes: Sequence[Ints], shape: tuple[int, ...]) -> Floats:
    flat = np.ravel_multi_index(tuple(codes), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def _narrow(column: _Column) -> _Column:
    """Numbers of many values by their twentieths."""
    if column.shares.shape[1] <= MOST_VALUES or column.numbers is None:
        return column
    cuts = np.unique(np.quantile(column.numbers[column.before], np.linspace(0, 1, 21)[1:-1]))
    groups = np.searchsorted(cuts, column.numbers, side="right")
    shares = np.zeros((len(column.shares), len(cuts) + 1))
    np.add.at(shares.T, groups, column.shares.T)
    return _Column(groups[column.before], column.after, shares, None)


def _means(columns: Sequence[_Column]) -> float:
    of, *by = columns
    assert of.numbers is not None
    values, seen = of.numbers[of.before], of.seen
    sd = float(values.std())
    narrow = [_narrow(each) for each in by]
    shape = tuple(each.shares.shape[1] for each in narrow)
    if sd == 0 or np.prod([float(size) for size in shape]) > MOST_VALUES**2:
        return float(sd != 0)
    flat = np.ravel_multi_index(tuple(each.before for each in narrow), shape)
    size = int(np.prod(shape))
    weights = np.bincount(flat, minlength=size)
    before = np.bincount(flat, weights=values, minlength=size)
    total, after = np.zeros(size), np.zeros(size)
    labels, places = np.unique(np.stack([each.after for each in narrow], axis=1), axis=0, return_inverse=True)
    places = places.reshape(-1)
    counts, sums = np.bincount(places), np.bincount(places, weights=seen)
    for row, count, sum_ in zip(labels.tolist(), counts.tolist(), sums.tolist(), strict=True):
        cell = np.array(1.0)
        for each, label in zip(narrow, row, strict=True):
            cell = np.multiply.outer(cell, each.shares[label])
        total += count * cell.reshape(-1)
        after += sum_ * cell.reshape(-1)
    held = (weights > 0) & (total > 0)
    moved = np.abs(after[held] / total[held] - before[held] / weights[held]) / sd
    return float((weights[held] * np.minimum(moved, 1)).sum() / weights.sum())


def _regression(columns: Sequence[_Column]) -> float:
    of, *by = columns
    assert of.numbers is not None
    first = np.column_stack([np.ones(len(of.before)), *(part for each in by for part in _terms(each, seen=False))])
    second = np.column_stack([np.ones(len(of.before)), *(part for each in by for part in _terms(each, seen=True))])
    y, seen = of.numbers[of.before], of.seen
    freedom = len(y) - first.shape[1]
    if freedom <= 0:
        return 1.0
    inverse = np.linalg.pinv(first.T @ first)
    before = inverse @ first.T @ y
    errors = np.sqrt(np.maximum(np.diag(inverse) * float(((y - first @ before) ** 2).sum()) / freedom, 0))
    after = np.linalg.lstsq(second, seen, rcond=None)[0]
    moved = np.abs(after - before)[1:]
    length = 2 * Z * errors[1:]
    apart = np.where(moved <= 1e-9 * np.maximum(np.abs(before[1:]), 1e-300), 0.0, 1.0)
    return float(np.mean(np.where(length > 0, np.minimum(moved / np.where(length > 0, length, 1), 1), apart)))


def _terms(column: _Column, *, seen: bool) -> list[Floats]:
    """A number as itself, other values as indicators of all but the first; what a label may represent in parts."""
    if column.numbers is not None:
        return [column.seen if seen else column.numbers[column.before]]
    values = column.shares.shape[1]
    whole = column.shares[column.after] if seen else np.eye(values)[column.before]
    return [whole[:, at] for at in range(1, values)]


def _codes(column: Any) -> tuple[Ints, Any]:
    """Codes in the order of the values, nulls last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = flat.dictionary_encode(null_encoding="encode")
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(order)


def _numbers(values: Any) -> Floats | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    found: Floats = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False).astype(float)
    known = found[np.isfinite(found)]
    return np.where(np.isfinite(found), found, known.mean() if len(known) else 0.0)
