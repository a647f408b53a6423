"""What all engines share: the contract, sources, and computations that must give the same bits on every engine."""

from __future__ import annotations

from privpipe.engines.base.contract import Engine, Written
from privpipe.engines.readers.source import Format, Source, format_of, format_said

__all__ = ["Engine", "Format", "Source", "Written", "format_of", "format_said"]
