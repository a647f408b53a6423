"""Tables of table formats as sources: opened or pinned to a version, with appended rows, or in part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.engines.lakes.delta import DeltaPiece, delta_table, delta_version, has_deltalake
from privpipe.engines.lakes.iceberg import IcebergName, IcebergPiece, iceberg_table, pinned_name
from privpipe.engines.lakes.lake_table import LakePiece, LakeTable, LakeView
from privpipe.engines.readers.files import elsewhere, partition_in
from privpipe.engines.readers.source import Source, is_delta_table, table_format_error
from privpipe.engines.readers.unpacking import reading
from privpipe.engines.stores import is_reached, opened_store, release_of
from privpipe.errors import DataError, EngineError, UsageError, did_you_mean

__all__ = [
    "Appended",
    "DeltaFolder",
    "IcebergFolder",
    "ParquetPiece",
    "PartFiles",
    "delta_place",
    "is_lake",
    "lake_of",
    "lake_said",
    "pinned",
]


def is_lake(source: Source) -> bool:
    """Whether a source is a Delta table by its path, or an Iceberg table by its name.

    Examples
    --------
    >>> is_lake(Source(data="lake/visits", format="delta")), is_lake(Source(data="visits.csv"))
    (True, False)
    """
    return isinstance(source.data, IcebergName | LakeView) or (source.is_path and source.resolved_format == "delta")


def lake_of(source: Source) -> LakeTable | None:
    """The table of such a source, None of any other; raises as `delta_table` and `iceberg_table`."""
    if not is_lake(source):
        return None
    if isinstance(source.data, LakeView):
        return source.data.open()
    if isinstance(source.data, IcebergName):
        return iceberg_table(source.data)
    return delta_table(delta_place(source), source.version, source.timestamp)


def pinned(source: Source) -> Source:
    """The same source at the version that it means now: every later scan reads these rows, whatever is written since.

    All other sources, and those that only the session of an engine can read, stay unchanged.
    """
    if isinstance(source.data, LakeView):
        return source
    if not is_lake(source):
        return _at_its_release(source)
    if isinstance(source.data, IcebergName):
        return replace(source, data=pinned_name(source.data))
    if source.version is not None or not has_deltalake():
        return source
    place = delta_place(source)
    try:
        return replace(source, version=delta_version(place, source.timestamp), timestamp=None)
    except DataError:
        if "://" not in place:
            raise
    return source  # which the session of an engine may reach; if not, its scan says so


def _at_its_release(source: Source) -> Source:
    """A sink in a store at the release that its pointer names now."""
    url = os.fspath(source.data) if source.is_path else ""
    if not elsewhere(url) or not is_reached(url):
        return source
    try:
        release = release_of(opened_store(url))
    except EngineError:
        return source
    return source if release is None else replace(source, data=release, format=source.resolved_format)


def delta_place(source: Source) -> str:
    """Where a Delta table lies, as deltalake takes it.

    Raises
    ------
    DataError
        The formatwas not asked for and cannot be read; the path is not a table, or is within one.
    """
    path = os.fspath(source.data).removeprefix("file://")
    if "://" in path:
        return path
    if not has_deltalake():
        if source.format is None:
            raise table_format_error("Delta", path)
    elif not is_delta_table(path):
        raise DataError(
            f"not a readable Delta table: {path!r} has no `_delta_log`; give the table's own folder"
            + ("" if os.path.exists(path) else ", and check the path (relative ones start at the policy file)")
        )
    return path


OF_DELTA: Mapping[str, type] = {"path": str, "format": str, "version": int, "timestamp": str}
OF_ICEBERG: Mapping[str, type] = {"iceberg": str, "catalog": str, "snapshot": int, "branch": str, "tag": str}
KINDS = {str: "text", int: "a whole number"}


def lake_said(given: Mapping[str, Any], place: str) -> Source:
    """The table that a mapping names, at the version that it means now.

    Parameters
    ----------
    given : mapping
        `path` with `version` or `timestamp`, or `iceberg` with `catalog` and `snapshot`, `branch` or `tag`.
    place : str
        Where it was handed over.

    Raises
    ------
    UsageError
        Another key, a value of another kind, or a reader that is not installed.
    DataError
        There is no such table or version.

    Examples
    --------
    >>> lake_said({"path": "visits", "format": "delta", "version": 3}, "assess").version
    3
    """
    known = {**OF_DELTA, **OF_ICEBERG}
    told = {name: value for name, value in given.items() if value is not None}
    for name, value in told.items():
        if name not in known:
            if not isinstance(value, str | int):
                raise UsageError(f"{place}: a mapping of columns is not a frame; make one of it: pandas.DataFrame(...)")
            raise UsageError(
                f"{place}: unknown key {name!r} of a table{did_you_mean(str(name), known)}; a mapping names a Delta or "
                "an Iceberg table; how other files are written is declared under `source:` of a policy"
            )
        if not isinstance(value, known[name]) or isinstance(value, bool) or value == "":
            raise UsageError(f"{place}: {name} must be {KINDS[known[name]]}, not {type(value).__name__}")
    if "iceberg" in told:
        if others := [name for name in told if name in OF_DELTA]:
            raise UsageError(f"{place}: {others[0]} is not for an Iceberg table; leave it out")
        return pinned(Source(data=IcebergName(name=told.pop("iceberg"), **told)))
    if "path" not in told:
        raise UsageError(f"{place}: a mapping names a table: give `path` or `iceberg`")
    if others := [name for name in told if name in OF_ICEBERG]:
        raise UsageError(f"{place}: {others[0]} is for an Iceberg table, which `iceberg` names instead of `path`")
    if "version" in told and "timestamp" in told:
        raise UsageError(f"{place}: `version` and `timestamp` exclude one another; leave one out")
    if told.get("version", 0) < 0:
        raise UsageError(f"{place}: version must be 0 or more")
    if told.setdefault("format", "delta") != "delta":
        raise UsageError(f"{place}: a mapping names a Delta table; for a file of another format give only its path")
    return pinned(Source(data=told.pop("path"), **told))


@dataclass(frozen=True)
class ParquetPiece:
    """A Parquet file that no table names yet."""

    path: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema of the table."""
        with reading(self.path, "Parquet"), pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches():
                yield batch.select(self.schema.names).cast(self.schema)


@dataclass(frozen=True)
class WidenedPiece:
    """A piece of a table that is to have more columns; these are missing in all its rows."""

    piece: LakePiece
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema to be."""
        for batch in self.piece.batches():
            arrays = [
                batch.column(each.name) if each.name in batch.schema.names else pa.nulls(len(batch), each.type)
                for each in self.schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class Appended(LakeView):
    """A table as its readers will see it once the files of a folder are part of it.

    Parameters
    ----------
    before : Source
        The table at the version that it has.
    folder : str
        Parquet files with every column of the table; those that it lacks come last.
    """

    before: Source
    folder: str

    def open(self) -> LakeTable:
        """See `LakeView.open`.

        Raises
        ------
        DataError
            The files lack a column of the table.
        """
        lake = lake_of(self.before)
        assert lake is not None
        files = sorted(str(path) for path in Path(self.folder).glob("*.parquet"))
        with reading(files[0], "Parquet"):
            found = pq.read_schema(files[0]).remove_metadata()
        missing = [name for name in lake.schema.names if name not in found.names]
        if missing:
            raise DataError(f"the rows to be added lack columns of the table: {', '.join(map(repr, missing))}")
        fields = [*lake.schema, *(field for field in found if field.name not in lake.schema.names)]
        schema = pa.schema([field.with_nullable(True) for field in fields])
        added = [ParquetPiece(path, schema) for path in files]
        if len(fields) > len(lake.schema):
            return LakeTable(schema, (*(WidenedPiece(piece, schema) for piece in lake.pieces), *added))
        both = None
        if lake.dataset is not None and all(schema.field(each.name).type == each.type for each in found):
            import pyarrow.dataset as ds

            both = ds.dataset([lake.dataset.replace_schema(schema), ds.dataset(files, schema=schema, format="parquet")])
        return LakeTable(schema, (*lake.pieces, *added), both)


@dataclass(frozen=True)
class DeltaFolder(LakeView):
    """The rows of a Delta table at a version that are in one of its folders.

    Parameters
    ----------
    path : str
        The table's own folder, or its address on an object store.
    version : int
    folder : str
        Name of the folder in it; empty: all of them.
    without : frozenset of str
        Partitions whose files are left out.
    """

    path: str
    version: int
    folder: str = ""
    without: frozenset[str] = frozenset()

    def open(self) -> LakeTable:
        """See `LakeView.open`."""
        whole = delta_table(self.path, self.version)
        # The files of a table on an object store are named from the table on.
        home = f"{self.folder}/" if "://" in self.path else f"{Path(self.path).resolve()}/{self.folder}/"
        own = (
            piece
            for piece in whole.pieces
            if isinstance(piece, DeltaPiece)
            and (not self.folder or piece.path.startswith(home))
            and partition_in(piece.path) not in self.without
        )
        return replace(whole, pieces=tuple(own), dataset=None)


@dataclass(frozen=True)
class IcebergFolder(LakeView):
    """The rows of an Iceberg table at a snapshot that are in one of its folders.

    Parameters
    ----------
    name : IcebergName
        With the snapshot.
    folder : str
        Place of the folder; empty: all of them.
    without : frozenset of str
        Partitions whose files are left out.
    """

    name: IcebergName
    folder: str = ""
    without: frozenset[str] = frozenset()

    def open(self) -> LakeTable:
        """See `LakeView.open`."""
        whole = iceberg_table(self.name)
        own = (
            piece
            for piece in whole.pieces
            if isinstance(piece, IcebergPiece)
            and (not self.folder or piece.task.file.file_path.startswith(f"{self.folder}/"))
            and partition_in(piece.task.file.file_path) not in self.without
        )
        return replace(whole, pieces=tuple(own), dataset=None)


@dataclass(frozen=True)
class PartFiles(LakeView):
    """Some Parquet files of a release, all of one schema.

    Parameters
    ----------
    paths : tuple of str
        At least one.
    """

    paths: tuple[str, ...]

    def open(self) -> LakeTable:
        """See `LakeView.open`."""
        with reading(self.paths[0], "Parquet"):
            schema = pq.read_schema(self.paths[0]).remove_metadata()
        pieces = tuple(ParquetPiece(path, schema) for path in self.paths)
        import pyarrow.dataset as ds

        return LakeTable(schema, pieces, ds.dataset(list(self.paths), schema=schema, format="parquet"))
