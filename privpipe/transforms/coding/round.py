"""Rounding to multiples of a base: to the nearest, at random without bias, or down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt
from typing_extensions import Doc

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.arrays import Floats
from privpipe.blocks.marks import Columns
from privpipe.errors import DataError
from privpipe.roles import column_type_of
from privpipe.transforms.base import RowTransformer, StageContext, StagePlan, checked_columns
from privpipe.transforms.numeric_columns import (
    counted_nulls,
    require_finite,
    require_numeric,
    unit_range,
    whole_numbers,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["Round"]

MOST_DIGITS = 308
MOST_MULTIPLES = 2.0**53


@dataclass(frozen=True, kw_only=True, repr=False)
class Round(RowTransformer):
    """Replace each value by a multiple of `base`: |y - x| <= base / 2 to the nearest, < base else.

    Integers, decimals and dates are rounded in exact integers. A base like 0.1 is taken as the decimal it reads, so
    that multiples are 0.3 and not 0.30000000000000004.

    Parameters
    ----------
    columns : tuple of str
        Numbers, decimals, dates (base in days) or timestamps (base in microseconds).
    base : float
        Above 0; under 1 or with digits after the point an integer column becomes float64.
    mode : {"nearest", "random", "down"}
        nearest: half to even multiples. random: down, or up with the probability of the fraction, so E(Y) = X.
        down: towards minus infinity.
    nulls : {"keep", "refuse"}

    Examples
    --------
    >>> Round(columns=["income"], base=10).mode
    'nearest'
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "each value to within the base; the mean in expectation, at random"
    reveals = "the interval of a base's width around each value"
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"

    columns: Annotated[tuple[str, ...], Columns(), Doc("numeric or date columns")]
    base: Annotated[float, Gt(0), Doc("released values are its multiples; above 0")]
    mode: Annotated[Literal["nearest", "random", "down"], Doc("nearest (half to even), random (unbiased) or down")] = (
        "nearest"
    )
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("Round", self.columns))

    @property
    def links_releases(self) -> bool:
        return True  # at random, too, it is one of two multiples

    @property
    def needs_ids(self) -> bool:
        return self.mode == "random"

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        self._require_units(context)
        nulls = counted_nulls(engine, table, self.columns, self.nulls, context)
        floats = [name for name in self.columns if column_type_of(context.schema.field(name).type) == "number"]
        require_finite(engine, table, floats, context.place)
        return StagePlan(name=self.name(), parameters=self.parameters(), detail={"nulls": nulls})

    def _require_units(self, context: StageContext) -> None:
        require_numeric(self.columns, context)
        for column in self.columns:
            found = context.schema.field(column).type
            kind = column_type_of(found)
            if kind in ("decimal", "date", "timestamp") and self._units(found) is None:
                what = f"{found.scale} digits after the point" if kind == "decimal" else f"whole units of a {kind}"
                raise DataError(f"{context.place}: column {column!r} has {what}, and base {self.base!r} is finer")
            if (self._units(found) or 0) >= 2**63:
                raise DataError(
                    f"{context.place}: base {self.base!r} is beyond all that {found} holds; give a smaller one"
                )

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        for column in self.columns:
            at = schema.get_field_index(column)
            schema = schema.set(at, schema.field(at).with_type(self._target(schema.field(at).type)))
        return schema

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)  # nothing learnt shapes a value, and the checks are made again

    def draws_by_value(self) -> bool:
        return True

    def drawn_columns(self) -> tuple[str, ...]:
        return self.columns if self.mode == "random" else ()

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        return {}  # base and mode say it all

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        from privpipe.kernels.ids.value_draws import value_uniforms

        for column in self.columns:
            array = rows.column(column)
            uniforms = value_uniforms(draws.of(column), rows, (column,)) if self.mode == "random" else np.empty(0)
            units = self._units(array.type)
            if units is None:
                rounded = rounded_floats(rows[column], self.base, self.mode, uniforms)
                _require_held(int((np.isinf(rounded) & np.isfinite(rows[column])).sum()), column, "float64")
            else:
                rounded = _in_units(array, units, self.mode, uniforms, column)
            rows = rows.replace(column, rounded)
        return rows

    def _target(self, found: Any) -> Any:
        import pyarrow as pa

        return found if self._units(found) is not None else pa.float64()

    def _units(self, found: Any) -> int | None:
        """The base in exact units of the type; None for floats, and where it is not a whole number of them."""
        kind = column_type_of(found)
        if kind == "number":
            return None
        exact = Decimal(repr(self.base)).scaleb(found.scale if kind == "decimal" else 0)
        return int(exact) if exact == exact.to_integral_value() else None

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(columns=("income",), base=10), cls(columns=("income",), base=0.5, mode="random")]


def rounded_floats(x: Floats, base: float, mode: str, uniforms: Floats) -> Floats:
    """Multiples of a base for floats; NaN stays.

    Parameters
    ----------
    uniforms : ndarray of float64, shape (n,)
        For mode random only.

    Examples
    --------
    >>> rounded_floats(np.array([0.34, 0.25, -0.25, -0.36]), 0.1, "nearest", np.empty(0)).tolist()
    [0.3, 0.2, -0.2, -0.4]
    >>> rounded_floats(np.array([7.0, -7.0]), 5, "down", np.empty(0)).tolist()
    [5.0, -10.0]
    """
    exact = Decimal(repr(base))
    digits = max(-int(exact.as_tuple().exponent), 0)
    # base = whole / parts, so that a multiple is rounded once; the last powers of ten have no double.
    whole, parts = (float(exact.scaleb(digits)), 10.0**digits) if digits <= MOST_DIGITS else (base, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = x * parts / whole
        multiple = np.rint(quotient) if mode == "nearest" else np.floor(quotient)
        if mode != "nearest":
            # The quotient may have been rounded over a multiple, upwards or downwards.
            multiple -= multiple * whole / parts > x
            multiple += (multiple + 1.0) * whole / parts <= x
        if mode == "random":
            multiple += uniforms < (x - multiple * whole / parts) / base
        # Where doubles are further apart than the multiples, a value is its own nearest.
        return np.asarray(np.where(np.abs(quotient) < MOST_MULTIPLES, multiple * whole / parts + 0.0, x + 0.0))


def _in_units(array: pa.Array, base: int, mode: str, uniforms: Floats, column: str) -> Any:
    from privpipe.kernels.columns.cell_words import scaled_numbers

    values, gaps, _ = scaled_numbers(array, column)
    missing = np.zeros(len(values), np.bool_) if gaps is None else gaps
    rest = values % base
    up = np.zeros(len(values), np.bool_)
    if mode == "nearest":
        # Twice the rest may leave 64 bits; half the base does not.
        half = base // 2
        up = (rest > half) | ((rest == half) & (base % 2 == 0) & ((values - rest) // base % 2 != 0))
    elif mode == "random":
        up = uniforms < rest / base
    lowest, highest = unit_range(array.type)
    down = values - rest
    beyond = ~missing & ((down > values) | (down < lowest) | (up & (down > highest - base)))
    _require_held(int(beyond.sum()), column, str(array.type))
    return whole_numbers(np.where(missing, 0, down + up * base), missing, array.type)


def _require_held(beyond: int, column: str, found: str) -> None:
    if beyond:
        raise DataError(
            f"rounding carries {beyond:,} cells of column {column!r} beyond what {found} holds; give a smaller base"
        )
