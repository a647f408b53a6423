"""What may stand in place of a table of a table format: a part of one, or (in `appended`) one with rows to come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from privpipe.engines.base.lakes.delta import DeltaPiece, delta_table
from privpipe.engines.base.lakes.iceberg import IcebergName, IcebergPiece, iceberg_table
from privpipe.engines.base.lakes.table import LakeTable, LakeView

__all__ = ["DeltaFolder", "IcebergFolder"]


@dataclass(frozen=True)
class DeltaFolder(LakeView):
    """The rows of a Delta table at a version that lie in one of its folders.

    Parameters
    ----------
    path : str
        The table's own folder, or its address on an object store.
    version : int
    folder : str
        Name of the folder in it.
    """

    path: str
    version: int
    folder: str

    def open(self) -> LakeTable:
        """See `LakeView.open`."""
        whole = delta_table(self.path, self.version)
        # The files of a table on an object store are named from the table on.
        home = f"{self.folder}/" if "://" in self.path else f"{Path(self.path).resolve()}/{self.folder}/"
        own = (piece for piece in whole.pieces if isinstance(piece, DeltaPiece) and piece.path.startswith(home))
        return replace(whole, pieces=tuple(own), dataset=None)


@dataclass(frozen=True)
class IcebergFolder(LakeView):
    """The rows of an Iceberg table at a snapshot that lie in one of its folders.

    Parameters
    ----------
    name : IcebergName
        With the snapshot.
    folder : str
        Place of the folder.
    """

    name: IcebergName
    folder: str

    def open(self) -> LakeTable:
        """See `LakeView.open`."""
        whole = iceberg_table(self.name)
        own = (
            piece
            for piece in whole.pieces
            if isinstance(piece, IcebergPiece) and piece.task.file.file_path.startswith(f"{self.folder}/")
        )
        return replace(whole, pieces=tuple(own), dataset=None)
