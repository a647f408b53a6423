"""Delta tables by their log, which deltalake reads; the files it names are read here, without the rows it deleted."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks.arrays import Ints
from privpipe.engines.lakes.lake_table import LakeTable
from privpipe.engines.readers.unpacking import reading
from privpipe.errors import DataError, EngineError, PrivpipeError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = ["DeltaPiece", "delta_said", "delta_table", "delta_version", "has_deltalake", "opened_delta", "reported"]


READER = 3
"""The highest protocol of readers that is known here."""
FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of such a protocol that are read right."""
MODE = "delta.columnMapping.mode"
PHYSICAL = "delta.columnMapping.physicalName"
PARTITION = "partition."


@dataclass(frozen=True)
class DeltaPiece:
    """A data file of a Delta table.

    Parameters
    ----------
    path : str
        As `filesystem` takes it.
    filesystem : pyarrow filesystem
    schema : pyarrow.Schema
        Of the table.
    physical : tuple of str
        The name of each column in the files.
    constants : mapping of column to scalar
        Values of the partition columns.
    deleted : ndarray of int64, optional
        Numbers of the rows of the file that a deletion vector names.
    records : int, optional
        Rows of the file with those, where the log has it.
    """

    path: str
    filesystem: Any
    schema: pa.Schema
    physical: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    deleted: Ints | None = None
    records: int | None = None

    def is_whole(self) -> bool:
        """Whether all rows are live and the columns those of the table in name and type; raises as `batches`."""
        if self.deleted is not None or self.physical != tuple(self.schema.names):
            return False
        self._reach()
        with reading(self.path, "Parquet"):
            fragment = _format().make_fragment(self.path, self.filesystem)
            found, rows = fragment.physical_schema, fragment.count_rows()
        self._require_columns(found.names)
        self._require_rows(rows)
        return all(each.name in found.names and found.field(each.name).type == each.type for each in self._stored())

    def columns_beyond(self) -> list[str]:
        """Columns of the file that the table does not have (dropped by a change of the schema alone)."""
        self._reach()
        with reading(self.path, "Parquet"):
            found = _format().make_fragment(self.path, self.filesystem).physical_schema
        return [name for name in found.names if name not in self.physical]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The live rows of the file.

        Raises
        ------
        DataError
            The file is unreadable, its columns differ from the table's by case, or it has other rows than the log says.
        EngineError
            Its object store gives nothing.
        """
        self._reach()
        with reading(self.path, "Parquet"):
            fragment = _format().make_fragment(self.path, self.filesystem)
            self._require_columns(fragment.physical_schema.names)
            at = 0
            # Not in parallel: deletion vectors count the rows in their order.
            for batch in fragment.to_batches(schema=self._stored(), use_threads=False):
                live = batch
                if self.deleted is not None:
                    live = batch.filter(pa.array(~np.isin(np.arange(at, at + len(batch)), self.deleted)))
                at += len(batch)
                yield self._whole(live)
        self._require_rows(at)

    def _reach(self) -> None:
        """Distinguish a store that gives nothing from a damaged file; on a cluster each worker asks by itself."""
        import pyarrow.fs as fs

        if isinstance(self.filesystem, fs.LocalFileSystem):
            return
        try:
            self.filesystem.open_input_file(self.path).close()
        except (OSError, pa.ArrowException):
            raise EngineError(
                f"{Path(self.path).name}: the object store cannot be reached or refuses; each process that reads needs "
                "its address and credentials in its environment, the workers of Spark and Dask too"
            ) from None

    def _require_rows(self, rows: int) -> None:
        last = -1 if self.deleted is None or not len(self.deleted) else int(self.deleted.max())
        if (self.records is not None and rows != self.records) or last >= rows:
            raise DataError(f"{Path(self.path).name}: holds {rows:,} rows and the table's log states another number")

    def _stored(self) -> pa.Schema:
        """The columns of the file, under the names that they have there."""
        return pa.schema(
            pa.field(name, each.type)
            for name, each in zip(self.physical, self.schema, strict=True)
            if each.name not in self.constants
        )

    def _require_columns(self, found: list[str]) -> None:
        # What a file lacks was added later and is missing; one that is spelt otherwise would be missing silently.
        known = {name.casefold(): name for name in found}
        for name in self._stored().names:
            if name not in found and name.casefold() in known:
                raise DataError(f"{Path(self.path).name}: column {name!r} of the table differs from the file's by case")

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = iter(batch.columns)
        arrays = [
            pa.repeat(self.constants[each.name], len(batch)) if each.name in self.constants else next(columns)
            for each in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def has_deltalake() -> bool:
    """Whether deltalake is installed."""
    return importlib.util.find_spec("deltalake") is not None


def delta_version(path: str, timestamp: str | None = None) -> int:
    """The newest version of a table, or the one that was the newest at a time; raises as `delta_table`."""
    return int(opened_delta(path, None, timestamp).version())


def delta_table(path: str, version: int | None = None, timestamp: str | None = None) -> LakeTable:
    """A Delta table at a version, as its log has it.

    Parameters
    ----------
    path : str
        The table's own folder, or its address on an object store that deltalake knows.
    version : int, optional
        Default: the newest.
    timestamp : str, optional
        Instead of `version`: ISO 8601; without an offset it is UTC.

    Raises
    ------
    UsageError
        deltalake is not installed; the timestamp is none.
    DataError
        Not a readable Delta table, or no such version.
    UnsupportedError
        The table needs a reader of features that are not read right here.
    """
    table = opened_delta(path, version, timestamp)
    with reported(path):
        return _table(table, path)


def _table(table: Any, path: str) -> LakeTable:
    _require_protocol(table, path)
    schema = pa.schema(table.schema().to_arrow())
    fields = table.schema().fields
    mapped = _is_mapped(table, path)
    physical = tuple(str(each.metadata[PHYSICAL]) if mapped else each.name for each in fields)
    partitions = list(table.metadata().partition_columns)
    for name in partitions:
        if pt.is_binary(schema.field(name).type):
            raise UnsupportedError(f"{path!r}: the partition column {name!r} is binary; its values are not shown")
    files = pa.table(table.get_add_actions(flatten=True))
    filesystem, root = _filesystem(table, path)
    deleted = _deleted(table)
    pieces = []
    for at in range(files.num_rows):
        name = unquote(files.column("path")[at].as_py())
        pieces.append(
            DeltaPiece(
                path=_place(root, name),
                filesystem=filesystem,
                schema=schema,
                physical=physical,
                constants={each: _constant(files, each, at, schema) for each in partitions},
                deleted=deleted.pop(_key(root, name), None),
                records=files.column("num_records")[at].as_py() if "num_records" in files.column_names else None,
            )
        )
    if deleted:
        raise DataError(f"{path!r}: {len(deleted):,} deletion vectors belong to no file of the table")
    return LakeTable(schema, tuple(pieces), _dataset(pieces, schema, filesystem))


def opened_delta(path: str, version: int | None, timestamp: str | None) -> Any:
    """The table as deltalake has it; raises as `delta_table`."""
    try:
        deltalake = importlib.import_module("deltalake")
    except ImportError:
        raise UsageError("format delta needs deltalake: pip install 'privpipe[delta]'") from None
    with reported(path, f" at version {version:,}" if version is not None else ""):
        table = deltalake.DeltaTable(path, version=version)
        if timestamp is not None:
            wanted = _moment(timestamp)
            made = {each["version"]: each["timestamp"] for each in table.history() if "timestamp" in each}
            table.load_as_version(wanted)
            _require_reached(int(table.version()), made, wanted.timestamp() * 1000, path)
        return table


@contextlib.contextmanager
def reported(path: str, asked: str = "") -> Iterator[None]:
    """What deltalake says comes out as ours: by kind alone, since its text may quote what it read."""
    try:
        yield
    except PrivpipeError:
        raise
    except MemoryError:
        raise EngineError(f"memory ran out while the log of {path!r} was read; give the process more") from None
    except Exception as error:  # noqa: BLE001 the reader fails in its own ways
        raise DataError(f"not a readable Delta table{asked} ({type(error).__name__}): {path}") from None


def _moment(timestamp: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        raise UsageError(f"timestamp must be ISO 8601, as in 2026-01-31T12:00:00Z, got {timestamp!r}") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _require_reached(version: int, made: Mapping[int, int], wanted: float, path: str) -> None:
    """The reader goes by the times of the log's files, which a copy loses; before all of them it gives the oldest."""
    reached = [each for each, time in made.items() if time <= wanted]
    if made and not reached:
        raise DataError(f"{path!r}: the table has no version as old as the timestamp")
    if made and max(reached) != version:
        raise DataError(
            f"{path!r}: at that time the newest version is {max(reached):,} by the log's entries and {version:,} by "
            "the times of its files (was the table copied?); set `version:`"
        )


def _require_protocol(table: Any, path: str) -> None:
    protocol = table.protocol()
    unknown = sorted({*(protocol.reader_features or ())} - FEATURES)
    if protocol.min_reader_version > READER:
        unknown = [f"reader version {protocol.min_reader_version}"]
    if unknown:
        raise UnsupportedError(
            f"{path!r}: the Delta table needs {', '.join(unknown)}, which is not read here; hand it over as a "
            "frame that its own engine read (Spark's `read.format('delta')`), or export it"
        )


def _is_mapped(table: Any, path: str) -> bool:
    """Whether columns have other names in the files. Readers that look at the features alone miss it in version 2."""
    mode = table.metadata().configuration.get(MODE, "none")
    if mode not in ("none", "name"):
        raise UnsupportedError(
            f"{path!r}: the Delta table maps its columns by {mode}, which is not read here; hand it over as a "
            "frame that its own engine read (Spark's `read.format('delta')`), or export it"
        )
    return bool(mode == "name")


def _filesystem(table: Any, path: str) -> tuple[Any, str | None]:
    """Where the files are read from, and the table's folder on this machine."""
    import pyarrow.fs as fs

    uri = str(table.table_uri)
    if "://" not in uri or uri.startswith("file://"):
        return fs.LocalFileSystem(), os.path.realpath(unquote(urlparse(uri).path) if "://" in uri else uri)
    return table.to_pyarrow_dataset().filesystem if not _needs_more(table) else _refuse_remote(path), None


def _needs_more(table: Any) -> bool:
    return bool({"columnMapping", "deletionVectors"} & {*(table.protocol().reader_features or ())})


def _refuse_remote(path: str) -> Any:
    raise UnsupportedError(
        f"{path!r}: a Delta table with column mapping or deletion vectors is read only from mounted folders; mount "
        "it, or hand it over as a frame"
    )


def _place(root: str | None, name: str) -> str:
    """A file of the log: below the table, or (of a shallow clone) under its own address."""
    if root is None:
        return name
    if name.startswith("file://"):
        return unquote(urlparse(name).path)
    if "://" in name:
        raise UnsupportedError(
            "the Delta table has files on another file system; hand it over as a frame, or export it"
        )
    return os.path.join(root, name)


def _key(root: str | None, name: str) -> str:
    return os.path.realpath(_place(root, name))


def _deleted(table: Any) -> dict[str, Ints]:
    """Numbers of deleted rows by file."""
    if not hasattr(table, "deletion_vectors"):
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        raise UnsupportedError("this deltalake does not report deletion vectors; install a newer one, of 1.5 or later")
    found: dict[str, Ints] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for file, kept in zip(batch.column("filepath"), batch.column("selection_vector"), strict=True):
            uri = urlparse(file.as_py())
            mask = kept.values.to_numpy(zero_copy_only=False)
            found[os.path.realpath(unquote(uri.path))] = np.flatnonzero(~mask)
    return found


def _constant(files: pa.Table, name: str, at: int, schema: pa.Schema) -> Any:
    found = files.column(PARTITION + name)[at]
    kind = schema.field(name).type
    return found if found.type == kind else found.cast(kind)


def _format() -> ds.ParquetFileFormat:
    import pyarrow.dataset as ds

    # Old Spark writes timestamps as INT96; in nanoseconds those before 1677 and after 2262 would wrap around.
    return ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


def _dataset(pieces: list[DeltaPiece], schema: pa.Schema, filesystem: Any) -> ds.Dataset | None:
    """Whole files with their partitions, where these are the rows: no deletions, every column as the table has it.

    The log's statistics stay out: by them, rows would be skipped unread.
    """
    import pyarrow.dataset as ds

    parquet = _format()
    fragments = []
    for piece in pieces:
        if not piece.is_whole():
            return None
        known = ds.scalar(True)
        for name, value in piece.constants.items():
            known = known & (pc.field(name) == value if value.is_valid else pc.field(name).is_null())
        fragments.append(parquet.make_fragment(piece.path, filesystem, partition_expression=known))
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def delta_said(path: str, version: int | None = None) -> list[str]:
    """Keys of the table's properties, of its columns and of commits that are not the format's own; never values.

    A description is free text, and so are constraints, whose expressions may quote cells. Raises as `delta_table`.
    """
    table = opened_delta(path, version, None)
    with reported(path):
        about = table.metadata()
        found = [name for name in about.configuration if not _is_own(name)]
        found += ["description"] if about.description else []
        found += [
            f"{each.name}: {key}"
            for each in table.schema().fields
            for key in each.metadata
            if not key.startswith("delta.")
        ]
        said = [each["userMetadata"] for each in table.history() if each.get("userMetadata")]
        return found + (["userMetadata of a commit"] if not all(map(_is_ours, said)) else [])


def _is_own(name: str) -> bool:
    return name.startswith(("delta.", "privpipe.")) and not name.startswith("delta.constraints.")


def _is_ours(text: Any) -> bool:
    """Whether what is said with a commit is what a sink of ours says."""
    try:
        said = json.loads(text)
    except (TypeError, ValueError):
        return False
    return isinstance(said, dict) and all(name.startswith("privpipe.") for name in said)
