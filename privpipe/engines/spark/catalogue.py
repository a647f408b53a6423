"""Spark's own catalogue as a place for releases: `spark_catalog`, in memory, of Hive, or of a cloud's metastore."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from privpipe.blocks import ID_COLUMNS
from privpipe.blocks.table_name import OWN_CATALOGUE, TableName, backquoted
from privpipe.draws import Stream
from privpipe.engines.base.contract import Catalogue, Listed
from privpipe.engines.base.part_files import files_of
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.output import ORDER, PART, in_parts
from privpipe.engines.spark.session import is_connect
from privpipe.engines.spark.sources import table_names
from privpipe.engines.spark.spark_table import SparkTable, count_records, spark_type
from privpipe.errors import DataError, UnsupportedError
from privpipe.private_files import make_public, public_modes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkCatalogue"]

DETAILS = "# Detailed Table Information"


class SparkCatalogue(Catalogue):
    """See `Catalogue`.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
    sent : callable
        Puts a table that is on the driver onto the executors, and leaves others.
    """

    def __init__(self, session: Any, sent: Callable[[Any], SparkTable]) -> None:
        self.session, self._sent = session, sent

    def whole(self, name: TableName) -> TableName:
        with reported("ask for the current catalogue and database"):
            standing = self.session.catalog.currentCatalog(), self.session.catalog.currentDatabase()
        parts = (*standing[: 3 - len(name.parts)], *name.parts)
        if parts[0].casefold() != OWN_CATALOGUE:
            raise UnsupportedError(
                name.located(
                    f"a release is published as a view of Spark's own catalogue, and {name} stands in {parts[0]!r}; "
                    f"write `{OWN_CATALOGUE}.db.table`, or publish into a folder with `path:`"
                )
            )
        with reported("look for the database of the sink"):
            if not self.session.catalog.databaseExists(TableName(parts[:2]).sql):
                database = TableName(parts[1:2])
                raise DataError(
                    name.located(f"there is no database {database} for the sink; CREATE DATABASE {database.sql}")
                )
            folded = str(self.session.conf.get("spark.sql.caseSensitive", "false")) != "true"
        last = tuple(part.lower() for part in parts[1:]) if folded else parts[1:]  # as the catalogue keeps them
        return TableName((OWN_CATALOGUE, *last), name.place)

    def names(self, like: TableName) -> tuple[str, ...]:
        return tuple(table_names(self.session, like.parts[:-1]))

    def find(self, name: TableName) -> Listed | None:
        with reported(f"look at {name}"):
            if not self.session.catalog.tableExists(name.sql):
                return None
            columns, details = self._described(name)
            rows = self.session.sql(f"SHOW TBLPROPERTIES {name.sql}").collect()
        return Listed(
            kind="view" if details.get("Type") == "VIEW" else "table",
            text=details.get("View Text", ""),
            columns=columns,
            properties={str(row["key"]): str(row["value"]) for row in rows},
        )

    def write(self, table: Any, name: TableName, stream: Stream, properties: Mapping[str, str]) -> int:
        table = self._sent(table)
        columns = {field.name: spark_type(field.type).simpleString() for field in table.schema}
        records = count_records(table)
        self._make(name, columns, properties)
        with reported(f"write the table {name}"):
            _ordered(table, stream, files_of(records, len(table.schema))).write.insertInto(name.sql)
        return records

    def write_texts(self, texts: Mapping[str, str], name: TableName, properties: Mapping[str, str]) -> None:
        self._make(name, {"name": "string", "document": "string"}, properties)
        with reported(f"write the table {name}"):
            frame = self.session.createDataFrame(sorted(texts.items()), "name string, document string")
            frame.coalesce(1).write.insertInto(name.sql)

    def texts(self, name: TableName) -> Mapping[str, str]:
        if self.find(name) is None:
            return {}
        with reported(f"read the table {name}"):
            return {str(row["name"]): str(row["document"]) for row in self.session.table(name.sql).collect()}

    def publish(self, name: TableName, new: TableName, properties: Mapping[str, str]) -> None:
        self._run(f"describe the table {new}", f"ALTER TABLE {name.sql} SET {_properties(properties)}")
        within = TableName(new.parts[1:])  # a table never leaves its catalogue, and Spark wants that unsaid
        self._run(f"name the table {new}", f"ALTER TABLE {name.sql} RENAME TO {within.sql}")
        folder = self._folder(new)
        if folder is not None:
            make_public(folder, public_modes(folder.parent))

    def make_view(self, name: TableName, text: str, properties: Mapping[str, str]) -> None:
        self._run(f"make the view {name}", f"CREATE VIEW {name.sql} {_properties(properties)} AS {text}")

    def switch_view(self, name: TableName, text: str) -> None:
        # CREATE OR REPLACE VIEW drops the old view before it makes the new one; this is one change of the catalogue.
        self._run(f"switch the view {name}", f"ALTER VIEW {name.sql} AS {text}")

    def drop(self, name: TableName) -> None:
        found = self.find(name)
        if found is not None:
            view = found.kind == "view"
            self._run(f"drop {name}", f"DROP VIEW {name.sql}" if view else f"DROP TABLE {name.sql} PURGE")

    def _make(self, name: TableName, columns: Mapping[str, str], properties: Mapping[str, str]) -> None:
        listed = ", ".join(f"{backquoted(column)} {kind}" for column, kind in columns.items())
        statement = f"CREATE TABLE {name.sql} ({listed}) USING parquet {_properties(properties)}"
        self._run(f"make the table {name}", statement)
        folder = self._folder(name)
        if folder is not None:
            with suppress(OSError):  # another user's: then the catalogue decides who reads it
                folder.chmod(0o700)

    def _folder(self, name: TableName) -> Path | None:
        """Where the files of a table lie, if that is on this machine and tasks run in this process's name."""
        with reported(f"look at {name}"):
            if is_connect(self.session) or not str(self.session.conf.get("spark.master", "")).startswith("local"):
                return None
            place = urlsplit(self._described(name)[1].get("Location", ""))
        folder = Path(unquote(place.path))
        return folder if place.scheme == "file" and folder.is_dir() and os.access(folder, os.W_OK) else None

    def _described(self, name: TableName) -> tuple[tuple[str, ...], dict[str, str]]:
        """Its columns, and below an empty line what the catalogue states about it."""
        described = self.session.sql(f"DESCRIBE EXTENDED {name.sql}").collect()
        rows = [(str(row["col_name"]), str(row["data_type"])) for row in described]
        keys = [key for key, _ in rows]
        end = keys.index("") if "" in keys else len(keys)
        start = keys.index(DETAILS, end) if DETAILS in keys[end:] else len(keys)
        return tuple(keys[:end]), dict(rows[start + 1 :])

    def _run(self, step: str, statement: str) -> None:
        with reported(step):
            self.session.sql(statement).collect()


def _properties(properties: Mapping[str, str]) -> str:
    """Ours alone, whose texts hold no quotes."""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    return f"TBLPROPERTIES ({listed})" if listed else ""


def _ordered(table: SparkTable, stream: Stream, parts: int) -> DataFrame:
    """The visible columns in keyed order, in as many files at most as the number of records says."""
    from pyspark.sql import functions as sf

    source = table.layout
    visible = source.without_ids().arrow.names
    if not table.has_record_ids:
        ordered = table.frame.select(*visible).repartition(1).sortWithinPartitions(*visible)
    else:
        placed = source.with_extra(PART, ORDER)
        gathered = in_parts(table, placed, stream, parts).repartition(parts, PART)
        ordered = gathered.sortWithinPartitions(PART, ORDER, *ID_COLUMNS)
    return ordered.select(
        *(sf.col(held).alias(name, metadata={}) for held, name in zip(visible, table.schema.names, strict=True))
    )
