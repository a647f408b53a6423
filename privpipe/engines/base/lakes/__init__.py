"""Tables of table formats as they are at one version: Delta by deltalake, Iceberg by pyiceberg."""

from __future__ import annotations

from privpipe.engines.base.lakes.appended import Appended
from privpipe.engines.base.lakes.delta import delta_table, delta_version, has_deltalake
from privpipe.engines.base.lakes.iceberg import IcebergName
from privpipe.engines.base.lakes.opening import delta_place, is_lake, lake_of, pinned
from privpipe.engines.base.lakes.table import LakeTable, rows_of_piece
from privpipe.engines.base.lakes.views import DeltaFolder, LakeView

__all__ = [
    "Appended",
    "DeltaFolder",
    "IcebergName",
    "LakeTable",
    "LakeView",
    "delta_place",
    "delta_table",
    "delta_version",
    "has_deltalake",
    "is_lake",
    "lake_of",
    "pinned",
    "rows_of_piece",
]
