"""What is asked of one run besides its policy, sink and plan."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WHOLE_COURSE", "Course"]


@dataclass(frozen=True, kw_only=True)
class Course:
    """How far a run goes, and where it begins.

    Parameters
    ----------
    dry_run : bool
        Up to publishing, in a place that is gone afterwards.
    resume : str, optional
        A run that waited for its sign-off is published, byte for byte.
    batch : str, optional
        What the sink's chain of releases has under this key is not published again.
    """

    dry_run: bool = False
    resume: str | None = None
    batch: str | None = None


WHOLE_COURSE = Course()
