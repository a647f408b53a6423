"""What stages and measures ask of an engine: rows and pairs of rows as blocks, and verbs over seven primitives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import ClassBlock, ClassQuery
from privpipe.blocks.facts import Facts, FactsRequest, Histogram
from privpipe.blocks.requests import (
    ByKey,
    ByRank,
    ClassesOf,
    ClassFilter,
    Derivation,
    GivenRows,
    Grouping,
    Identification,
    Joining,
    Measured,
    Numbering,
    PairsOf,
    RankExchange,
    RanksExchanged,
    Recoding,
    RowsOf,
    Selection,
    Stacking,
    Where,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed, Stream

__all__ = [
    "ID_COLUMNS",
    "Known",
    "PairBlock",
    "Primitives",
    "RankExchange",
    "Reduction",
    "RowBlock",
    "Table",
    "one_batch",
    "unsigned_zeros",
]


ID_COLUMNS = ("__privpipe_id_hi", "__privpipe_id_lo")
"""The two hidden signed 64-bit columns that carry a record's id from scan to publish."""


class RowBlock:
    """Records of one Arrow batch.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The columns; the hidden id columns are taken out when they are there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"income": [1.0, None]}))
    >>> rows["income"].tolist()
    [1.0, nan]
    >>> rows.replace("income", np.array([2.0, np.nan])).column("income").to_pylist()
    [2.0, None]
    """

    __slots__ = ("_ids", "batch")

    def __init__(self, batch: pa.RecordBatch, record_ids: Ints | tuple[pa.Array, ...] | None = None) -> None:
        names = batch.schema.names
        if ID_COLUMNS[0] in names:
            record_ids = tuple(map(batch.column, ID_COLUMNS)) if record_ids is None else record_ids
            batch = batch.select([name for name in names if name not in ID_COLUMNS])
        self._ids = record_ids  # words stay apart until they are asked for: most blocks only hand them on
        self.batch = batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the visible columns."""
        return self.batch.schema

    @property
    def record_ids(self) -> Ints:
        """Ids, shape (n, 2): signed words hi, lo."""
        if self._ids is None:
            raise LookupError("these rows carry no record ids; the runner attaches them before the first stage")
        if isinstance(self._ids, tuple):
            words = [word.to_numpy(zero_copy_only=False) for word in self._ids]
            self._ids = np.column_stack(words).astype(np.int64, copy=False)
        return self._ids

    def column(self, name: str) -> pa.Array:
        """One column as Arrow."""
        return self.batch.column(name)

    def __getitem__(self, name: str) -> Floats:
        """One numeric column as float64, NaN where there is no value (dates: days; timestamps: microseconds)."""
        return _as_floats(self.batch.column(name))

    def replace(self, name: str, values: NDArray[Any] | pa.Array) -> RowBlock:
        """The same rows with one column's values exchanged; NaN becomes null."""
        import pyarrow as pa

        array = pa.array(values, from_pandas=True) if isinstance(values, np.ndarray) else values
        at = self.batch.schema.get_field_index(name)
        columns = [array if i == at else column for i, column in enumerate(self.batch.columns)]
        return RowBlock(pa.record_batch(columns, names=self.batch.schema.names), self._ids)

    def drop(self, names: Iterable[str]) -> RowBlock:
        """The same rows without some columns."""
        left = [name for name in self.batch.schema.names if name not in set(names)]
        return RowBlock(self.batch.select(left), self._ids)

    def with_batch(self, batch: pa.RecordBatch) -> RowBlock:
        """The same records with other columns."""
        return RowBlock(batch, self._ids)

    def take(self, positions: NDArray[Any]) -> RowBlock:
        """Rows at these positions, in this order."""
        import pyarrow as pa

        at = pa.array(positions)
        if isinstance(self._ids, tuple):
            return RowBlock(self.batch.take(at), tuple(word.take(at) for word in self._ids))
        return RowBlock(self.batch.take(at), None if self._ids is None else self._ids[positions])

    def to_batch(self) -> pa.RecordBatch:
        """The batch with the hidden id columns appended when the rows have ids."""
        import pyarrow as pa

        if self._ids is None:
            return self.batch
        ids = self._ids
        words = ids if isinstance(ids, tuple) else (pa.array(ids[:, 0]), pa.array(ids[:, 1]))
        return pa.record_batch([*self.batch.columns, *words], names=[*self.batch.schema.names, *ID_COLUMNS])


def _as_floats(column: pa.Array) -> Floats:
    import pyarrow as pa

    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_date64(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    import pyarrow as pa

    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


@dataclass(frozen=True)
class PairBlock:
    """Rows of the original and of the release, aligned: row i of both is the same record.

    Parameters
    ----------
    original, released : RowBlock
        Equally long.
    """

    original: RowBlock
    released: RowBlock

    def __post_init__(self) -> None:
        if len(self.original) != len(self.released):
            raise ValueError(f"{len(self.original)} original rows next to {len(self.released)} released ones")

    def __len__(self) -> int:
        return len(self.original)


def unsigned_zeros(values: pa.Array) -> pa.Array:
    """-0.0 is 0.0, as in a histogram.

    Examples
    --------
    >>> import pyarrow as pa
    >>> str(unsigned_zeros(pa.array([-0.0]))[0])
    '0.0'
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


B = TypeVar("B", contravariant=True)
R = TypeVar("R")


class Reduction(Protocol[B, R]):
    """Something learnt from blocks: `merge` is associative and commutative, so blocks come in any order."""

    def measure(self, block: B, facts: Facts) -> R:
        """The figure of one block."""

    def merge(self, left: R, right: R) -> R:
        """The figure of two sets of blocks together."""


class Table(Protocol):
    """A handle on a table of an engine; opaque but for what stands here."""

    @property
    def schema(self) -> pa.Schema:
        """Logical schema of the visible columns, as `scan` recorded it and the stages changed it."""

    @property
    def has_record_ids(self) -> bool:
        """Whether the hidden id columns are attached."""


class Known:
    """What an engine knows of one table without counting it; an engine that knows nothing uses this class."""

    def histogram(self, column: str) -> Histogram | None:
        """The histogram of a column that was counted before."""
        return None

    def content(self, seed: Seed) -> tuple[int, int] | None:
        """The number of records and the sum of their content hashes under a seed, where ids came with them."""
        return None

    def estimates(self, columns: Sequence[str]) -> dict[str, int]:
        """Distinct values of columns, off by some 13 % at the worst; nothing where there are no estimates."""
        return {}

    @property
    def is_local(self) -> bool:
        """Whether the rows are worked on in this process, whatever workers there are."""
        return True

    @property
    def has_room(self) -> bool:
        """Whether its classes may be counted on another thread meanwhile; their sizes are known afterwards."""
        return False


class Primitives(ABC):
    """The part of the engine contract that stages are written in. Functions must pickle.

    An engine implements the seven abstract methods. The verbs after them are the same for all engines: each puts
    its question into a request, and an engine that overrides one of them would have a second answer to it.
    """

    values_held: ClassVar[int] = 1_000_000
    """Distinct values of a column that a stage may hold in the process which drives the engine."""
    ranks_held: ClassVar[int] = 0
    """Reach up to which an exchange of ranks costs but one pass over the sorted rows."""
    forwards_ranks: ClassVar[bool] = False
    """Whether ranks are exchanged over any reach without all rows, or the whole column, in one place."""

    @abstractmethod
    def known(self, table: Any) -> Known:
        """What is known of a table; nothing exact is counted for it."""

    @abstractmethod
    def facts(self, table: Any, request: FactsRequest) -> Facts:
        """Histograms, exact moments and null counts, with the number of records; an empty request counts these."""

    @abstractmethod
    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        """The class table, collected as blocks of whole classes, in no promised order."""

    @abstractmethod
    def distinct(self, table: Any, columns: Sequence[str]) -> pa.Table:
        """Distinct combinations, sorted by the columns in order (nulls last), count in `__count` (int64)."""

    @abstractmethod
    def reduce(self, of: Measured, reduction: Reduction[Any, R], facts: Facts) -> R | None:
        """Measure every record, class or pair of `of` once, where it lies, and merge; None without any.

        Ids come along with records where they are attached; pairs are of the records present in both tables.
        """

    @abstractmethod
    def map(self, table: Any, function: Callable[..., RowBlock], schema: pa.Schema, by: Grouping = None) -> Any:
        """Every block through a function; rows may go, ids travel along; `schema` is of the visible result.

        `by` shows what is a block: nothing, any rows (``function(rows)``); `ByKey`, all records of one key, in an
        order the function must not rely on (``function(rows, key)``); `ByRank`, any rows with the 0-based global
        rank of each by (value, `stream.order`), -1 for null cells (``function(rows, ranks)``).
        """

    @abstractmethod
    def derive(self, made: Derivation) -> Any:
        """A table from tables: some columns, rows or both, labels for values, ids; see `privpipe.blocks.requests`.

        Keys and ids meet null-safely; ids stay, unless the request says otherwise.
        """

    @final
    def known_histogram(self, table: Any, column: str) -> Histogram | None:
        """See `Known.histogram`."""
        return self.known(table).histogram(column)

    @final
    def estimated_distinct(self, table: Any, columns: Sequence[str]) -> dict[str, int]:
        """See `Known.estimates`."""
        return self.known(table).estimates(columns)

    @final
    def count(self, table: Any) -> int:
        """Number of records."""
        return self.facts(table, FactsRequest()).records

    @final
    def reduce_classes(
        self,
        table: Any,
        query: ClassQuery,
        reduction: Reduction[ClassBlock, R],
        facts: Facts,
        *,
        where: Where = "auto",
    ) -> R | None:
        """Measure every class once, where it lies or on the driver; None for a table without records."""
        return self.reduce(ClassesOf(table, query, where), reduction, facts)

    @final
    def reduce_rows(
        self, table: Any, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts
    ) -> R | None:
        """Measure every record once, where it lies."""
        return self.reduce(RowsOf(table, tuple(columns)), reduction, facts)

    @final
    def reduce_pairs(
        self, original: Any, released: Any, columns: Sequence[str], reduction: Reduction[PairBlock, R], facts: Facts
    ) -> R | None:
        """Measure records present in both tables, aligned by their ids, and merge."""
        return self.reduce(PairsOf(original, released, tuple(columns)), reduction, facts)

    @final
    def map_rows(self, table: Any, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> Any:
        """Every block through `function`, one record in, at most one out; ids travel with the rows."""
        return self.map(table, function, schema)

    @final
    def map_groups(
        self,
        table: Any,
        key: Callable[[RowBlock], Ints],
        function: Callable[[RowBlock, int], RowBlock],
        schema: pa.Schema,
    ) -> Any:
        """All records of one key together through `function(rows, key)`."""
        return self.map(table, function, schema, ByKey(key))

    @final
    def map_ranked(
        self,
        table: Any,
        column: str,
        stream: Stream,
        function: Callable[[RowBlock, Ints], RowBlock],
        schema: pa.Schema,
    ) -> Any:
        """Blocks with each record's 0-based global rank of `column`, ties by `stream.order`; null ranks -1."""
        return self.map(table, function, schema, ByRank(column, stream))

    @final
    def exchange_ranks(self, table: Any, column: str, stream: Stream, exchange: RankExchange) -> Any:
        """The values of a column given away by rank (see `map_ranked`); nulls stay where they are."""
        return self.derive(RanksExchanged(table, column, stream, exchange))

    @final
    def keep_classes(self, table: Any, query: ClassQuery, passing: Callable[[ClassBlock], Bools]) -> Any:
        """The records whose class passes."""
        return self.derive(ClassFilter(table, query, passing))

    @final
    def recode(self, table: Any, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> Any:
        """Replace values by labels, column by column: (distinct raw values, null included; their labels)."""
        return self.derive(Recoding(table, codebooks))

    @final
    def select(self, table: Any, columns: Sequence[str]) -> Any:
        """These columns, in this order; ids stay."""
        return self.derive(Selection(table, tuple(columns)))

    @final
    def thinned(self, table: Any, share: float) -> Any:
        """Some `share` of the records, ids and all: those of smallest id, which is keyed, so the same in any table."""
        return self.derive(Selection(table, tuple(table.schema.names), share))

    @final
    def stack(self, table: Any, other: Any, columns: Sequence[str], tag: str) -> Any:
        """The rows of two tables as one: these columns, and `tag`, 0 for the first table's and 1 for the other's."""
        return self.derive(Stacking(table, other, tuple(columns), tag))

    @final
    def append(self, table: Any, other: Any) -> Any:
        """The records of two tables of one schema as one table; ids travel along."""
        return self.derive(Stacking(table, other, tuple(table.schema.names)))

    @final
    def beside(self, released: Any, original: Any, columns: Mapping[str, str]) -> Any:
        """The released records that the original has too, with columns of the original under new names; no ids."""
        return self.derive(Joining(released, original, columns))

    @final
    def with_record_ids(self, table: Any, column: str | None, seed: Seed) -> Any:
        """The table with ids: from a declared unique column, else from the content of all columns and an ordinal."""
        return self.derive(Identification(table, column, seed))

    @final
    def given(self, rows: pa.Table, ids: Ints) -> Any:
        """A new table of rows that are in this process, in logical types, and of their record ids, shape (n, 2)."""
        return self.derive(GivenRows(rows, ids))

    @final
    def numbers(self, count: int, seed: Seed) -> Any:
        """A new table: one column, `number`, holding 0 .. count - 1, with record ids."""
        return self.derive(Numbering(count, seed))
