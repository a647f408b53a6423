"""Facts: values that are few by one look at the rows, others by one query, all exact moments by another."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import Facts, FactsRequest, Histogram
from privpipe.draws import Seed
from privpipe.engines.base.batches import as_type, whole_array
from privpipe.engines.base.class_blocks import ExactMoments, histogram_of
from privpipe.engines.distributed.columns import column_name
from privpipe.engines.distributed.orders import value_order_of
from privpipe.engines.spark.column_values import ColumnLook, Looker, Looks
from privpipe.engines.spark.driver_memory import require_room
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.session_settings import tasks_for
from privpipe.engines.spark.spark_table import Hashed, Layout, LeftOut, SparkTable, count_records
from privpipe.engines.spark.versions import arrow_table, grouped_by_each
from privpipe.engines.spark.workers import fold

__all__ = [
    "distinct",
    "estimated_distinct",
    "histograms_of",
    "known_content",
    "learn",
    "look",
    "looker_of",
]


SET, RECORDS = "__privpipe_set", "__privpipe_records"
HELD_VALUES = 1 << 16
"""Distinct values of a column whose histogram is kept for the next who asks."""
SETS_AT_A_TIME = 60  # Spark numbers grouping sets by a mask of 64 bits


def learn(table: SparkTable, request: FactsRequest) -> Facts:
    """The facts asked for; as many Spark jobs for twenty columns as for one."""
    moments, covariance = _moments(table, request) if request.moments else ({}, None)
    if request.histograms or request.nulls or not moments:
        records, histograms, nulls = _counted(table, request.histograms, request.nulls)
    else:
        first = next(iter(moments.values()))
        records, histograms, nulls = first.records + first.nulls, {}, {}
    table.remembered["records"] = records
    return Facts(records=records, histograms=histograms, moments=moments, covariance=covariance, nulls=nulls)


def histograms_of(table: SparkTable, columns: Sequence[str]) -> dict[str, Histogram]:
    """Histograms of some columns."""
    return _counted(table, columns, [])[1]


def estimated_distinct(table: SparkTable, columns: Sequence[str]) -> dict[str, int]:
    """See `Engine.estimated_distinct`."""
    if any(name not in table.counts.estimates for name in columns):
        look(table)
    return {name: table.counts.estimates[name] for name in columns}


def look(table: SparkTable) -> None:
    """One pass over a table for all that takes no shuffle: records, missing values, values of columns that have few.

    Where record ids were made from its content, what was seen of it then is read: also the sum of its hashes.
    """
    found = _seen(table, table.schema.names) if table.hashed is None else _seen_before(table.hashed)
    _note(table, table.schema.names, found)
    if table.hashed is not None:
        table.counts.content = (0, 0) if found is None else (found.records, found.hashes)


def looker_of(table: SparkTable, seed: Seed) -> Looker:
    """Who looks at a table of this size."""
    columns = len(table.schema)
    return Looker.of(seed, columns, tasks_for(table.bound or 0, columns, 1))


def _seen(table: SparkTable, columns: Sequence[str]) -> Looks | None:
    """What one pass over some columns shows about them."""
    chosen = table.select(columns)
    layout, looker = chosen.layout.without_ids(), looker_of(table, Seed.from_os())

    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[Looks]:
        found: Looks | None = None
        for batch in batches:
            if batch.num_rows:
                found = looker.look(layout.visible(batch), found)
        if found is not None:
            yield found

    return fold(chosen.frame.select(*layout.arrow.names), measure, looker.merge, "look at the columns")


def _seen_before(hashed: Hashed) -> Looks | None:
    with reported("look at the columns"):
        told = arrow_table(hashed.frame.select(hashed.column).where(f"{hashed.column} IS NOT NULL"))
    parts = [pickle.loads(each.as_buffer()) for each in told.column(0)]
    return Looker(hashed.seed).of_all(parts)


def _note(table: SparkTable, columns: Sequence[str], found: Looks | None) -> None:
    """Keep what was seen for the next who asks."""
    table.remembered["records"] = 0 if found is None else found.records
    for at, name in enumerate(columns):
        seen = ColumnLook(0, _none_of(table, name)) if found is None else found.columns[at]
        table.counts.estimates[name], table.counts.nulls[name] = seen.distinct, seen.nulls
        if seen.values is not None:
            table.learned[name] = seen.values


def _unseen(table: SparkTable, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in table.learned and name not in table.counts.estimates]


def _note_all_but(table: SparkTable, left_out: LeftOut, columns: Sequence[str]) -> None:
    """Count columns by the rows that the table lacks, where the others of another table were counted."""
    known = [name for name in columns if name in left_out.learned]
    found = _seen(left_out.rows, known) if known and "records" in table.remembered else None
    for name, gone in zip(known, () if found is None else found.columns, strict=False):
        if gone.values is not None:
            whole = left_out.learned[name]
            values = pa.concat_arrays([whole.values, gone.values.values])
            left = histogram_of(values, pa.array(np.append(whole.counts, -gone.values.counts)))
            if left.total == table.remembered["records"]:
                table.learned[name] = left


def _none_of(table: SparkTable, column: str) -> Histogram:
    return histogram_of(pa.array([], table.schema.field(column).type))


def known_content(table: SparkTable, seed: Seed) -> tuple[int, int] | None:
    """See `Engine.known_content`."""
    if table.hashed is None or table.hashed.seed.key("record") != seed.key("record"):
        return None
    if table.counts.content is None:
        look(table)
    return table.counts.content


def distinct(table: SparkTable, columns: Sequence[str]) -> pa.Table:
    """See `Engine.distinct`."""
    names = list(dict.fromkeys(columns))
    keys = [table.counted(name).alias(column_name(at)) for at, name in enumerate(names)]
    if not keys:
        return pa.table({"__count": pa.array([count_records(table)], pa.int64())})
    require_room(table, [names], "distinct combinations")
    with reported("count distinct combinations"):
        found = arrow_table(table.frame.select(*keys).groupBy(*(column_name(at) for at in range(len(keys)))).count())
    fields = [table.schema.field(name) for name in names]
    rows = [as_type(whole_array(found.column(at)), field.type) for at, field in enumerate(fields)]
    result = pa.table([*rows, found.column("count")], names=[*names, "__count"])
    return result.take(value_order_of(rows))


def _counted(
    table: SparkTable, histograms: Sequence[str], nulls: Sequence[str]
) -> tuple[int, dict[str, Histogram], dict[str, int]]:
    """Records, histograms and missing cells; what was counted of this table before is not counted again.

    Columns of which nothing is known are looked at: those of few values are counted by that, and without a shuffle.
    """
    asked = list(dict.fromkeys(histograms))
    if table.left_out is not None:
        _note_all_but(table, table.left_out, _unseen(table, asked))
    if unseen := _unseen(table, asked):
        if table.hashed is not None and table.counts.content is None:
            look(table)
        else:
            wanted = list(dict.fromkeys([*unseen, *(name for name in nulls if name not in table.counts.nulls)]))
            _note(table, wanted, _seen(table, wanted))
    held = {name: table.learned[name] for name in asked if name in table.learned}
    empty = {name: table.learned[name].nulls for name in nulls if name in table.learned}
    empty |= {name: table.counts.nulls[name] for name in nulls if name in table.counts.nulls}
    if held.keys() >= set(asked) and empty.keys() >= set(nulls) and "records" in table.remembered:
        return table.remembered["records"], held, empty
    wanted = [name for name in asked if name not in held]
    records, found, missing = _counted_now(table, wanted, [name for name in nulls if name not in empty])
    table.learned.update({name: each for name, each in found.items() if len(each) <= HELD_VALUES})
    both = held | found
    return records, {name: both[name] for name in asked}, empty | missing


def _counted_now(
    table: SparkTable, histograms: Sequence[str], nulls: Sequence[str]
) -> tuple[int, dict[str, Histogram], dict[str, int]]:
    from pyspark.sql import functions as sf

    require_room(table, [[name] for name in histograms], "distinct values of columns")

    found: dict[str, Histogram] = {}
    missing: dict[str, int] = {}
    records = 0
    names = list(dict.fromkeys(histograms))
    for start in range(0, max(1, len(names)), SETS_AT_A_TIME):
        part = names[start : start + SETS_AT_A_TIME]
        rest = list(dict.fromkeys(nulls)) if start == 0 else []
        columns = [table.counted(name).alias(column_name(at)) for at, name in enumerate(part)]
        gaps = [sf.isnull(table.counted(name)).cast("long").alias(f"n{at}") for at, name in enumerate(rest)]
        frame = table.frame.select(*columns, *gaps)
        figures = {RECORDS: "count(1)"} | {f"n{at}": f"sum(n{at})" for at in range(len(rest))}
        keys = [column_name(at) for at in range(len(part))]
        with reported("count values"):
            if len(part) > 1:
                answer = grouped_by_each(frame, keys, SET, figures)
            else:
                asked = [sf.expr(text).alias(name) for name, text in figures.items()]
                answer = arrow_table(frame.groupBy(*keys).agg(sf.lit(0).alias(SET), *asked))
        # Every set counts every record; a set for the total would make Spark copy each record once more.
        whole = answer.filter(pc.equal(answer.column(SET), _mask(0, len(part))))
        records = pc.sum(whole.column(RECORDS)).as_py() or 0
        missing |= {name: pc.sum(whole.column(f"n{at}")).as_py() or 0 for at, name in enumerate(rest)}
        for at, name in enumerate(part):
            rows = answer.filter(pc.equal(answer.column(SET), _mask(at, len(part))))
            values = as_type(whole_array(rows.column(column_name(at))), table.schema.field(name).type)
            found[name] = histogram_of(values, rows.column(RECORDS))
    return records, found, missing


def _mask(at: int, sets: int) -> int:
    """Spark's number of the grouping set of one column: a bit for each column that is not in it."""
    return 2**sets - 1 - 2 ** (sets - 1 - at) if sets else 0


def _moments(table: SparkTable, request: FactsRequest) -> Any:
    columns = tuple(dict.fromkeys(request.moments))
    reduction = ExactMoments(columns, request.products)
    chosen = table.select(columns)
    layout = Layout(chosen.schema)

    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                yield reduction.measure(layout.block(batch), Facts())

    frame = chosen.frame.select(*layout.arrow.names)
    return reduction.finish(fold(frame, measure, reduction.merge, "learn moments"))
