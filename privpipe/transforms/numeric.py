"""Numbers in and out of a masking stage: which types are served, and what a result is written as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Moments
from privpipe.errors import DataError, UnsupportedError, did_you_mean
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["masked_type", "require_finite", "require_numeric", "written"]

COUNTED = ("date", "timestamp")
"""Types masked as whole counts of their unit and returned as themselves."""


def require_numeric(columns: tuple[str, ...], context: StageContext, *, ordered: bool = False) -> None:
    """Refuse columns that are absent or no numbers, dates or timestamps (with `ordered`: nor any ordered type).

    Raises
    ------
    DataError, UnsupportedError
    """
    for column in columns:
        if column not in context.schema.names:
            raise DataError(
                f"{context.place}: column {column!r} is not in the table{did_you_mean(column, context.schema.names)}"
            )
        kind = column_type_of(context.schema.field(column).type)
        if kind == "decimal" and not ordered:
            raise UnsupportedError(
                f"{context.place}: column {column!r} is decimal; declare it `type: number` to mask it"
            )
        if kind in ("text", "boolean"):
            raise DataError(
                f"{context.place}: column {column!r} is {kind}, not a number; declare `type: number` if it is one"
            )


def require_finite(moments: dict[str, Moments], context: StageContext) -> None:
    """Refuse infinities, and nulls where the stage says so.

    Raises
    ------
    DataError
    """
    for column, figures in moments.items():
        if np.isinf(figures.minimum) or np.isinf(figures.maximum):
            raise DataError(f"{context.place}: column {column!r} holds infinite values; remove or code them first")


def masked_type(field: Any, rounded: bool) -> Any:
    """Arrow type of a masked column: integers widen to float64 unless rounded; dates stay dates."""
    import pyarrow as pa

    kind = column_type_of(field.type)
    if kind in COUNTED or (kind == "integer" and rounded):
        return field.type
    return pa.float64()


def written(values: NDArray[np.float64], target: Any, *, rounded: bool = False) -> pa.Array:
    """Masked numbers as a column of that type; NaN is null; half rounds to even.

    Examples
    --------
    >>> import pyarrow as pa
    >>> written(np.array([2.5, np.nan]), pa.int64(), rounded=True).to_pylist()
    [2, None]
    """
    import pyarrow as pa

    if pa.types.is_floating(target):
        return pa.array(np.rint(values) if rounded else values, pa.float64(), from_pandas=True)
    missing = np.isnan(values)
    whole = np.where(missing, 0.0, np.rint(values)).astype(np.int64)
    unit = pa.int32() if pa.types.is_date32(target) else pa.int64()
    return pa.array(whole, unit, mask=missing).cast(target)
