"""Contributions as integers: numbers in units of their decimals, rounded once, and weight times value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Floats
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import canonical_text

__all__ = ["MOST_DECIMALS", "UnitRows", "Units", "decimals_of", "in_units", "in_whole_units", "truth_values"]

MOST_DECIMALS = 18
LARGEST = 2**63 - 1
WHOLE = 2.0**52
"""Floats from here on are integers."""
SPLIT = 134217729.0
"""2^27 + 1, which splits a float into two of 26 bits (Dekker 1971)."""


def decimals_of(column: str, kind: pa.DataType, declared: int | None) -> int:
    """Decimals of a column's unit.

    Raises
    ------
    UsageError
        A float without declared decimals, fewer than the type has, or a column that is no number.
    """
    if declared is not None and (isinstance(declared, bool) or not 0 <= declared <= MOST_DECIMALS):
        raise UsageError(f"column {column!r}: decimals must be an integer from 0 to {MOST_DECIMALS}, got {declared!r}")
    if pt.is_decimal(kind):
        scale = max(int(kind.scale), 0)
        if declared is not None and declared < scale:
            raise UsageError(
                f"column {column!r} has {scale} decimals by its type and {declared} are declared; declare as many, or "
                "round the column before"
            )
        return scale if declared is None else declared
    if pt.is_integer(kind) or pt.is_boolean(kind):
        return declared or 0
    if pt.is_floating(kind):
        if declared is None:
            raise UsageError(
                f"column {column!r} holds floats: write how many decimals its figures have, as in "
                f"{{sum: {column}, decimals: 2}}"
            )
        return declared
    raise UsageError(f"column {column!r} is of type {kind}, of which there is no sum; give a column of numbers")


def in_units(column: str, values: pa.Array, decimals: int) -> pa.Array:
    """Values times 10^decimals as int64; floats are rounded half to even, exactly, and only here.

    Raises
    ------
    DataError
        Values that are infinite or beyond 64 bits (their number).

    Examples
    --------
    >>> in_units("x", pa.array([0.125, 1.115, -2.5, None]), 2).to_pylist()
    [12, 111, -250, None]
    """
    factor = 10**decimals
    if pt.is_integer(values.type) or pt.is_boolean(values.type):
        words = values.cast(pa.int64())
        if decimals:
            numbers = pc.fill_null(words, 0).to_numpy(zero_copy_only=False)
            _refuse(column, int((np.abs(numbers.astype(np.float64)) * factor > LARGEST).sum()))
            words = pc.multiply(words, factor)
        return words
    if pt.is_decimal(values.type):
        return _from_decimal(column, values, decimals)
    floats = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    made, bad = _rounded(floats, float(factor))
    _refuse(column, int(bad.sum()))
    return pa.array(made, mask=values.is_null().to_numpy(zero_copy_only=False))


def _from_decimal(column: str, values: pa.Array, decimals: int) -> pa.Array:
    """Digits of decimals as integers."""
    digits = values.cast(pa.decimal128(38, decimals)) if values.type != pa.decimal128(38, decimals) else values
    # 16 bytes each, little-endian: the high word repeats the sign of the low one if 64 bits hold the number.
    words = np.frombuffer(digits.buffers()[1], dtype=np.int64)[2 * digits.offset : 2 * (digits.offset + len(digits))]
    low, high = words[0::2], words[1::2]
    missing = values.is_null().to_numpy(zero_copy_only=False)
    _refuse(column, int(((high != low >> 63) & ~missing).sum()))
    return pa.array(np.where(missing, 0, low), mask=missing)


def _rounded(x: Floats, factor: float) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The exact product x factor rounded half to even, and where 64 bits do not hold it."""
    with np.errstate(all="ignore"):
        product = x * factor
        bad = ~(np.abs(product) < 9.2e18)
        x, product = np.where(bad, 0.0, x), np.where(bad, 0.0, product)
        error = _error(x, factor, product)
    floor = np.floor(product)
    rest = product - floor
    up = (rest > 0.5) | ((rest == 0.5) & ((error > 0) | ((error == 0) & (np.mod(floor, 2) == 1))))
    small = floor.astype(np.int64) + up
    # Of integers the error alone shows what is nearer; at a half the even neighbour is taken.
    step = np.rint(error).astype(np.int64)
    whole = product.astype(np.int64)
    half = (np.abs(error) - np.floor(np.abs(error)) == 0.5) & (np.mod(whole + step, 2) == 1)
    large = whole + np.where(half, np.where(error > step, step + 1, step - 1), step)
    return np.where(np.abs(product) < WHOLE, small, large), bad


def _error(x: Floats, factor: float, product: Floats) -> Floats:
    """What the product of floats leaves out, exactly (Dekker)."""
    first, second = _halves(x)
    third, fourth = (float(each) for each in _halves(np.array(factor)))
    return ((first * third - product) + first * fourth + second * third) + second * fourth


def _halves(x: Floats) -> tuple[Floats, Floats]:
    large = SPLIT * x
    high = large - (large - x)
    return high, x - high


def _refuse(column: str, count: int) -> None:
    if count:
        raise DataError(
            f"column {column!r}: {count:,} values of a part of the table are infinite or exceed 64 bits in the unit of "
            "their decimals; correct them, or declare fewer `decimals`"
        )


@dataclass(frozen=True, kw_only=True)
class Units:
    """A column as integers of a unit, under a new name."""

    column: str
    decimals: int
    name: str
    weight: str | None = None
    """Under this name the weight is: then `product` is weight times value."""
    product: str | None = None


def in_whole_units(units: Units, bounds: tuple[Fraction, Fraction]) -> tuple[int, int]:
    """Bounds of a column in its unit.

    Raises
    ------
    UsageError
        One has more decimals than the column.

    Examples
    --------
    >>> in_whole_units(Units(column="x", decimals=2, name="x"), (Fraction(-1, 2), Fraction(10)))
    (-50, 1000)
    """
    least, most = (each * 10**units.decimals for each in bounds)
    if least.denominator != 1 or most.denominator != 1:
        raise UsageError(f"column {units.column!r}: bounds have more than its {units.decimals} decimals; round them")
    return int(least), int(most)


@dataclass(frozen=True, kw_only=True)
class UnitRows:
    """The function of a block that keeps the records of a population and makes integers of their contributions.

    Parameters
    ----------
    kept : tuple of str
        Columns that come out as they are.
    only : mapping of column to label
        Records whose value has this canonical text.
    domain : mapping of column to tuple of str
        Records with a value whose canonical text is another are left out.
    full : tuple of str
        Columns without which a record is left out.
    weight : Units, optional
        Must be there and not negative.
    units : tuple of Units
    waived : str, optional
        Truth values; null is no waiver. It comes out as `waived_name`.
    """

    kept: tuple[str, ...]
    only: Mapping[str, str] = field(default_factory=dict)
    domain: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    full: tuple[str, ...] = ()
    weight: Units | None = None
    units: tuple[Units, ...] = ()
    waived: str | None = None
    waived_name: str = "__waived"

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Columns that come out."""
        made = [source.field(name) for name in self.kept]
        names = [self.weight.name] if self.weight is not None else []
        names += [name for each in self.units for name in (each.name, each.product) if name is not None]
        names += [self.waived_name] if self.waived is not None else []
        return pa.schema([*made, *((name, pa.int64()) for name in names if name not in self.kept)])

    def __call__(self, rows: RowBlock) -> RowBlock:
        rows = self._chosen(rows)
        columns = {name: rows.column(name) for name in self.kept}
        weight = None
        if self.weight is not None:
            weight = columns[self.weight.name] = self._weights(rows.column(self.weight.column))
        for each in self.units:
            words = columns[each.name] = in_units(each.column, rows.column(each.column), each.decimals)
            if each.product is not None and weight is not None:
                columns[each.product] = _product(each.column, words, weight)
        if self.waived is not None:
            columns[self.waived_name] = truth_values(self.waived, rows.column(self.waived))
        if not columns:
            return rows.drop(rows.schema.names)
        return rows.with_batch(pa.record_batch(list(columns.values()), names=list(columns)))

    def _chosen(self, rows: RowBlock) -> RowBlock:
        mask = np.ones(len(rows), dtype=np.bool_)
        for column, label in self.only.items():
            found = pc.equal(canonical_text(rows.column(column), None), label)
            mask &= pc.fill_null(found, False).to_numpy(zero_copy_only=False)
        for column, values in self.domain.items():
            texts = canonical_text(rows.column(column), None)
            known = pc.or_(pc.is_in(texts, pa.array(values, texts.type)), pc.is_null(texts))
            mask &= known.to_numpy(zero_copy_only=False)
        for column in self.full:
            mask &= rows.column(column).is_valid().to_numpy(zero_copy_only=False)
        return rows if bool(mask.all()) else rows.take(np.flatnonzero(mask))

    def _weights(self, values: pa.Array) -> pa.Array:
        assert self.weight is not None
        missing = values.null_count
        if missing:
            raise DataError(f"weight column {self.weight.column!r} has missing values ({missing:,} in one part)")
        words = in_units(self.weight.column, values, self.weight.decimals)
        numbers = words.to_numpy(zero_copy_only=False)
        if bool((numbers < 0).any()):
            raise DataError(f"weight column {self.weight.column!r} has negative values; weights are 0 or more")
        if pt.is_floating(values.type):
            exact = numbers / 10.0**self.weight.decimals == values.cast(pa.float64()).to_numpy(zero_copy_only=False)
            if not bool(exact.all()):
                raise DataError(
                    f"weight column {self.weight.column!r}: {int((~exact).sum()):,} weights of a part have more than "
                    f"{self.weight.decimals} decimals, and weights are never rounded; declare more `weight_decimals`"
                )
        return words


def _product(column: str, words: pa.Array, weight: pa.Array) -> pa.Array:
    value = pc.fill_null(words, 0).to_numpy(zero_copy_only=False)
    factor = weight.to_numpy(zero_copy_only=False)
    _refuse(column, int((np.abs(value.astype(np.float64)) * factor > 9.2e18).sum()))
    return pa.array(value * factor, mask=words.is_null().to_numpy(zero_copy_only=False))


def truth_values(column: str, values: pa.Array) -> pa.Array:
    """1 where a contributor waives protection, else 0; null is no waiver.

    Raises
    ------
    UsageError
        The column holds no truth values.
    """
    if not (pt.is_boolean(values.type) or pt.is_integer(values.type)):
        raise UsageError(f"waiver column {column!r} is of type {values.type}; give truth values")
    return pc.not_equal(pc.fill_null(values.cast(pa.int64()), 0), 0).cast(pa.int64())
