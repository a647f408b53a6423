"""What releases change in a Delta table, and what the table records of them; where it is concerns the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privpipe.engines import Source
from privpipe.engines.base.partition_files import partitions_among, replaced_among
from privpipe.engines.lakes import DeltaFolder
from privpipe.errors import DataError, SinkError
from privpipe.sinks.delta_log import Added, Commit, Snapshot, fields_of
from privpipe.sinks.target import OTHER_PARTITIONS, Rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaReleases", "DeltaTable", "Evolution", "Mode", "require_takes_releases", "staged_files"]

Mode = Literal["replace", "append", "replace_partition"]
Evolution = Literal["same", "evolve"]
KEEPS_VERSIONS = (
    "releases before this one can still be read from the Delta table by their version, until its files are vacuumed"
)
JOINS = (
    "the rows join those of earlier releases in one table: who is in several of them has several rows there, and "
    "unless a ledger follows persons nothing judges what these reveal together"
)
CHANGED = "another writer changed the Delta table after the last release"


@dataclass
class DeltaReleases:
    """A Delta table as one run finds it and changes it.

    Parameters
    ----------
    name : str
        For people.
    address : str
        As deltalake takes it.
    mode : {"replace", "append", "replace_partition"}
        Whether a release takes the place of the rows that are there, joins them or takes the place of its partitions.
    schema : {"same", "evolve"}
        Whether a release may bring columns that the table lacks.
    found : callable
        The newest version; None where there is no table.
    commits : callable
        What the commits of the log say of themselves, the newest first.
    """

    name: str
    address: str
    mode: Mode
    schema: Evolution
    found: Callable[[], Snapshot | None]
    commits: Callable[[], Iterable[Mapping[str, Any]]]
    fields: tuple[Mapping[str, Any], ...] = ()
    _table: Snapshot | None = None
    _seen: bool = False
    _batch: frozenset[str] = frozenset()

    def begin(self) -> None:
        """A run begins: the table is as it finds it now."""
        self._seen = False

    def now(self) -> Snapshot | None:
        """The table when it was first asked for: what a run judges together with its own rows, and what it changes."""
        if not self._seen:
            self._table = self.found()
            self._seen = True
        return self._table

    @property
    def next_version(self) -> int:
        """That the run makes."""
        table = self.now()
        return 0 if table is None else table.version + 1

    def fits(self, schema: pa.Schema) -> None:
        """Refuse rows whose columns are not those of the table.

        Raises
        ------
        DataError
            A column is missing or of another type; there is one more and `schema: evolve` was not said.
        UnsupportedError
            Delta has no such type.
        """
        fields, table = fields_of(schema), self.now()
        self.fields = fields
        if table is None:
            return
        new, old = ({field["name"]: field["type"] for field in each} for each in (fields, table.fields))
        said = f"the release does not fit the Delta table {self.name!r}"
        missing = [name for name in old if name not in new]
        if missing:
            raise DataError(f"{said}: it lacks {_listed(missing)}; release them, or publish into a table of its own")
        for name, kind in old.items():
            if new[name] != kind:
                raise DataError(
                    f"{said}: column {name!r} is {new[name]} and the table has {kind}; no type is ever changed: "
                    "declare its `type:`, or publish into a table of its own"
                )
        added = [name for name in new if name not in old]
        if added and self.schema == "same":
            raise DataError(f"{said}: it lacks {_listed(added)}; write `schema: evolve` in the sink to add them")
        self.fields = (*table.fields, *(field for field in fields if field["name"] in added))

    def kept(self, rows: Rows) -> Source | None:
        """The rows of the table at the version that it has that stay next to those of a release."""
        if self.mode == "replace_partition" and isinstance(rows, Path):
            self._batch = partitions_among(rows)
        table = self.now()
        if table is None or len(self._removed(table)) == len(table.files):
            return None
        if self.mode == "append":
            return self.at(table.version)
        return Source(data=DeltaFolder(self.address, table.version, without=self._batch))

    def whole(self) -> Source | None:
        """The table at the version of this run, where rows stay next to those of a release."""
        table = self.now()
        stays = table is not None and len(self._removed(table)) < len(table.files)
        return self.at(self.next_version) if stays else None

    def _removed(self, table: Snapshot) -> tuple[Added, ...]:
        """The files whose place this release takes."""
        if self.mode == "append":
            return ()
        if self.mode == "replace":
            return table.files
        gone = replaced_among((file.path for file in table.files), self._batch, self.name)
        return tuple(file for file in table.files if file.path in gone)

    def notes(self) -> Sequence[str]:
        """That earlier rows stay readable, and that another writer changed the table."""
        table = self.now()
        if table is None:
            return ()
        last: Mapping[str, Any] = next(iter(self.commits()), {})
        foreign = [] if last.get("privpipe.run_id") == table.run_id else [CHANGED]
        said = {
            "replace": (KEEPS_VERSIONS,),
            "append": (JOINS,),
            "replace_partition": (KEEPS_VERSIONS, OTHER_PARTITIONS),
        }
        return (*said[self.mode], *foreign)

    def published(self, run_id: str) -> Source:
        """The rows of this run as the log has them: the whole version, or its part of it."""
        if self.mode == "replace":
            return self.at(self.next_version)
        return Source(data=DeltaFolder(self.address, self.next_version, run_id))

    def at(self, version: int) -> Source:
        """The table at a version."""
        return Source(data=self.address, format="delta", version=version)

    def commit(self, files: Sequence[Added], said: Mapping[str, str]) -> Commit:
        """What makes files the release; what is recorded of them is what their public verdict says."""
        table = self.now()
        return Commit(
            before=table,
            fields=self.fields,
            said=said,
            added=tuple(files),
            removed=() if table is None else self._removed(table),
            mode="Append" if self.mode == "append" else "Overwrite",
        )

    def undoing(self, commit: Commit, run_id: str) -> Commit:
        """The commit that would follow this one to take it back."""
        before = commit.before
        assert before is not None
        return Commit(
            before=replace(before, version=commit.version),
            fields=before.fields,
            said={**_said(before), "withdrawn": run_id},
            added=commit.removed,
            removed=commit.added,
        )

    def without(self, run_id: str, now: Snapshot | None) -> Commit:
        """The commit that follows a version and leaves the files of a run out; of no table: one without rows."""
        before = self.now()
        mine = () if now is None else tuple(file for file in now.files if file.path.startswith(f"{run_id}/"))
        said = {**({} if before is None else _said(before)), "withdrawn": run_id}
        return Commit(before=now, fields=self.fields if now is None else now.fields, said=said, removed=mine)

    def taken_back(self, run_id: str, now: Snapshot | None) -> Commit:
        """The commit that follows a version and brings back what the run replaced, if no one has changed it since."""
        before, back = self.now(), self.without(run_id, now)
        if before is None or now is None or now.version != before.version + 1 or self.mode == "append":
            return back
        return replace(back, fields=before.fields, added=self._removed(before))

    def committed(self, run_id: str) -> bool:
        """Whether the log shows that this run published, and nothing later that it was withdrawn."""
        for commit in self.commits():
            if commit.get("privpipe.withdrawn") == run_id:
                return False
            if commit.get("privpipe.run_id") == run_id:
                return True
        return False


class DeltaTable:
    """What a target that publishes into a Delta table answers from the changes of its run."""

    changes: DeltaReleases

    @property
    def publishes_files(self) -> bool:
        """A table holds them."""
        return False

    def fits(self, schema: pa.Schema) -> None:
        """See `DeltaReleases.fits`."""
        self.changes.fits(schema)

    def kept(self, rows: Rows) -> Source | None:
        """See `DeltaReleases.kept`."""
        return self.changes.kept(rows)

    def whole(self, run_id: str) -> Source | None:
        """The table at the version of this run."""
        return self.changes.whole()

    def notes(self) -> Sequence[str]:
        """That earlier rows stay readable, and that another writer changed the table."""
        return self.changes.notes()

    def described(self, run_id: str) -> Mapping[str, Any]:
        """The folder in the table, and how the release relates to earlier ones."""
        return {"folder": run_id, "mode": self.changes.mode}

    def published(self, run_id: str) -> Rows:
        """See `DeltaReleases.published`."""
        return self.changes.published(run_id)


def require_takes_releases(name: str, table: Snapshot | None) -> None:
    """Refuse a table that no release can be published into.

    Raises
    ------
    SinkError
    """
    if table is not None and table.fault:
        raise SinkError(
            f"the sink {name!r} {table.fault}, and nothing was published into it; give the sink another path, "
            "or move the table away"
        )


def staged_files(run_id: str, staged: Path) -> Sequence[Added]:
    """The staged files as the log will name them."""
    import pyarrow.parquet as pq

    files = []
    for path in sorted(path for path in staged.iterdir() if path.is_file()):
        found = path.stat()
        rows = pq.ParquetFile(path).metadata.num_rows
        files.append(Added(f"{run_id}/{path.name}", found.st_size, int(found.st_mtime * 1000), rows))
    return files


def _said(table: Snapshot) -> dict[str, str]:
    """What the table states about the release before."""
    names = ("run_id", "verdict", "policy_hash", "batch")
    return {name: found for name in names if (found := table.configuration.get(f"privpipe.{name}")) is not None}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
