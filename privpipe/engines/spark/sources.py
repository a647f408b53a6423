"""Sources of the Spark engine: frames, tables and Parquet natively, all else on the workers by shared readers."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.types as pt

from privpipe.blocks.table_name import TableName
from privpipe.engines.base.batches import whole_array
from privpipe.engines.base.conversion import decimal_scale, typing_of
from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.logical_types import check_names, is_carried, is_text_list, logical_schema
from privpipe.engines.distributed.columns import column_name
from privpipe.engines.lakes import delta_place, has_deltalake, is_lake, lake_of
from privpipe.engines.readers.files import elsewhere, list_files
from privpipe.engines.readers.parquet_files import parquet_files, partitioned_schema
from privpipe.engines.readers.source import Source, table_format_error
from privpipe.engines.spark.column_types import RawFrame, typed_table
from privpipe.engines.spark.failures import condition_of, reported
from privpipe.engines.spark.file_pieces import csv_frame, json_frame, lake_frame, parquet_frame
from privpipe.engines.spark.spark_table import Layout, SparkTable
from privpipe.engines.spark.versions import frame_of
from privpipe.engines.stores import is_reached
from privpipe.errors import DataError, EngineError, UnsupportedError, UsageError, did_you_mean, escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "is_native",
    "is_spark_frame",
    "is_table",
    "lake_source",
    "named_frame",
    "raw_frame",
    "refuse_streaming",
    "scan",
    "table_names",
]


NO_CATALOGUE = ("CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE", "CatalogNotFound")


def named_frame(session: SparkSession, name: TableName) -> DataFrame:
    """The frame of a table or view.

    Its files are listed again, so that neither rows that were deleted nor rows of an earlier run count.

    Raises
    ------
    DataError
        The session knows no such table, database or catalogue. A name never stands for a file, as in ``parquet.`x` ``.
    EngineError
        Its catalogue does not answer.
    """
    with reported(f"open the table {name}"):
        # Spark takes an unknown name of two parts for a format and a path; this asks its catalogue alone.
        if is_table(session, name):
            session.catalog.refreshTable(name.sql)
            return session.table(name.sql)
    raise _unknown(session, name)


def is_table(session: Any, name: TableName) -> bool:
    """Whether the session knows a table, view or temporary view of this name.

    Raises
    ------
    DataError
        It knows no catalogue that the name begins with.
    """
    try:
        return bool(session.catalog.tableExists(name.sql))
    except Exception as error:
        kinds = (condition_of(error), str(error))
        if not any(mark in kind for kind in kinds for mark in NO_CATALOGUE):
            raise
    raise DataError(
        name.located(
            f"the Spark session has no catalogue for {name}; a name of three parts begins with a catalogue that "
            "`spark.sql.catalog.NAME` configures (`engines.spark.conf`), or with spark_catalog"
        )
    )


def _unknown(session: SparkSession, name: TableName) -> DataError:
    """What is said of a name that leads to nothing."""
    where = "" if len(name.parts) > 1 else f" in {_standing(session)}"
    return DataError(
        name.located(
            f"the Spark session knows no table or view {name}{where}{_near(session, name)}; correct the name, register "
            "the view in this session, or run the job in a session with the catalogue that has it"
        )
    )


def _standing(session: SparkSession) -> str:
    try:
        return escaped(f"{session.catalog.currentCatalog()}.{session.catalog.currentDatabase()}")
    except Exception:  # noqa: BLE001 - a hint is not worth another error
        return "its current database"


def _near(session: SparkSession, name: TableName) -> str:
    """The nearest name of the same database, as the end of a sentence."""
    try:
        return did_you_mean(name.parts[-1], table_names(session, name.parts[:-1]))
    except Exception:  # noqa: BLE001 - the database may be missing too, or a catalogue that lists nothing
        return ""


def table_names(session: Any, database: tuple[str, ...]) -> list[str]:
    """Names of the tables and views of a database, those that are temporary among them.

    Raises
    ------
    EngineError
        There is no such database, or its catalogue does not answer.
    """
    within = f" IN {TableName(database).sql}" if database else ""
    with reported("list the tables of a database"):
        return [str(row["tableName"]) for row in session.sql(f"SHOW TABLES{within}").collect()]


def raw_frame(data: Any) -> RawFrame:
    """A Spark frame under our own column names, in the types nearest to the logical ones."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType

    frame = data if hasattr(data, "mapInArrow") else _without_index(data)
    names = list(frame.columns)
    check_names(names)
    fields = []
    for field in frame.schema.fields:
        try:
            found = to_arrow_schema(StructType([StructField("c", field.dataType)])).field(0).type
        except PySparkException:
            kind = field.dataType.simpleString()
            raise DataError(f"column {field.name!r} has the type {kind}, which no release can carry") from None
        fields.append(pa.field(field.name, found))
    return RawFrame(_renamed(frame, len(names)), pa.schema(fields))


def _without_index(data: Any) -> DataFrame:
    """A pandas-on-Spark frame as Spark's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that the index is lost, as it should be
        return data.to_spark()


def _renamed(frame: DataFrame, columns: int) -> DataFrame:
    return frame.toDF(*(column_name(at) for at in range(columns)))


NO_DATA_SOURCE = ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")


def lake_source(session: SparkSession, source: Source) -> tuple[SparkTable, bool]:
    """The table of a Delta or Iceberg source, and whether it had better be kept.

    An Iceberg table is the one of pyiceberg's catalogue: a catalogue of the session may know another by that name.

    Raises
    ------
    UsageError
        Neither the session nor an installed package reads the format.
    """
    connected = _connected(session, source) if source.is_path else None
    if connected is not None:
        return typed_table(connected, source.types), False
    if source.is_path and not has_deltalake():
        raise UsageError(
            "this Spark session has no Delta Lake; start it with the package io.delta:delta-spark "
            "(`engines.spark.conf: {spark.jars.packages: ...}`), or install deltalake: pip install 'privpipe[delta]'"
        )
    lake = lake_of(source)
    assert lake is not None
    return lake_frame(session, source, lake), True


def _connected(session: SparkSession, source: Source) -> RawFrame | None:
    """A Delta table as the session reads it; None where it has no connector."""
    place = delta_place(source)
    reader = session.read.format("delta")
    if source.version is not None:
        reader = reader.option("versionAsOf", source.version)
    elif source.timestamp is not None:
        reader = reader.option("timestampAsOf", source.timestamp)
    try:
        with reported("open the Delta table"):
            return raw_frame(reader.load(place if "://" in place else os.path.abspath(place)))
    except EngineError as error:
        if not any(sign in str(error) for sign in NO_DATA_SOURCE):
            raise
    return None


NO_CONNECTOR = ("UnsupportedFileSystemException", "ClassNotFoundException")
MARKS = {"Delta": "_delta_log", "Hudi": ".hoodie", "Iceberg": "metadata/*.metadata.json"}


def scan(session: SparkSession, source: Source) -> tuple[SparkTable, bool]:
    """The table of a source, and whether it was made at some cost and had better be kept."""
    data = named_frame(session, source.data) if isinstance(source.data, TableName) else source.data
    if is_spark_frame(data):
        refuse_streaming(data)
        return typed_table(raw_frame(data), source.types), False
    if is_lake(source):
        return lake_source(session, source)
    if not source.is_path:
        return _local(session, source), False
    kind = source.resolved_format
    if elsewhere(os.fspath(source.data)):
        return typed_table(_remote(session, source), source.types), kind == "csv"
    files = list_files(source)
    if kind == "csv":
        return csv_frame(session, source, files), True
    if kind == "json":
        return json_frame(session, source, files), True
    found = parquet_files(files)
    schema = partitioned_schema(source, found)
    check_names(schema.names)  # before Spark folds their case and fails
    logical_schema(schema, source.types)  # what no release can carry; Spark would read some of it as something else
    native = found.native and not found.int96 and not source.partitions
    if not (native and all(_is_native(field.type) for field in schema) and all(map(_is_found_by_spark, files))):
        return parquet_frame(session, source, found, schema), True
    with reported("open the Parquet files"):
        # Without a mark, Spark takes a scan for an earlier one of the same paths, whose rows it may still hold.
        frame = session.read.option("privpipe.scan", secrets.token_hex(8)).parquet(*(_uri(name) for name in files))
    return replace(typed_table(raw_frame(frame), source.types), remembered={"records": found.records}), False


def is_native(session: SparkSession, source: Source) -> bool:
    """Whether files on another file system are read by the session itself: it has the connector, or is the only one."""
    path = os.fspath(source.data) if source.is_path else ""
    if not elsewhere(path) or not is_reached(path):
        return bool(elsewhere(path))
    if source.resolved_format == "delta":
        return True
    return source.resolved_format == "parquet" and not source.partitions and _has_connector(session, path)


def refuse_streaming(frame: Any) -> None:
    """Refuse a streaming frame: what is learnt and judged is a whole table.

    Raises
    ------
    UnsupportedError
        It shows what to do.
    """
    if getattr(frame, "isStreaming", False):
        raise UnsupportedError(
            "a streaming frame has no end, and a table is judged as a whole; release it batch by batch: "
            "stream.writeStream.foreachBatch(privpipe.spark.release_batches(policy))"
        )


def is_spark_frame(data: Any) -> bool:
    """Whether this is a Spark DataFrame, classic, Connect or pandas-on-Spark; imports nothing.

    Examples
    --------
    >>> is_spark_frame("data.csv")
    False
    """
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "columns")


def _local(session: SparkSession, source: Source) -> SparkTable:
    """A frame of this process, in logical types before Spark sees it."""
    rows = arrow_of(source.data)
    if isinstance(rows, pa.RecordBatchReader):
        rows = rows.read_all()
    elif isinstance(rows, pyarrow.dataset.Dataset):
        rows = rows.to_table()
    check_names(rows.schema.names)
    scales = {
        name: decimal_scale(whole_array(rows.column(name)).cast(pa.string()))
        for name, kind in source.types.items()
        if kind == "decimal" and name in rows.schema.names and _is_text(rows.schema.field(name).type)
    }
    typing = typing_of(rows.schema, source.types, scales)
    layout = Layout(typing.schema)
    batch = typing.convert(rows)
    named = pa.Table.from_batches([batch]).rename_columns(layout.arrow.names)
    with reported("send a frame to Spark"):
        return SparkTable(frame_of(session, named, layout.struct), layout, {"records": len(named)})


def _is_text(kind: pa.DataType) -> bool:
    while pt.is_dictionary(kind):
        kind = kind.value_type
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_native(kind: pa.DataType) -> bool:
    """Whether Spark reads this Parquet type as Arrow does."""
    if pt.is_timestamp(kind):
        return kind.unit != "ns"
    if pt.is_uint64(kind) or pt.is_null(kind) or pt.is_float16(kind):
        return False
    if is_carried(kind):
        return is_text_list(kind)
    return not pt.is_decimal256(kind)


def _is_found_by_spark(path: str) -> bool:
    """Whether Spark reads a file of this name when asked to: it drops hidden ones and stumbles over colons."""
    return not os.path.basename(path).startswith((".", "_")) and ":" not in os.path.abspath(path)


def _uri(path: str) -> str:
    """A local path as Hadoop takes it."""
    return f"file://{_plain(os.path.abspath(path))}"


def _plain(path: str) -> str:
    """A path without the signs of a pattern."""
    return "".join("\\" + sign if sign in "{}[]*?\\" else sign for sign in path)


def _remote(session: SparkSession, source: Source) -> RawFrame:
    """Files on a file system that Spark knows and Python need not."""
    path, kind = os.fspath(source.data), source.resolved_format
    if kind == "parquet":
        try:
            _refuse_table_format(session, path.rstrip("/"))
            with reported(f"open the Parquet files at {path!r}"):
                # Else the types of one file would be those of all.
                return raw_frame(session.read.option("mergeSchema", True).parquet(_plain(path)))
        except EngineError as error:
            problem = _unread(error, path)
        raise problem
    raise UnsupportedError(
        f"the spark engine reads {kind} from local or mounted folders; convert {path} to Parquet, or give the "
        "DataFrame that Spark reads it as"
    )


def _refuse_table_format(session: SparkSession, path: str) -> None:
    """As `refuse_table_format` for a folder that only Spark sees.

    Raises
    ------
    DataError
        The folder, or one above it, is a table of a format.
    """
    for folder in _remote_folders(path):
        for found, mark in MARKS.items():
            if _exists(session, f"{_plain(folder)}/{mark}"):
                raise table_format_error(found, folder)


def _remote_folders(path: str) -> Iterator[str]:
    """A path of a file system and the folders above it, up to its root (of ``s3://bucket/a``, the bucket)."""
    scheme, sign, below = path.rpartition("://")
    names = below.split("/")
    for end in range(len(names), 0, -1):
        yield f"{scheme}{sign}{'/'.join(names[:end])}"


def _exists(session: SparkSession, pattern: str) -> bool:
    from pyspark.errors import AnalysisException

    with reported(f"look for {pattern!r}"):
        try:
            return bool(session.read.format("text").load(pattern).schema)  # asked, so that Connect looks too
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            raise


def _has_connector(session: SparkSession, path: str) -> bool:
    try:
        _exists(session, _plain(path))
    except EngineError as error:
        return not any(sign in str(error) for sign in NO_CONNECTOR)
    return True


def _unread(error: EngineError, path: str) -> EngineError:
    """Why a path on another file system was not read."""
    scheme = elsewhere(path)
    if any(sign in str(error) for sign in NO_CONNECTOR):
        return EngineError(
            f"{path!r} cannot be read: this Spark session has no connector for `{scheme}`; start it with the package "
            "that brings it (`engines.spark.conf: {spark.jars.packages: ...}`), or copy the files to a mounted folder"
        )
    if "PATH_NOT_FOUND" in str(error):
        return EngineError(f"{path!r} cannot be read: nothing is there; a path names one file or one folder")
    return error
