"""The class table of the embedded engine: packed keys where columns have them, else joint cells; sizes counted once.

Joint cells are counted combinations of keys, values, weight and person, which the database lists by class. A packed key
is one integer per row, a number in a mixed radix whose digits are the columns' values, and so exact as the columns are.
Keys are sorted in this process, where equal ones are next to each other. Sorting 10M of them takes a fifth of the time
that hashing six columns takes, and their classes need no table in the database.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, Histogram, Reduction
from privpipe.blocks.arrays import Bools, Ints
from privpipe.engines.base.batches import in_order, reduce_blocks
from privpipe.engines.base.class_blocks import (
    COUNT,
    KnownSizes,
    WithSizes,
    block_of_cells,
    codes_of,
    dictionary_values,
    grouping_columns,
    histogram_of,
    may_be_marked,
    not_covered,
    require_query_columns,
)
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, nothing_but_mark
from privpipe.engines.embedded.file_codes import CodedColumn, Digits
from privpipe.engines.embedded.session import OutOfMemory, Session, column_list, quoted
from privpipe.engines.embedded.sorted_words import parts_of, sorted_codes, sorted_words
from privpipe.engines.embedded.stored_rows import SmallRows, logical_table
from privpipe.errors import DataError, EngineError

__all__ = [
    "SIZE",
    "JointCells",
    "PackedClasses",
    "PackedKeys",
    "classes_of",
    "known_sizes",
    "reduce_class_table",
]


log = logging.getLogger("privpipe.engines.embedded")
T = TypeVar("T")
BLOCK_CLASSES = 131072
ROUNDS = (1, 4, 16, 64)
"""Into how many rounds classes are divided: where the database has no room it takes more memory than its limit."""
CELL_BYTES = 64
"""Of a combination, while the database groups it."""
SIZE, MARKED, CELLS = "__privpipe_size", "__privpipe_marked", "__privpipe_cells"


class JointCells:
    """The class table of one query, in rounds over classes that are divided by the hash of their keys.

    Parameters
    ----------
    session : Session
    table : EmbeddedTable
    query : ClassQuery
    keyed : bool
        Whether batches have the keys of their classes too.
    """

    def __init__(self, session: Session, table: EmbeddedTable, query: ClassQuery, *, keyed: bool = False) -> None:
        require_query_columns(table.schema, query)
        for name in query.dictionaries.keys() & query.columns:
            dictionary_values(query.dictionaries[name], table.schema.field(name).type, name)
        self.session, self.table, self.query, self.keyed = session, table, query, keyed
        self.counted = grouping_columns(replace(query, keys=()))
        self.marks = may_be_marked(query)

    def rounds(self, made: Callable[[Iterator[pa.RecordBatch]], T]) -> Iterator[T]:
        """What a function makes of the batches of each round.

        A round for which memory runs out begins again as four smaller ones.

        Raises
        ------
        OutOfMemory
            Classes cannot be divided further.
        """
        self._require_weights()
        whole = CELL_BYTES * self.table.bound(self.session) * (2 if self.counted else 1)
        fits = (each for each in ROUNDS if whole <= each * self.session.memory // 2)
        rounds = next(fits, ROUNDS[-1]) if self.query.keys else 1
        waiting = [(rounds, number) for number in range(rounds)]
        while waiting:
            rounds, number = waiting.pop()
            try:
                found = made(self.session.stream(self.sql(rounds, number), self.table.frames, BLOCK_CLASSES))
            except OutOfMemory:
                if rounds == ROUNDS[-1] or not self.query.keys:
                    raise
                log.debug("class table over %d keys: too large for %d rounds", len(self.query.keys), rounds)
                waiting += [(4 * rounds, number + rounds * at) for at in range(4)]
                continue
            yield found

    def _require_weights(self) -> None:
        """Refuse records without a weight, which blocks would each count alone."""
        name = self.query.weight
        if name is None:
            return
        missing = self.session.value(
            f"SELECT count(*) - count({quoted(name)}) FROM {self.table.source}", self.table.frames
        )
        if missing:
            raise DataError(f"weight column {name!r} has {missing:,} missing values; a record needs a weight")

    def sql(self, rounds: int = 1, number: int = 0) -> str:
        """The query whose rows are the classes of one round."""
        keys, source = column_list(self.query.keys), self.table.compact
        if rounds > 1:
            source = f"(SELECT * FROM {source} WHERE hash({keys}) % {rounds} = {number})"
        shown = [keys] if self.keyed else []
        if self.marks:
            shown.append(f"{nothing_but_mark(self.table.schema, self.query.keys, str(self.query.mark))} AS {MARKED}")
        if self.counted:
            names = column_list(grouping_columns(self.query))
            source = f"(SELECT {names}, count(*) AS {COUNT} FROM {source} GROUP BY {names})"
            cells = [f"c{at} := {quoted(name)}" for at, name in enumerate((*self.counted, COUNT))]
            shown.append(f"list(struct_pack({', '.join(cells)})) AS {CELLS}")
        else:
            shown.append(f"count(*) AS {SIZE}")
        group = f"GROUP BY {keys}" if keys else "HAVING count(*) > 0"
        return f"SELECT {', '.join(shown)} FROM {source} {group}"

    def block(self, batch: pa.RecordBatch) -> ClassBlock:
        """The classes of a batch."""
        marked: Bools | None = None
        if self.marks:
            marked = np.asarray(batch.column(MARKED).to_numpy(zero_copy_only=False), dtype=np.bool_)
        if not self.counted:
            return ClassBlock(np.asarray(batch.column(SIZE).to_numpy(), dtype=np.int64), marked=marked)
        lists = batch.column(CELLS)
        columns = lists.flatten().flatten()
        cells = logical_table(pa.table(columns, names=[*self.counted, COUNT]), self.table.schema)
        numbers = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        try:
            found = block_of_cells(cells, replace(self.query, keys=(), mark=None), numbers)
        except DataError:
            self._refuse_other_values()
            raise
        return replace(found, marked=marked)

    def _refuse_other_values(self) -> None:
        """Count the values that dictionaries lack over all classes, not those of one batch."""
        for name in self.query.dictionaries.keys() & self.query.columns:
            values = self.session.table(f"SELECT DISTINCT {quoted(name)} FROM {self.table.source}", self.table.frames)
            held = logical_table(values, self.table.schema).column(name).combine_chunks()
            codes_of(held, self.query.dictionaries[name], name)


SPACE = 1 << 62
"""Packed keys are below: no sum of digits leaves the integers of 64 bits."""
EXACT = 1 << 53
"""Integers up to here are floating-point numbers as well."""
MOST_DIGITS = 1 << 20
"""Of a sensitive column: each has its code in memory."""


@dataclass(frozen=True)
class PackedKeys:
    """Some columns of a table as one integer.

    Parameters
    ----------
    names : tuple of str
    digits : tuple of Digits
        Of each column.
    """

    names: tuple[str, ...]
    digits: tuple[Digits, ...]

    @classmethod
    def of(cls, known: Mapping[str, Digits], names: Sequence[str]) -> PackedKeys | None:
        """None where a column has no digits, or all of them no room."""
        digits = tuple(known[name] for name in names if name in known)
        if len(digits) < len(names) or math.prod(each.size for each in digits) >= SPACE:
            return None
        return cls(tuple(names), digits)

    @property
    def size(self) -> int:
        """All keys are below."""
        return math.prod(each.size for each in self.digits)

    @property
    def sql(self) -> str:
        """The packed key of a row of `EmbeddedTable.compact`; of no columns, 0."""
        # The database multiplies floating-point numbers five times as fast as integers, whose overflow it looks for.
        kind = "DOUBLE" if self.size <= EXACT else "BIGINT"
        packed = f"0::{kind}"
        for name, digits in zip(self.names, self.digits, strict=True):
            packed = f"({packed}) * {digits.size}::{kind} + {digits.sql(name, kind)}"
        return f"({packed})::BIGINT"

    def behind(self, name: str, digits: Digits) -> PackedKeys:
        """Keys with the digit of one more column appended."""
        return PackedKeys((*self.names, name), (*self.digits, digits))

    def histograms(self, keys: Ints, records: Ints) -> Iterator[tuple[str, Histogram]]:
        """Each column's values in some keys, of which there are so many records each."""
        from privpipe.kernels.grouping.word_groups import digit_sums

        radices = [each.size for each in self.digits]
        if sum(radices) <= MOST_DIGITS:
            for name, digits, sums in zip(self.names, self.digits, digit_sums(keys, records, radices), strict=True):
                found = np.flatnonzero(sums)
                yield name, histogram_of(digits.values_of(found), pa.array(sums[found]))
            return
        rest = keys
        for name, digits in reversed(list(zip(self.names, self.digits, strict=True))):
            rest, own = np.divmod(rest, digits.size)
            found, sums = _summed(own, records, digits.size)
            yield name, histogram_of(digits.values_of(found), pa.array(sums))

    def of_mark(self, schema: pa.Schema, mark: str) -> int:
        """The key of records that bear nothing but the mark; -1 where none can."""
        key = 0
        for name, digits in zip(self.names, self.digits, strict=True):
            own = digits.of_text(mark) if pa.types.is_string(schema.field(name).type) else digits.size - 1
            if own is None:
                return -1
            key = key * digits.size + own
        return key


@dataclass(frozen=True)
class PackedClasses:
    """The class table of one query over packed keys.

    Parameters
    ----------
    session : Session
    table : EmbeddedTable
    query : ClassQuery
    keys : PackedKeys
    codes : mapping of column to ndarray of int64
        For each digit of a sensitive column, its code; -1 for a value that the query's dictionary lacks.
    held : mapping of column to CodedColumn
        Of a table of files, the columns; cells of a stored one are in the database.
    """

    session: Session
    table: EmbeddedTable
    query: ClassQuery
    keys: PackedKeys
    codes: dict[str, Ints] = field(repr=False)
    held: Mapping[str, CodedColumn] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, session: Session, table: EmbeddedTable, query: ClassQuery) -> PackedClasses | None:
        """None where keys or sensitive values do not pack, or more than records is counted."""
        require_query_columns(table.schema, query)
        if query.person is not None or query.weight is not None:
            return None
        digits, held = table.digits, dict[str, CodedColumn]()
        if table.coded is None:
            found_held = _of_files(session, table, (*query.keys, *query.columns))
            if found_held is None:
                return None
            held = found_held
            digits = {name: each.digits for name, each in held.items()}
        keys, codes = PackedKeys.of(digits, query.keys), dict[str, Ints]()
        if keys is None:
            return None
        for name in query.columns:
            found = _codes(table, query, name, digits.get(name))
            if found is None or keys.size * len(found) >= SPACE:
                return None
            codes[name] = found
        return cls(session, table, query, keys, codes, held)

    def blocks(self) -> Iterator[ClassBlock]:
        """Blocks of whole classes."""
        return (block for block, _ in self.keyed_blocks())

    def keyed_blocks(self) -> Iterator[tuple[ClassBlock, Ints]]:
        """Blocks with the packed keys of their classes, which ascend within a part."""
        parts = parts_of(self.session, self.table, len(self.codes) or 1)
        columns = [self._words(name, parts) for name in self.codes or [None]]
        for made in in_order(self._made, zip(*columns, strict=True), self.session.threads):
            yield from self._cut(*made)

    def _made(self, slices: tuple[Ints, ...]) -> tuple[Ints, Ints, dict[str, Cells]]:
        """Keys, sizes and cells of the classes of some rows, whose words are given once a column."""
        from privpipe.kernels.grouping.word_groups import runs

        if not self.codes:
            first, records = runs(slices[0])
            return slices[0][first], records, {}
        made = {name: self._cells(name, words) for name, words in zip(self.codes, slices, strict=True)}
        keys, sizes, _ = next(iter(made.values()))
        if not all(np.array_equal(keys, own) for own, _, _ in made.values()):
            raise EngineError("the rows changed while their classes were counted: columns have other classes")
        return keys, sizes, {name: cells for name, (_, _, cells) in made.items()}

    def _words(self, name: str | None, parts: int) -> Iterator[Ints]:
        """Sorted keys, or keys with a digit of one column behind."""
        radix = 1 if name is None else len(self.codes[name])
        if self.held:
            columns = [(each, self.held[each]) for each in (*self.keys.names, *([] if name is None else [name]))]
            return sorted_codes(self.session, self.table, columns, radix, parts)
        packed = self.keys if name is None else self.keys.behind(name, self.table.digits[name])
        return sorted_words(self.session, self.table, packed.sql, radix=radix, parts=parts)

    def _cells(self, name: str, words: Ints) -> tuple[Ints, Ints, Cells]:
        """Keys and sizes of the classes, and their cells of one column."""
        from privpipe.kernels.grouping.word_groups import runs

        starts, counts = runs(words)
        cell_keys, digits = np.divmod(words[starts], len(self.codes[name]))
        codes = self.codes[name][digits]
        if (codes < 0).any():
            raise not_covered(name, len(np.unique(digits[codes < 0])))
        first, _ = runs(cell_keys)
        return cell_keys[first], np.add.reduceat(counts, first), Cells(np.append(first, len(codes)), codes, counts)

    def _cut(self, keys: Ints, sizes: Ints, cells: dict[str, Cells]) -> Iterator[tuple[ClassBlock, Ints]]:
        marked = self.keys.of_mark(self.table.schema, str(self.query.mark)) if may_be_marked(self.query) else None
        for start in range(0, len(keys), BLOCK_CLASSES):
            here = slice(start, start + BLOCK_CLASSES)
            own = {name: _part(each, start, min(start + BLOCK_CLASSES, len(keys))) for name, each in cells.items()}
            flags = None if marked is None else keys[here] == marked
            yield ClassBlock(sizes[here], own, flags), keys[here]


def _summed(digits: Ints, records: Ints, size: int) -> tuple[Ints, Ints]:
    """The digits that occur, and the records of each."""
    if size <= MOST_DIGITS:
        sums = np.bincount(digits, records, size).astype(np.int64)  # exact below 2^53
        found = np.flatnonzero(sums)
        return found, sums[found]
    found, place = np.unique(digits, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, place, records)
    return found, sums


def _part(cells: Cells, start: int, stop: int) -> Cells:
    offsets = cells.offsets[start : stop + 1]
    here = slice(int(offsets[0]), int(offsets[-1]))
    return Cells(offsets - offsets[0], cells.codes[here], cells.counts[here])


def _of_files(session: Session, table: EmbeddedTable, names: Sequence[str]) -> dict[str, CodedColumn] | None:
    """The codes of columns of a large table of files, whose histograms are known then."""
    if table.files is None or not names or table.records(session) < session.coded_rows:
        return None
    found = table.files.of(session, names, table.records(session))
    for name, held in (found or {}).items():
        table.histograms.setdefault(name, held.histogram)
    return found or None


def _codes(table: EmbeddedTable, query: ClassQuery, name: str, digits: Digits | None) -> Ints | None:
    """The code of each digit of a column; None where codes would not ascend with digits, or digits are too many."""
    if digits is None or digits.size > MOST_DIGITS:
        return None
    if name not in query.dictionaries:
        return np.arange(digits.size, dtype=np.int64)
    kind = table.schema.field(name).type
    values = dictionary_values(query.dictionaries[name], kind, name)
    own = digits.values_of(np.arange(digits.size)).cast(kind)
    found = pc.fill_null(pc.index_in(own, value_set=values), -1).to_numpy().astype(np.int64)
    known = found[found >= 0]
    return found if (known[1:] > known[:-1]).all() else None


R = TypeVar("R")


def classes_of(session: Session, table: EmbeddedTable, query: ClassQuery) -> Iterator[ClassBlock]:
    """See `Engine.classes`."""
    small = SmallRows.of(session, table)
    if small is not None:
        return small.blocks(query)
    packed = PackedClasses.of(session, table, query)
    if packed is not None:
        return packed.blocks()
    joint = JointCells(session, table, query)
    # What was handed over cannot be taken back when memory runs out: the blocks of a round come together.
    rounds = joint.rounds(lambda batches: list(in_order(joint.block, batches, session.threads)))
    return (block for blocks in rounds for block in blocks)


def reduce_class_table(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """See `Engine.reduce_classes`."""
    small = SmallRows.of(session, table)
    if small is not None:
        return reduce_blocks(reduction, small.blocks(query), facts, session.threads)
    if not query.keys or query.person is not None:
        return _counted(session, table, query, reduction, facts)
    if query.columns or query.weight is not None:
        return _noted(session, table, query, reduction, facts)
    with table.counting.setdefault(frozenset(query.keys), Lock()):
        sizes = known_sizes(table, query)
        if sizes is None:
            return _noted(session, table, query, reduction, facts)
    return reduce_blocks(reduction, sizes.blocks(query), facts, session.threads)


def known_sizes(table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """What is known already of a table and answers a query."""
    require_query_columns(table.schema, query)
    found = table.sizes.get(frozenset(query.keys))
    return found if found is not None and found.answers(query) else None


def _noted(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """The outcome of a reduction; the sizes of the classes are known of the table from now on."""
    noting = WithSizes(reduction, query.mark if may_be_marked(query) else None)
    outcome, sizes = _counted(session, table, query, noting, facts) or (None, None)
    if sizes is not None:
        table.sizes[frozenset(query.keys)] = sizes
    return outcome


def _counted(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    packed = PackedClasses.of(session, table, query)
    if packed is not None:
        return reduce_blocks(reduction, packed.blocks(), facts, session.threads)
    joint = JointCells(session, table, query)
    measured = _Measured(joint.block, reduction)
    rounds = joint.rounds(lambda batches: reduce_blocks(measured, batches, facts, session.threads))
    found = [each for each in rounds if each is not None]
    return reduce(reduction.merge, found) if found else None


@dataclass(frozen=True)
class _Measured:
    """A reduction of raw batches, so that decoding them runs on the threads too."""

    block: Callable[[Any], ClassBlock]
    inner: Reduction[ClassBlock, Any]

    def measure(self, batch: Any, facts: Facts) -> Any:
        return self.inner.measure(self.block(batch), facts)

    def merge(self, left: Any, right: Any) -> Any:
        return self.inner.merge(left, right)
