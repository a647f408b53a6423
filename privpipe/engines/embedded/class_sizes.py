"""Sizes of classes, counted by DuckDB alone and known of a table from then on, as its rows do not change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Self

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.assembly import may_be_marked, require_query_columns
from privpipe.engines.embedded.packed_keys import PackedClasses, runs, sorted_words
from privpipe.engines.embedded.session import OutOfMemory, Session
from privpipe.engines.embedded.table import EmbeddedTable, nothing_but_mark, quoted

__all__ = ["KnownSizes", "known_sizes", "sizes_of"]

BLOCK_CLASSES = 131072
PARTS = (1, 4, 16, 64)
SIZE, MARKED, NUMBER = "__privpipe_size", "__privpipe_marked", "__privpipe_number"


@dataclass(frozen=True)
class KnownSizes:
    """How many classes have each size.

    Parameters
    ----------
    mark : str or None
        By which the class of the mark was told from the others; None: by none.
    classes : mapping of (marked, size) to int

    Examples
    --------
    >>> known = KnownSizes("*", {(False, 2): 3, (True, 5): 1})
    >>> [(block.sizes.tolist(), block.marked) for block in known.blocks(ClassQuery(keys=("zip",)))]
    [([2, 2, 2, 5], None)]
    >>> [block.marked.tolist() for block in known.blocks(ClassQuery(keys=("zip",), mark="*"))]
    [[False, False, False, True]]
    """

    mark: str | None
    classes: dict[tuple[bool, int], int] = field(repr=False)

    @classmethod
    def of(cls, block: ClassBlock, mark: str | None) -> Self:
        """Those of a block of classes."""
        flags = np.zeros(len(block), np.bool_) if block.marked is None else block.marked
        found: dict[tuple[bool, int], int] = {}
        for flag in (False, True):
            sizes, counts = _numbers(block.sizes[flags == flag])
            found |= {(flag, size): count for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)}
        return cls(mark, found)

    def merged(self, other: Self) -> Self:
        """Those of both."""
        found = dict(self.classes)
        for key, count in other.classes.items():
            found[key] = found.get(key, 0) + count
        return replace(self, classes=found)

    def answers(self, query: ClassQuery) -> bool:
        """Whether a query over the same keys asks for no more than this."""
        told = not may_be_marked(query) or query.mark == self.mark
        return told and not query.columns and query.person is None and query.weight is None

    def blocks(self, query: ClassQuery) -> Iterator[ClassBlock]:
        """The classes in order of their sizes, the class of the mark last."""
        listed = sorted(self.classes.items())
        counts = np.array([number for _, number in listed], dtype=np.int64)
        ends = np.cumsum(counts)
        sizes = np.array([size for (_, size), _ in listed], dtype=np.int64)
        marked = np.array([flag for (flag, _), _ in listed], dtype=np.bool_)
        for start in range(0, int(ends[-1]) if len(ends) else 0, BLOCK_CLASSES):
            places = np.arange(start, min(start + BLOCK_CLASSES, int(ends[-1])))
            at = np.searchsorted(ends, places, side="right")
            yield ClassBlock(sizes[at], marked=marked[at] if may_be_marked(query) else None)


def _numbers(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each size, ascending, and how often it occurs."""
    if len(sizes) and int(sizes.max()) <= len(sizes):
        counts = np.bincount(sizes)
        found = np.flatnonzero(counts)
        return found, counts[found]
    return np.unique(sizes, return_counts=True)


def known_sizes(table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """What is known already of a table and answers a query."""
    require_query_columns(table.schema, query)
    found = table.sizes.get(frozenset(query.keys))
    return found if found is not None and found.answers(query) else None


def sizes_of(session: Session, table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """The sizes of the classes of a query that asks for nothing else; None where memory is too small for its keys.

    In more rounds, each over part of the classes, when memory runs out.
    """
    found = known_sizes(table, query)
    if found is not None or not query.keys or query.columns or query.person is not None or query.weight is not None:
        return found
    made = _sorted(session, table, query)
    if made is not None:
        table.sizes[frozenset(query.keys)] = made
        return made
    for parts in PARTS:
        try:
            made = reduce(KnownSizes.merged, (_counted(session, table, query, parts, at) for at in range(parts)))
        except OutOfMemory:
            continue
        table.sizes[frozenset(query.keys)] = made
        return made
    return None


def _sorted(session: Session, table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """The sizes by sorting packed keys, or the numbers of one column; None where neither serves."""
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
    for words in sorted_words(session, present, "word", "word"):
        counted += len(words)
        found = found.merged(KnownSizes.of(ClassBlock(runs(words)[1]), mark))
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
