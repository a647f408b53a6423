"""The window of a rank swap that keeps a required correlation or the means of subsets, and the exact tails of a near-
unique column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.draws import Stream
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext
from privpipe.transforms.exact_quantiles import known_values, values_at
from privpipe.transforms.numeric_columns import written
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.exact_sums import ExactSums
    from privpipe.kernels.rank_swapping import Partner

__all__ = [
    "TAIL",
    "Averaged",
    "ChosenWindow",
    "Keeping",
    "SampledColumn",
    "TailBorders",
    "TailsRemoved",
    "chosen_window",
    "chosen_windows",
    "refuse_dates",
    "require_one_window",
    "tail_borders",
    "tail_means",
]


TAIL = "__privpipe_tail"
BOTTOM, TOP = 1, 2
SAMPLED = 1 << 15

Border = float | int | None


@dataclass(frozen=True, repr=False)
class TailBorders:
    """The tails of a column.

    Parameters
    ----------
    bottom, top : int
        Records of each, ties at the borders among them.
    below, above : number, optional
        The largest value of the lower tail and the least of the upper one, in units of the column; None without.
    """

    bottom: int
    top: int
    below: Border = field(default=None, repr=False)
    above: Border = field(default=None, repr=False)

    def of(self, array: pa.Array, column: str) -> Ints:
        """The tail of each record, 0 for none."""
        values, known, _ = known_values(array, column)
        found = np.zeros(len(values), np.int64)
        if self.above is not None:
            found[known & (values >= self.above)] = TOP
        # The lower tail takes a value that is in both, because it is cut first.
        if self.below is not None:
            found[known & (values <= self.below)] = BOTTOM
        return found


def tail_borders(engine: Primitives, table: Any, column: str, records: int, bottom: int, top: int) -> TailBorders:
    """The tails of a number of the smallest and of the largest values, of a column with `records` values."""
    ranks = [rank for rank, wanted in ((bottom - 1, bottom), (records - top, top)) if wanted]
    (found,) = values_at(engine, table, column, Strata(), [records], [ranks])
    at = dict(zip(ranks, found, strict=True))
    low, below = 0, None
    if bottom:
        below, less, equal = at[bottom - 1]
        low = less + equal
    high, above = 0, None
    if top:
        above, less, _ = at[records - top]
        high = records - less
    return TailBorders(low, min(high, records - low), below, above)


@dataclass(frozen=True)
class SampledColumn:
    """The values of the `most` records with the least ids, which are as good as random, and those ids.

    Parameters
    ----------
    column : str
    most : int
        Default: `SAMPLED`.
    """

    column: str
    most: int = field(default_factory=lambda: SAMPLED)

    def measure(self, block: RowBlock, facts: Facts) -> tuple[Ints, NDArray[Any]]:
        values, known, _ = known_values(block.column(self.column), self.column)
        return self._least(block.record_ids[known, 0], values[known])

    def merge(self, left: Any, right: Any) -> tuple[Ints, NDArray[Any]]:
        return self._least(np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]]))

    def _least(self, ids: Ints, values: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
        if len(ids) <= self.most:
            return ids, values
        kept = np.argpartition(ids, self.most)[: self.most]
        return ids[kept], values[kept]


def tail_means(engine: Primitives, table: Any, column: str, borders: TailBorders) -> dict[int, float]:
    """The mean of each tail, rounded once; dates in days, timestamps in microseconds."""
    sums = engine.reduce_rows(table, [column], _TailSums(column, borders), Facts()) or {}
    return {tail: each.mean() for tail, each in sums.items() if each.count}


@dataclass(frozen=True)
class _TailSums:
    column: str
    borders: TailBorders = field(repr=False)

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, ExactSums]:
        from privpipe.kernels.exact_sums import measure_sums

        array = block.column(self.column)
        values, _, scale = known_values(array, self.column)
        tails = self.borders.of(array, self.column)
        return {tail: measure_sums([values[tails == tail]], [None], [scale]) for tail in (BOTTOM, TOP)}

    def merge(self, left: dict[int, ExactSums], right: dict[int, ExactSums]) -> dict[int, ExactSums]:
        return {tail: left[tail].merge(right[tail]) for tail in left}


@dataclass(frozen=True)
class TailsRemoved:
    """Rows with the column `TAIL`, and nulls instead of the values of the tails."""

    column: str
    borders: TailBorders = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = rows.column(self.column)
        tails = self.borders.of(array, self.column)
        rows = rows.replace(self.column, pc.if_else(pa.array(tails > 0), pa.scalar(None, array.type), array))
        return RowBlock(rows.batch.append_column(TAIL, pa.array(tails)), rows.record_ids)


@dataclass(frozen=True)
class Averaged:
    """Rows of `TailsRemoved` with the mean of its tail for each record of one, in the released type."""

    column: str
    means: dict[int, float] = field(repr=False)
    target: Any

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        tails = rows.column(TAIL).to_numpy(zero_copy_only=False)
        found = rows.column(self.column).cast(self.target, safe=False)
        for tail, mean in self.means.items():
            figure = written(np.array([mean]), self.target, column=self.column)[0]
            found = pc.if_else(pa.array(tails == tail), figure, found)
        return rows.drop([TAIL]).replace(self.column, found)


MEASURED = 1 << 15
"""Swapped values that a window is measured on, over several permutations where there are few ranks."""
MOST_TURNS = 64


@dataclass(frozen=True)
class ChosenWindow:
    """The widest window that meets the request, among `of` ranks.

    Parameters
    ----------
    width, of : int
        The window in ranks, 0 where even one rank is too wide; the values it was measured among.
    correlation : float, optional
        Expected between the column and its swapped self; None where the column has no variance.
    mean_change : float, optional
        Root of the mean square change of a value in means of the column: sqrt(N) times the deviation of the relative
        change that the mean of N records takes. None where the mean is 0.
    """

    width: int
    of: int
    correlation: float | None = None
    mean_change: float | None = None

    def among(self, n: int) -> int:
        """The window among n ranks."""
        return self.width * n // max(self.of, 1)

    def expected(self) -> dict[str, float | None]:
        """What the plan states about it."""
        return {"expected_correlation": self.correlation, "expected_mean_change": self.mean_change}

    def too_narrow(self, n: int, column: str, stage: Keeping, place: str) -> DataError:
        """The error that no window meets the request."""
        kept = "keep_mean" if stage.keep_correlation is None else "keep_correlation"
        return DataError(
            f"{place}: {kept} = {getattr(stage, kept)} of column {column!r} is a window of 0 ranks: one of "
            f"{-(-n // max(self.of, 1)):,} of its {n:,} records with a value changes more already; ask for less, give "
            "p, or take the tails apart by top and bottom"
        )


class Keeping(Protocol):
    """What a stage states about the window to choose."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def p(self) -> float | None: ...

    @property
    def keep_correlation(self) -> float | None: ...

    @property
    def keep_mean(self) -> float | None: ...

    @property
    def kind(self) -> str: ...

    @property
    def partner(self) -> Partner: ...

    @property
    def by(self) -> tuple[str, ...]: ...

    @property
    def bottom(self) -> float: ...

    @property
    def top(self) -> float: ...


def require_one_window(stage: Keeping) -> None:
    """Refuse a rank swap that gives its window not once.

    Raises
    ------
    UsageError
    """
    wanted = [name for name in ("p", "keep_correlation", "keep_mean") if getattr(stage, name) is not None]
    if wanted and wanted[-1] != "p" and (stage.kind != "window" or stage.by):
        raise UsageError(f"RankSwap: {wanted[-1]} requires kind: window and no by")
    if len(wanted) > 1:
        raise UsageError(f"RankSwap: give one of p, keep_correlation and keep_mean, not {' and '.join(wanted)}")
    if not wanted and stage.kind != "buckets":
        raise UsageError("RankSwap: give p, keep_correlation or keep_mean, one of the three")


def refuse_dates(columns: tuple[str, ...], context: StageContext) -> None:
    """Refuse columns whose mean has no percentage.

    Raises
    ------
    DataError
    """
    for column in columns:
        if column_type_of(context.schema.field(column).type) in ("date", "timestamp"):
            raise DataError(
                f"{context.place}: column {column!r} holds dates, whose mean has no percentage; use keep_correlation"
            )


def chosen_windows(engine: Primitives, table: Any, stage: Keeping) -> dict[str, ChosenWindow]:
    """The window of each column of a stage, measured on a sample of its records where they are many."""
    found = {}
    for column in stage.columns:
        sample = engine.reduce_rows(table, [column], SampledColumn(column), Facts())
        found[column] = chosen_window(
            np.zeros(0) if sample is None else sample[1],
            stage.partner,
            correlation=stage.keep_correlation,
            mean=stage.keep_mean,
            bottom=stage.bottom,
            top=stage.top,
        )
    return found


def chosen_window(
    values: NDArray[Any],
    partner: Partner,
    *,
    correlation: float | None = None,
    mean: float | None = None,
    bottom: float = 0.0,
    top: float = 0.0,
) -> ChosenWindow:
    """The widest window that keeps a correlation, or the means of subsets.

    A swap keeps mean and variance, so with D the mean square change of a value the correlation of a column and its
    swapped self is 1 - D / (2 variance): `correlation` R0 requires D <= 2 variance (1 - R0). The mean of N records
    changes with the variance D / N, so `mean` K0 requires D <= (K0 mean)^2: then 95 % of such means change by at most
    2 K0 / sqrt(N) of themselves. D is measured with a public key. Moore puts 3/8 (w / n)^2 range^2 in its place,
    which it is for evenly spread values.

    Source: Moore, US Census Bureau, 1996, for both aims (R0 and K0 of rankSwap in the R package sdcMicro).

    Parameters
    ----------
    values : ndarray of int64 or float64, shape (n,)
        Of one column without gaps, in any order; all of them or a sample.
    partner : {"unswapped", "content", "skip"}
    correlation, mean : float, optional
        R0 in (0, 1) or K0 above 0, one of the two.
    bottom, top : float
        Shares of the smallest and largest values, which take no part (ties at the border go with them).

    Examples
    --------
    >>> found = chosen_window(np.arange(1000), "unswapped", correlation=0.95)
    >>> 140 < found.width < 160, abs(found.correlation - 0.95) < 0.002
    (True, True)
    """
    ordered = np.sort(values)
    inner = _between_tails(ordered, floor_share(bottom, len(ordered)), floor_share(top, len(ordered)))
    of = len(ordered)
    if len(inner) < 2:
        return ChosenWindow(min(of, 1), of)
    spread, centre = _scaled(inner)
    variance = float(np.square(spread - spread.mean()).mean())
    bound = 2 * variance * (1 - correlation) if correlation is not None else ((mean or 0.0) * centre) ** 2
    fits, width = 0, len(inner) - 1
    first_too_wide = width + 1
    while first_too_wide - fits > 1:
        change = _change(spread, width, partner)
        fits, first_too_wide = (width, first_too_wide) if change <= bound else (fits, width)
        width = (fits + first_too_wide) // 2
    change = _change(spread, fits, partner) if fits else 0.0
    return ChosenWindow(
        fits,
        of,
        round(1 - change / (2 * variance), 6) if variance else None,
        round(math.sqrt(change) / abs(centre), 6) if centre else None,
    )


def _between_tails(ordered: NDArray[Any], bottom: int, top: int) -> NDArray[Any]:
    start = int(np.searchsorted(ordered, ordered[bottom - 1], side="right")) if bottom else 0
    stop = int(np.searchsorted(ordered, ordered[-top], side="left")) if top else len(ordered)
    return ordered[start : max(stop, start)]


def _scaled(ordered: NDArray[Any]) -> tuple[Floats, float]:
    """Distances from the middle value, and the mean, in a unit in which neither's square leaves float64."""
    middle = ordered[len(ordered) // 2].item()
    ends = [abs(ordered[at].item()) for at in (0, -1)]
    unit = float(max(ends)) or 1.0
    if ordered.dtype.kind == "i" and max(ends) < 2**62:
        spread = (ordered - middle).astype(np.float64) / unit
    else:
        spread = ordered.astype(np.float64) / unit - middle / unit
    widest = float(np.abs(spread).max()) or 1.0
    return spread / widest, (middle / unit + float(spread.mean())) / widest


def _change(spread: Floats, width: int, partner: Partner) -> float:
    """The mean square change of a value under a window of a number of ranks."""
    from privpipe.kernels.rank_swapping import swap_permutation

    n = len(spread)
    turns = min(max(MEASURED // n, 1), MOST_TURNS)
    total = 0.0
    for turn in range(turns):
        pi = swap_permutation(n, width, Stream(turn.to_bytes(16, "little")), partner=partner, segment=n)
        total += float(np.square(spread - spread[pi]).sum())
    return total / (turns * n)
