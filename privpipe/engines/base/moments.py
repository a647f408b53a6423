"""Exact moments as a reduction over rows, so that every engine reports the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import Facts, Moments, RowBlock
from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.kernels.exact_sums import ExactSums

__all__ = ["ExactMoments", "scaled_numbers"]


@dataclass(frozen=True)
class ExactMoments:
    """Sums of columns, and of their products when the covariance is wanted.

    Parameters
    ----------
    columns : tuple of str
        Numbers, integers, decimals, dates (days) or timestamps (microseconds).
    products : bool

    Examples
    --------
    >>> learn = ExactMoments(("income",))
    >>> halves = [RowBlock(pa.record_batch({"income": part})) for part in ([1.0, None], [2.0])]
    >>> left, right = (learn.measure(half, Facts()) for half in halves)
    >>> learn.finish(learn.merge(left, right))[0]["income"]
    Moments(records=2, nulls=1, mean=1.5, sd=0.7071067811865476, minimum=1.0, maximum=2.0)
    """

    columns: tuple[str, ...]
    products: bool = False

    def measure(self, block: RowBlock, facts: Facts) -> tuple[ExactSums, ...]:
        """One state a column, then the joint one if products are wanted."""
        from privpipe.kernels.exact_sums import measure_sums

        found = [scaled_numbers(block.column(name), name) for name in self.columns]
        sums = [measure_sums([values], [gaps], [scale]) for values, gaps, scale in found]
        if self.products and found:
            values, gaps, scales = zip(*found, strict=True)
            sums.append(measure_sums(values, gaps, scales))
        return tuple(sums)

    def merge(self, left: tuple[ExactSums, ...], right: tuple[ExactSums, ...]) -> tuple[ExactSums, ...]:
        """State by state."""
        return tuple(a.merge(b) for a, b in zip(left, right, strict=True))

    def finish(self, sums: tuple[ExactSums, ...] | None) -> tuple[Mapping[str, Moments], NDArray[np.float64] | None]:
        """Moments by column, and the covariance matrix if it is wanted; `sums` is None for no records.

        Raises
        ------
        DataError
            A column holds infinities.
        """
        if sums is None:
            nothing = Moments(records=0, nulls=0, mean=float("nan"), sd=float("nan"))
            s = len(self.columns)
            return dict.fromkeys(self.columns, nothing), np.full((s, s), np.nan) if self.products else None
        moments = {}
        for name, state in zip(self.columns, sums, strict=False):
            if state.infinite[0]:
                raise DataError(f"column {name!r} holds {state.infinite[0]:,} infinite values, which have no mean")
            moments[name] = Moments(
                records=state.count,
                nulls=state.missing,
                mean=state.mean(),
                sd=state.sd(),
                minimum=state.minima[0],
                maximum=state.maxima[0],
            )
        return moments, sums[-1].covariance() if self.products and self.columns else None


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
