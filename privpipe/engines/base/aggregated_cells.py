"""Cells with their figures, as every engine's `aggregate` returns them, and queries of what persons may be known by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks.aggregate_query import AggregateMeasure, AggregateQuery, Ranks
from privpipe.blocks.arrays import Ints
from privpipe.blocks.requests import GROUP, PERSON, VALUE, Knowledge, PersonCounts, PersonRows, Related

__all__ = [
    "DUCKDB",
    "SPARK",
    "Cells",
    "Dialect",
    "added_sql",
    "counts_schema",
    "counts_sql",
    "figures_sql",
    "knowledge_schema",
    "knowledge_sql",
    "ranks_sql",
    "related_schema",
    "related_sql",
    "rows_sql",
]


class Cells:
    """Gathers figures of cells; those that an engine left out follow from others.

    Parameters
    ----------
    query : AggregateQuery
    number : int
        Cells.
    """

    def __init__(self, query: AggregateQuery, number: int) -> None:
        self._query = query
        self._number = number
        self._figures: dict[str, Ints] = {}
        self._lists: dict[str, Ints] = {}

    def add(self, name: str, values: Ints) -> None:
        """A figure of each cell."""
        self._figures[name] = values

    def add_largest(
        self, at: int, cells: Ints, ranks: Ints, values: Ints, products: Ints | None, codes: Ints | None
    ) -> None:
        """The largest contributions of a measure, each with its cell and its rank from 0."""
        shape = (self._number, self._query.largest)
        made = []
        for given in (values, products, codes):
            found = np.zeros(shape, dtype=np.int64)
            if given is not None:
                found[cells, ranks] = given
            made.append(found)
        if products is not None or codes is not None:
            # Codes are compared rather than contributors, whose order other figures do not show.
            order = np.lexsort(tuple(-each for each in reversed(made)), axis=-1)
            made = [np.take_along_axis(each, order, axis=-1) for each in made]
        for name, found in zip(("largest", "products", "holders"), made, strict=True):
            self._lists[f"{name}_{at}"] = found

    def table(self, keys: Sequence[pa.ChunkedArray]) -> pa.Table:
        """Keys and figures: see `Engine.aggregate`."""
        made = self._figures
        made.setdefault("single", np.zeros(self._number, dtype=np.int64))
        empty = np.zeros(self._number, dtype=np.int64)
        for at, measure in enumerate(self._query.measures):
            present = made.setdefault(f"present_{at}", made["contributors"])
            made.setdefault(f"single_{at}", made["single"])
            made.setdefault(f"nonzero_{at}", present)
            made.setdefault(f"negative_{at}", empty)
            made.setdefault(f"magnitude_{at}", made[f"total_{at}"])
            if not measure.once and self._query.largest and f"largest_{at}" not in self._lists:
                self.add_largest(at, empty[:0], empty[:0], empty[:0], None, None)
        columns = {name: pa.array(values) for name, values in sorted(made.items())}
        for name, values in sorted(self._lists.items()):
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), self._query.largest)
        return pa.table({**{f"key_{at}": key for at, key in enumerate(keys)}, **columns})


def added_sql(how: str, name: str) -> str:
    """A figure of one contributor in one cell from those of its records: see `AggregateQuery.added`."""
    # Null where records disagree.
    return f"CASE WHEN min({name}) = max({name}) THEN min({name}) END" if how == "once" else f"{how}({name})"


def figures_sql(
    at: int, measure: AggregateMeasure, names: Mapping[str, str], *, zeros: bool = True, negatives: bool = True
) -> dict[str, str]:
    """What is added up of a measure in each cell, as SQL that DuckDB and Spark both read.

    Parameters
    ----------
    names : mapping of str to str
        Of the columns of the measure, as SQL has them.
    zeros, negatives : bool
        Whether there may be any; where there are none, `Cells` knows the figures that are left out.
    """
    value = names[measure.column]
    asked = {"total": f"sum({value})"}
    if zeros:
        asked["nonzero"] = f"count_if({value} <> 0)"
    if negatives:
        asked |= {"negative": f"count_if({value} < 0)", "magnitude": f"sum(abs({value}))"}
    if measure.squares:
        asked["square"] = f"sum({value} * {value})"
    if measure.product is not None:
        product = names[measure.product]
        asked |= {"product": f"sum({product})", "size": f"sum(abs({product}))"}
    found = {f"{name}_{at}": f"CAST(coalesce({figure}, 0) AS BIGINT)" for name, figure in asked.items()}
    if measure.waived is not None:
        bound = f"max(CASE WHEN {names[measure.waived]} = 0 THEN abs({value}) END)"
        found[f"unwaived_{at}"] = f"CAST(coalesce({bound}, -1) AS BIGINT)"
    return found


def ranks_sql(keys: Sequence[str], ranks: Sequence[Ranks], counted: str) -> str:
    """What `Engine.ranked` returns, as SQL that DuckDB and Spark both read.

    Parameters
    ----------
    keys : sequence of str
        Names of the columns of a cell.
    ranks : sequence of Ranks
    counted : str
        Rows of the keys, a `value` and the `number` of contributors of the cell that have it, each value once.
    """
    cell = f"PARTITION BY {', '.join(keys)} " if keys else ""
    common = any(each.kind == "commonest" for each in ranks)
    place = f", row_number() OVER ({cell}ORDER BY number DESC, value) AS place" if common else ""
    return (
        f"SELECT {', '.join([*keys, 'value', 'number', 'before', 'present'])} FROM (SELECT *, "
        f"CAST(sum(number) OVER ({cell}ORDER BY value) AS BIGINT) - number AS before, "
        f"CAST(sum(number) OVER ({cell}) AS BIGINT) AS present{place} FROM {counted}) AS summed "
        f"WHERE {' OR '.join(map(_wanted, ranks))}"
    )


def _wanted(ranks: Ranks) -> str:
    """Whether a value has a wanted rank. Of a window, floors are compared without a division."""
    if ranks.kind != "window":
        return {"first": "before = 0", "last": "before + number = present", "commonest": "place = 1"}[ranks.kind]
    start = f"({ranks.numerator} * (present - 1) + {ranks.offset})"
    after = f"(before + number) * {ranks.denominator} > {start}"
    return f"({after} AND (before - {ranks.width - 1}) * {ranks.denominator} <= {start})"


@dataclass(frozen=True)
class Dialect:
    """How a database writes what others write otherwise.

    Parameters
    ----------
    row : callable
        Columns as one value that has an order, missing values included.
    all_rows : callable
        The same value of all rows of a group, in their order, as a text.
    """

    row: Callable[[Sequence[str]], str]
    all_rows: Callable[[str], str]


def _fields(columns: Sequence[str]) -> str:
    return ", ".join(f"f{at} := {column}" for at, column in enumerate(columns))


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"'f{at}', {column}" for at, column in enumerate(columns))


EXACT = (
    "'ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\""
)
"""Without it missing cells have no place in the text, and times that differ below a millisecond are equal."""
DUCKDB = Dialect(
    row=lambda columns: f"struct_pack({_fields(columns)})",
    all_rows=lambda row: f"to_json(list_sort(list({row})))::VARCHAR",
)
SPARK = Dialect(
    row=lambda columns: f"named_struct({_named(columns)})",
    all_rows=lambda row: f"to_json(array_sort(collect_list({row})), map({EXACT}))",
)


def _persons(number: int, alias: str = "") -> list[str]:
    return [f"{alias}{PERSON}_{at}" for at in range(number)]


def rows_sql(rows: PersonRows, source: str, between: Sequence[str], name: Callable[[pa.Schema, str], str]) -> str:
    """A SELECT of the rows of a table: the person's key, quasi-identifiers ``q0`` and on, the sensitive value ``v``.

    Parameters
    ----------
    source : str
        Of the rows.
    between : sequence of str
        Of the tables on the way to the person, the nearest first.
    name : callable
        A column of a table as the source has it.
    """
    own = rows.table.schema
    owner, columns = ("t", rows.key)
    schema, joins = own, ""
    for at, (step, other) in enumerate(zip(rows.between, between, strict=True)):
        there = step.table.schema
        on = " AND ".join(
            f"{owner}.{name(schema, column)} = b{at}.{name(there, key)}"
            for column, key in zip(columns, step.key, strict=True)
        )
        joins += f" JOIN {other} AS b{at} ON {on}"
        owner, columns, schema = f"b{at}", step.onward, there
    parts = [f"{owner}.{name(schema, column)} AS {PERSON}_{at}" for at, column in enumerate(columns)]
    parts += [f"{_unsigned(own, column, f't.{name(own, column)}')} AS q{at}" for at, column in enumerate(rows.columns)]
    if rows.value is not None:
        parts.append(f"t.{name(own, rows.value)} AS v")
    return f"SELECT {', '.join(parts)} FROM {source} AS t{joins}"


def _unsigned(schema: pa.Schema, column: str, sql: str) -> str:
    """-0.0 is 0.0."""
    return f"({sql} + 0.0)" if pt.is_floating(schema.field(column).type) else sql


def related_schema(asked: Related) -> pa.Schema:
    """The visible columns of `Related`."""
    there = asked.to.schema
    return pa.schema([*asked.table.schema, *(there.field(old).with_name(new) for old, new in asked.columns.items())])


def related_sql(
    asked: Related, sources: tuple[str, str], name: Callable[[pa.Schema, str], str], new: Callable[[int], str]
) -> str:
    """A SELECT of `Related`, from the sources of both tables.

    Parameters
    ----------
    new : callable
        The name of a column of the result by its place.
    """
    here, there = asked.table.schema, asked.to.schema
    on = " AND ".join(
        f"t.{name(here, one)} = u.{name(there, other)}" for one, other in zip(asked.key, asked.to_key, strict=True)
    )
    first = len(here)
    more = "".join(f", u.{name(there, old)} AS {new(first + at)}" for at, old in enumerate(asked.columns))
    if not asked.columns:
        return f"SELECT t.* FROM {sources[0]} AS t WHERE EXISTS (SELECT 1 FROM {sources[1]} AS u WHERE {on})"
    return f"SELECT t.*{more} FROM {sources[0]} AS t JOIN {sources[1]} AS u ON {on}"


def counts_schema(asked: PersonCounts) -> pa.Schema:
    """Rows of each table that a key has: ``n0`` of the root, ``n1`` and on of the others."""
    return pa.schema([pa.field(f"n{at}", pa.int64()) for at in range(1 + len(asked.others))])


def counts_sql(asked: PersonCounts, rows: Sequence[str]) -> str:
    """A SELECT of one row for each key, from the SELECTs of the rows of all tables, the root's first."""
    names, many = ", ".join(_persons(len(asked.root.key))), len(rows)
    marked = [
        f"SELECT {names}, {', '.join(f'{int(at == own)} AS n{at}' for at in range(many))} FROM ({each}) AS r{own}"
        for own, each in enumerate(rows)
    ]
    sums = ", ".join(f"CAST(sum(n{at}) AS BIGINT) AS n{at}" for at in range(many))
    return f"SELECT {sums} FROM ({' UNION ALL '.join(marked)}) AS marked GROUP BY {names}"


def knowledge_schema(asked: Knowledge) -> pa.Schema:
    """The person's key, columns that hold what is known, and the code of a value if one is judged."""
    fields = []
    for at, column in enumerate(asked.root.key):
        fields.append(pa.field(f"{PERSON}_{at}", asked.root.table.schema.field(column).type))
    for at, column in enumerate(asked.root.columns):
        fields.append(pa.field(f"{GROUP}_0_{at}", asked.root.table.schema.field(column).type))
    for at, (rows, most) in enumerate(zip(asked.others, asked.knows, strict=True), 1):
        if asked.counted:
            fields.append(pa.field(f"{GROUP}_{at}_rows", pa.int64()))
        if most == "all":
            fields.append(pa.field(f"{GROUP}_{at}_all", pa.string()))
        elif most:
            fields.append(pa.field(f"{GROUP}_{at}_size", pa.int64()))
            for pick in range(int(most)):
                for place, column in enumerate(rows.columns):
                    kind = rows.table.schema.field(column).type
                    fields.append(pa.field(f"{GROUP}_{at}_{pick}_{place}", kind))
    if asked.valued:
        fields.append(pa.field(VALUE, pa.int64()))
    return pa.schema(fields)


def knowledge_sql(asked: Knowledge, rows: Sequence[str], dialect: Dialect) -> str:
    """A SELECT of `knowledge_schema`, from the SELECTs of the rows of all tables, the root's first."""
    persons = _persons(len(asked.root.key))
    keys = ", ".join(persons)
    steps = [f"rows0 AS ({rows[0]})"]
    chosen = [f"rows0.{name}" for name in persons]
    chosen += [f"rows0.q{at} AS {GROUP}_0_{at}" for at in range(len(asked.root.columns))]
    joins = ""
    for at, (own, most) in enumerate(zip(asked.others, asked.knows, strict=True), 1):
        if not asked.counted and not most and own.value is None:
            continue
        steps.append(f"rows{at} AS ({rows[at]})")
        if asked.counted:
            steps.append(f"counts{at} AS (SELECT {keys}, count(*) AS n FROM rows{at} GROUP BY {keys})")
            joins += f" LEFT JOIN counts{at} ON {_same(persons, 'rows0', f'counts{at}')}"
            chosen.append(f"coalesce(counts{at}.n, 0) AS {GROUP}_{at}_rows")
        if most == "all":
            row = dialect.row([f"q{place}" for place in range(len(own.columns))])
            steps.append(f"picks{at} AS (SELECT {keys}, {dialect.all_rows(row)} AS held FROM rows{at} GROUP BY {keys})")
            joins += f" LEFT JOIN picks{at} ON {_same(persons, 'rows0', f'picks{at}')}"
            chosen.append(f"picks{at}.held AS {GROUP}_{at}_all")
        elif most:
            steps += _picks(at, own, int(most), persons, dialect)
            joins += f" JOIN picks{at} ON {_same(persons, 'rows0', f'picks{at}')}"
            chosen.append(f"picks{at}.size AS {GROUP}_{at}_size")
            chosen += [
                f"picks{at}.q{pick}_{place} AS {GROUP}_{at}_{pick}_{place}"
                for pick in range(int(most))
                for place in range(len(own.columns))
            ]
    if asked.valued:
        place = next(at for at, own in enumerate((asked.root, *asked.others)) if own.value is not None)
        steps.append(
            f"held AS (SELECT {keys}, CAST(0 AS BIGINT) AS v FROM rows0 "
            f"UNION ALL SELECT DISTINCT {keys}, v FROM rows{place})"
        )
        joins += f" JOIN held ON {_same(persons, 'rows0', 'held')}"
        chosen.append(f"held.v AS {VALUE}")
    return f"WITH {', '.join(steps)} SELECT {', '.join(chosen)} FROM rows0{joins}"


def _same(names: Sequence[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def _picks(at: int, own: PersonRows, most: int, persons: Sequence[str], dialect: Dialect) -> list[str]:
    """Every multiset of up to `most` rows of each person, the empty one too, each once: picks are in order."""
    keys, places = ", ".join(persons), range(len(own.columns))
    columns = ", ".join(f"q{place}" for place in places)
    have = f"have{at}"
    made = [f"{have} AS (SELECT {keys}, {columns}, count(*) AS n FROM rows{at} GROUP BY {keys}, {columns})"]
    types = [f"q{place}" for place in places]
    picks = []
    for size in range(most + 1):
        filled = [
            f"h{pick}.{name} AS q{pick}_{place}" if pick < size else f"NULL AS q{pick}_{place}"
            for pick in range(most)
            for place, name in enumerate(types)
        ]
        if not size:
            source, first = "rows0 AS h", "h"
        else:
            source, first = f"{have} AS h0", "h0"
            for pick in range(1, size):
                on = f"{_same(persons, 'h0', f'h{pick}')} AND {_ordered(pick, types, dialect)}"
                source += f" JOIN {have} AS h{pick} ON {on}"
        owner = ", ".join(f"{first}.{name}" for name in persons)
        picks.append(f"SELECT {owner}, CAST({size} AS BIGINT) AS size, {', '.join(filled)} FROM {source}")
    # The first branch gives the columns their types.
    made.append(f"picks{at} AS ({' UNION ALL '.join(reversed(picks))})")
    return made


def _ordered(pick: int, types: Sequence[str], dialect: Dialect) -> str:
    """The row `pick` comes after the one before it, or is the same again where the person has it so often."""
    before = dialect.row([f"h{pick - 1}.{name}" for name in types])
    here = dialect.row([f"h{pick}.{name}" for name in types])
    again = f"h{pick}.n >= 2"
    if pick == 2:
        twice = dialect.row([f"h0.{name}" for name in types])
        again = f"h2.n >= CASE WHEN {twice} = {before} THEN 3 ELSE 2 END"
    return f"({before} < {here} OR ({before} = {here} AND {again}))"
