"""Sizes of classes, counted by DuckDB alone and known of a table from then on, as its rows do not change."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from threading import Lock

import pyarrow.types as pt

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.assembly import may_be_marked, require_query_columns
from privpipe.engines.base.known_sizes import KnownSizes
from privpipe.engines.base.parallel import in_order
from privpipe.engines.embedded.packed_keys import PackedClasses
from privpipe.engines.embedded.session import OutOfMemory, Session
from privpipe.engines.embedded.sorted_words import sorted_words
from privpipe.engines.embedded.table import EmbeddedTable, nothing_but_mark, quoted

__all__ = ["known_sizes", "sizes_of"]

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
    from privpipe.kernels.grouping.runs import runs

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
