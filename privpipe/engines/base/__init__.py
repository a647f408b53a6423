"""What all engines share: the contract, sources, and the parts of an answer that no engine may compute its own way."""

from __future__ import annotations

from privpipe.engines.base.contract import Engine, Where, Written
from privpipe.engines.base.source import Format, Source, format_of

__all__ = ["Engine", "Format", "Source", "Where", "Written", "format_of"]
