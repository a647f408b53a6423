"""What a check of `doctor` found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Parameters
    ----------
    name : str
    state : {"ok", "warning", "failed"}
        A warning is about something that nobody asked for.
    found : str
        What was seen.
    remedy : str
        What to do.
    """

    name: str
    state: Literal["ok", "warning", "failed"]
    found: str
    remedy: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)
