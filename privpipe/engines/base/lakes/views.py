"""Parts of a table as the data of a `Source`: files of one of its folders, or of other partitions than some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from privpipe.engines.base.lakes.appended import ParquetPiece
from privpipe.engines.base.lakes.delta import DeltaPiece, delta_table
from privpipe.engines.base.lakes.iceberg import IcebergName, IcebergPiece, iceberg_table
from privpipe.engines.base.lakes.table import LakeTable, LakeView
from privpipe.engines.base.partition_names import partition_in
from privpipe.engines.base.unpacking import reading

__all__ = ["DeltaFolder", "IcebergFolder", "PartFiles"]


@dataclass(frozen=True)
class DeltaFolder(LakeView):
    """The rows of a Delta table at a version that lie in one of its folders.

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
    """The rows of an Iceberg table at a snapshot that lie in one of its folders.

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
        return LakeTable(schema, pieces, ds.dataset(list(self.paths), schema=schema, format="parquet"))
