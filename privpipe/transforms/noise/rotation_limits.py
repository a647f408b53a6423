"""What orthogonal noise can be asked for."""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.errors import UsageError

__all__ = ["require_rotatable"]

MOST_TOGETHER = 32
MOST_RATIO = 1.6  # blocks of eight hold seven eighths of a variance, and move by less than twice that


def require_rotatable(columns: Sequence[str], ratio: float) -> None:
    """Refuse what no rotation of blocks serves.

    Raises
    ------
    UsageError
    """
    if len(columns) > MOST_TOGETHER:
        raise UsageError(f"AddNoise: orthogonal noise takes at most {MOST_TOGETHER} columns in one stage")
    if ratio > MOST_RATIO:
        raise UsageError(
            f"AddNoise: orthogonal noise takes a variance_ratio of at most {MOST_RATIO}: it keeps the covariance, so "
            "it can move records no further than an exchange of independent ones does"
        )
