"""The class table in DuckDB: one hash aggregation, with one character per record and column; sizes counted once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, Reduction
from privpipe.engines.base.batches import in_order, reduce_blocks
from privpipe.engines.base.class_blocks import KnownSizes, may_be_marked, require_query_columns
from privpipe.engines.base.histograms import dictionary_values, not_covered
from privpipe.engines.embedded.aggregated_classes import CLASS, JointCells
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, nothing_but_mark, quoted
from privpipe.engines.embedded.packed_keys import PackedClasses
from privpipe.engines.embedded.session import Kept, OutOfMemory, Session
from privpipe.engines.embedded.sorted_words import sorted_words

__all__ = ["ClassTable", "NumberedClasses", "known_sizes", "reduce_class_table", "sizes_of"]


PARTS = (1, 4, 16, 64)
"""Into how many rounds the classes are divided."""
CLASS_BYTES = 64
"""Of a class, while the database counts it: where it has no room it writes to disk, and takes more than its limit."""
SIZE, MARKED, NUMBER = "__privpipe_size", "__privpipe_marked", "__privpipe_number"


def known_sizes(table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """What is known already of a table and answers a query."""
    require_query_columns(table.schema, query)
    found = table.sizes.get(frozenset(query.keys))
    return found if found is not None and found.answers(query) else None


def sizes_of(session: Session, table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """The sizes of the classes of a query that asks for nothing else; None where memory is too small for its keys.

    In several rounds, each over part of the classes, where as many classes as records would take half of the memory,
    and in more when memory runs out.
    """
    if not query.keys or query.columns or query.person is not None or query.weight is not None:
        return known_sizes(table, query)
    with table.counting.setdefault(frozenset(query.keys), Lock()):
        found = known_sizes(table, query)
        return _counted_now(session, table, query) if found is None else found


def _counted_now(session: Session, table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    made = _sorted(session, table, query)
    if made is not None:
        table.sizes[frozenset(query.keys)] = made
        return made
    whole = CLASS_BYTES * table.records(session)
    for parts in [each for each in PARTS if whole <= each * session.memory // 2] or PARTS[-1:]:
        try:
            made = reduce(KnownSizes.merged, (_counted(session, table, query, parts, at) for at in range(parts)))
        except OutOfMemory:
            continue
        table.sizes[frozenset(query.keys)] = made
        return made
    return None


def _sorted(session: Session, table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """The sizes by sorting packed keys, or the numbers of one column; None where neither serves."""
    from privpipe.kernels.grouping.word_groups import runs

    mark = query.mark if may_be_marked(query) else None
    packed = PackedClasses.of(session, table, replace(query, mark=mark))
    if packed is not None:
        return reduce(
            KnownSizes.merged, (KnownSizes.of(block, mark) for block in packed.blocks()), KnownSizes(mark, {})
        )
    if len(query.keys) > 1 or table.records(session) <= session.small_rows:
        return None
    [name] = query.keys
    kind = table.schema.field(name).type
    if not (pt.is_int64(kind) or pt.is_float64(kind)):
        return None
    # IEEE 754: -0.0 + 0.0 is 0.0, and the same number has one word.
    present = table.derived(f"SELECT {quoted(name)} + 0 AS word FROM {table.source} WHERE {quoted(name)} IS NOT NULL")
    present.tell_records(table.records(session))
    found, counted = KnownSizes(mark, {}), 0
    slices = sorted_words(session, present, "word", kind=kind.to_pandas_dtype())
    sized = in_order(lambda words: (len(words), ClassBlock(runs(words)[1])), slices, session.threads)
    for records, block in sized:
        counted += records
        found = found.merged(KnownSizes.of(block, mark))
    missing = table.records(session) - counted
    return found.merged(KnownSizes(mark, {(mark is not None, missing): 1})) if missing else found


def _counted(session: Session, table: EmbeddedTable, query: ClassQuery, parts: int, part: int) -> KnownSizes:
    rows = session.table(_sql(table, query, parts, part), table.frames)
    flags, sizes, numbers = (rows.column(name).to_pylist() for name in (MARKED, SIZE, NUMBER))
    marks = query.mark if may_be_marked(query) else None
    return KnownSizes(marks, dict(zip(zip(flags, sizes, strict=True), numbers, strict=True)))


def _sql(table: EmbeddedTable, query: ClassQuery, parts: int, part: int) -> str:
    keys = ", ".join(map(quoted, query.keys))
    marked = nothing_but_mark(table.schema, query.keys, str(query.mark)) if may_be_marked(query) else "false"
    chosen = f"WHERE hash({keys}) % {parts} = {part}" if parts > 1 else ""
    sizes = f"SELECT {marked} AS {MARKED}, count(*) AS {SIZE} FROM {table.compact} {chosen} GROUP BY {keys}"
    return f"SELECT {MARKED}, {SIZE}, count(*) AS {NUMBER} FROM ({sizes}) GROUP BY 1, 2"


log = logging.getLogger("privpipe.engines.embedded")
R = TypeVar("R")
BLOCK_CLASSES = 131072
MOST_VALUES = 1_000_000
MOST_BYTES = 1 << 31  # of one text in Arrow
TEXT = "__privpipe_text"
VALUE, CHARACTER = "__privpipe_value", "__privpipe_letter"


@dataclass(frozen=True)
class _Code:
    """Characters of a column's values: a view of (value, character), and how many there are."""

    column: str
    view: str
    values: int


class ClassTable:
    """The class table of one query.

    Parameters
    ----------
    session : Session
    table : EmbeddedTable
    query : ClassQuery
        Persons, weights and columns of more than a million values go by joint cells instead.
    """

    def __init__(self, session: Session, table: EmbeddedTable, query: ClassQuery) -> None:
        require_query_columns(table.schema, query)
        self.session, self.table, self.query = session, table, query
        self.frames: dict[str, Any] = dict(table.frames)
        self.marks = may_be_marked(query)
        self.codes: tuple[_Code, ...] = ()
        self.joint = None if self._has_characters() else JointCells(session, table, query)

    def _has_characters(self) -> bool:
        if self.query.person is not None or self.query.weight is not None:
            return False
        codes = [self._code(name) for name in dict.fromkeys(self.query.columns)]
        self.codes = tuple(code for code in codes if code is not None)
        widest = sum(len(_character(code.values).encode()) for code in self.codes)
        return len(self.codes) == len(codes) and self.table.records(self.session) * widest < MOST_BYTES

    def in_parts(self, parts: int) -> Iterator[pa.RecordBatch]:
        """Rows of `sql`, computed in so many rounds over classes that fall apart by the hash of their key."""
        for part in range(parts):
            yield from self.session.stream(self.sql(parts=parts, part=part), self.frames, BLOCK_CLASSES)

    def blocks(self) -> Iterator[ClassBlock]:
        """Blocks of whole classes."""
        if self.joint is not None:
            yield from (block for block, _ in self.joint.blocks())
            return
        for parts in PARTS:
            begun = False
            try:
                for batch in self.in_parts(parts):
                    begun = True
                    yield self.block(batch)
                return
            except OutOfMemory:
                # What was handed over cannot be taken back.
                if begun or not self.query.keys:
                    raise
            log.debug("class table over %d keys: too large for %d rounds", len(self.query.keys), parts)
        yield from (block for block, _ in JointCells(self.session, self.table, self.query).blocks())

    def numbered(self) -> NumberedClasses:
        """The classes stored with their keys and a number, for who must find their records again."""
        if self.joint is not None:
            return NumberedClasses(self, self.joint.keep())
        stored = f"SELECT row_number() OVER () AS {CLASS}, * FROM ({self.sql(keyed=True)})"
        return NumberedClasses(self, self.session.keep(stored, self.frames))

    def sql(self, *, keyed: bool = False, parts: int = 1, part: int = 0) -> str:
        """The query whose rows are classes; with their keys when `keyed`, or one part of them."""
        keys = [quoted(name) for name in self.query.keys]
        columns = list(keys) if keyed else []
        columns += [f"{self._marked()} AS {MARKED}"] if self.marks else []
        missing = [_character(code.values).replace("'", "''") for code in self.codes]
        letters = [
            f"coalesce({code.view}.{CHARACTER}, '{letter}')" for code, letter in zip(self.codes, missing, strict=True)
        ]
        columns += [f"string_agg({' || '.join(letters)}, '') AS {TEXT}" if letters else f"count(*) AS {SIZE}"]
        joins = " ".join(
            f"LEFT JOIN {code.view} ON {quoted(code.column)} IS NOT DISTINCT FROM {code.view}.{VALUE}"
            for code in self.codes
        )
        chosen = f"WHERE hash({', '.join(keys)}) % {parts} = {part}" if parts > 1 else ""
        group = f"GROUP BY {', '.join(keys)}" if keys else "HAVING count(*) > 0"
        return f"SELECT {', '.join(columns)} FROM {self.table.compact} {joins} {chosen} {group}"

    def block(self, batch: pa.RecordBatch) -> ClassBlock:
        """The block of a batch of `sql`'s rows."""
        from privpipe.kernels.classes.cells import count_characters
        from privpipe.kernels.columns.arrays import read_only

        marked = None
        if self.marks:
            marked = np.asarray(batch.column(MARKED).to_numpy(zero_copy_only=False), dtype=np.bool_)
        if not self.codes:
            return ClassBlock(np.asarray(batch.column(SIZE).to_numpy(), dtype=np.int64), marked=marked)
        cells = {}
        sizes = np.zeros(0, np.int64)
        offsets, data = _bytes_of(batch.column(TEXT))
        text = read_only(offsets, np.int64), read_only(data, np.uint8)
        for at, code in enumerate(self.codes):
            sizes, starts, codes, counts = count_characters(*text, code.values + 1, at, len(self.codes))
            if code.column in self.query.dictionaries and (codes == code.values).any():
                self._raise_uncovered(code)
            cells[code.column] = Cells(starts, codes, counts)
        return ClassBlock(sizes, cells, marked)

    def _code(self, name: str) -> _Code | None:
        """Characters by the query's dictionary, else by any numbering of the column's values; None for too many."""
        if name in self.query.dictionaries:
            values = dictionary_values(self.query.dictionaries[name], self.table.schema.field(name).type, name)
        else:
            found = f"SELECT DISTINCT {quoted(name)} AS {VALUE} FROM {self.table.source} LIMIT {MOST_VALUES + 1}"
            values = self.session.table(found, self.table.frames).column(VALUE)
        if len(values) > MOST_VALUES:
            return None
        view = self.session.name("letters")
        letters = pa.array(list(map(_character, range(len(values)))), pa.string())
        self.frames[view] = pa.table({VALUE: values, CHARACTER: letters})
        return _Code(name, view, len(values))

    def _marked(self) -> str:
        return nothing_but_mark(self.table.schema, self.query.keys, str(self.query.mark))

    def _raise_uncovered(self, code: _Code) -> None:
        name = quoted(code.column)
        missing = self.session.value(
            f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM {self.table.source}) ANTI JOIN {code.view} "
            f"ON {name} IS NOT DISTINCT FROM {code.view}.{VALUE}",
            self.frames,
        )
        raise not_covered(code.column, missing)


def _character(code: int) -> str:
    from privpipe.kernels.classes.cells import character_of

    return character_of(code)


def _bytes_of(texts: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Offsets and bytes of a text column, without a copy of the bytes."""
    _, offsets, data = texts.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    ends = np.frombuffer(offsets, width, len(texts) + 1, texts.offset * width.itemsize)
    return ends, np.frombuffer(data if data is not None else b"", np.uint8)


class NumberedClasses:
    """Classes stored with their keys, each under a number."""

    def __init__(self, table: ClassTable, kept: Kept) -> None:
        self._table, self._kept = table, kept

    @property
    def name(self) -> str:
        """The stored table: the keys, and the number as ``__privpipe_class``."""
        return self._kept.name

    def blocks(self) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """Blocks with the number of each class."""
        if self._table.joint is not None:
            yield from self._table.joint.blocks(self.name)
            return
        for batch in self._table.session.stream(f"SELECT * FROM {self.name}", rows=BLOCK_CLASSES):
            yield self._table.block(batch), np.asarray(batch.column(CLASS).to_numpy(), dtype=np.int64)


@dataclass(frozen=True)
class _Measured:
    """A reduction of raw batches, so that decoding them runs on the threads too."""

    block: Callable[[Any], ClassBlock]
    inner: Reduction[ClassBlock, Any]

    mark: str | None

    def measure(self, batch: Any, facts: Facts) -> tuple[Any, KnownSizes]:
        block = self.block(batch)
        return self.inner.measure(block, facts), KnownSizes.of(block, self.mark)

    def merge(self, left: tuple[Any, KnownSizes], right: tuple[Any, KnownSizes]) -> tuple[Any, KnownSizes]:
        return self.inner.merge(left[0], right[0]), left[1].merged(right[1])


def reduce_class_table(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """See `Engine.reduce_classes`; in more rounds, each over part of the classes, when memory runs out."""
    sizes = sizes_of(session, table, query)
    if sizes is not None:
        return reduce_blocks(reduction, sizes.blocks(query), facts, session.threads)
    packed = PackedClasses.of(session, table, query)
    if packed is not None:
        given = _Measured(_as_it_is, reduction, query.mark if may_be_marked(query) else None)
        return _known(table, query, reduce_blocks(given, packed.blocks(), facts, session.threads))
    counted = ClassTable(session, table, query)
    if counted.joint is None:
        measured = _Measured(counted.block, reduction, query.mark if counted.marks else None)
        for parts in PARTS if query.keys else PARTS[:1]:
            try:
                found = reduce_blocks(measured, counted.in_parts(parts), facts, session.threads)
            except OutOfMemory:
                log.debug("class table over %d keys: too large for %d rounds", len(query.keys), parts)
                continue
            return _known(table, query, found)
    joint = JointCells(session, table, query)
    return reduce_blocks(reduction, (block for block, _ in joint.blocks()), facts, session.threads)


def _as_it_is(block: ClassBlock) -> ClassBlock:
    return block


def _known(table: EmbeddedTable, query: ClassQuery, found: tuple[Any, KnownSizes] | None) -> Any:
    """The outcome of a reduction; the sizes seen on the way are known of the table from now on."""
    if found is None:
        return None
    if query.keys:
        table.sizes[frozenset(query.keys)] = found[1]
    return found[0]
