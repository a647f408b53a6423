"""Commits of an Iceberg table: one makes a release the current snapshot, and one brings back the snapshot before."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpipe.errors import SinkError
from privpipe.sinks.iceberg_files import add_columns, pa_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MARK", "RUN", "Commit", "Withdrawal", "data_files", "released_run", "said_of"]

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

    It holds for the table as it was seen. pyiceberg's own commit of a transaction would try again on top of what
    another writer committed, which was not judged, so the catalogue is asked directly, and once.

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
        Whether the release took the place of a file.
    """

    def __init__(self, catalogue: Any, name: str, before: Any, run_id: str, *, replaces: Callable[[str], bool]) -> None:
        self.catalogue, self.name, self.before, self.run_id = catalogue, name, before, run_id
        self.replaces = replaces

    def done(self) -> None:
        """Take it back, where it was committed, also while others write.

        Raises
        ------
        SinkError
            Others write faster than that, or changed what it replaced.
        """
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(ATTEMPTS):
            try:
                return self._once()
            except CommitFailedException:  # another writer was first; what is there now is looked at again
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
        """Others have written on top: the rows of the run alone go, and those that it replaced come back."""
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
