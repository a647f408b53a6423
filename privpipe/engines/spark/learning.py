"""Facts: all histograms and null counts by one query, all exact moments by another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks import Facts, FactsRequest, Histogram
from privpipe.engines.base.histograms import histogram_of
from privpipe.engines.base.moments import ExactMoments
from privpipe.engines.spark.driver_room import require_room
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.layout import Layout, as_type, physical
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import arrow_table, grouped_by_each
from privpipe.engines.spark.workers import fold

if TYPE_CHECKING:
    from privpipe.draws import Seed

__all__ = [
    "count_records",
    "distinct",
    "estimated_distinct",
    "histograms_of",
    "known_content",
    "learn",
    "look",
    "value_order_of",
]

SET, RECORDS = "__privpipe_set", "__privpipe_records"
HELD_VALUES = 1 << 16
"""Distinct values of a column whose histogram is kept for the next who asks."""
FEW_VALUES = 1 << 12
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


def count_records(table: SparkTable) -> int:
    """Number of records, counted at most once a table."""
    if "records" not in table.remembered:
        with reported("count the records"):
            table.remembered["records"] = table.frame.count()
    return table.remembered["records"]


def histograms_of(table: SparkTable, columns: Sequence[str]) -> dict[str, Histogram]:
    """Histograms of some columns."""
    return _counted(table, columns, [])[1]


def estimated_distinct(table: SparkTable, columns: Sequence[str]) -> dict[str, int]:
    """See `Engine.estimated_distinct`."""
    if any(name not in table.counts.estimates for name in columns):
        look(table)
    return {name: table.counts.estimates[name] for name in columns}


def look(table: SparkTable) -> None:
    """One pass over a table for all that takes no shuffle: records, estimates of distinct values, missing values.

    Where record ids were made from its content, also the sum of the hashes of its records.
    """
    from pyspark.sql import functions as sf

    names, hashed = table.schema.names, table.hashed
    asked = [sf.count(sf.lit(1))]
    asked += [sf.approx_count_distinct(table.counted(name)) for name in names]
    asked += [sf.sum(sf.isnull(table.counted(name)).cast("long")) for name in names]
    asked += [sf.collect_list(hashed.column)] if hashed is not None else []  # it leaves nulls out
    frame = table.frame if hashed is None else hashed.frame
    with reported("look at the columns"):
        found = list(frame.agg(*asked).collect()[0])
    width, counts = len(names), table.counts
    table.remembered["records"] = int(found[0])
    counts.estimates.update(zip(names, map(int, found[1 : 1 + width]), strict=True))
    counts.nulls.update((name, int(number or 0)) for name, number in zip(names, found[1 + width :], strict=False))
    if hashed is not None:
        total = sum(int.from_bytes(each, "big") for each in found[-1])
        counts.content = int(found[0]), total % (1 << 128)


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
    keys = [table.counted(name).alias(physical(at)) for at, name in enumerate(names)]
    if not keys:
        return pa.table({"__count": pa.array([count_records(table)], pa.int64())})
    require_room(table, [names], "distinct combinations")
    with reported("count distinct combinations"):
        found = arrow_table(table.frame.select(*keys).groupBy(*(physical(at) for at in range(len(keys)))).count())
    fields = [table.schema.field(name) for name in names]
    rows = [_whole(found.column(at), field.type) for at, field in enumerate(fields)]
    result = pa.table([*rows, found.column("count")], names=[*names, "__count"])
    return result.take(value_order_of(rows))


def value_order_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Positions that put rows in the order of their columns, nulls last.

    Examples
    --------
    >>> value_order_of([pa.array([2, None, 1]), pa.array(["a", "b", "c"])]).to_pylist()
    [2, 0, 1]
    """
    keys = [column.cast(pa.int8()) if pt.is_boolean(column.type) else column for column in columns]
    names = [str(at) for at in range(len(keys))]
    return pc.sort_indices(pa.table(keys, names=names), [(name, "ascending") for name in names])


def _counted(
    table: SparkTable, histograms: Sequence[str], nulls: Sequence[str]
) -> tuple[int, dict[str, Histogram], dict[str, int]]:
    """Records, histograms and missing cells; what was counted of this table before is not counted again."""
    held = {name: table.learned[name] for name in histograms if name in table.learned}
    empty = {name: table.learned[name].nulls for name in nulls if name in table.learned}
    empty |= {name: table.counts.nulls[name] for name in nulls if name in table.counts.nulls}
    if held.keys() >= set(histograms) and empty.keys() >= set(nulls) and "records" in table.remembered:
        return table.remembered["records"], held, empty
    wanted = [name for name in dict.fromkeys(histograms) if name not in held]
    rest = _of_few_values(table, wanted) if wanted else []
    records, found, missing = _counted_now(table, [*wanted, *rest], [name for name in nulls if name not in empty])
    table.learned.update({name: each for name, each in found.items() if len(each) <= HELD_VALUES})
    both = held | found
    return records, {name: both[name] for name in dict.fromkeys(histograms)}, empty | missing


def _of_few_values(table: SparkTable, wanted: Sequence[str]) -> list[str]:
    """Further columns that are known to have few values: one pass counts them all, and the next who asks has them."""
    few = [name for name, number in table.counts.estimates.items() if number <= FEW_VALUES]
    left = [name for name in few if name in table.schema.names and name not in table.learned and name not in wanted]
    return left[: max(0, SETS_AT_A_TIME - len(wanted))]


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
        columns = [table.counted(name).alias(physical(at)) for at, name in enumerate(part)]
        gaps = [sf.isnull(table.counted(name)).cast("long").alias(f"n{at}") for at, name in enumerate(rest)]
        frame = table.frame.select(*columns, *gaps)
        figures = {RECORDS: "count(1)"} | {f"n{at}": f"sum(n{at})" for at in range(len(rest))}
        keys = [physical(at) for at in range(len(part))]
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
            values = _whole(rows.column(physical(at)), table.schema.field(name).type)
            found[name] = histogram_of(values, rows.column(RECORDS))
    return records, found, missing


def _mask(at: int, sets: int) -> int:
    """Spark's number of the grouping set of one column: a bit for each column that is not in it."""
    return 2**sets - 1 - 2 ** (sets - 1 - at) if sets else 0


def _whole(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return as_type(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type), kind)


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
