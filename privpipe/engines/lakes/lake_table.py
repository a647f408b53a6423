"""A table of a table format at one of its versions: its schema, and the pieces that its rows are read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

__all__ = ["LakePiece", "LakeTable", "LakeView", "rows_of_piece"]


class LakePiece(Protocol):
    """The live rows of one data file; it can be sent to another process."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema of the table."""
        ...


@dataclass(frozen=True)
class LakeTable:
    """What a reader of the format states about a table.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of every piece.
    pieces : tuple of LakePiece
        One a data file.
    dataset : pyarrow dataset, optional
        The same rows as a dataset, where whole files and partitions give them.
    """

    schema: pa.Schema
    pieces: tuple[LakePiece, ...]
    dataset: Any = None

    def frame(self) -> Any:
        """A dataset, else a stream of all pieces: either can be scanned without the table in memory."""
        if self.dataset is not None:
            return self.dataset
        rows = (batch for piece in self.pieces for batch in piece.batches())
        return pa.RecordBatchReader.from_batches(self.schema, rows)


class LakeView(ABC):
    """What represents a table of a table format as the data of a `Source`."""

    @abstractmethod
    def open(self) -> LakeTable:
        """The table; raises as the formats do."""


def rows_of_piece(piece: LakePiece, schema: pa.Schema) -> pa.Table:
    """All rows of a piece."""
    return pa.Table.from_batches(piece.batches(), schema)
