"""Folders in which a release replaces some partitions: files of the others are carried over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from privpipe.engines import Source
from privpipe.engines.base.part_files import partitions_among, replaced_among
from privpipe.engines.lakes import PartFiles
from privpipe.engines.readers.files import partition_in
from privpipe.engines.readers.unpacking import reading
from privpipe.errors import DataError
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.target import OTHER_PARTITIONS, LocalTarget, Rows, sink_faults

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PartitionedFolder", "PartitionedRemote"]


class _Partitioned:
    """What is the same on this machine and in a store; a mix-in of their targets."""

    name: str
    _batch: frozenset[str] = frozenset()
    _stays: tuple[Path, ...] = ()

    def _standing(self) -> Path | None:
        """A folder of this machine with the files that readers see now."""
        raise NotImplementedError

    @property
    def publishes_files(self) -> bool:
        """Files of earlier runs are published too."""
        return False

    def fits(self, schema: pa.Schema) -> None:
        """Refuse rows whose columns are not those of the files that are there.

        Raises
        ------
        DataError
        """
        files = [] if (standing := self._standing()) is None else sorted(standing.glob("*.parquet"))
        if not files:
            return
        with reading(str(files[0]), "Parquet"):
            found = pq.read_schema(files[0])
        wrong = sorted({*found.names} ^ {*schema.names})
        wrong += [field.name for field in found if field.name in schema.names and _differ(field, schema)]
        if wrong:
            raise DataError(
                f"the release does not fit the other partitions of {self.name!r}: {', '.join(map(repr, wrong))} is not "
                "there in both, or has another type; release the same columns, or publish all with `mode: replace`"
            )

    def kept(self, rows: Rows) -> Source | None:
        """The files of the partitions that a release has no rows of."""
        standing = self._standing()
        if standing is None or not isinstance(rows, Path):
            return None
        self._batch = partitions_among(rows)
        with sink_faults(self.name):
            files = sorted(path for path in standing.iterdir() if path.is_file())
        gone = replaced_among((path.name for path in files), self._batch, self.name)
        self._stays = tuple(path for path in files if path.name not in gone)
        return _files(self._stays)

    def notes(self) -> Sequence[str]:
        """That rows of a person may be in several partitions."""
        return () if self._standing() is None else (OTHER_PARTITIONS,)

    def described(self, run_id: str) -> Mapping[str, Any]:
        """How the release relates to earlier ones."""
        return {"mode": "replace_partition"}

    def _laid(self, staged: Path) -> None:
        """The files that stay, next to the staged ones: one more name of each, or a copy."""
        with sink_faults(self.name):
            for path in self._stays:
                try:
                    os.link(path, staged / path.name)
                except OSError:  # the file system makes no hard links, or not this many
                    shutil.copyfile(path, staged / path.name)

    def _of_batch(self, folder: Path) -> Source:
        found = _files(path for path in folder.iterdir() if partition_in(path.name) in self._batch)
        return found if found is not None else Source(data=str(folder), format="parquet")


class PartitionedFolder(_Partitioned, LocalTarget):
    """A folder of this machine in which a release replaces the partitions that it has rows of."""

    def _standing(self) -> Path | None:
        return Path(os.path.realpath(self.path)) if self.path.is_symlink() else None

    def completed(self, run_id: str) -> None:
        """See `Target.completed`."""
        self._laid(self.rows(run_id))

    def published(self, run_id: str) -> Rows:
        """The files of this run, of those that readers see."""
        return self._of_batch(Path(os.path.realpath(self.path)))

    def whole(self, run_id: str) -> Source | None:
        """All files that readers see."""
        return _files(sorted(Path(os.path.realpath(self.path)).glob("*.parquet"))) if self._stays else None


class PartitionedRemote(_Partitioned, RemoteTarget):
    """A folder of an object store in which a release replaces the partitions that it has rows of.

    The pointer is switched only from the release that the run began with, whose other files are copied.
    """

    _seen: Path | None = None
    _looked = False

    def _standing(self) -> Path | None:
        if not self._looked:
            self._looked = True
            if self.current() is not None:
                self._seen = self.fetched().rename(self._local / "standing")
        return self._seen

    def completed(self, run_id: str) -> None:
        """See `Target.completed`."""
        self._laid(self.rows(run_id))

    def published(self, run_id: str) -> Rows:
        """The files of this run, of those that the pointer names."""
        return self._of_batch(self.fetched())

    def whole(self, run_id: str) -> Source | None:
        """All files that were fetched from there."""
        return _files(sorted((self._local / "published").glob("*.parquet"))) if self._stays else None


def _files(paths: Iterable[Path]) -> Source | None:
    found = tuple(str(path) for path in paths)
    return Source(data=PartFiles(found)) if found else None


def _differ(field: pa.Field, schema: pa.Schema) -> bool:
    """Whether a column is of another type; Parquet keeps no numbers of a dictionary apart from their texts."""
    kind = schema.field(field.name).type
    kind = kind.value_type if hasattr(kind, "value_type") and str(kind).startswith("dictionary") else kind
    return bool(kind != field.type)
