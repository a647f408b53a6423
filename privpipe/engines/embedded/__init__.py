"""The embedded engine, on DuckDB."""

from __future__ import annotations

from privpipe.engines.embedded.engine import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
