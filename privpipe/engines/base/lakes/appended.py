"""A table of a table format with the rows that are about to join it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from privpipe.engines.base.lakes.opening import lake_of
from privpipe.engines.base.lakes.table import LakePiece, LakeTable, LakeView
from privpipe.engines.base.source import Source
from privpipe.engines.base.unpacking import reading
from privpipe.errors import DataError

__all__ = ["Appended", "ParquetPiece"]


@dataclass(frozen=True)
class ParquetPiece:
    """A Parquet file that no table names yet."""

    path: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema of the table."""
        with reading(self.path, "Parquet"), pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches():
                yield batch.select(self.schema.names).cast(self.schema)


@dataclass(frozen=True)
class WidenedPiece:
    """A piece of a table that is to have more columns; these are missing in all its rows."""

    piece: LakePiece
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema to be."""
        for batch in self.piece.batches():
            arrays = [
                batch.column(each.name) if each.name in batch.schema.names else pa.nulls(len(batch), each.type)
                for each in self.schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class Appended(LakeView):
    """A table as its readers will see it once the files of a folder are part of it.

    Parameters
    ----------
    before : Source
        The table at the version that it has.
    folder : str
        Parquet files with every column of the table; those that it lacks come last.
    """

    before: Source
    folder: str

    def open(self) -> LakeTable:
        """See `LakeView.open`.

        Raises
        ------
        DataError
            The files lack a column of the table.
        """
        lake = lake_of(self.before)
        assert lake is not None
        files = sorted(str(path) for path in Path(self.folder).glob("*.parquet"))
        with reading(files[0], "Parquet"):
            found = pq.read_schema(files[0]).remove_metadata()
        missing = [name for name in lake.schema.names if name not in found.names]
        if missing:
            raise DataError(f"the rows to be added lack columns of the table: {', '.join(map(repr, missing))}")
        fields = [*lake.schema, *(field for field in found if field.name not in lake.schema.names)]
        schema = pa.schema([field.with_nullable(True) for field in fields])
        added = [ParquetPiece(path, schema) for path in files]
        if len(fields) > len(lake.schema):
            return LakeTable(schema, (*(WidenedPiece(piece, schema) for piece in lake.pieces), *added))
        both = None
        if lake.dataset is not None and all(schema.field(each.name).type == each.type for each in found):
            both = ds.dataset([lake.dataset.replace_schema(schema), ds.dataset(files, schema=schema, format="parquet")])
        return LakeTable(schema, (*lake.pieces, *added), both)
