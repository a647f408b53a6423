"""What became of each thing that `verify` looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Check", "Verification", "broken", "holds", "unchecked"]

Outcome = Literal["holds", "broken", "not_checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Parameters
    ----------
    name : str
    outcome : {"holds", "broken", "not_checked"}
        `not_checked`: what it would take is not at hand.
    about : str
        One sentence; never a data value.
    """

    name: str
    outcome: Outcome
    about: str


@dataclass(frozen=True)
class Verification:
    """What was recomputed of a release.

    Parameters
    ----------
    release : str
    run_id : str or None
    checks : tuple of Check
    """

    release: str
    run_id: str | None
    checks: tuple[Check, ...]

    @property
    def broken(self) -> tuple[Check, ...]:
        """What does not match."""
        return tuple(check for check in self.checks if check.outcome == "broken")

    @property
    def sound(self) -> bool:
        """Whether nothing that was checked is broken.

        Examples
        --------
        >>> Verification("published/adult", None, (holds("files", "5 files"), broken("chain", "a gap"))).sound
        False
        """
        return not self.broken

    def to_dict(self) -> dict[str, Any]:
        """The document of `privpipe verify --json`."""
        return {
            "release": self.release,
            "run_id": self.run_id,
            "sound": self.sound,
            "checks": [{"check": each.name, "outcome": each.outcome, "about": each.about} for each in self.checks],
        }


def holds(name: str, about: str) -> Check:
    """What matches."""
    return Check(name, "holds", about)


def broken(name: str, about: str) -> Check:
    """What does not."""
    return Check(name, "broken", about)


def unchecked(name: str, about: str) -> Check:
    """What could not be looked at."""
    return Check(name, "not_checked", about)
