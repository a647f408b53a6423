"""The contract of an engine: primitives, the frames it is given, its catalogue, and the fingerprint of a table."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from privpipe.blocks import Facts, Primitives, RowBlock, Table
from privpipe.blocks.aggregate_query import AggregateQuery, Ranks
from privpipe.blocks.requests import GivenRows, Numbering
from privpipe.blocks.table_name import TableName
from privpipe.draws import Seed
from privpipe.engines.base.frame_kinds import is_evaluated
from privpipe.engines.base.frames import Held, spooled
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.readers.source import Format, Source
from privpipe.errors import UnsupportedError

if TYPE_CHECKING:
    from privpipe.draws import Stream

__all__ = [
    "NO_TYPES",
    "Catalogue",
    "Engine",
    "Frames",
    "KeyedFingerprint",
    "Listed",
    "Order",
    "Resources",
    "Written",
    "counted_fingerprint",
    "fingerprint",
    "fingerprint_text",
    "numbered",
    "with_words",
]


NO_TYPES: Mapping[str, pa.DataType] = MappingProxyType({})
Order = Literal["keyed", "any", "places"]


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


def _no_process() -> int:
    return 0


@dataclass(frozen=True, repr=False)
class Resources:
    """What a session works with: libraries, memory, processes and, where there is one, a catalogue of tables.

    Parameters
    ----------
    engine : str
        Its name.
    read_versions : callable
    memory : int, optional
        Bytes that a run may take in this process; None where the engine has no such limit.
    count_processes : callable
    tables : Catalogue, optional
        Where releases can be published.
    """

    engine: str
    read_versions: Callable[[], dict[str, str]]
    memory: int | None = None
    count_processes: Callable[[], int] = _no_process
    tables: Catalogue | None = None

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the libraries at work, by name."""
        return self.read_versions()

    @property
    def processes(self) -> int:
        """Other processes in which rows are worked on; 0 where they are worked on here, or it is unknown."""
        return self.count_processes()

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of tables that releases can be published in.

        Raises
        ------
        UnsupportedError
            The engine has none.
        """
        if self.tables is None:
            raise UnsupportedError(
                f"the {self.engine} engine has no catalogue to publish a table in: run the policy with "
                "`engine: spark`, or publish into a folder, `sink: {path: ...}`"
            )
        return self.tables


class Engine(Primitives):
    """Counts, maps and writes tables; knows no model and no transformer.

    An engine implements fourteen methods: seven of the session and of what goes in and out (`open`, `close`,
    `resources`, `frames`, `scan`, `write`, `collect`) and the seven of `Primitives` (`known`, `facts`, `classes`,
    `distinct`, `reduce`, `map`, `derive`).

    Everything handed to an engine (reductions, functions, streams) pickles. Every primitive gives the same
    answer under any partitioning and row order. Errors of the machinery become `EngineError`; what is wrong
    with the data, `DataError`; neither holds a data value. Use as a context manager: leaving it frees what it
    opened (not what it was given).

    A *table* has a logical Arrow schema of its visible columns and, once attached, two hidden id columns.
    Keys are normalised when they are counted: NaN is null, -0.0 is 0.0, dictionary types are their values,
    null equals null and nothing else.
    """

    name: ClassVar[str]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @classmethod
    @abstractmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        """An engine with these options (its own keys of ``engines:`` in a policy); UsageError for an unknown one."""

    @abstractmethod
    def close(self) -> None:
        """Free what the engine itself opened."""

    @property
    @abstractmethod
    def resources(self) -> Resources:
        """What the session works with."""

    @property
    @abstractmethod
    def frames(self) -> Frames:
        """The frames that the engine is given, and rows that are held; the same object as long as it is open."""

    @abstractmethod
    def scan(self, source: Source) -> Table:
        """A handle on the source, typed as declared; of a frame that is held, on its held rows.

        Raises
        ------
        DataError
            Columns that differ only in case, a declared column that is missing, a cell that does not convert
            (column and count), mixed types, an unreadable or truncated file.
        """

    def aggregate(self, table: Any, query: AggregateQuery) -> pa.Table:
        """Cells of one combination of keys with their contributors, sums and largest contributions, unordered.

        Columns: `key_0` and on; then, of int64, `contributors`, `records`, `single` (keyed code of the only
        contributor, else 0; 0 for records without ids); for each measure i `present_i` (contributors with a value),
        `total_i`, `magnitude_i` (of absolute contributions), `nonzero_i`, `negative_i`, `single_i`; with weights
        `product_i` and `size_i` (of absolute products); with waivers `unwaived_i` (-1: none); with squares `square_i`.
        Lists of `largest` int64: `largest_i` (absolute, without zeros, falling, filled up with 0), `products_i` and
        `holders_i` (codes). A tie at the end of a list is decided by product and contributor.

        Raises
        ------
        DataError
            A missing column or person, sums beyond 64 bits, records of a person with different weights.
        UnsupportedError
            The engine makes no tables of cells.
        """
        raise UnsupportedError(f"the {self.name} engine makes no tables of cells; use embedded, dask or spark")

    def contributions(self, table: Any, query: AggregateQuery) -> tuple[Table, bool]:
        """One row for each contributor and cell, and whether each contributor has one row.

        Columns: the keys, the person, ``__privpipe_records``, and those of the measures: sums, minima of waivers,
        values of what is counted once. Rows of one contributor are in one place. It raises what `aggregate` does.
        """
        raise UnsupportedError(f"the {self.name} engine makes no tables of cells; use embedded, dask or spark")

    def ranked(self, table: Any, query: AggregateQuery, ranks: Sequence[Ranks]) -> pa.Table:
        """Values of the only measure of a query that have the wanted ranks in their cell, unordered.

        Columns: `key_0` and on, `value`, and of int64 `number` (contributors that have it), `before` (contributors with
        less) and `present` (contributors of the cell with a value). One row for each cell and value of which any rank
        is wanted; nothing else of the contributions leaves the engine. It raises what `aggregate` does.
        """
        raise UnsupportedError(f"the {self.name} engine makes no tables of cells; use embedded, dask or spark")

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

    @abstractmethod
    def collect(self, table: Any, *, like: Any = None, form: ReturnForm = AS_THEY_ARE, order: Order = "keyed") -> Any:
        """The visible columns as a frame of the kind of `like` (default: a pyarrow Table).

        `order`: "keyed", that of the ids or, without them, of all values; "any", for who keeps the rows, not for a
        release: a frame of this engine's own is then lazy; "places", likewise, where every record is where it lay
        in `like`, so that what `like` states about places still holds.
        """


def numbered(engine: Engine, made: Numbering) -> Any:
    """See `Numbering`."""
    import pyarrow as pa

    table = engine.scan(Source(data=pa.table({"number": np.arange(made.count, dtype=np.int64)})))
    return engine.with_record_ids(table, "number", made.seed)


def with_words(made: GivenRows) -> pa.Table:
    """The rows of `GivenRows` with the two words of their ids as last columns, for engines that scan them."""
    import pyarrow as pa

    taken = {name.casefold() for name in made.rows.column_names}
    unused = (name for name in (f"word {number}" for number in itertools.count()) if name not in taken)
    words = (pa.array(np.ascontiguousarray(made.ids[:, at])) for at in (0, 1))
    return pa.table([*made.rows.columns, *words], names=[*made.rows.column_names, next(unused), next(unused)])


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
    found = engine.known(table).content(seed)
    if found is None:
        found = engine.reduce_rows(table, list(table.schema.names), KeyedFingerprint(seed), Facts())
    records, total = found or (0, 0)
    return records, fingerprint_text(total)


def fingerprint_text(total: int) -> str:
    """The fingerprint of records the hashes of whose content add up to `total`, modulo 2^128."""
    return f"sum-siphash128:{total:032x}"


class Frames:
    """The frames that an engine is given: their own types, and their rows held.

    An engine with frames of its own kind overrides `hold`, `hold_table` and `schema` for them.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Held]] | None = None

    def schema(self, source: Source) -> pa.Schema:
        """The columns of a source in its own types, none where it has none: see `schema_of_source`."""
        from privpipe.engines.readers.source_facts import schema_of_source

        return schema_of_source(source)

    def hold(self, frame: Any, *, lasting: bool = False) -> Held:
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

    def hold_table(self, table: Any) -> Held:
        """The rows of a table, evaluated now, for what is judged and then handed over."""
        return Held(table)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Within it a lazy frame is evaluated once, and every scan of it reads those rows; let go of at the end."""
        if self._found is not None:
            yield
            return
        self._found = {}
        try:
            yield
        finally:
            found, self._found = self._found, None
            while found:
                _, (_, held) = found.popitem()
                held.release()

    def held(self, source: Source) -> Source:
        """The source with its frame as it was evaluated, within `holding`; every `scan` begins with it."""
        frame = source.data
        if self._found is None or source.is_path or is_evaluated(frame):
            return source
        if id(frame) not in self._found:
            self._found[id(frame)] = frame, self.hold(frame)  # an id names a frame only while it lives
        return replace(source, data=self._found[id(frame)][1].rows)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What a catalogue states about one of its names.

    Parameters
    ----------
    kind : {"table", "view"}
    text : str
        The query of a view, as it was written; else nothing.
    columns : tuple of str
    properties : mapping of text to text
    """

    kind: Literal["table", "view"]
    columns: tuple[str, ...] = ()
    text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


class Catalogue(ABC):
    """The session's own catalogue, in which releases can be published.

    Names are whole (see `whole`). Each method is one step: it is done or not, and what fails is an `EngineError`.
    """

    @abstractmethod
    def whole(self, name: TableName) -> TableName:
        """The name with its catalogue and database, which exist.

        Raises
        ------
        DataError
            There is no such database.
        UnsupportedError
            A catalogue in which no views are published.
        """

    @abstractmethod
    def names(self, like: TableName) -> tuple[str, ...]:
        """Last parts of the names of all tables and views in the database of `like`."""

    @abstractmethod
    def find(self, name: TableName) -> Listed | None:
        """What stands under a name; None: nothing."""

    @abstractmethod
    def write(self, table: Any, name: TableName, stream: Stream, properties: Mapping[str, str]) -> int:
        """Make a table of the visible columns of an engine's table, in keyed order of its ids, as `Engine.write` does.

        Gives back the number of records.

        Nothing of the source comes along but the cells: names and types are those of the logical schema. Where the
        files are on this machine, only their owner can read them until `publish`.
        """

    @abstractmethod
    def write_texts(self, texts: Mapping[str, str], name: TableName, properties: Mapping[str, str]) -> None:
        """Make a table of texts by name, in the columns ``name`` and ``document``."""

    @abstractmethod
    def texts(self, name: TableName) -> Mapping[str, str]:
        """The texts of such a table; nothing where there is none."""

    @abstractmethod
    def publish(self, name: TableName, new: TableName, properties: Mapping[str, str]) -> None:
        """Add these properties to a table, rename it, and let those read it that the catalogue permits."""

    @abstractmethod
    def make_view(self, name: TableName, text: str, properties: Mapping[str, str]) -> None:
        """Make a view of a name that nothing has; an error where something has it."""

    @abstractmethod
    def switch_view(self, name: TableName, text: str) -> None:
        """Give a view another query, in one step: who reads it sees the old one or the new one."""

    @abstractmethod
    def drop(self, name: TableName) -> None:
        """Take away what stands under a name, with its files; nothing where there is nothing."""
