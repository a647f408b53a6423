"""Ranks of a column's values in each stratum, their exact correlations, and values by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.errors import DataError
from privpipe.transforms.numeric import whole_numbers
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    from privpipe.kernels.sums.exact import ExactSums
    from privpipe.kernels.synthesis.normal_scores import ValueRanks

__all__ = [
    "Places",
    "RankSums",
    "merged_sums",
    "numbers_of",
    "ranks_of_column",
    "ranks_within",
    "sums_by_stratum",
    "taken_at",
]

Places = tuple[NDArray[Any], NDArray[np.bool_]]


def ranks_of_column(engine: Primitives, table: Any, column: str, strata: Strata, place: str) -> list[ValueRanks]:
    """One for each stratum, over its records with a value.

    Raises
    ------
    DataError
        The column holds infinities.
    """
    from privpipe.kernels.columns.scaled_numbers import scaled_numbers
    from privpipe.kernels.synthesis.normal_scores import ValueRanks

    distinct = engine.distinct(table, (*strata.by, column)).combine_chunks()
    counts = distinct["__count"].to_numpy().astype(np.int64)
    numbers = np.zeros(len(distinct), np.int64)
    if strata.by and len(distinct):
        numbers = strata.of(RowBlock(distinct.select(list(strata.by)).to_batches()[0]))
    chunks = distinct[column].combine_chunks()
    values, gaps, _ = scaled_numbers(chunks, column)
    known = ~np.isnan(values) if gaps is None else ~gaps & ~np.isnan(values)
    infinite = known & np.isinf(values)
    if infinite.any():
        raise DataError(
            f"{place}: column {column!r} holds {int(counts[infinite].sum()):,} infinite values; code them first"
        )
    here = [np.flatnonzero(known & (numbers == number)) for number in range(len(strata))]
    return [ValueRanks.of(values[rows], counts[rows]) for rows in here]


@dataclass(frozen=True)
class RankSums:
    """Exact sums and products of mid-ranks by stratum, over records with a value in each column but the `filled` ones.

    A stratum's `correlation()` is Spearman's, with ties at their mid-ranks; a missing value of a filled column stands
    in its middle.
    """

    strata: Strata
    columns: tuple[str, ...]
    ranks: Mapping[str, list[ValueRanks]] = field(repr=False)
    filled: tuple[str, ...] = ()

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, ExactSums]:
        return sums_by_stratum(self.strata, block, self._places)

    def _places(self, rows: RowBlock, number: int) -> Iterator[Places]:
        for name in self.columns:
            values, nothing = numbers_of(rows, name)
            ranks = self.ranks[name][number]
            places = ranks.doubled(values)
            if name in self.filled:
                places, nothing = np.where(nothing, len(ranks) - 1, places), np.zeros(len(rows), np.bool_)
            yield places, nothing

    def merge(self, left: dict[int, ExactSums], right: dict[int, ExactSums]) -> dict[int, ExactSums]:
        return merged_sums(left, right)


def sums_by_stratum(
    strata: Strata, block: RowBlock, places: Callable[[RowBlock, int], Iterable[Places]]
) -> dict[int, ExactSums]:
    """Exact sums of what `places` gives for the records of each stratum: a column's numbers, and where it has none."""
    from privpipe.kernels.sums.exact import measure_sums

    numbers = strata.of(block)
    found = {}
    for number in np.unique(numbers[numbers >= 0]).tolist():
        rows = block if not strata.by else block.take(np.flatnonzero(numbers == number))
        values, nothing = zip(*places(rows, number), strict=True)
        found[number] = measure_sums(list(values), list(nothing))
    return found


def merged_sums(left: Mapping[int, ExactSums], right: Mapping[int, ExactSums]) -> dict[int, ExactSums]:
    """Sums of each stratum in either."""
    merged = dict(left)
    for number, state in right.items():
        merged[number] = merged[number].merge(state) if number in merged else state
    return merged


def numbers_of(rows: RowBlock, column: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column as exact numbers, and where it has none."""
    from privpipe.kernels.columns.scaled_numbers import scaled_numbers

    values, missing, _ = scaled_numbers(rows.column(column), column)
    nothing = np.isnan(values)
    return values, nothing if missing is None else nothing | missing


def ranks_within(rows: RowBlock, columns: Sequence[str]) -> list[ValueRanks]:
    """Ranks of the values of each column among these records."""
    from privpipe.kernels.synthesis.normal_scores import ValueRanks

    found = []
    for column in columns:
        values, nothing = numbers_of(rows, column)
        known = values[~nothing]
        found.append(ValueRanks.of(known, np.ones(len(known), np.int64)))
    return found


def taken_at(ranks: ValueRanks, places: NDArray[np.int64], found: Any) -> Any:
    """The values at these ranks as a column of that type; null where a rank is negative.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privpipe.kernels.synthesis.normal_scores import ValueRanks
    >>> taken_at(ValueRanks.of(np.array([5, 7]), np.array([2, 1])), np.array([2, -1, 0]), pa.int64()).to_pylist()
    [7, None, 5]
    """
    import pyarrow as pa

    missing = places < 0
    runs = np.maximum(np.searchsorted(ranks.offsets, places, side="right") - 1, 0)
    values = ranks.values[np.where(missing, 0, runs)] if len(ranks.values) else np.zeros(len(places), np.int64)
    if values.dtype.kind == "f":
        return pa.array(values, pa.float64(), mask=missing).cast(found)
    return whole_numbers(np.where(missing, 0, values), missing, found)
