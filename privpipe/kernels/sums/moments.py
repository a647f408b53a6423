"""Exact moments as a reduction over rows, so that every engine reports the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Moments, RowBlock
from privpipe.errors import DataError
from privpipe.kernels.columns.scaled_numbers import scaled_numbers

if TYPE_CHECKING:
    from privpipe.kernels.sums.exact import ExactSums

__all__ = ["ExactMoments"]


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
    >>> import pyarrow as pa
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
        from privpipe.kernels.sums.exact import measure_sums

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
