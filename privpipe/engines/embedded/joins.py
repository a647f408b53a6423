"""Joins of the embedded engine: keep the records of passing classes, exchange values for labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import ClassBlock, ClassQuery, Histogram
from privpipe.blocks.arrays import Bools, Ints
from privpipe.engines.base.batches import in_order
from privpipe.engines.base.class_blocks import group_key, histogram_of, require_query_columns, value_order
from privpipe.engines.embedded.class_table import SIZE, JointCells, PackedClasses, classes_of
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.file_codes import Digits
from privpipe.engines.embedded.session import Kept, Session, column_list, quoted
from privpipe.engines.embedded.stored_rows import SmallRows
from privpipe.errors import DataError

__all__ = ["keep_classes", "recode"]


RAW, LABEL, CLASS = "__privpipe_raw", "__privpipe_label", "__privpipe_class"
LOST_AT_ONCE = 1 << 20
"""Lost classes that wait in memory until they are stored."""


def keep_classes(
    session: Session,
    table: EmbeddedTable,
    query: ClassQuery,
    passing: Callable[[ClassBlock], Bools],
) -> EmbeddedTable:
    """See `Engine.keep_classes`."""
    require_query_columns(table.schema, query)
    if not query.keys:
        kept = all(bool(passing(block).all()) for block in classes_of(session, table, query))
        return table if kept else table.derived(f"SELECT * FROM {table.source} WHERE false")
    small = SmallRows.of(session, table)
    if small is not None:
        return small.keep_classes(query, passing)
    packed = PackedClasses.of(session, table, query) if table.coded is not None else None
    if packed is None:
        return _keep_joint(session, table, query, passing)
    return _keep_packed(session, packed, passing)


def _keep_joint(
    session: Session,
    table: EmbeddedTable,
    query: ClassQuery,
    passing: Callable[[ClassBlock], Bools],
) -> EmbeddedTable:
    joint, names = JointCells(session, table, query, keyed=True), column_list(query.keys)

    def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
        block = joint.block(batch)
        keyed = batch.select(query.keys).append_column(SIZE, pa.array(block.sizes))
        return keyed.filter(pa.array(~passing(block)))

    lost = _Lost(session, f"SELECT {names}, 0::BIGINT AS {SIZE} FROM {table.compact} LIMIT 0", table.frames)
    for batches in joint.rounds(lambda batches: list(in_order(failing, batches, session.threads))):
        for batch in batches:
            lost.add(batch)
    keys = lost.stored()
    if keys is None:
        return table
    # Null keys are equal keys, which a plain join would drop.
    on = " AND ".join(f"kept.{quoted(name)} IS NOT DISTINCT FROM {keys.name}.{quoted(name)}" for name in query.keys)
    left = table.derived_alike(f"SELECT * FROM {table.compact} AS kept ANTI JOIN {keys.name} ON {on}", holds=(keys,))
    if query.person is None:
        left.tell_records(table.records(session) - lost.records)
        left.histograms.update(_remaining(session, table, query.keys, keys.name))
    return left


def _keep_packed(session: Session, packed: PackedClasses, passing: Callable[[ClassBlock], Bools]) -> EmbeddedTable:
    table, histograms = packed.table, dict[str, Histogram]()

    def failing(item: tuple[ClassBlock, Ints]) -> pa.RecordBatch:
        block, own = item
        here = ~passing(block)
        return pa.record_batch([own[here], block.sizes[here]], names=[CLASS, SIZE])

    def subtract(rows: pa.Table) -> None:
        for name, gone in packed.keys.histograms(*(rows.column(each).to_numpy() for each in (CLASS, SIZE))):
            seen = histograms.get(name, table.histograms.get(name))
            if seen is not None:
                histograms[name] = _without(seen, gone)

    lost = _Lost(session, f"SELECT 0::BIGINT AS {CLASS}, 0::BIGINT AS {SIZE} LIMIT 0", {}, subtract)
    for batch in in_order(failing, packed.keyed_blocks(), session.threads):
        lost.add(batch)
    kept = lost.stored()
    if kept is None:
        return table
    left = table.derived_alike(
        f"SELECT * FROM {table.compact} ANTI JOIN {kept.name} ON {packed.keys.sql} = {kept.name}.{CLASS}", holds=(kept,)
    )
    left.tell_records(table.records(session) - lost.records)
    left.histograms.update(histograms)
    return left


@dataclass
class _Lost:
    """The keys and sizes of lost classes, stored some at a time: they may be half as many as records.

    Parameters
    ----------
    session : Session
    none : str
        A SELECT of the columns, without a row.
    frames : mapping of str to Arrow object
        What it refers to.
    storing : callable
        Is handed the rows that are stored, once each.
    records : int
        Of classes stored so far.
    """

    session: Session
    none: str
    frames: Mapping[str, Any] = field(repr=False)
    storing: Callable[[pa.Table], None] = lambda rows: None
    records: int = 0
    _waiting: list[pa.RecordBatch] = field(default_factory=list, repr=False)
    _kept: Kept | None = field(default=None, repr=False)

    def add(self, batch: pa.RecordBatch) -> None:
        """Some classes."""
        if len(batch):
            self._waiting.append(batch)
        if sum(map(len, self._waiting)) >= LOST_AT_ONCE:
            self._store()

    def stored(self) -> Kept | None:
        """The table of all of them; None where no class is lost."""
        if self._waiting:
            self._store()
        return self._kept

    def _store(self) -> None:
        rows = pa.Table.from_batches(self._waiting)
        self._waiting.clear()
        self.records += pc.sum(rows.column(SIZE)).as_py()
        self.storing(rows)
        if self._kept is None:
            self._kept = self.session.keep(self.none, self.frames)
        view = self.session.name("lost")
        self.session.run(f"INSERT INTO {self._kept.name} SELECT * FROM {view}", {view: rows})


def _without(seen: Histogram, lost: Histogram) -> Histogram:
    """A histogram less another one's records."""
    values = pa.concat_arrays([seen.values, lost.values.cast(seen.values.type)])
    return histogram_of(values, pa.array(np.concatenate([seen.counts, -lost.counts])))


def _remaining(
    session: Session, table: EmbeddedTable, keys: Sequence[str], lost: str
) -> Iterator[tuple[str, Histogram]]:
    """The histograms of keys without lost classes, of those that were counted: few compared with rows."""
    for name in keys:
        seen = table.histograms.get(name)
        if seen is None:
            continue
        found = session.table(f"SELECT {quoted(name)} AS value, sum({SIZE})::BIGINT AS n FROM {lost} GROUP BY 1")
        values = found.column("value").cast(seen.values.type)
        counts = pa.chunked_array([pa.array(seen.counts), *pc.negate(found.column("n")).chunks])
        yield name, histogram_of(pa.chunked_array([seen.values, *values.chunks]), counts)


def recode(session: Session, table: EmbeddedTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> EmbeddedTable:
    """See `Engine.recode`."""
    table.require(codebooks)
    if not codebooks:
        return table
    small = SmallRows.of(session, table)
    if small is not None:
        return small.recode(codebooks)
    views = {name: session.name("labels") for name in codebooks}
    frames: dict[str, Any] = {}
    stored: dict[str, Kept] = {}
    joins = []
    digits = dict(table.digits)
    for name, (raw, labels) in codebooks.items():
        raw = group_key(raw).cast(table.schema.field(name).type)
        frames[views[name]] = pa.table({RAW: raw, LABEL: labels})
        if not _covered(table, name, raw):
            _refuse_gaps(session, table, name, views[name], frames)
        given = digits.pop(name, None)
        if table.coded is not None and pa.types.is_string(labels.type):
            texts = _in_order(labels)
            stored[name] = _coded_labels(session, frames.pop(views[name]), given, texts)
            views[name] = stored[name].name
            missing = bool(labels.null_count) or _may_miss(table, name)
            digits[name] = Digits(len(texts) + 1, texts, missing=missing)
        joins.append(_joined_labels(table, name, views[name]))
    fields = [
        pa.field(field.name, codebooks[field.name][1].type) if field.name in codebooks else field
        for field in table.schema
    ]
    columns = [
        f"{views[name]}.{LABEL} AS {quoted(name)}" if name in codebooks else f"raw.{quoted(name)}"
        for name in table.all_columns
    ]
    return table.derived_alike(
        f"SELECT {', '.join(columns)} FROM {table.compact} AS raw {' '.join(joins)}",
        pa.schema(fields),
        frames=frames,
        holds=tuple(stored.values()),
        digits=digits,
        _records=table.shared()["_records"],
        histograms=dict(_relabelled(table, codebooks)),
    )


def _in_order(labels: pa.Array) -> pa.Array:
    """Distinct texts by their code points."""
    distinct = pc.unique(labels).drop_null()
    return distinct.take(value_order(distinct))


def _coded_labels(session: Session, pairs: pa.Table, given: Digits | None, texts: pa.Array) -> Kept:
    """Values and labels, the labels as an enumeration of these texts, the values as the column has them."""
    view, values = session.name("labels"), RAW
    with ExitStack() as stack:
        labels = stack.enter_context(session.enumeration(texts))
        if given is not None and given.texts is not None:
            # Values that no cell has are in no enumeration.
            known = pa.concat_arrays([given.texts, pa.nulls(1, given.texts.type)])
            pairs = pairs.filter(pc.is_in(pairs.column(RAW), value_set=known))
            values = f"{RAW}::{stack.enter_context(session.enumeration(given.texts))} AS {RAW}"
        return session.keep(f"SELECT {values}, {LABEL}::{labels} AS {LABEL} FROM {view}", {view: pairs})


def _joined_labels(table: EmbeddedTable, name: str, view: str) -> str:
    """The join of a column's labels; each value has one."""
    cell = f"raw.{quoted(name)}"
    if _may_miss(table, name):
        return f"LEFT JOIN {view} ON {cell} IS NOT DISTINCT FROM {view}.{RAW}"
    # The database looks up equal integers, and enumerations, in an array; other joins hash every row.
    return f"JOIN {view} ON {cell} = {view}.{RAW}"


def _may_miss(table: EmbeddedTable, name: str) -> bool:
    """Whether cells of a column may be missing, by what was counted."""
    seen = table.histograms.get(name)
    return seen is None or bool(seen.values.null_count)


def _relabelled(
    table: EmbeddedTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]
) -> Iterator[tuple[str, Histogram]]:
    """The histograms under labels, of those that were counted."""
    for name, seen in table.histograms.items():
        if name not in codebooks:
            yield name, seen
            continue
        raw, labels = codebooks[name]
        places = pc.index_in(group_key(seen.values).cast(raw.type), value_set=group_key(raw))
        yield name, histogram_of(labels.take(places), pa.array(seen.counts))


def _covered(table: EmbeddedTable, name: str, raw: pa.Array) -> bool:
    """Whether the values that were counted already are all in the codebook; False where none were."""
    seen = table.histograms.get(name)
    if seen is None:
        return False
    return not pc.index_in(group_key(seen.values).cast(raw.type), value_set=raw).null_count


def _refuse_gaps(session: Session, table: EmbeddedTable, name: str, view: str, frames: Mapping[str, Any]) -> None:
    missing = session.value(
        f"SELECT count(*) FROM {table.source} AS raw ANTI JOIN {view} "
        f"ON raw.{quoted(name)} IS NOT DISTINCT FROM {view}.{RAW}",
        {**table.frames, **frames},
    )
    if missing:
        raise DataError(
            f"column {name!r}: {missing:,} records hold a value that the hierarchy has no label for; complete it"
        )
