"""Aggregated tables: cells that may leave, and the audit that shows that no suppressed cell can be worked out.

>>> import pandas as pd
>>> import privpipe as pp
>>> frame = pd.DataFrame({"region": ["north", "north", "south"], "cost": [5, 7, 9]})
>>> table = pp.tables.Aggregate(by=["region"], responses=["count", {"sum": "cost"}]).apply(frame)
>>> table
Table(1 dimension, 3 cells, 2 responses)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpipe.tables.aggregate import Aggregate
    from privpipe.tables.table import Table

__all__ = ["Aggregate", "Table"]

HOMES = {"Aggregate": "privpipe.tables.aggregate", "Table": "privpipe.tables.table"}


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'privpipe.tables' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
