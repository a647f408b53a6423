"""Tables of table formats as they are at one version: Delta by deltalake, Iceberg by pyiceberg."""

from __future__ import annotations

from privpipe.engines.base.lakes.appended import Appended
from privpipe.engines.base.lakes.delta import DeltaPiece, delta_table, delta_version, has_deltalake
from privpipe.engines.base.lakes.iceberg import IcebergName, iceberg_catalogue, iceberg_files, iceberg_said
from privpipe.engines.base.lakes.opening import delta_place, is_lake, lake_of, pinned
from privpipe.engines.base.lakes.said import lake_said
from privpipe.engines.base.lakes.table import LakeTable, LakeView, rows_of_piece
from privpipe.engines.base.lakes.table_properties import delta_said
from privpipe.engines.base.lakes.views import DeltaFolder, IcebergFolder, PartFiles

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
