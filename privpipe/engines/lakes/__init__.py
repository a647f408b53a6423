"""Tables of table formats as they are at one version: Delta by deltalake, Iceberg by pyiceberg."""

from __future__ import annotations

from privpipe.engines.lakes.delta import DeltaPiece, delta_said, delta_table, delta_version, has_deltalake
from privpipe.engines.lakes.iceberg import IcebergName, iceberg_catalogue, iceberg_files, iceberg_said
from privpipe.engines.lakes.lake_table import LakeTable, LakeView, rows_of_piece
from privpipe.engines.lakes.sources import (
    Appended,
    DeltaFolder,
    IcebergFolder,
    PartFiles,
    delta_place,
    is_lake,
    lake_of,
    lake_said,
    pinned,
)

__all__ = [
    "Appended",
    "DeltaFolder",
    "DeltaPiece",
    "IcebergFolder",
    "IcebergName",
    "LakeTable",
    "LakeView",
    "PartFiles",
    "delta_place",
    "delta_said",
    "delta_table",
    "delta_version",
    "has_deltalake",
    "iceberg_catalogue",
    "iceberg_files",
    "iceberg_said",
    "is_lake",
    "lake_of",
    "lake_said",
    "pinned",
    "rows_of_piece",
]
