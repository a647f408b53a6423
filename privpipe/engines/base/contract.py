"""The contract of an engine: its primitives, what the runner needs around them, and the fingerprint of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import (
    ClassBlock,
    ClassQuery,
    Facts,
    FactsRequest,
    Histogram,
    PairBlock,
    RankExchange,
    Reduction,
    RowBlock,
    Table,
)
from privpipe.blocks.aggregate_query import AggregateQuery
from privpipe.draws import Seed
from privpipe.engines.base.catalogue import Catalogue
from privpipe.engines.base.default_primitives import FirstIds, last_id_of
from privpipe.engines.base.frames import Held, HeldFrames, spooled
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.readers.source import Format, Source
from privpipe.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream

__all__ = ["NO_TYPES", "Engine", "KeyedFingerprint", "Where", "Written", "counted_fingerprint", "fingerprint"]


R = TypeVar("R")
NO_TYPES: Mapping[str, pa.DataType] = MappingProxyType({})
Where = Literal["auto", "driver", "engine"]


@dataclass(frozen=True)
class Written:
    """What `write` left behind.

    Parameters
    ----------
    records : int
    files : tuple of str
        Names inside the folder.
    """

    records: int
    files: tuple[str, ...] = field(default=())


class Engine(ABC):
    """Counts, maps and writes tables; knows no model and no transformer.

    Everything handed to an engine (reductions, functions, streams) pickles. Every primitive gives the same
    answer under any partitioning and row order. Errors of the machinery become `EngineError`; what is wrong
    with the data, `DataError`; neither holds a data value. Use as a context manager: leaving it frees what it
    opened (not what it was given).

    A *table* has a logical Arrow schema of its visible columns and, once attached, two hidden id columns.
    Keys are normalised when they are counted: NaN is null, -0.0 is 0.0, dictionary types are their values,
    null equals null and nothing else.
    """

    name: ClassVar[str]
    values_held: ClassVar[int] = 1_000_000
    """Distinct values of a column that a stage may hold in the process which drives the engine."""
    ranks_held: ClassVar[int] = 0
    """Reach up to which `exchange_ranks` costs but one pass over the sorted rows."""
    forwards_ranks: ClassVar[bool] = False
    """Whether `exchange_ranks` serves any reach without all rows, or the whole column, in one place."""

    _held_frames: HeldFrames | None = None

    @property
    def memory(self) -> int | None:
        """Bytes that a run may take in this process; None where the engine has no such limit."""
        return None

    @property
    def worker_processes(self) -> int:
        """Other processes in which rows are worked on; 0 where they are worked on here, or it is unknown."""
        return 0

    def lies_here(self, table: Any) -> bool:
        """Whether the rows of a table are worked on in this process, whatever workers there are."""
        return not self.worker_processes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free what the engine itself opened."""

    @classmethod
    @abstractmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        """An engine with these options (its own keys of ``engines:`` in a policy); UsageError for an unknown one."""

    @classmethod
    @abstractmethod
    def accepts(cls, data: Any) -> bool:
        """Whether a frame is native to this engine (no import of a library that is not loaded yet)."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the libraries at work, by name."""

    @abstractmethod
    def scan(self, source: Source) -> Table:
        """A handle on the source, typed as declared.

        Raises
        ------
        DataError
            Columns that differ by case alone, a declared column that is missing, a cell that does not convert
            (column and count), mixed types, an unreadable or truncated file.
        """

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Within it a lazy frame is evaluated once, and every scan of it reads those rows; let go of at the end."""
        if self._held_frames is not None:
            yield
            return
        self._held_frames = HeldFrames(self.hold_frame)
        try:
            yield
        finally:
            held, self._held_frames = self._held_frames, None
            held.close()

    def held(self, source: Source) -> Source:
        """The source with its frame as it was evaluated, within `holding`; every `scan` begins with it."""
        if self._held_frames is None or source.is_path:
            return source
        return replace(source, data=self._held_frames.of(source.data))

    def hold_frame(self, frame: Any, *, lasting: bool = False) -> Held:
        """The rows of a lazy frame, evaluated now; what reads them later reads these, or fails.

        `lasting`: for a caller who uses them when the run is over. A query of DuckDB or a dataset gives a pyarrow
        Table, which the disk holds.

        Raises
        ------
        UnsupportedError
            They cannot be held where they are.
        DataError, EngineError
            They cannot be computed.
        """
        return Held(spooled(frame))

    def hold(self, table: Any) -> Held:
        """The rows of a table, evaluated now, for what is judged and then handed over."""
        return Held(table)

    @abstractmethod
    def count(self, table: Any) -> int:
        """Number of records."""

    @abstractmethod
    def facts(self, table: Any, request: FactsRequest) -> Facts:
        """Histograms, exact moments and null counts, with the number of records."""

    @abstractmethod
    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        """The class table, collected as blocks of whole classes."""

    @abstractmethod
    def reduce_classes(
        self,
        table: Any,
        query: ClassQuery,
        reduction: Reduction[ClassBlock, R],
        facts: Facts,
        *,
        where: Where = "auto",
    ) -> R | None:
        """Measure every class once and merge; `where` forces collecting or measuring in place."""

    @abstractmethod
    def reduce_rows(
        self, table: Any, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts
    ) -> R | None:
        """Measure every record once, in place, and merge (ids come along when attached)."""

    @abstractmethod
    def reduce_pairs(
        self,
        original: Any,
        released: Any,
        columns: Sequence[str],
        reduction: Reduction[PairBlock, R],
        facts: Facts,
    ) -> R | None:
        """Measure records present in both tables, aligned by their ids, and merge."""

    @abstractmethod
    def beside(self, released: Any, original: Any, columns: Mapping[str, str]) -> Table:
        """The released records that the original holds too, aligned by their ids.

        The columns of the original that `columns` names follow the released ones, under the new names it gives;
        ids stay behind. The rows are laid down once, for many counts.

        Raises
        ------
        DataError
            A column that the original lacks, a new name that the release has, or no record ids.
        """

    @abstractmethod
    def distinct(self, table: Any, columns: Sequence[str]) -> pa.Table:
        """Distinct combinations, sorted by the columns in order (nulls last), count in `__count` (int64)."""

    @abstractmethod
    def aggregate(self, table: Any, query: AggregateQuery) -> pa.Table:
        """Cells of one combination of keys with their contributors, sums and largest contributions, unordered.

        Columns: `key_0` and on; then, of int64, `contributors`, `records`, `single` (keyed code of the only
        contributor, else 0; 0 for records without ids); for each measure i `present_i` (contributors with a value),
        `total_i`, `magnitude_i` (of absolute contributions), `nonzero_i`, `negative_i`, `single_i`; with weights
        `product_i` and `size_i` (of absolute products); with waivers `unwaived_i` (-1: none). Lists of `largest`
        int64: `largest_i` (absolute, without zeros, falling, filled up with 0), `products_i` and `holders_i` (codes).
        A tie at the end of a list is decided by product and contributor.

        Raises
        ------
        DataError
            A missing column or person, sums beyond 64 bits, records of a person with different weights.
        """

    @abstractmethod
    def contributions(self, table: Any, query: AggregateQuery) -> tuple[Table, bool]:
        """One row for each contributor and cell, and whether each contributor has one row.

        Columns: the keys, the person, ``__privpipe_records``, and those of the measures: sums, minima of waivers,
        values of what is counted once. Rows of one contributor are in one place. It raises what `aggregate` does.
        """

    def thinned(self, table: Any, share: float) -> Table:
        """Some `share` of the records, ids and all: those of smallest id, which is keyed, so the same in any table."""
        thin: Table = self.map_rows(table, FirstIds(last_id_of(share)), table.schema)
        return thin

    def known_histogram(self, table: Any, column: str) -> Histogram | None:
        """The histogram of a column that was counted before; nothing is counted for it."""
        return None

    def known_content(self, table: Any, seed: Seed) -> tuple[int, int] | None:
        """The number of records and the sum of their content hashes under a seed, where ids came with them."""
        return None

    def estimated_distinct(self, table: Any, columns: Sequence[str]) -> dict[str, int]:
        """Estimates of the distinct values of columns, off by some 13 % at the worst; nothing where there are none."""
        return {}

    def has_room_beside(self, table: Any) -> bool:
        """Whether classes of a table may be counted on another thread meanwhile; their sizes are known afterwards."""
        return False

    @abstractmethod
    def keep_classes(self, table: Any, query: ClassQuery, passing: Callable[[ClassBlock], NDArray[np.bool_]]) -> Table:
        """The records whose class passes; keys meet null-safely."""

    @abstractmethod
    def recode(self, table: Any, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> Table:
        """Replace values by labels: a column's (distinct raw values, null where nulls occur; labels, null for null).

        Raises
        ------
        DataError
            A value the codebook lacks (column and number of records).
        """

    @abstractmethod
    def map_rows(self, table: Any, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> Table:
        """Every block through `function`; rows may go, ids travel along; `schema` is of the visible result."""

    @abstractmethod
    def map_groups(
        self,
        table: Any,
        key: Callable[[RowBlock], NDArray[np.int64]],
        function: Callable[[RowBlock, int], RowBlock],
        schema: pa.Schema,
    ) -> Table:
        """All records of one key at once, in an order the function must not rely on."""

    @abstractmethod
    def map_ranked(
        self,
        table: Any,
        column: str,
        stream: Stream,
        function: Callable[[RowBlock, NDArray[np.int64]], RowBlock],
        schema: pa.Schema,
    ) -> Table:
        """Blocks with each record's 0-based global rank by (value, `stream.order`); null cells rank -1."""

    def exchange_ranks(self, table: Any, column: str, stream: Stream, exchange: RankExchange) -> Table:
        """Values of a column given away by rank (see `map_ranked`); nulls stay where they are, -0.0 becomes 0.0.

        Raises
        ------
        DataError
            The column has not as many values as `exchange` has ranks, where that is noticed.
        """
        from privpipe.engines.base.default_primitives import exchange_in_segments

        exchanged: Table = exchange_in_segments(self, table, column, stream, exchange)
        return exchanged

    @abstractmethod
    def select(self, table: Any, columns: Sequence[str]) -> Table:
        """These columns, in this order; ids stay."""

    @abstractmethod
    def stack(self, table: Any, other: Any, columns: Sequence[str], tag: str) -> Table:
        """The rows of two tables as one: these columns, and `tag` (int64), 0 for `table`'s and 1 for `other`'s.

        Ids stay behind. Counting the tag within classes compares the tables class by class, null-safely.

        Raises
        ------
        DataError
            A column that one of them lacks or holds in another type.
        """

    @abstractmethod
    def append(self, table: Any, other: Any) -> Table:
        """The records of two tables as one table: the columns of `table`, which `other` has too; ids travel along.

        Raises
        ------
        DataError
            A column that `other` lacks or holds in another type.
        """

    @abstractmethod
    def with_record_ids(self, table: Any, column: str | None, seed: Seed) -> Table:
        """Attach ids: from a declared unique column, else from the content of all columns and an ordinal.

        Raises
        ------
        DataError
            The declared column has nulls or duplicates (counts).
        """

    def numbers(self, count: int, seed: Seed) -> Table:
        """A new table: one column, `number` (int64), holding 0 .. count - 1, with record ids."""
        import pyarrow as pa

        table = self.scan(Source(data=pa.table({"number": np.arange(count, dtype=np.int64)})))
        return self.with_record_ids(table, "number", seed)

    def source_schema(self, source: Source) -> pa.Schema:
        """The columns of a source in its own types, none where it has none: see `schema_of_source`."""
        from privpipe.engines.readers.source_facts import schema_of_source

        return schema_of_source(source)

    @abstractmethod
    def write(
        self,
        table: Any,
        folder: str,
        format: Format,
        stream: Stream,
        *,
        escape: bool = False,
        types: Mapping[str, pa.DataType] = NO_TYPES,
    ) -> Written:
        """Write the visible columns as part files into an existing, empty folder, in keyed order of the ids.

        A table without ids is written in the order of all its values. Files are named ``part-00000.<format>``
        and on; original order never shows. `escape` puts an apostrophe before texts of CSV files that spreadsheets
        would run as formulas. `types` are those of the source that columns of Parquet files keep.
        """

    def catalogue(self) -> Catalogue:
        """The catalogue of tables that releases can be published in.

        Raises
        ------
        UnsupportedError
            The engine has none.
        """
        raise UnsupportedError(
            f"the {self.name} engine has no catalogue to publish a table in: run the policy with `engine: spark`, or "
            "publish into a folder, `sink: {path: ...}`"
        )

    @abstractmethod
    def collect(self, table: Any, *, like: Any = None, form: ReturnForm = AS_THEY_ARE) -> Any:
        """The visible columns as a frame of the kind of `like` (default: a pyarrow Table), in keyed or sorted order."""

    def in_place(self, table: Any, like: Any, *, keeps_places: bool = False, form: ReturnForm = AS_THEY_ARE) -> Any:
        """The visible columns as a frame of the kind of `like`, a frame of this engine's own; lazy where that is.

        `keeps_places`: every record lies where it lay in `like`, so that what `like` says of places still holds.
        Unlike `collect`, nothing is put in order: for who keeps the rows, not for a release.
        """
        return self.collect(table, like=like, form=form)


_MODULUS = 1 << 128


@dataclass(frozen=True, repr=False)
class KeyedFingerprint:
    """Sum of the records' keyed 128-bit content hashes, and their number: a hash of the multiset.

    The hash is of visible columns in order of name, so neither row order nor column order matters.
    """

    seed: Seed = field(repr=False)

    def measure(self, block: RowBlock, facts: Facts) -> tuple[int, int]:
        """(records, sum of hashes modulo 2^128) of a block."""
        from privpipe.kernels.ids.record_ids import content_hash, sum_of_hashes

        words = content_hash(block.batch, self.seed)
        return len(words), sum_of_hashes(words)

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        """Add up."""
        return left[0] + right[0], (left[1] + right[1]) % _MODULUS


def fingerprint(engine: Engine, table: Any, seed: Seed) -> str:
    """The keyed fingerprint of a table's visible columns, as text.

    Returns
    -------
    str
        ``sum-siphash128:<32 hexadecimal digits>``; of an empty table, zeros.
    """
    return counted_fingerprint(engine, table, seed)[1]


def counted_fingerprint(engine: Engine, table: Any, seed: Seed) -> tuple[int, str]:
    """The number of records and the keyed fingerprint, by one look at the table."""
    found = engine.known_content(table, seed)
    if found is None:
        found = engine.reduce_rows(table, list(table.schema.names), KeyedFingerprint(seed), Facts())
    records, total = found or (0, 0)
    return records, f"sum-siphash128:{total:032x}"
