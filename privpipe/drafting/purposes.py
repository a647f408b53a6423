"""Who will see a release, and the thresholds that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PURPOSES", "RESEARCH", "RULE_OF_THUMB", "Band", "Purpose", "PurposeName", "purpose_of"]

PurposeName = Literal["internal", "research", "public"]


@dataclass(frozen=True)
class Band:
    """What is usual for data of some sensitivity.

    Parameters
    ----------
    name : str
    range_of_k : str
    risk : float
        Tolerable risk that a record is found; k is its inverse.
    l : int
        Values a class should hold.
    t : float
        Distance of a class from the whole table.
    """

    name: str
    range_of_k: str
    risk: float
    l: int  # the literature's letter
    t: float

    @property
    def k(self) -> int:
        """The least class size that keeps the risk."""
        return round(1 / self.risk)


@dataclass(frozen=True)
class Purpose:
    """Thresholds for data of low, medium and high sensitivity, and why.

    Parameters
    ----------
    name : PurposeName
    bands : tuple of Band
        Low, medium, high.
    suppress_at_most : float
        Share of the records that may be left out.
    reason : str
    """

    name: PurposeName
    bands: tuple[Band, Band, Band]
    suppress_at_most: float
    reason: str


RULE_OF_THUMB = (
    Band("low", "3-5", 0.2, 2, 0.3),
    Band("medium", "5-10", 0.1, 3, 0.2),
    Band("high", "10-20", 0.05, 4, 0.15),
)
SOURCE = "El Emam, Guide to the De-Identification of Personal Health Information, CRC 2013"
INTERNAL = Purpose(
    "internal",
    (Band("low", "2-3", 1 / 3, 2, 0.4), Band("medium", "3-5", 0.2, 2, 0.3), Band("high", "5-10", 0.1, 3, 0.2)),
    0.02,
    f"people under contract see it, so a chance of 0.33 to 0.1 is tolerable ({SOURCE}), and few records may go",
)
RESEARCH = Purpose(
    "research",
    RULE_OF_THUMB,
    0.05,
    f"known recipients who promised not to look for anybody: a chance of 0.2 to 0.05 ({SOURCE})",
)
PUBLIC = Purpose(
    "public",
    (Band("low", "10-15", 0.1, 3, 0.2), Band("medium", "15-20", 0.05, 4, 0.15), Band("high", "20-30", 0.04, 5, 0.1)),
    0.1,
    f"anybody may try, and nothing can be called back: a chance of 0.1 to 0.04 ({SOURCE})",
)
PURPOSES = {each.name: each for each in (INTERNAL, RESEARCH, PUBLIC)}


def purpose_of(name: str) -> Purpose:
    """The purpose of that name.

    Raises
    ------
    UsageError
        There is none such.

    Examples
    --------
    >>> [purpose_of(name).bands[1].k for name in ("internal", "research", "public")]
    [5, 10, 20]
    """
    from privpipe.errors import UsageError, did_you_mean

    if name not in PURPOSES:
        raise UsageError(f"purpose: must be {' | '.join(PURPOSES)}, got {name!r}{did_you_mean(name, PURPOSES)}")
    return PURPOSES[name]
