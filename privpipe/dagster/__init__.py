"""Dagster: assets that release, blocking checks of finished tables, and a resource for assets of one's own.

::

    from privpipe.dagster import PrivpipeResource, privpipe_asset, privpipe_asset_check

A refused release fails its asset without retries; a breakdown is retried according to the asset's retry policy. What
Dagster keeps (metadata, events, logs) holds the public figures and paths, never a value of the data.
"""

from __future__ import annotations

import importlib
from typing import Any

WIRES = {
    "PrivpipeResource": "privpipe.dagster.assets",
    "asset_check_metadata": "privpipe.dagster.assets",
    "privpipe_asset": "privpipe.dagster.assets",
    "privpipe_asset_check": "privpipe.dagster.assets",
}

__all__ = sorted(WIRES)


def __getattr__(name: str) -> Any:
    if name in WIRES:
        return getattr(importlib.import_module(WIRES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
