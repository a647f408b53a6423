"""Files of a release in an Iceberg table, and the commit that makes them its rows.

Columns and field ids are fitted to the table; files are copied, listed and removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    "MARK",
    "RUN",
    "Commit",
    "Leftovers",
    "Withdrawal",
    "add_columns",
    "arrow_type",
    "copied",
    "data_files",
    "ids_of",
    "local_place",
    "pa_schema",
    "released_run",
    "require_fitting",
    "said_of",
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
    """Remove those files that exist."""
    for place in places:
        with suppress(FileNotFoundError):
            io.delete(place)


def _settle() -> None:
    """Wait until pyiceberg's threads have finished writing: where one fails, the others go on."""
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
        """Remove everything that the table's metadata does not name.

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


MARK = "privpipe.sink"
RUN = "privpipe.run_id"
OURS = (RUN, "privpipe.verdict", "privpipe.policy_hash", "privpipe.documents")
MANIFESTS = 20
"""How many manifests of appends there are at most before they are joined."""
BATCH = "privpipe.batch"
MAIN = "main"
ATTEMPTS = 5


def said_of(snapshot: Any) -> Mapping[str, str]:
    """What a snapshot states about the release that made it."""
    summary = snapshot.summary
    return {} if summary is None else summary.additional_properties


def released_run(table: Any) -> str | None:
    """The run whose release is the last one of a table, whatever others wrote since."""
    found = table.properties.get(RUN)
    return None if found is None else str(found)


class Commit:
    """The commit of a release: a new table with its first snapshot, or the next snapshot of a table.

    It holds for the table as it was seen. pyiceberg's own commit of a transaction would try again on top of rows
    that another writer committed and that were not judged, so the catalogue is called directly, and once.

    Parameters
    ----------
    catalogue : Catalog
    name : str
    before : Table, optional
        The table as it was judged; None: there was none.
    commit : UUID
        By which the names of this commit's manifests are known.
    columns : mapping of column to type
        Of the release, in its order.
    """

    def __init__(
        self, catalogue: Any, name: str, before: Any, commit: uuid.UUID, columns: Mapping[str, pa.DataType]
    ) -> None:
        self.catalogue, self.name, self.before, self.uuid = catalogue, name, before, commit
        if before is None:
            self._transaction = catalogue.create_table_transaction(name, pa_schema(columns), properties={MARK: name})
        else:
            self._transaction = before.transaction()
            add_columns(self._transaction, before, columns)
        self._table = self._transaction._table
        self.io = self._table.io

    @property
    def location(self) -> str:
        """The folder of the table."""
        return str(self._transaction.table_metadata.location).rstrip("/")

    def prepare(self, said: Mapping[str, str], files: Sequence[str], *, replaces: Callable[[str], bool] | None) -> int:
        """Write the manifests of a snapshot of these files without those they replace; returns its number."""
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        self._transaction.set_properties({name: word for name, word in said.items() if name != BATCH})
        update = self._transaction.update_snapshot(snapshot_properties=dict(said))
        gone = [] if replaces is None else [file for file in data_files(self.before) if replaces(file.file_path)]
        producer = update.overwrite(commit_uuid=self.uuid) if gone else _merging(update.merge_append())
        producer.commit_uuid = self.uuid
        _drop_emptied(producer)
        for file in gone:
            producer.delete_data_file(file)
        metadata = self._transaction.table_metadata
        for place in files:
            producer.append_data_file(parquet_file_to_data_file(self.io, metadata, place))
        producer.commit()
        return int(producer.snapshot_id)

    def done(self) -> bool:
        """Commit; False where another writer was first."""
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
        from pyiceberg.table.update import AssertCreate, AssertTableUUID

        transaction = self._transaction
        requirements: tuple[Any, ...] = (AssertCreate(),)
        if self.before is not None:
            requirements = (*transaction._requirements, AssertTableUUID(uuid=self.before.metadata.table_uuid))
        try:
            self.catalogue.commit_table(self._table, requirements, transaction._updates)
        except (CommitFailedException, TableAlreadyExistsError, NoSuchTableError):
            return False
        return True


class Withdrawal:
    """The commit that takes a release back.

    Parameters
    ----------
    catalogue : Catalog
    name : str
    before : Table, optional
        The table as it was when the run began.
    run_id : str
    replaces : callable
        Whether the release replaced a file.
    """

    def __init__(self, catalogue: Any, name: str, before: Any, run_id: str, *, replaces: Callable[[str], bool]) -> None:
        self.catalogue, self.name, self.before, self.run_id = catalogue, name, before, run_id
        self.replaces = replaces

    def done(self) -> None:
        """Take it back, where it was committed, also while others write.

        Raises
        ------
        SinkError
            Others write faster than that, or changed the replaced rows.
        """
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(ATTEMPTS):
            try:
                return self._once()
            except CommitFailedException:  # another writer was first; the current state is read again
                continue
        raise SinkError(f"the Iceberg table {self.name!r} changes faster than the release can be withdrawn")

    def _once(self) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self.catalogue.load_table(self.name)
        except NoSuchTableError:
            return
        made = [each for each in table.snapshots() if said_of(each).get(RUN) == self.run_id]
        if not made:
            return
        now = table.current_snapshot()
        if now is None or now.snapshot_id != made[0].snapshot_id:
            self._take_out(table, made[0])
        elif self.before is None:
            self.catalogue.drop_table(self.name)
        else:
            self._go_back(table, made[0])

    def _go_back(self, table: Any, made: Any) -> None:
        """The snapshot, the columns and the properties of before; the snapshot of the run is gone."""
        from pyiceberg.table.refs import SnapshotRefType
        from pyiceberg.table.update import (
            AssertRefSnapshotId,
            AssertTableUUID,
            RemoveSnapshotRefUpdate,
            RemoveSnapshotsUpdate,
            SetCurrentSchemaUpdate,
            SetSnapshotRefUpdate,
        )

        before = self.before.current_snapshot()
        back = RemoveSnapshotRefUpdate(ref_name=MAIN)
        if before is not None:
            kind = SnapshotRefType.BRANCH
            back = SetSnapshotRefUpdate(ref_name=MAIN, type=kind, snapshot_id=before.snapshot_id)
        updates = [back, RemoveSnapshotsUpdate(snapshot_ids=[made.snapshot_id]), *self._properties(table)]
        schema = self.before.metadata.current_schema_id
        if schema != table.metadata.current_schema_id:
            updates.append(SetCurrentSchemaUpdate(schema_id=schema))
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN, snapshot_id=made.snapshot_id),
        )
        self.catalogue.commit_table(table, requirements, tuple(updates))

    def _properties(self, table: Any) -> list[Any]:
        from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate

        old = {} if self.before is None else {name: self.before.properties.get(name) for name in OURS}
        kept = {name: value for name, value in old.items() if value is not None}
        gone = [name for name in OURS if name not in kept and name in table.properties]
        return [
            *([SetPropertiesUpdate(updates=kept)] if kept else []),
            *([RemovePropertiesUpdate(removals=gone)] if gone else []),
        ]

    def _take_out(self, table: Any, made: Any) -> None:
        """Others have written on top: only the rows of the run are removed, and those that it replaced are restored."""
        from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotsUpdate

        before = None if self.before is None else self.before.current_snapshot()
        folder = f"/data/{self.run_id}/"
        brought = [file for file in data_files(self.before) if self.replaces(file.file_path)]
        if brought and before is not None and any(each.content != 0 for each in before.manifests(self.before.io)):
            raise SinkError(
                f"others changed the Iceberg table {self.name!r} before and after the release; set it right by hand"
            )
        transaction = table.transaction()
        there = list(data_files(table))
        mine = [file for file in there if folder in file.file_path]
        if mine or brought:
            producer = transaction.update_snapshot().overwrite()
            for file in mine:
                producer.delete_data_file(file)
            for file in brought:
                producer.append_data_file(file)
            producer.commit()
        updates = (*transaction._updates, RemoveSnapshotsUpdate(snapshot_ids=[made.snapshot_id]))
        updates = (*updates, *self._properties(table))
        requirements = (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
        self.catalogue.commit_table(table, requirements, updates)


def _merging(producer: Any) -> Any:
    """An append that joins the manifests of many appends, whatever the table says: each reading opens all of them."""
    producer._merge_enabled = True
    producer._min_count_to_merge = min(producer._min_count_to_merge, MANIFESTS)
    return producer


def _drop_emptied(producer: Any) -> None:
    """Leave out manifests of earlier snapshots in which every file is deleted: pyiceberg carries them on for ever.

    One more came with each release, and each release read them all, three times.
    """
    every = producer._process_manifests

    def live(manifests: Any) -> list[Any]:
        return [
            each
            for each in every(manifests)
            if each.added_snapshot_id == producer.snapshot_id
            or (each.added_files_count, each.existing_files_count) != (0, 0)
        ]

    producer._process_manifests = live


def data_files(table: Any) -> list[Any]:
    """The data files of a table's current snapshot; none of no table."""
    now = None if table is None else table.current_snapshot()
    if now is None:
        return []
    manifests = [each for each in now.manifests(table.io) if each.content == 0]
    return [
        entry.data_file for each in manifests for entry in each.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
