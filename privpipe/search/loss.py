"""Where `LossModel` was first; see `privpipe.search.quality`."""

from __future__ import annotations

from privpipe.search.quality import LossModel

__all__ = ["LossModel"]
