"""What is made of contributions before they are added up: rows of units, few cells of each, clipped values, keys."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.aggregate_query import AggregateMeasure, AggregateQuery
from privpipe.blocks.arrays import Floats, Ints
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import canonical_text
from privpipe.kernels.ids.record_ids import content_hash
from privpipe.tables.leaf_totals import Grid

__all__ = [
    "MOST_DECIMALS",
    "PURPOSE",
    "ContributionRows",
    "KeepCells",
    "UnitRows",
    "Units",
    "bucket_of",
    "cell_key",
    "cell_keys_of",
    "decimals_of",
    "in_units",
    "in_whole_units",
    "key_of_sums",
    "keyed_contributions",
    "record_keys",
    "truth_values",
]


PURPOSE = "privpipe/record-key/1"
DIGITS = 16
KEY = "__privpipe_record_key_"
ONE = 1 << 32
Measured = tuple[str, str]
"""Purpose and measure of a key."""


def key_of_sums(seed: Seed, purpose: str, measure: str) -> bytes:
    """The purpose that keys the record keys of a measure: counts use it unchanged, each sum derives another."""
    return seed.bound(PURPOSE, *([purpose] if measure == "count" else [purpose, measure]))


def record_keys(key: bytes, contributors: Sequence[str]) -> NDArray[np.int64]:
    """A key below 2^32 for each contributor: the first four bytes of the HMAC-SHA256 of its canonical text.

    Examples
    --------
    >>> keys = record_keys(b"key", ["anna", "ben", "anna"])
    >>> bool(keys[0] == keys[2]), bool(0 <= keys.min() and keys.max() < 2**32)
    (True, True)
    """
    starts = b"".join(hmac.digest(key, text.encode(), "sha256")[:4] for text in contributors)
    return np.frombuffer(starts, dtype=">u4").astype(np.int64)


def cell_key(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """The key of each cell from the sum of its contributors' keys, of which 2^31 add up in int64."""
    return np.asarray(sums, dtype=np.int64) & (ONE - 1)


@dataclass(frozen=True, kw_only=True)
class ContributionRows:
    """A function of a block of contributions, one row for each contributor and cell.

    Parameters
    ----------
    person : str or None
        Column of the contributor; None: each row is one, and its record id distinguishes it.
    bounds : mapping of column to (int, int)
        Bounds to which contributions are clipped, in units; null stays null.
    keys : mapping of str to (bytes, str or None)
        Columns that are added: record keys under a key, of all rows, or 0 where this column is null or 0.
    """

    person: str | None
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    keys: Mapping[str, tuple[bytes, str | None]] = field(default_factory=dict, repr=False)

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Columns that come out."""
        return pa.schema([*source, *((name, pa.int64()) for name in self.keys)])

    def __call__(self, rows: RowBlock) -> RowBlock:
        columns = {name: rows.column(name) for name in rows.schema.names}
        own, place = self._contributors(rows) if self.keys else ([], np.zeros(0, dtype=np.int64))
        for name, (key, contribution) in self.keys.items():
            drawn = record_keys(key, own)[place]
            if contribution is not None:
                given = pc.fill_null(columns[contribution], 0).to_numpy(zero_copy_only=False)
                drawn = np.where(given != 0, drawn, 0)
            columns[name] = pa.array(drawn, pa.int64())
        for name, (least, most) in self.bounds.items():
            columns[name] = pc.min_element_wise(
                pc.max_element_wise(columns[name], least, skip_nulls=False), most, skip_nulls=False
            )
        return rows.with_batch(pa.record_batch(list(columns.values()), names=list(columns)))

    def _contributors(self, rows: RowBlock) -> tuple[list[str], NDArray[np.int64]]:
        """Texts of the contributors, each once, and which of them each row is of."""
        if self.person is not None:
            coded = canonical_text(rows.column(self.person), None).dictionary_encode()
            place = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            return coded.dictionary.to_pylist(), place
        words = np.ascontiguousarray(rows.record_ids).view(np.uint64).reshape(len(rows), -1)
        return ["".join(f"{word:0{DIGITS}x}" for word in row) for row in words.tolist()], np.arange(len(rows))


def keyed_contributions(
    engine: Engine,
    contributions: Any,
    query: AggregateQuery,
    person: str | None,
    bounds: Mapping[str, tuple[int, int]],
    keys: Mapping[Measured, tuple[bytes, str | None]],
) -> tuple[Any, AggregateQuery]:
    """Contributions that are clipped and have keys of their contributors, and the query that adds the keys up too.

    Parameters
    ----------
    contributions : Table
        Of the engine, one row for each contributor and cell.
    bounds, keys
        As of `ContributionRows`; a key by its purpose and measure.

    Raises
    ------
    UsageError
        Contributors are records without ids.
    """
    if not keys and not bounds:
        return contributions, query
    if person is None and keys and not getattr(contributions, "has_record_ids", False):
        raise UsageError("cell keys belong to contributors: name the column that distinguishes them, `person_id`")
    names = [f"{KEY}{at}" for at in range(len(keys))]
    function = ContributionRows(person=person, bounds=bounds, keys=dict(zip(names, keys.values(), strict=True)))
    made = engine.map_rows(contributions, function, function.schema(contributions.schema))
    more = tuple(AggregateMeasure(column=name, once=True) for name in names)
    return made, replace(query, measures=(*query.measures, *more))


def cell_keys_of(grid: Grid, keys: Mapping[Measured, bytes]) -> dict[Measured, NDArray[np.int64]]:
    """The key of each cell: the sum of its contributors' keys, modulo 2^32."""
    first = len(grid.query.measures) - len(keys)
    return {which: cell_key(grid.figures[f"total_{first + at}"]) for at, which in enumerate(keys)}


BUCKETS = 1024


def _words(rows: RowBlock, columns: tuple[str, ...], secret: bytes, purpose: str) -> NDArray[np.uint64]:
    """Keyed hashes of some columns, 128 bits a row."""
    seed = Seed(Seed(secret).key(f"tables/contribution-bound/{purpose}"))
    found = np.ascontiguousarray(content_hash(rows.batch.select(list(columns)), seed))
    return found.view(np.uint64)


@dataclass(frozen=True)
class bucket_of:  # noqa: N801 - a function of a block that pickles
    """The key of groups that hold all contributions of each of their contributors."""

    person: str
    secret: bytes = field(repr=False)

    def __call__(self, rows: RowBlock) -> Ints:
        return (_words(rows, (self.person,), self.secret, "person")[:, 0] % np.uint64(BUCKETS)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class KeepCells:
    """A function of whole contributors that keeps the first cells of each, in an order keyed to contributor and cell.

    Parameters
    ----------
    person : str
    keys : tuple of str
    bound : int
    secret : bytes
    """

    person: str
    keys: tuple[str, ...]
    bound: int
    secret: bytes = field(repr=False)

    def __call__(self, rows: RowBlock, bucket: int) -> RowBlock:
        if not len(rows):
            return rows
        persons = _words(rows, (self.person,), self.secret, "person")
        order = _words(rows, (self.person, *self.keys), self.secret, "cell")
        placed = np.lexsort((order[:, 1], order[:, 0], persons[:, 1], persons[:, 0]))
        sorted_persons = persons[placed]
        fresh = np.ones(len(placed), dtype=np.bool_)
        fresh[1:] = (sorted_persons[1:] != sorted_persons[:-1]).any(axis=1)
        starts = np.flatnonzero(fresh)
        ranks = np.arange(len(placed)) - np.repeat(starts, np.diff(np.append(starts, len(placed))))
        return rows.take(np.sort(placed[ranks < self.bound]))


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
        A float without declared decimals, fewer than the type has, or a column that is not a number.
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
    raise UsageError(f"column {column!r} is of type {kind}, which cannot be summed; give a column of numbers")


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
    # For integers only the error shows which neighbour is nearer; at a half the even one is taken.
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
        Columns that are returned unchanged.
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
        Truth values; null is not a waiver. Returned as `waived_name`.
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
    """1 where a contributor waives protection, else 0; null is not a waiver.

    Raises
    ------
    UsageError
        The column holds no truth values.
    """
    if not (pt.is_boolean(values.type) or pt.is_integer(values.type)):
        raise UsageError(f"waiver column {column!r} is of type {values.type}; give truth values")
    return pc.not_equal(pc.fill_null(values.cast(pa.int64()), 0), 0).cast(pa.int64())
