"""The Dask engine."""

from __future__ import annotations

from privpipe.engines.dask.engine import DaskEngine

__all__ = ["DaskEngine"]
