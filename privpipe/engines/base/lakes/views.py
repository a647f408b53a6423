"""What may stand in place of a table of a table format: a part of one, or (in `appended`) one with rows to come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path

from privpipe.engines.base.lakes.delta import DeltaPiece, delta_table
from privpipe.engines.base.lakes.table import LakeTable

__all__ = ["DeltaFolder", "LakeView"]


class LakeView(ABC):
    """What stands in place of a table of a table format as the data of a `Source`."""

    @abstractmethod
    def open(self) -> LakeTable:
        """The table; raises as the formats do."""


@dataclass(frozen=True)
class DeltaFolder(LakeView):
    """The rows of a Delta table at a version that lie in one of its folders.

    Parameters
    ----------
    path : str
        The table's own folder.
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
        home = f"{Path(self.path).resolve()}/{self.folder}/"
        own = (piece for piece in whole.pieces if isinstance(piece, DeltaPiece) and piece.path.startswith(home))
        return replace(whole, pieces=tuple(own), dataset=None)
