"""A table of the embedded engine: a SELECT over files, stored rows and frames in memory; and two tables as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, Histogram
from privpipe.engines.base.logical_types import require_columns, require_same, stacked_schema
from privpipe.engines.embedded.session import column_list, quoted

if TYPE_CHECKING:
    from privpipe.engines.embedded.file_codes import Digits, FileCodes
    from privpipe.engines.embedded.session import Session

__all__ = ["EmbeddedTable", "append", "nothing_but_mark", "plain_texts", "select", "stack"]


def nothing_but_mark(schema: pa.Schema, keys: Iterable[str], mark: str) -> str:
    """The SQL condition of rows that bear the mark in every text among some columns, and no value in the others.

    Examples
    --------
    >>> print(nothing_but_mark(pa.schema([("zip", pa.string()), ("age", pa.int64())]), ["zip", "age"], "*"))
    coalesce("zip" = '*', false) AND "age" IS NULL
    """
    text = "'" + mark.replace("'", "''") + "'"
    return " AND ".join(
        f"coalesce({quoted(name)} = {text}, false)"
        if pa.types.is_string(schema.field(name).type)
        else f"{quoted(name)} IS NULL"
        for name in keys
    )


@dataclass(frozen=True, eq=False)
class EmbeddedTable:
    """A lazy table; opaque but for its schema and whether ids are attached.

    Parameters
    ----------
    sql : str
        A SELECT of the visible columns in logical types, without NaN, and the id columns when attached.
    schema : pyarrow.Schema
        Of the visible columns.
    has_record_ids : bool
    frames : mapping of view name to Arrow object
        What each query has to register first.
    holds : tuple
        Objects that own the rows (stored files, tables of the session); freed with the last handle.
    rows : pyarrow.Table, optional
        All the columns, where they are in memory in logical types.
    histograms : dict of column to Histogram
        What was counted of it already: the rows of a table do not change.
    estimates : dict of column to int
        Distinct values as they were estimated already.
    nulls : dict of column to int
        Missing values as they were counted already.
    sizes : dict of set of columns to KnownSizes
        Sizes of the classes over them.
    counting : dict of set of columns to Lock
        Held by who counts their classes: who asks for the same waits, and finds them known.
    coded : str, optional
        The same SELECT with texts of few values as enumerations, in order of their texts: what groups, sorts or stores
        rows handles integers then.
    digits : mapping of column to Digits
        Columns of `coded` that are numbers, or are as good as numbers.
    content : dict of bytes to (int, int)
        Records, and the sum of their content's hashes, by the key of the hash; where they were counted already.
    files : FileCodes, optional
        The Parquet files that hold these very rows.
    at_most : int, optional
        A number of records that there are not more of.
    """

    sql: str = field(repr=False)
    schema: pa.Schema
    has_record_ids: bool = False
    frames: Mapping[str, Any] = field(default_factory=dict, repr=False)
    holds: tuple[Any, ...] = field(default=(), repr=False)
    rows: pa.Table | None = field(default=None, repr=False)

    _records: list[int] = field(default_factory=list, repr=False)
    histograms: dict[str, Histogram] = field(default_factory=dict, repr=False)
    estimates: dict[str, int] = field(default_factory=dict, repr=False)
    nulls: dict[str, int] = field(default_factory=dict, repr=False)
    sizes: dict[frozenset[str], Any] = field(default_factory=dict, repr=False)
    counting: dict[frozenset[str], Lock] = field(default_factory=dict, repr=False)
    coded: str | None = field(default=None, repr=False)
    digits: Mapping[str, Digits] = field(default_factory=dict, repr=False)
    content: dict[bytes, tuple[int, int]] = field(default_factory=dict, repr=False)
    files: FileCodes | None = field(default=None, repr=False)
    at_most: int | None = None

    def records(self, session: Session) -> int:
        """Number of records, counted once."""
        if not self._records and self.rows is not None and self.rows.num_columns:
            self._records.append(self.rows.num_rows)
        if not self._records:
            self._records.append(int(session.value(f"SELECT count(*) FROM {self.source}", self.frames)))
        return self._records[0]

    def bound(self, session: Session) -> int:
        """A number of records that there are not more of, counted where none is known."""
        return self.at_most if self.at_most is not None and not self._records else self.records(session)

    def tell_records(self, number: int) -> None:
        """Say how many records there are, where another count implies it."""
        self._records[:] = [number]

    @property
    def source(self) -> str:
        """The table as an item of a FROM clause."""
        return f"({self.sql})"

    @property
    def compact(self) -> str:
        """As `source`, with texts as enumerations where the table has them."""
        return f"({self.coded or self.sql})"

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Visible columns, then the id columns when attached."""
        return (*self.schema.names, *(ID_COLUMNS if self.has_record_ids else ()))

    def with_ids(self, columns: Iterable[str]) -> list[str]:
        """These columns, then the id columns when attached."""
        return [*columns, *(ID_COLUMNS if self.has_record_ids else ())]

    def require(self, columns: Iterable[str]) -> None:
        """Refuse a column that the table lacks.

        Raises
        ------
        DataError
        """
        require_columns(self, columns)

    def shared(self) -> dict[str, Any]:
        """What is known of this table, now or later, for one that has the same rows and some of its columns."""
        names = ("_records", "histograms", "estimates", "nulls", "sizes", "counting", "files")
        return {name: getattr(self, name) for name in names}

    def derived(self, sql: str, schema: pa.Schema | None = None, **more: Any) -> EmbeddedTable:
        """A table computed from this one; `frames` and `holds` add to its own, `rows` are in memory if given."""
        return EmbeddedTable(
            sql,
            self.schema if schema is None else schema,
            more.get("has_record_ids", self.has_record_ids),
            {**self.frames, **more.get("frames", {})},
            (*self.holds, *more.get("holds", ())),
            more.get("rows"),
            more.get("_records", []),
            more.get("histograms", {}),
            more.get("estimates", {}),
            more.get("nulls", {}),
            more.get("sizes", {}),
            more.get("counting", {}),
            files=more.get("files"),
        )

    def derived_alike(self, select: str, schema: pa.Schema | None = None, **more: Any) -> EmbeddedTable:
        """A table computed from `compact`, in which texts that are enumerations stay so; `digits` if they change."""
        if self.coded is None:
            return self.derived(select, schema, **more)
        made = self.derived("", schema, **more)
        digits = {name: each for name, each in more.get("digits", self.digits).items() if name in made.schema.names}
        plain = plain_texts(select, made.schema, made.has_record_ids)
        return replace(made, sql=plain, coded=select, digits=digits)


def plain_texts(select: str, schema: pa.Schema, ids: bool) -> str:
    """A SELECT whose texts are no longer enumerations."""
    columns = [
        f"{quoted(field.name)}::VARCHAR AS {quoted(field.name)}"
        if pa.types.is_string(field.type)
        else quoted(field.name)
        for field in schema
    ]
    return f"SELECT {', '.join([*columns, *(ID_COLUMNS if ids else ())])} FROM ({select})"


def select(table: EmbeddedTable, columns: Sequence[str], last: int | None = None) -> EmbeddedTable:
    """These columns, and ids; of the records whose id has a first word of at most `last`, if that is given."""
    names = table.with_ids(columns)
    sql = f"SELECT {column_list(names)} FROM {table.compact}"
    schema = pa.schema([table.schema.field(name) for name in columns])
    if last is not None:
        return table.derived_alike(f"{sql} WHERE {ID_COLUMNS[0]} <= {last}", schema)
    rows = table.rows.select(names) if table.rows is not None and names else None
    return table.derived_alike(sql, schema, rows=rows, **table.shared())


def stack(table: EmbeddedTable, other: EmbeddedTable, columns: Sequence[str], tag: str) -> EmbeddedTable:
    """See `Engine.stack`."""
    schema = stacked_schema(table.schema, other.schema, columns, tag)
    sides = [
        f"SELECT {column_list(columns)}{', ' if columns else ''}{side}::BIGINT AS {quoted(tag)} FROM {each.source}"
        for side, each in enumerate((table, other))
    ]
    return EmbeddedTable(
        " UNION ALL ".join(sides),
        schema,
        False,
        {**table.frames, **other.frames},
        (*table.holds, *other.holds),
    )


def append(table: EmbeddedTable, other: EmbeddedTable) -> EmbeddedTable:
    """See `Engine.append`."""
    require_same(table, other)
    columns = column_list(table.all_columns)
    return EmbeddedTable(
        " UNION ALL ".join(f"SELECT {columns} FROM {each.source}" for each in (table, other)),
        table.schema,
        table.has_record_ids,
        {**table.frames, **other.frames},
        (*table.holds, *other.holds),
    )
