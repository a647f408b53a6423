"""Ranks of a column's values in each stratum, their exact correlations, and values by rank, on the driver or with the
records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock, unsigned_zeros
from privpipe.blocks.arrays import Bools, Ints
from privpipe.draws import Stream
from privpipe.errors import DataError
from privpipe.transforms.numeric_columns import whole_numbers
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.exact_sums import ExactSums
    from privpipe.kernels.synthesis.copula import ValueRanks

__all__ = [
    "MidRankSums",
    "Places",
    "RankSums",
    "dealt_by_rank",
    "few_values",
    "merged_sums",
    "mid_name",
    "mid_ranks_of_groups",
    "numbers_of",
    "ranks_of_column",
    "ranks_within",
    "sums_by_stratum",
    "taken_at",
    "with_mid_ranks",
]


Places = tuple[NDArray[Any], Bools]


def ranks_of_column(engine: Primitives, table: Any, column: str, strata: Strata, place: str) -> list[ValueRanks]:
    """One for each stratum, over its records with a value.

    Raises
    ------
    DataError
        The column holds infinities.
    """
    from privpipe.kernels.columns.cell_words import scaled_numbers
    from privpipe.kernels.synthesis.copula import ValueRanks

    distinct = engine.distinct(table, (*strata.by, column)).combine_chunks()
    counts = distinct["__count"].to_numpy().astype(np.int64)
    numbers = strata.of_distinct(distinct)
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

    A stratum's `correlation()` is Spearman's, with ties at their mid-ranks; a missing value of a filled column is
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
    from privpipe.kernels.exact_sums import measure_sums

    found = {}
    for number, rows in strata.parts(block):
        values, nothing = zip(*places(rows, number), strict=True)
        found[number] = measure_sums(list(values), list(nothing))
    return found


def merged_sums(left: Mapping[int, ExactSums], right: Mapping[int, ExactSums]) -> dict[int, ExactSums]:
    """Sums of each stratum in either."""
    merged = dict(left)
    for number, state in right.items():
        merged[number] = merged[number].merge(state) if number in merged else state
    return merged


def numbers_of(rows: RowBlock, column: str) -> tuple[NDArray[Any], Bools]:
    """A column as exact numbers, and where it has none."""
    from privpipe.kernels.columns.cell_words import scaled_numbers

    values, missing, _ = scaled_numbers(rows.column(column), column)
    nothing = np.isnan(values)
    return values, nothing if missing is None else nothing | missing


def ranks_within(rows: RowBlock, columns: Sequence[str]) -> list[ValueRanks]:
    """Ranks of the values of each column among these records."""
    from privpipe.kernels.synthesis.copula import ValueRanks

    found = []
    for column in columns:
        values, nothing = numbers_of(rows, column)
        known = values[~nothing]
        found.append(ValueRanks.of(known, np.ones(len(known), np.int64)))
    return found


def taken_at(ranks: ValueRanks, places: Ints, found: Any) -> Any:
    """The values at these ranks as a column of that type; null where a rank is negative.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privpipe.kernels.synthesis.copula import ValueRanks
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


KEY, TAG = "__privpipe_dealt_key", "__privpipe_dealt_tag"
ROWS_PER_GROUP = 1 << 17


def few_values(engine: Primitives, table: Any, names: Sequence[str]) -> bool:
    """Whether the driver may hold the distinct values of each of the columns with their counts."""
    records = engine.count(table)
    if records <= engine.values_held:
        return True
    estimated = engine.estimated_distinct(table, names)
    return max(estimated.get(name, records) for name in names) <= engine.values_held


def mid_name(at: int) -> str:
    """The hidden column with twice the mid-ranks of a column."""
    return f"__privpipe_mid_{at}"


def rank_name(at: int) -> str:
    """The hidden column with the ranks of a column."""
    return f"__privpipe_rank_{at}"


def with_mid_ranks(engine: Primitives, table: Any, names: Sequence[str]) -> Any:
    """The table with the rank and twice the mid-rank of each value among those of its column; null for no value.

    Two passes rank ties in opposite orders, so that the sum of both ranks is the same for each: twice the middle.
    """
    import pyarrow as pa

    ties = hashlib.sha256(b"privpipe/ranks of ties").digest()[:16]  # the order within a tie is never released
    for at, name in enumerate(names):
        schema = table.schema
        key = pa.field(KEY, _key_type(schema.field(name).type))
        table = engine.map_rows(table, _Keyed(name), schema.append(key))
        one = schema.append(key).append(pa.field(rank_name(at), pa.int64()))
        table = engine.map_ranked(table, KEY, Stream(ties), _Placed(rank_name(at)), one)
        both = schema.append(one.field(rank_name(at))).append(pa.field(mid_name(at), pa.int64()))
        table = engine.map_ranked(table, KEY, _Backwards(ties), _MidRanked(at), both)
    return table


def mid_ranks_of_groups(engine: Primitives, table: Any, strata: Strata, names: tuple[str, ...]) -> Any:
    """The table with twice the mid-rank of each value among those of its stratum."""
    import pyarrow as pa

    more = [pa.field(mid_name(at), pa.int64()) for at in range(len(names))]
    return engine.map_groups(table, strata.of, _MidRanksOfGroup(names), pa.schema([*table.schema, *more]))


def dealt_by_rank(engine: Primitives, table: Any, column: str, at: int, score: str, stream: Stream) -> Any:
    """Each record with a value receives the value of the rank that its score has; a column without -0.0.

    Values go to the records' places in the order of the scores, in groups of `ROWS_PER_GROUP` ranks.
    """
    import pyarrow as pa

    schema = table.schema
    sent = pa.schema([*schema, pa.field(KEY, pa.int64()), pa.field(TAG, pa.int64())])
    asking = engine.map_ranked(table, score, stream, _Asked(), sent)
    giving = engine.map_rows(table, _Sent(column, rank_name(at)), sent)
    return engine.map_groups(engine.append(asking, giving), _Group(ROWS_PER_GROUP), _Dealt(column), schema)


@dataclass(frozen=True)
class MidRankSums:
    """What `RankSums` learns, from the mid-ranks that are with the records.

    Parameters
    ----------
    middles : mapping of column to sequence of int
        Of the `filled` columns: twice the middle rank of each stratum, the place of missing values.
    """

    strata: Strata
    columns: tuple[str, ...]
    middles: Mapping[str, Sequence[int]]

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, ExactSums]:
        return sums_by_stratum(self.strata, block, self._places)

    def _places(self, rows: RowBlock, number: int) -> Iterator[Places]:
        for at, name in enumerate(self.columns):
            places, nothing = _integers(rows.column(mid_name(at)))
            if name in self.middles:
                places, nothing = np.where(nothing, self.middles[name][number], places), np.zeros_like(nothing)
            yield places, nothing

    def merge(self, left: dict[int, ExactSums], right: dict[int, ExactSums]) -> dict[int, ExactSums]:
        return merged_sums(left, right)


@dataclass(frozen=True, repr=False)
class _Backwards(Stream):
    """Ties in the opposite order."""

    def order(self, ids: Ints) -> Ints:
        return np.invert(super().order(ids))


@dataclass(frozen=True)
class _Keyed:
    """Records with the value by which they are ranked: -0.0 is 0.0, and NaN is missing."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        values = _known(rows.column(self.column))
        return RowBlock(rows.batch.append_column(KEY, values), rows.record_ids)


@dataclass(frozen=True)
class _Placed:
    """Records with their rank in a separate column; null for none."""

    name: str

    def __call__(self, rows: RowBlock, ranks: Ints) -> RowBlock:
        import pyarrow as pa

        return RowBlock(
            rows.batch.append_column(self.name, pa.array(ranks, pa.int64(), mask=ranks < 0)), rows.record_ids
        )


@dataclass(frozen=True)
class _MidRanked:
    at: int

    def __call__(self, rows: RowBlock, ranks: Ints) -> RowBlock:
        import pyarrow as pa

        forward, nothing = _integers(rows.column(rank_name(self.at)))
        middles = pa.array(forward + ranks, pa.int64(), mask=nothing)
        kept = rows.drop([KEY])
        return RowBlock(kept.batch.append_column(mid_name(self.at), middles), rows.record_ids)


@dataclass(frozen=True)
class _MidRanksOfGroup:
    """All records of a stratum with the mid-ranks of several columns."""

    columns: tuple[str, ...]

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        import pyarrow as pa

        batch = rows.batch
        for at, ranks in enumerate(ranks_within(rows, self.columns)):
            values, nothing = numbers_of(rows, self.columns[at])
            middles = pa.array(ranks.doubled(values), pa.int64(), mask=nothing)
            batch = batch.append_column(mid_name(at), middles)
        return RowBlock(batch, rows.record_ids)


@dataclass(frozen=True)
class _Asked:
    """Records that ask for the value of the rank that their score has."""

    def __call__(self, rows: RowBlock, ranks: Ints) -> RowBlock:
        return _sent(rows, ranks, 0)


@dataclass(frozen=True)
class _Sent:
    """Values on their way to the record whose score has their rank; of the other columns nothing goes along."""

    column: str
    rank: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        ranks, nothing = _integers(rows.column(self.rank))
        having = np.flatnonzero(~nothing)
        rows = rows.take(having)
        columns = [
            unsigned_zeros(rows.column(name)) if name == self.column else pa.nulls(len(rows), rows.column(name).type)
            for name in rows.schema.names
        ]
        alone = RowBlock(pa.record_batch(columns, schema=rows.schema), rows.record_ids)
        return _sent(alone, ranks[having], 1)


def _sent(rows: RowBlock, ranks: Ints, tag: int) -> RowBlock:
    import pyarrow as pa

    batch = rows.batch.append_column(KEY, pa.array(ranks, pa.int64()))
    tags = pa.array(np.full(len(rows), tag, np.int64))
    return RowBlock(batch.append_column(TAG, tags), rows.record_ids)


@dataclass(frozen=True)
class _Group:
    """The group of each rank; records without a value are dealt out."""

    length: int

    def __call__(self, rows: RowBlock) -> Ints:
        ranks = rows.column(KEY).to_numpy(zero_copy_only=False)
        return np.where(ranks < 0, -1 - rows.record_ids[:, 1] % 64, ranks // self.length)


@dataclass(frozen=True)
class _Dealt:
    """The records of a group of ranks with the values that came to it."""

    column: str

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        import pyarrow as pa

        ranks, tags = (rows.column(name).to_numpy(zero_copy_only=False) for name in (KEY, TAG))
        asking, giving = np.flatnonzero(tags == 0), np.flatnonzero(tags == 1)
        made = rows.take(asking).drop([KEY, TAG])
        if key < 0:
            return made.replace(self.column, pa.nulls(len(made), rows.column(self.column).type))
        giving = giving[np.argsort(ranks[giving])]
        places = np.argsort(ranks[asking])
        if not np.array_equal(ranks[giving], ranks[asking][places]):
            problem = f"the plan was made for another table: column {self.column!r} has a different number of values"
            raise DataError(problem)
        senders = np.empty(len(asking), np.int64)
        senders[places] = giving
        return made.replace(self.column, rows.column(self.column).take(pa.array(senders)))


def _integers(column: pa.Array) -> tuple[Ints, Bools]:
    """Whole numbers, 0 where there is none, and where that is."""
    nothing = column.is_null().to_numpy(zero_copy_only=False)
    return column.fill_null(0).to_numpy(zero_copy_only=False), nothing


def _known(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return column
    column = column.cast(pa.float64())
    return unsigned_zeros(pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column))


def _key_type(found: Any) -> Any:
    import pyarrow as pa

    return pa.float64() if pa.types.is_floating(found) else found
