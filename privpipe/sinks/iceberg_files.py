"""Files of a release in an Iceberg table.

Columns and field ids are fitted to the table; files are copied, listed and removed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.errors import DataError, SinkError, UnsupportedError
from privpipe.private_files import create_private, sync_folder

__all__ = [
    "Leftovers",
    "add_columns",
    "arrow_type",
    "copied",
    "ids_of",
    "local_place",
    "pa_schema",
    "require_fitting",
    "written_under",
]


FIELD_ID = b"PARQUET:field_id"
LARGE = {"large_string": "string", "large_binary": "binary"}


def arrow_type(field: pa.Field, sink: str) -> pa.DataType:
    """The type under which a column is published, one for all engines: whole numbers are long, others double.

    Raises
    ------
    UnsupportedError
        Iceberg has none for it.

    Examples
    --------
    >>> arrow_type(pa.field("age", pa.int16()), "lake.db.visits")
    DataType(int64)
    """
    kind = field.type.value_type if pt.is_dictionary(field.type) else field.type
    if pt.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pt.is_floating(kind):
        return pa.float64()
    if pt.is_boolean(kind) or pt.is_decimal128(kind):
        return kind
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_date(kind):
        return pa.date32()
    if pt.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pt.is_time(kind):
        return pa.time64("us")
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return pa.binary()
    raise UnsupportedError(
        f"the Iceberg table {sink!r} has no type for column {field.name!r} ({field.type}); declare its `type:`"
    )


def written_under(folder: Path, ids: Mapping[str, int], sink: str) -> None:
    """Write the Parquet files of a folder again, rows in their order, with the table's types and field ids.

    Raises
    ------
    DataError
        A value that its column's type cannot hold exactly.
    """
    for path in sorted(folder.glob("*.parquet")):
        new = path.with_suffix(".new")
        with pq.ParquetFile(path) as file:
            schema = pa.schema(
                pa.field(each.name, arrow_type(each, sink), metadata={FIELD_ID: str(ids[each.name]).encode()})
                for each in file.schema_arrow
            )
            create_private(new)
            with pq.ParquetWriter(new, schema, compression="zstd", store_schema=False) as to:
                for group in range(file.num_row_groups):
                    to.write_table(_cast(file.read_row_group(group), schema, sink))
        os.replace(new, path)


def _cast(rows: pa.Table, schema: pa.Schema, sink: str) -> pa.Table:
    columns = []
    for name, column, kind in zip(schema.names, rows.columns, schema.types, strict=True):
        try:
            columns.append(column.cast(kind))
        except pa.ArrowInvalid:  # its text quotes the value
            raise DataError(
                f"column {name!r} holds values that the Iceberg table {sink!r} cannot hold exactly as {kind}; "
                "declare another `type:`, or coarsen it"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def require_fitting(new: Mapping[str, pa.DataType], old: Mapping[str, pa.DataType], sink: str, *, evolve: bool) -> None:
    """Refuse columns that are not those of the table.

    Raises
    ------
    DataError
        A column is missing or of another type; there is one more and the table is not to `evolve`.
    """
    said = f"the release does not fit the Iceberg table {sink!r}"
    if missing := [name for name in old if name not in new]:
        raise DataError(f"{said}: it lacks {_column_list(missing)}; release them, or publish into a table of its own")
    for name, kind in old.items():
        if str(new[name]) != LARGE.get(str(kind), str(kind)):
            raise DataError(
                f"{said}: column {name!r} is {new[name]} and the table has {kind}; no type is ever changed: "
                "declare its `type:`, or publish into a table of its own"
            )
    added = [name for name in new if name not in old]
    if added and not evolve:
        raise DataError(
            f"{said}: the table lacks {_column_list(added)}; write `schema: evolve` in the sink to add them"
        )


def ids_of(table: Any, columns: Iterable[str]) -> dict[str, int]:
    """The field id of each column, with those that new ones are to have."""
    known = {} if table is None else {field.name: int(field.field_id) for field in table.schema().fields}
    last = 0 if table is None else int(table.metadata.last_column_id)
    added = [name for name in columns if name not in known]
    return {**known, **{name: last + at for at, name in enumerate(added, 1)}}


def pa_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of a new table."""
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


def add_columns(transaction: Any, table: Any, columns: Mapping[str, pa.DataType]) -> None:
    """Add the columns that the table lacks, in the order of the release."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    ids = ids_of(table, columns)
    known = {field.name for field in table.schema().fields}
    added = [
        pa.field(name, kind, metadata={FIELD_ID: str(ids[name]).encode()})
        for name, kind in columns.items()
        if name not in known
    ]
    if not added:
        return
    with transaction.update_schema() as update:
        for field in pyarrow_to_schema(pa.schema(added)).fields:
            update.add_column((field.name,), field.field_type)


def _column_list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


CHUNK = 1 << 20
PATIENCE = 10.0
"""Seconds."""


def copied(io: Any, path: Path, place: str) -> None:
    """Copy a file into the table's storage and read it back.

    Raises
    ------
    SinkError
        It reads back differently.
    """
    sent, back = hashlib.sha256(), hashlib.sha256()
    with path.open("rb") as source, io.new_output(place).create(overwrite=True) as target:
        while chunk := source.read(CHUNK):
            sent.update(chunk)
            target.write(chunk)
    with io.new_input(place).open() as target:
        while chunk := target.read(CHUNK):
            back.update(chunk)
    if sent.digest() != back.digest():
        raise SinkError("a file of the release reads back differently from the storage of the Iceberg table")
    local = local_place(place)
    if local is not None:
        handle = os.open(local, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(local.parent)


def local_place(place: str) -> Path | None:
    """A place of the table's storage on this machine; None where it is elsewhere.

    Examples
    --------
    >>> local_place("file:///lake/db/visits"), local_place("s3://lake/db/visits")
    (PosixPath('/lake/db/visits'), None)
    """
    uri = urlparse(place)
    if uri.scheme not in ("", "file"):
        return None
    return Path(uri.path if uri.scheme else place)


def _listed(io: Any, folder: str) -> list[str]:
    """Places of all files at and below a folder of the table's storage; none where pyiceberg cannot list it."""
    uri = urlparse(folder)
    local = uri.scheme in ("", "file")
    path = (uri.path if uri.scheme else folder) if local else f"{uri.netloc}{uri.path}"
    if hasattr(io, "fs_by_scheme"):
        system = io.fs_by_scheme(uri.scheme or "file", uri.netloc)
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        found = [each.path for each in system.get_file_info(selector) if each.type == fs.FileType.File]
    elif hasattr(io, "get_fs"):
        found = [str(each) for each in io.get_fs(uri.scheme or "file").find(path)]
    else:
        return []
    start = path.strip("/")
    return [folder.rstrip("/") + each[each.index(start) + len(start) :] for each in sorted(found)]


def _removed(io: Any, places: Iterable[str]) -> None:
    """Remove files, as far as they are there."""
    for place in places:
        with suppress(FileNotFoundError):
            io.delete(place)


def _settle() -> None:
    """Wait until pyiceberg's threads have written what they began: where one fails, the others go on."""
    from pyiceberg.utils.concurrent import ExecutorFactory

    pool = ExecutorFactory.get_or_create()
    threads = int(getattr(pool, "_max_workers", 1))
    meeting = Barrier(threads)

    def meet() -> None:
        with suppress(BrokenBarrierError):  # the work of another thread takes long
            meeting.wait(PATIENCE)

    wait([pool.submit(meet) for _ in range(threads)])


class Leftovers:
    """Everything that one run may leave in a table's storage without its being part of the table.

    Parameters
    ----------
    io : FileIO
        Of the table.
    location : str
        Its folder.
    run_id : str
    commit : str
        What the names of the manifests of this run's snapshot hold.
    """

    def __init__(self, io: Any, location: str, run_id: str, commit: str) -> None:
        self.io, self.location, self.run_id, self.commit = io, location.rstrip("/"), run_id, commit

    def remove(self, referenced: Sequence[str], made: Sequence[str]) -> None:
        """Remove it all, but for what the table's metadata names.

        Parameters
        ----------
        referenced : sequence of str
            Metadata files that the table knows.
        made : sequence of str
            Folders on this machine that the run made; those that are empty then go.
        """
        _settle()
        places = [place for name in ("data", "_privpipe") for place in _listed(self.io, self._below(name))]
        places += [place for place in _listed(self.io, f"{self.location}/metadata") if self._is_ours(place, referenced)]
        _removed(self.io, places)
        for name in ("data", "_privpipe"):
            local = local_place(self._below(name))
            if local is not None:
                with suppress(OSError):
                    local.rmdir()
        for folder in sorted(made, key=len, reverse=True):
            with suppress(OSError):  # others are in it
                os.rmdir(folder)

    def _below(self, name: str) -> str:
        return f"{self.location}/{name}/{self.run_id}"

    def _is_ours(self, place: str, referenced: Sequence[str]) -> bool:
        name = place.rsplit("/", 1)[-1]
        if self.commit in name:
            return True
        if not name.endswith(".metadata.json") or place in referenced:
            return False
        return any(run == self.run_id for run in self._runs(place))

    def _runs(self, place: str) -> Iterator[str]:
        """The runs whose snapshots a metadata file holds."""
        with suppress(FileNotFoundError, ValueError), self.io.new_input(place).open() as file:
            for snapshot in json.loads(file.read()).get("snapshots", ()):
                yield str(snapshot.get("summary", {}).get("privpipe.run_id"))
