"""Joins of the embedded engine: keep the records of passing classes, exchange values for labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery, Histogram
from privpipe.engines.base.assembly import require_query_columns
from privpipe.engines.base.histograms import group_key, histogram_of
from privpipe.engines.embedded.class_table import ClassTable
from privpipe.engines.embedded.joint_cells import CLASS
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted
from privpipe.errors import DataError

__all__ = ["keep_classes", "recode"]

RAW, LABEL, SIZE = "__privpipe_raw", "__privpipe_label", "__privpipe_size"


def keep_classes(
    session: Session,
    table: EmbeddedTable,
    query: ClassQuery,
    passing: Callable[[ClassBlock], NDArray[np.bool_]],
) -> EmbeddedTable:
    """See `Engine.keep_classes`."""
    require_query_columns(table.schema, query)
    counted = ClassTable(session, table, query)
    if not query.keys:
        kept = all(bool(passing(block).all()) for block in counted.blocks())
        return table if kept else table.derived(f"SELECT * FROM {table.source} WHERE false")
    classes = counted.numbered()
    gone, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for block, ids in classes.blocks():
        failing = ~passing(block)
        gone.append(ids[failing])
        sizes.append(block.sizes[failing])
    lost = pa.table({CLASS: pa.array(np.concatenate(gone)), SIZE: pa.array(np.concatenate(sizes))})
    if not len(lost):
        return table
    view, names = session.name("lost"), column_list(query.keys)
    # Joint cells are several rows a class, whose size may be of persons.
    of_records = counted.joint is None
    chosen = f"SELECT {names}, {SIZE}" if of_records else f"SELECT DISTINCT {names}"
    keys = session.keep(
        f"{chosen} FROM (SELECT {names}, {CLASS} FROM {classes.name}) JOIN {view} USING ({CLASS})", {view: lost}
    )
    # Null keys are equal keys, which a plain join would drop.
    on = " AND ".join(f"kept.{quoted(name)} IS NOT DISTINCT FROM {keys.name}.{quoted(name)}" for name in query.keys)
    left = table.derived(f"SELECT * FROM {table.source} AS kept ANTI JOIN {keys.name} ON {on}", holds=(keys,))
    if of_records:
        left.tell_records(table.records(session) - int(lost.column(SIZE).to_numpy().sum()))
        left.histograms.update(_remaining(session, table, query.keys, keys.name))
    return left


def _remaining(
    session: Session, table: EmbeddedTable, keys: Sequence[str], lost: str
) -> Iterator[tuple[str, Histogram]]:
    """The histograms of keys without lost classes, of those that were counted: the lost classes are few beside rows."""
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
    views = {name: session.name("labels") for name in codebooks}
    frames: dict[str, Any] = {}
    for name, (raw, labels) in codebooks.items():
        raw = group_key(raw).cast(table.schema.field(name).type)
        frames[views[name]] = pa.table({RAW: raw, LABEL: labels})
        if not _covered(table, name, raw):
            _refuse_gaps(session, table, name, views[name], frames)
    fields = [
        pa.field(field.name, codebooks[field.name][1].type) if field.name in codebooks else field
        for field in table.schema
    ]
    columns = [
        f"{views[name]}.{LABEL} AS {quoted(name)}" if name in codebooks else f"raw.{quoted(name)}"
        for name in table.all_columns
    ]
    joins = " ".join(
        f"LEFT JOIN {view} ON raw.{quoted(name)} IS NOT DISTINCT FROM {view}.{RAW}" for name, view in views.items()
    )
    return table.derived(
        f"SELECT {', '.join(columns)} FROM {table.source} AS raw {joins}",
        pa.schema(fields),
        frames=frames,
        **{**table.shared(), "histograms": dict(_relabelled(table, codebooks)), "estimates": {}, "sizes": {}},
    )


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
