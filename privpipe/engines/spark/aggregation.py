"""Cells of tables in Spark: one native group-by, or two by contributors; the largest contributions by rank."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import ID_COLUMNS
from privpipe.blocks.aggregate_query import (
    CODE_DIGITS,
    MOST_SUM,
    RECORDS,
    AggregateMeasure,
    AggregateQuery,
    Ranks,
    beyond_words,
    hmac_pads,
    missing_persons,
    other_weights,
)
from privpipe.blocks.arrays import Ints
from privpipe.engines.base.aggregated_cells import Cells, added_sql, figures_sql, ranks_sql
from privpipe.engines.base.batches import as_type, whole_array
from privpipe.engines.spark.driver_memory import require_room
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.spark_table import Layout, SparkTable
from privpipe.engines.spark.versions import arrow_table, frame_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["aggregate", "contributions", "ranked"]

PERSON, RANK, HEAP = "__person", "__rank", "__heap"
SPARSE = 16
"""Rows for each of the largest contributions from which on it pays to look for the few that can be among them."""
MOST_SENT = 200_000
"""Cells that are sent to the workers for it."""
Kept = Callable[["DataFrame"], "DataFrame"]


def contributions(table: SparkTable, query: AggregateQuery, kept: Kept) -> tuple[SparkTable, bool]:
    """See `Engine.contributions`."""
    from pyspark.sql import functions as sf

    query.require(table.schema)
    _require(table, query)
    fields = [table.schema.field(name) for name in (*query.keys, str(query.person))]
    schema = pa.schema([*fields, *((name, pa.int64()) for name in query.added)])
    layout = Layout(schema)
    # By contributor alone: then all that is counted of one later needs no further exchange.
    frame = kept(_by_person(table, query, gather=True).toDF(*layout.names(schema.names)))
    made = SparkTable(frame, layout)
    once = [measure.column for measure in query.measures if measure.once]
    person = made.column(str(query.person))
    several = frame.groupBy(person.alias(PERSON)).count().where("count > 1").limit(1)
    differing = [sf.sum(sf.isnull(made.column(name)).cast("long")) for name in once]
    with reported("add up contributions"):
        one = not several.collect()
        found = list(frame.agg(*differing).collect()[0]) if differing else []
    for name, number in zip(once, found, strict=True):
        if number:
            raise other_weights(name, int(number))
    return made, one


def aggregate(table: SparkTable, query: AggregateQuery) -> pa.Table:
    """See `Engine.aggregate`."""
    from pyspark.sql import functions as sf

    table, query = _contributed(table, query)
    if query.keys:
        require_room(table, [query.keys], "cells")
    rows = _rows(table, query)
    keys = [f"key_{at}" for at in range(len(query.keys))]
    dealt = rows.withColumn(HEAP, sf.monotonically_increasing_id().bitwiseAND(_heaps(query) - 1))
    reach = [_reach(at, query).alias(f"reach_{at}") for at, _measure in _ranked(query)]
    cells = dealt.groupBy(*keys).agg(*_figures(table, query), *reach)
    with reported("count cells"):
        found = arrow_table(cells)
        tops = {}
        for at, measure in _ranked(query):
            reaching = _reaching(rows, cells, found, keys, at, query)
            tops[at] = arrow_table(_top(reaching, keys, at, measure, query))
    made = Cells(query, len(found))
    columns = [
        as_type(whole_array(found.column(key)), table.schema.field(name).type)
        for key, name in zip(keys, query.keys, strict=True)
    ]
    for name in found.column_names:
        if not name.startswith(("key_", "reach_")):
            made.add(name, _words(found, name))
    for at, entries in tops.items():
        if len(entries):
            place = np.zeros(len(entries), dtype=np.int64)
            if keys:
                own, other = ([whole_array(each.column(key)) for key in keys] for each in (found, entries))
                place = _places(own, other, len(found))
            products = _words(entries, "p") if "p" in entries.column_names else None
            codes = _words(entries, "h") if "h" in entries.column_names else None
            made.add_largest(at, place, _words(entries, RANK) - 1, _words(entries, "v"), products, codes)
    return made.table([pa.chunked_array([column]) for column in columns])


def ranked(table: SparkTable, query: AggregateQuery, ranks: Sequence[Ranks]) -> pa.Table:
    """See `Engine.ranked`."""
    from pyspark.sql import functions as sf

    table, query = _contributed(table, query)
    keys = [f"key_{at}" for at in range(len(query.keys))]
    rows = _rows(table, query).where(sf.col("value_0").isNotNull())
    counted = rows.groupBy(*keys, sf.col("value_0").alias("value")).agg(sf.count(sf.lit(1)).alias("number"))
    with reported("rank values"):
        found = arrow_table(rows.sparkSession.sql(ranks_sql(keys, ranks, "{counted}"), counted=counted))
    made = [
        as_type(whole_array(found.column(key)), table.schema.field(name).type)
        for key, name in zip(keys, query.keys, strict=True)
    ]
    figures = {name: found.column(name) for name in ("value", "number", "before", "present")}
    return pa.table({**dict(zip(keys, made, strict=True)), **figures})


def _contributed(table: SparkTable, query: AggregateQuery) -> tuple[SparkTable, AggregateQuery]:
    """One row for each contributor and cell, and the query over them; what cannot be added up is refused."""
    query.require(table.schema)
    _require(table, query)
    if query.person is not None and not query.unique:
        fields = [table.schema.field(name) for name in (*query.keys, str(query.person))]
        layout = Layout(pa.schema([*fields, *((name, pa.int64()) for name in query.added)]))
        frame = _by_person(table, query, gather=False).toDF(*layout.names(layout.schema.names))
        table, query = SparkTable(frame, layout), replace(query, unique=True, records=RECORDS)
        if any(measure.squares for measure in query.measures):
            _require(table, query)
    return table, query


def _require(table: SparkTable, query: AggregateQuery) -> None:
    """Refuse records without a contributor, and sums that could exceed 64 bits."""
    from pyspark.sql import functions as sf

    names = list(dict.fromkeys(name for each in query.measures for name in (each.column, each.product) if name))
    squared = {each.column for each in query.measures if each.squares}
    figures = []
    for name in names:
        value = table.column(name).cast("double")
        size = sf.sum(sf.abs(value))
        figures.append(sf.greatest(size, sf.sum(value * value)) if name in squared else size)
    if query.person is not None:
        figures.append(sf.sum(sf.isnull(table.column(query.person)).cast("long")))
    if not figures:
        return
    with reported("look at contributions"):
        found = list(table.frame.agg(*figures).collect()[0])
    if query.person is not None and found[-1]:
        raise missing_persons(query.person, int(found[-1]))
    for name, size in zip(names, found, strict=False):
        if size is not None and size > MOST_SUM:
            raise beyond_words(name)


def _by_person(table: SparkTable, query: AggregateQuery, *, gather: bool) -> DataFrame:
    """One row per key and person: keys, person, figures, by position."""
    from pyspark.sql import functions as sf

    keys = [table.counted(name).alias(f"key_{at}") for at, name in enumerate(query.keys)]
    figures: list[Column] = []
    added = query.added
    for name in added:
        own = sf.lit(1).cast("long") if name == RECORDS and query.records is None else None
        source = query.records if name == RECORDS and query.records is not None else name
        figures.append((table.column(source) if own is None else own).alias(f"f_{len(figures)}"))
    rows = table.frame.select(*keys, table.column(str(query.person)).alias(PERSON), *figures)
    if gather:
        rows = rows.repartition(PERSON)
    asked = [sf.expr(added_sql(how, f"f_{at}")).alias(f"f_{at}") for at, how in enumerate(added.values())]
    return rows.groupBy(*(f"key_{at}" for at in range(len(keys))), PERSON).agg(*asked)


def _rows(table: SparkTable, query: AggregateQuery) -> DataFrame:
    """One row per contributor and cell, its columns by position."""
    from pyspark.sql import functions as sf

    chosen = [table.counted(name).alias(f"key_{at}") for at, name in enumerate(query.keys)]
    records = sf.lit(1).cast("long") if query.records is None else table.column(query.records)
    chosen.append(records.alias(RECORDS))
    if query.person is not None:
        chosen.append(table.column(query.person).alias(PERSON))
    elif table.has_record_ids:
        chosen.append(sf.col(ID_COLUMNS[0]).alias(PERSON))
    for at, measure in enumerate(query.measures):
        chosen += [table.column(each).alias(f"{role}_{at}") for role, each in measure.roles.items()]
    return table.frame.select(*chosen)


def _figures(table: SparkTable, query: AggregateQuery) -> list[Column]:
    from pyspark.sql import functions as sf

    known = query.person is not None or table.has_record_ids
    holder = sf.col(PERSON) if known else None
    nothing = sf.lit(0).cast("long")
    found = [sf.count(sf.lit(1)).alias("contributors"), sf.sum(RECORDS).alias("records")]
    if holder is not None:
        alone = sf.when(sf.count(sf.lit(1)) == 1, _code(sf.max(holder), query)).otherwise(nothing)
        found.append(alone.alias("single"))
    for at, measure in enumerate(query.measures):
        value = sf.col(f"value_{at}")
        named = {each: f"{role}_{at}" for role, each in measure.roles.items()}
        found.append(sf.count(value).alias(f"present_{at}"))
        found += [sf.expr(figure).alias(name) for name, figure in figures_sql(at, measure, named).items()]
        if holder is not None:
            own = sf.max(sf.when(value.isNotNull(), holder))
            found.append(sf.when(sf.count(value) == 1, _code(own, query)).otherwise(nothing).alias(f"single_{at}"))
    return found


def _code(holder: Column, query: AggregateQuery) -> Column:
    """The code of a contributor; a record's id is keyed already."""
    from pyspark.sql import functions as sf

    if query.person is None:
        return sf.when(holder == 0, sf.lit(1).cast("long")).otherwise(holder)
    inner, outer = (sf.lit(bytearray(each)) for each in hmac_pads(query.secret))
    first = sf.unhex(sf.sha2(sf.concat(inner, sf.encode(holder.cast("string"), "UTF-8")), 256))
    digits = sf.substring(sf.sha2(sf.concat(outer, first), 256), 1, CODE_DIGITS)
    return sf.conv(digits, 16, 10).cast("long") + 1


def _ranked(query: AggregateQuery) -> list[tuple[int, AggregateMeasure]]:
    """Measures whose largest contributions are wanted."""
    return [(at, each) for at, each in enumerate(query.measures) if not each.once and query.largest]


def _heaps(query: AggregateQuery) -> int:
    return 1 << (2 * query.largest).bit_length()


def _reach(at: int, query: AggregateQuery) -> Column:
    """A value that as many contributions of a cell reach as are wanted: rows are dealt, and each heap has a maximum."""
    from pyspark.sql import functions as sf

    size = sf.abs(sf.col(f"value_{at}"))
    maxima = [sf.max(sf.when(sf.col(HEAP) == heap, size)) for heap in range(_heaps(query))]
    return sf.coalesce(sf.sort_array(sf.array(*maxima), asc=False)[query.largest - 1], sf.lit(0).cast("long"))


def _reaching(
    rows: DataFrame, cells: DataFrame, found: pa.Table, keys: list[str], at: int, query: AggregateQuery
) -> DataFrame:
    """Rows that can be among the largest of their cell: few are sorted then, where cells have many."""
    from pyspark.sql import functions as sf

    number = int(pc.sum(found.column("contributors")).as_py() or 0)
    if len(found) > MOST_SENT or number < SPARSE * query.largest * len(found):
        return rows
    size, name = sf.abs(sf.col(f"value_{at}")), f"reach_{at}"
    if not keys:
        return rows.where(size >= found.column(name)[0].as_py())
    struct = cells.select(*(sf.col(key).alias(f"cell_{key}") for key in keys), name).schema
    sent = frame_of(rows.sparkSession, found.select([*keys, name]).rename_columns(struct.names), struct)
    same = functools.reduce(operator.and_, [sf.col(key).eqNullSafe(sf.col(f"cell_{key}")) for key in keys])
    return rows.join(sf.broadcast(sent), same, "inner").where(size >= sf.col(name))


def _top(rows: DataFrame, keys: list[str], at: int, measure: AggregateMeasure, query: AggregateQuery) -> DataFrame:
    """The largest contributions of each cell, one a row, with their rank from 1."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    entries = {"v": sf.abs(sf.col(f"value_{at}"))}
    if measure.product is not None:
        entries["p"] = sf.abs(sf.col(f"product_{at}"))
    if query.person is not None:
        entries["h"] = sf.col(PERSON)
    some = rows.where(sf.col(f"value_{at}") != 0).select(*keys, *(each.alias(name) for name, each in entries.items()))
    order = Window.partitionBy(*keys).orderBy(*(sf.col(name).desc() for name in entries))
    # Spark keeps but the first of each group before it exchanges rows.
    first = some.withColumn(RANK, sf.row_number().over(order)).where(sf.col(RANK) <= query.largest)
    shown = [_code(sf.col(name), query).alias("h") if name == "h" else sf.col(name) for name in entries]
    return first.select(*keys, RANK, *shown)


def _places(cells: list[pa.Array], entries: list[pa.Array], number: int) -> Ints:
    """The cell of each entry, by their keys."""
    word = np.zeros(number + len(entries[0]), dtype=np.int64)
    for own, other in zip(cells, entries, strict=True):
        coded = pc.dictionary_encode(pa.concat_arrays([own, other]), null_encoding="encode")
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _found, word = np.unique(word * len(coded.dictionary) + codes, return_inverse=True)
    cell_of = np.empty(int(word.max()) + 1, dtype=np.int64)
    cell_of[word[:number]] = np.arange(number)
    return np.asarray(cell_of[word[number:]], dtype=np.int64)


def _words(found: pa.Table, name: str) -> Ints:
    return np.asarray(pc.fill_null(found.column(name), 0).to_numpy(), dtype=np.int64)
