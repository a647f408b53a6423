"""Arrow columns as exact numbers: floats as they are, everything else as integers of its unit or scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.errors import DataError

__all__ = ["scaled_numbers"]


def scaled_numbers(array: pa.Array, column: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None, int]:
    """A column as float64 or int64 with its gaps and its scale: the value is the integer over 10^scale.

    Raises
    ------
    DataError
        Text, booleans and bytes; a decimal whose digits exceed 64 bits.

    Examples
    --------
    >>> values, gaps, scale = scaled_numbers(pa.array(["1.5", None]).cast(pa.decimal128(38, 2)), "pay")
    >>> values.tolist(), gaps.tolist(), scale
    ([150, 0], [False, True], 2)
    """
    kind = array.type
    gaps = None
    if array.null_count:
        gaps = np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))
    if pt.is_floating(kind):
        return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False)), gaps, 0
    if pt.is_decimal(kind):
        return _decimal_words(array, column), gaps, int(kind.scale)
    if pt.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif not (pt.is_integer(kind) or pt.is_timestamp(kind)):
        raise DataError(f"column {column!r} holds {kind}, which has no mean; numbers and dates have")
    integers = array.cast(pa.int64())
    return np.asarray(integers.fill_null(0).to_numpy(zero_copy_only=False)), gaps, 0


def _decimal_words(array: pa.Array, column: str) -> NDArray[np.int64]:
    filled = array.cast(pa.decimal128(38, array.type.scale)).fill_null(0)
    words = np.frombuffer(filled.buffers()[1], dtype="<i8").reshape(-1, 2)
    words = words[filled.offset : filled.offset + len(filled)]
    if (words[:, 1] != words[:, 0] >> 63).any():
        raise DataError(f"column {column!r} holds decimals of more than 18 digits, beyond 64-bit arithmetic")
    return np.ascontiguousarray(words[:, 0])
