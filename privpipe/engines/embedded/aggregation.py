"""Cells of tables in DuckDB by one group-by, or two by persons, and what may be known of persons of related tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

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
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.requests import Knowledge, PersonCounts, Related
from privpipe.engines.base.aggregated_cells import (
    DUCKDB,
    Cells,
    added_sql,
    counts_schema,
    counts_sql,
    figures_sql,
    knowledge_schema,
    knowledge_sql,
    ranks_sql,
    related_schema,
    related_sql,
    rows_sql,
)
from privpipe.engines.base.batches import as_type
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.session import Kept, Session, quoted

__all__ = [
    "aggregate",
    "contributions",
    "derived",
    "ranked",
    "related",
]


ROW, TOP = "__privpipe_row", "__privpipe_top"
FIGURES = ("total", "present", "nonzero", "negative", "magnitude", "product", "size", "unwaived", "square")
ONE_IN = 256
"""Contributors of whom one is looked at to see whether they are in several cells."""


BITS_A_ROW, MOST_BITS = 64, 2**31
"""Whole numbers in so small a range are counted by a bit each, which needs no table of them."""


@dataclass(frozen=True)
class Look:
    """What one pass shows about a column, by which aggregates that would say nothing are left out."""

    nulls: int
    zeros: bool
    """Whether there may be any."""
    negatives: bool


@dataclass(frozen=True)
class Rows:
    """Contributions: one row for each contributor and cell."""

    source: str
    frames: Mapping[str, Any]
    looks: Mapping[str, Look]
    holder: str | None
    """Column of the contributor; None where contributors are records without ids."""
    holds: Kept | None = None


def contributions(session: Session, table: EmbeddedTable, query: AggregateQuery) -> tuple[EmbeddedTable, bool]:
    """See `Engine.contributions`."""
    query.require(table.schema)
    kept = _by_person(session, table, query)
    one = not _several(session, kept, query, table.schema.field(str(query.person)).type)
    fields = [table.schema.field(name) for name in (*query.keys, str(query.person))]
    schema = pa.schema([*fields, *((name, pa.int64()) for name in query.added)])
    chosen = ", ".join(
        f"{quoted(each.name)}::VARCHAR AS {quoted(each.name)}" if pt.is_string(each.type) else quoted(each.name)
        for each in schema
    )
    return EmbeddedTable(f"SELECT {chosen} FROM {kept.name}", schema, holds=(kept,)), one


def aggregate(session: Session, table: EmbeddedTable, query: AggregateQuery) -> pa.Table:
    """See `Engine.aggregate`."""
    query.require(table.schema)
    rows = _rows(session, table, query)
    found = session.table(_by_cell(query, rows), rows.frames)
    keys = [as_type(found.column(f"key_{at}"), table.schema.field(name).type) for at, name in enumerate(query.keys)]
    figures = Cells(query, len(found))
    for name in ("contributors", "records"):
        figures.add(name, _ints(found, name))
    figures.add("single", _single(session, query, rows, found, "single"))
    for at in range(len(query.measures)):
        for name in FIGURES:
            if f"{name}_{at}" in found.column_names:
                figures.add(f"{name}_{at}", _ints(found, f"{name}_{at}"))
        if f"single_{at}" in found.column_names:
            figures.add(f"single_{at}", _single(session, query, rows, found, f"single_{at}"))
        if f"top_{at}" in found.column_names:
            entries = _entries(session, query, rows, found, at)
            codes = None if entries.holders is None else _codes(session, query, entries.holders)
            figures.add_largest(at, entries.cells, entries.ranks, entries.values, entries.products, codes)
    return figures.table(keys)


def ranked(session: Session, table: EmbeddedTable, query: AggregateQuery, ranks: Sequence[Ranks]) -> pa.Table:
    """See `Engine.ranked`."""
    query.require(table.schema)
    rows = _rows(session, table, query)
    value = quoted(query.measures[0].column)
    keys = [quoted(name) for name in query.keys]
    named = [f"key_{at}" for at in range(len(keys))]
    chosen = ", ".join([*(f"{key} AS {name}" for key, name in zip(keys, named, strict=True)), f"{value} AS value"])
    counted = (
        f"(SELECT {chosen}, count(*)::BIGINT AS number FROM {rows.source} WHERE {value} IS NOT NULL "
        f"GROUP BY {', '.join([*keys, value])})"
    )
    found = session.table(ranks_sql(named, ranks, counted), rows.frames)
    made = [as_type(found.column(f"key_{at}"), table.schema.field(name).type) for at, name in enumerate(query.keys)]
    figures = {name: found.column(name) for name in ("value", "number", "before", "present")}
    return pa.table({**dict(zip(named, made, strict=True)), **figures})


def _rows(session: Session, table: EmbeddedTable, query: AggregateQuery) -> Rows:
    holder = query.person
    if query.person is not None and not query.unique:
        kept = _by_person(session, table, query)
        source, frames = kept.name, {}
    else:
        kept, source, frames = None, _plain(table, query), dict(table.frames)
        if query.person is None and table.has_record_ids:
            holder = ID_COLUMNS[0]
    return Rows(source, frames, _looks(session, query, source, frames), holder, kept)


def _plain(table: EmbeddedTable, query: AggregateQuery) -> str:
    """The table with keys as compact as it has them, and persons as texts: enumerations have another order."""
    if query.person is None or table.coded is None or not pt.is_string(table.schema.field(query.person).type):
        return table.compact
    person = quoted(query.person)
    return f"(SELECT * REPLACE ({person}::VARCHAR AS {person}) FROM {table.compact})"


def _looks(session: Session, query: AggregateQuery, source: str, frames: Mapping[str, Any]) -> dict[str, Look]:
    """What the columns hold.

    Raises
    ------
    DataError
        Sums of a cell could exceed 64 bits.
    """
    columns = list(dict.fromkeys(name for each in query.measures for name in (each.column, each.product) if name))
    if not columns:
        return {}
    # Ends and counts are in the statistics of files.
    asked = ", ".join(f"count({name}), min({name}), max({name})" for name in map(quoted, columns))
    records, *found = session.row(f"SELECT count(*), {asked} FROM {source}", frames)
    looks = {}
    for at, name in enumerate(columns):
        there, least, most = found[3 * at : 3 * at + 3]
        least, most = least or 0, most or 0
        if max(-least, most) * there > MOST_SUM:
            size = session.value(f"SELECT sum(abs({quoted(name)}::DOUBLE)) FROM {source}", frames)
            if size > MOST_SUM:
                raise beyond_words(name)
        looks[name] = Look(records - there, least <= 0 <= most, least < 0)
        squared = any(each.squares and each.column == name for each in query.measures)
        if squared and max(-least, most) ** 2 * there > MOST_SUM:
            size = session.value(f"SELECT sum({quoted(name)}::DOUBLE ** 2) FROM {source}", frames)
            if size > MOST_SUM:
                raise beyond_words(name)
    return looks


def _added(query: AggregateQuery) -> list[str]:
    """What is known of one contributor in one cell."""
    figures = []
    for column, how in query.added.items():
        name = quoted(column)
        if column == RECORDS:
            figure = "count(*)" if query.records is None else f"sum({quoted(query.records)})"
        else:
            figure = added_sql(how, name)
        figures.append(f"({figure})::BIGINT AS {name}")
    return figures


def _several(session: Session, kept: Kept, query: AggregateQuery, kind: pa.DataType) -> bool:
    """Whether contributors are in several cells: a few of them show it where many are."""
    person = quoted(str(query.person))
    some = f" WHERE hash({person}) % {ONE_IN} = 0"
    rows, persons = session.row(f"SELECT count(*), count(DISTINCT {person}) FROM {kept.name}{some}")
    if rows > persons:
        return True
    distinct = f"count(DISTINCT {person})"
    if pt.is_int64(kind):
        rows, least, most = session.row(f"SELECT count(*), min({person}), max({person}) FROM {kept.name}")
        if rows and most - least < min(rows * BITS_A_ROW, MOST_BITS):
            distinct = f"bit_count(bitstring_agg({person}, {least}, {most}))"
    rows, persons = session.row(f"SELECT count(*), {distinct} FROM {kept.name}")
    return bool(rows > (persons or 0))


def _by_person(session: Session, table: EmbeddedTable, query: AggregateQuery) -> Kept:
    """One row per key and person.

    Raises
    ------
    DataError
        Records without a person, or whose weights differ; sums that could exceed 64 bits.
    """
    _looks(session, query, table.compact, table.frames)
    person = quoted(str(query.person))
    keys = ", ".join([*map(quoted, query.keys), person])
    chosen = ", ".join([keys, *_added(query)])
    kept = session.keep(f"SELECT {chosen} FROM {_plain(table, query)} GROUP BY {keys}", table.frames)
    missing = session.value(f"SELECT sum({RECORDS}) FROM {kept.name} WHERE {person} IS NULL")
    if missing:
        raise missing_persons(str(query.person), int(missing))
    _require_alike(session, kept, query)
    return kept


def _require_alike(session: Session, kept: Kept, query: AggregateQuery) -> None:
    for measure in query.measures:
        if measure.once:
            differing = int(session.value(f"SELECT count(*) - count({quoted(measure.column)}) FROM {kept.name}"))
            if differing:
                raise other_weights(measure.column, differing)


def _by_cell(query: AggregateQuery, rows: Rows) -> str:
    """The query of all cells; what is the same as another figure is left out."""
    records = RECORDS if rows.holds is not None else query.records
    figures = {"contributors": "count(*)", "records": "count(*)" if records is None else f"sum({quoted(records)})"}
    asked = {name: f"({figure})::BIGINT" for name, figure in figures.items()}
    if rows.holder is not None:
        asked["single"] = f"CASE WHEN count(*) = 1 THEN max({quoted(rows.holder)}) END"
    for at, measure in enumerate(query.measures):
        asked |= _figures(at, measure, query, rows)
    keys = [quoted(name) for name in query.keys]
    named = [f"{key} AS key_{at}" for at, key in enumerate(keys)]
    chosen = ", ".join([*named, *(f"{figure} AS {name}" for name, figure in asked.items())])
    return f"SELECT {chosen} FROM {rows.source}" + (f" GROUP BY {', '.join(keys)}" if keys else "")


def _figures(at: int, measure: AggregateMeasure, query: AggregateQuery, rows: Rows) -> dict[str, str]:
    look, name = rows.looks[measure.column], quoted(measure.column)
    columns = {column: quoted(column) for column in measure.columns}
    asked = figures_sql(at, measure, columns, zeros=look.zeros, negatives=look.negatives)
    if look.nulls:
        asked[f"present_{at}"] = f"count({name})"
        if rows.holder is not None:
            holder = f"max({quoted(rows.holder)}) FILTER ({name} IS NOT NULL)"
            asked[f"single_{at}"] = f"CASE WHEN count({name}) = 1 THEN {holder} END"
    if not measure.once and query.largest:
        asked[f"top_{at}"] = _top(measure, query, rows)
    return asked


def _top(measure: AggregateMeasure, query: AggregateQuery, rows: Rows) -> str:
    """The largest contributions; with contributors one too many, to see whether a tie cuts the list."""
    name, look = quoted(measure.column), rows.looks[measure.column]
    size = f"abs({name})" if look.negatives else name
    some = f" FILTER ({name} <> 0)" if look.zeros or look.nulls else ""
    if measure.product is not None:
        return f"max({_entry(measure, query)}, {query.largest}){some}"
    if query.person is None:
        # Zeros come last and fill up a list anyway; nulls are left out by max itself.
        return f"max({size}, {query.largest})"
    # Values alone are compared faster than values with their contributors.
    return f"max_by({_entry(measure, query)}, {size}, {query.largest + 1}){some}"


def _entry(measure: AggregateMeasure, query: AggregateQuery) -> str:
    """A contribution in the order in which they are ranked: value, weighted value, contributor."""
    parts = [f"v := abs({quoted(measure.column)})"]
    if measure.product is not None:
        parts.append(f"p := abs({quoted(measure.product)})")
    if query.person is not None:
        parts.append(f"h := {quoted(query.person)}")
    return f"struct_pack({', '.join(parts)})"


def _ints(found: pa.Table, name: str) -> Ints:
    return np.asarray(found.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)


def _single(session: Session, query: AggregateQuery, rows: Rows, found: pa.Table, name: str) -> Ints:
    """Codes of contributors that are alone in a cell; 0 where there is none."""
    if rows.holder is None:
        return np.zeros(len(found), dtype=np.int64)
    holders = found.column(name).combine_chunks()
    if query.person is None:  # an id is keyed already
        alone = holders.is_valid().to_numpy(zero_copy_only=False)
        ids = pc.fill_null(holders, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where(alone & (ids == 0), 1, ids)
    return _codes(session, query, holders)


def _codes(session: Session, query: AggregateQuery, holders: pa.Array) -> Ints:
    """Keyed codes of contributors; 0 for null."""
    distinct = holders.unique().drop_null()
    if not len(distinct):
        return np.zeros(len(holders), dtype=np.int64)
    inner, outer = (each.hex() for each in hmac_pads(query.secret))
    first = f"unhex(sha256(unhex('{inner}') || encode(h::VARCHAR)))"
    code = f"('0x' || substr(sha256(unhex('{outer}') || {first}), 1, {CODE_DIGITS}))::BIGINT + 1"
    view = session.name("holders")
    made = session.table(f"SELECT h, {code} AS code FROM {view}", {view: pa.table({"h": distinct})})
    places = pc.index_in(holders, made.column("h").combine_chunks().cast(holders.type))
    codes = made.column("code").combine_chunks().take(places)
    return np.asarray(pc.fill_null(codes, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


@dataclass(frozen=True)
class Entries:
    """The largest contributions of all cells, one after the other."""

    cells: Ints
    ranks: Ints
    values: Ints
    products: Ints | None
    holders: pa.Array | None

    def only(self, chosen: Bools) -> Entries:
        """Some of them."""
        return Entries(
            self.cells[chosen],
            self.ranks[chosen],
            self.values[chosen],
            None if self.products is None else self.products[chosen],
            None if self.holders is None else self.holders.filter(pa.array(chosen)),
        )


def _entries(session: Session, query: AggregateQuery, rows: Rows, found: pa.Table, at: int) -> Entries:
    """The largest contributions; cells where a tie cuts the list are ranked again, by contributor too."""
    measure, most = query.measures[at], query.largest
    entries = _listed(found.column(f"top_{at}").combine_chunks())
    if query.person is None or measure.product is not None:
        return entries
    over = np.flatnonzero(entries.ranks == most)
    tied = entries.cells[over[entries.values[over] == entries.values[over - 1]]]
    entries = entries.only((entries.ranks < most) & ~np.isin(entries.cells, tied))
    if not len(tied):
        return entries
    columns = {name: found.column(f"key_{place}").take(pa.array(tied)) for place, name in enumerate(query.keys)}
    cells = pa.table({ROW: np.arange(len(tied)), **columns})
    view = session.name("tied")
    keys = " AND ".join(f"r.{quoted(name)} IS NOT DISTINCT FROM {view}.{quoted(name)}" for name in query.keys)
    made = session.table(
        f"SELECT {ROW}, max({_entry(measure, query)}, {most}) FILTER ({quoted(measure.column)} <> 0) AS {TOP} "
        f"FROM {rows.source} AS r JOIN {view} ON {keys or 'true'} GROUP BY {ROW}",
        {**rows.frames, view: cells},
    )
    again = _listed(made.column(TOP).combine_chunks())
    own = tied[made.column(ROW).to_numpy()]
    assert entries.holders is not None and again.holders is not None  # noqa: PT018 - contributors are known here
    return Entries(
        np.concatenate([entries.cells, own[again.cells]]),
        np.concatenate([entries.ranks, again.ranks]),
        np.concatenate([entries.values, again.values]),
        None,
        pa.concat_arrays([entries.holders, again.holders]),
    )


def _listed(lists: pa.Array) -> Entries:
    """Lists of contributions, in their order."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    cells = np.repeat(np.arange(len(lists)), lengths)
    ranks = np.arange(len(cells)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    flat = lists.flatten()
    if not pt.is_struct(flat.type):
        return Entries(cells, ranks, _words(flat), None, None)
    parts = {each.name: flat.field(place) for place, each in enumerate(flat.type)}
    products = _words(parts["p"]) if "p" in parts else None
    return Entries(cells, ranks, _words(parts["v"]), products, parts.get("h"))


def _words(values: pa.Array) -> Ints:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)


def derived(asked: PersonCounts | Knowledge) -> EmbeddedTable:
    """See `PersonCounts` and `Knowledge`; nothing is computed yet."""
    tables: tuple[EmbeddedTable, ...] = asked.tables
    rows = [
        rows_sql(each, each.table.source, [step.table.source for step in each.between], _name)
        for each in (asked.root, *asked.others)
    ]
    frames = {name: frame for table in tables for name, frame in table.frames.items()}
    holds = tuple(each for table in tables for each in table.holds)
    if isinstance(asked, PersonCounts):
        return EmbeddedTable(counts_sql(asked, rows), counts_schema(asked), False, frames, holds)
    sql, schema = knowledge_sql(asked, rows, DUCKDB), knowledge_schema(asked)
    return EmbeddedTable(sql, schema, False, frames, holds, at_most=asked.at_most)


def related(asked: Related) -> EmbeddedTable:
    """See `Related`; nothing is computed yet."""
    table, other = asked.table, asked.to
    names = [*asked.columns.values()]
    if not names:
        sql = related_sql(asked, (table.source, other.source), _name, str)
        return table.derived(sql, frames=other.frames, holds=other.holds)
    schema = related_schema(asked)
    sql = related_sql(asked, (table.source, other.source), _name, lambda at: quoted(schema.names[at]))
    return table.derived(sql, schema, frames=other.frames, holds=other.holds)


def _name(schema: pa.Schema, column: str) -> str:
    return quoted(column)
