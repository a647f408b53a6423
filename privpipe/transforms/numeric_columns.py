"""Numeric columns of a masking stage: supported types, how results are written, and covariance factors with the same
bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.parameters import require_number
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "RANK_CUT",
    "clip_bounds",
    "counted_nulls",
    "covariance_factor",
    "factor_of",
    "masked_schema",
    "masked_type",
    "refuse_nulls",
    "require_finite",
    "require_numeric",
    "require_summable",
    "unit_range",
    "whole_numbers",
    "with_others_restored",
    "written",
]


COUNTED = ("date", "timestamp")
"""Types masked as whole counts of their unit and returned as themselves."""

LARGEST_SCALE = 15
LARGEST_SUMMED = 2.0**1000  # about 1e301: of larger numbers float64 holds no sum of many
FIRST_DAY, LAST_DAY = -719162, 2932896  # of the years 1 and 9999, in days since 1970
DAY = 86_400_000_000


def require_numeric(columns: tuple[str, ...], context: StageContext) -> None:
    """Refuse columns that are absent, or no numbers, dates or timestamps.

    Raises
    ------
    DataError
        An absent column, text, booleans, bytes.
    UnsupportedError
        A decimal of more than 15 digits after the point.
    """
    for column in columns:
        if column not in context.schema.names:
            raise DataError(
                f"{context.place}: column {column!r} is not in the table{did_you_mean(column, context.schema.names)}"
            )
        found = context.schema.field(column).type
        kind = column_type_of(found)
        if kind in ("text", "boolean"):
            raise DataError(
                f"{context.place}: column {column!r} is {kind}, not a number; declare `type: number` if it is one"
            )
        if kind == "decimal" and found.scale > LARGEST_SCALE:
            raise UnsupportedError(
                f"{context.place}: column {column!r} has {found.scale} digits after the point, {LARGEST_SCALE} are "
                "served; declare `type: number` to mask it"
            )


def clip_bounds(owner: str, clip: Any) -> tuple[float, float]:
    """The bounds of a parameter `clip`.

    Raises
    ------
    UsageError
        No pair of numbers in ascending order.
    """
    if not isinstance(clip, list | tuple) or len(clip) != 2:
        raise UsageError(f"{owner}: clip must be [lo, hi] or domain")
    for bound in clip:
        require_number(owner, "clip", bound)
    if not clip[0] < clip[1]:
        raise UsageError(f"{owner}: clip must be [lo, hi] with lo below hi")
    return clip[0], clip[1]


def refuse_nulls(column: str, nulls: int, context: StageContext) -> None:
    """Refuse missing values under ``nulls: refuse``.

    Raises
    ------
    DataError
    """
    if nulls:
        raise DataError(
            f"{context.place}: column {column!r} has {nulls:,} missing values and the stage has `nulls: refuse`"
        )


def require_finite(engine: Primitives, table: Any, names: Sequence[str], place: str) -> None:
    """Refuse infinities, which have no place among the numbers.

    Raises
    ------
    DataError
    """
    found = engine.reduce_rows(table, names, _Infinities(tuple(names)), Facts()) if names else None
    for name in names:
        if found and found[name]:
            raise DataError(f"{place}: column {name!r} holds {found[name]:,} infinite values; code them first")


@dataclass(frozen=True)
class _Infinities:
    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> dict[str, int]:
        return {name: int(np.isinf(block[name]).sum()) for name in self.columns}

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        return {name: count + right[name] for name, count in left.items()}


def counted_nulls(
    engine: Primitives, table: Any, columns: tuple[str, ...], rule: str, context: StageContext
) -> dict[str, int]:
    """Missing values of each column.

    Raises
    ------
    DataError
        There are some, and the rule is ``refuse``.
    """
    nulls = engine.facts(table, FactsRequest(nulls=columns)).nulls
    for column in columns if rule == "refuse" else ():
        refuse_nulls(column, nulls[column], context)
    return {column: nulls[column] for column in columns}


def require_summable(column: str, least: float, greatest: float, place: str) -> None:
    """Refuse numbers whose sums and differences float64 cannot hold; NaN marks a missing number.

    Raises
    ------
    DataError
    """
    if max(abs(least), abs(greatest)) > LARGEST_SUMMED:
        raise DataError(f"{place}: column {column!r} holds numbers beyond 1e301; give it in a larger unit")


def masked_type(field: Any, rounded: bool) -> Any:
    """Arrow type of a masked column: integers widen to float64 unless rounded; dates and decimals stay."""
    import pyarrow as pa

    kind = column_type_of(field.type)
    if kind in (*COUNTED, "decimal") or (kind == "integer" and rounded):
        return field.type
    return pa.float64()


def masked_schema(schema: pa.Schema, columns: tuple[str, ...], rounded: bool) -> pa.Schema:
    """The schema with each of these columns as its masked type."""
    for column in columns:
        at = schema.get_field_index(column)
        schema = schema.set(at, schema.field(at).with_type(masked_type(schema.field(at), rounded)))
    return schema


def written(values: Floats, target: Any, *, column: str = "", rounded: bool = False) -> pa.Array:
    """Masked numbers as a column of that type; NaN is null; half rounds to even.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Dates in days, timestamps in microseconds.
    target : pyarrow.DataType
        As `masked_type` gives it.
    column : str
        For the error.
    rounded : bool
        Whole numbers; integers, dates and timestamps are whole anyway, decimals go to their own last digit.

    Raises
    ------
    DataError
        Results beyond the range of the type, or dates beyond the years 1 to 9999.

    Examples
    --------
    >>> import pyarrow as pa
    >>> written(np.array([2.5, np.nan]), pa.int64(), rounded=True).to_pylist()
    [2, None]
    >>> written(np.array([2.349, np.nan]), pa.decimal128(38, 2)).to_pylist()
    [Decimal('2.35'), None]
    """
    import pyarrow as pa

    if rounded:
        values = np.rint(values)
    if pa.types.is_floating(target):
        _require_held(int(np.isinf(values).sum()), column, target)
        return pa.array(values, pa.float64(), from_pandas=True)
    missing = np.isnan(values)
    scaled = np.rint(values * 10.0**target.scale if pa.types.is_decimal(target) else values)
    low, high = _range_of(target)
    _require_held(int(((scaled < low) | (scaled >= high)).sum()), column, target)
    whole = np.where(missing, 0.0, scaled).astype(np.int64)
    if pa.types.is_decimal(target):
        return _decimals(whole, missing, target)
    unit = pa.int32() if pa.types.is_date32(target) else pa.int64()
    return pa.array(whole, unit, mask=missing).cast(target)


def with_others_restored(released: RowBlock, rows: RowBlock, columns: Sequence[str], masked: Any) -> RowBlock:
    """The released rows with the values of the records that are not masked as they were, to the bit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in columns:
        made = released.column(column)
        kept: pa.Array = rows.column(column)
        if kept.type != made.type:
            kept = kept.cast(made.type, safe=False)
        given = pa.array(masked | np.isnan(rows[column]))
        released = released.replace(column, pc.if_else(given, made, kept))
    return released


def _require_held(beyond: int, column: str, target: Any) -> None:
    if beyond:
        raise DataError(
            f"masking carries {beyond:,} cells of column {column!r} beyond what {target} holds; mask less, or clip"
        )


def _range_of(target: Any) -> tuple[float, float]:
    """Least count that the type holds, and the first one above all."""
    import pyarrow as pa

    if pa.types.is_date(target):
        return float(FIRST_DAY), LAST_DAY + 1.0
    if pa.types.is_timestamp(target):
        return float(FIRST_DAY * DAY), (LAST_DAY + 1.0) * DAY
    return -(2.0**63), 2.0**63


def _decimals(whole: Ints, missing: Bools, target: Any) -> pa.Array:
    """Integers over 10^scale as decimals: two 64-bit words each, the upper one all sign."""
    import pyarrow as pa

    words = pa.py_buffer(np.column_stack([whole, whole >> 63]).tobytes())
    present = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(target, len(whole), [present, words])


def unit_range(found: Any) -> tuple[int, int]:
    """Least and greatest unit that a type holds."""
    import pyarrow as pa

    if pa.types.is_integer(found):
        bits = found.bit_width
        if str(found).startswith("u"):
            return 0, min(2**bits, 2**63) - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if pa.types.is_decimal(found):
        most = 10 ** min(found.precision, 18) - 1
        return -most, most
    if pa.types.is_date(found):
        return FIRST_DAY, LAST_DAY
    if pa.types.is_timestamp(found):
        return FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
    return -(2**63), 2**63 - 1


def whole_numbers(units: Ints, missing: Bools, found: Any) -> Any:
    """A column of a counted type from its exact units."""
    import pyarrow as pa

    if pa.types.is_decimal(found):
        words = pa.py_buffer(np.column_stack([units, units >> 63]).tobytes())
        present = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
        wide = pa.Array.from_buffers(pa.decimal128(38, found.scale), len(units), [present, words])
        return wide.cast(found)
    if pa.types.is_date(found):
        return pa.array(units.astype(np.int32), pa.int32(), mask=missing).cast(pa.date32()).cast(found)
    return pa.array(units, pa.int64(), mask=missing).cast(found)


RANK_CUT = 1e-12
LEAST_VARIANCE = 1e-290  # the squares of smaller deviations lose their digits


def covariance_factor(covariance: Floats) -> Floats:
    """A with A A' = the covariance, by eigenvalues of the correlation matrix; served when it is singular.

    Eigenvalues below 1e-12 of the largest are taken as 0, so exactly collinear columns keep their identities.
    A column without variance gets a row of zeros. Signs are fixed, so equal input gives equal bits.

    Examples
    --------
    >>> factor = covariance_factor(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> (factor @ factor.T).round(9).tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0, sd, 1.0)
    correlation = covariance / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    values = np.where(values < RANK_CUT * values.max(initial=0.0), 0.0, values)
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
    return np.asarray(sd[:, None] * (vectors * signs) * np.sqrt(values))


def factor_of(facts: Facts, columns: tuple[str, ...], place: str) -> Floats:
    """The factor for correlated noise on these columns; zeros where none of them varies.

    Raises
    ------
    DataError
        There is no covariance, or one that float64 cannot hold.
    """
    covariance = facts.covariance
    if covariance is not None and not np.isnan(covariance).any():
        for column, variance in zip(columns, np.diag(covariance).tolist(), strict=True):
            # Noise of no variance would release the column unchanged, and infinite noise nothing at all.
            if facts.sd(column) and not LEAST_VARIANCE < variance < math.inf:
                raise DataError(
                    f"{place}: column {column!r} has no variance that float64 holds among the records with "
                    f"a value in each of {', '.join(map(repr, columns))}; use kind: uncorrelated"
                )
        return covariance_factor(covariance)
    if any(facts.sd(column) for column in columns):
        raise DataError(
            f"{place}: fewer than two records have a value in each of "
            f"{', '.join(map(repr, columns))}, so there is no correlation to keep; use kind: uncorrelated"
        )
    return np.zeros((len(columns), len(columns)))
