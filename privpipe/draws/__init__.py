"""Keyed draws that belong to the record, never to its partition.

A `Seed` gives every stage its `Draws`, and these give one `Stream` per column. A stream is a keyed function
of the record's id (or of a rank or step number), so the same seed gives the same draws on every engine and
under any partitioning, and no one without the seed can remove the noise.
"""

from __future__ import annotations

from privpipe.draws.stream import Draws, RunKey, Seed, Stream

__all__ = ["Draws", "RunKey", "Seed", "Stream"]
