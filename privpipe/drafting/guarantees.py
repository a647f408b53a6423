"""Guarantees of a draft: thresholds by the audience of a release, and proposals with their reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from privpipe.drafting.guesses import word_set, words_of
from privpipe.drafting.profile import Profile

__all__ = [
    "PURPOSES",
    "RESEARCH",
    "RULE_OF_THUMB",
    "Band",
    "Proposal",
    "Purpose",
    "PurposeName",
    "least_distance",
    "propose",
    "purpose_of",
    "rule_of_thumb",
]


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
    0.03,
    f"known recipients who promised not to look for anyone: a chance of 0.2 to 0.05 ({SOURCE})",
)
PUBLIC = Purpose(
    "public",
    (Band("low", "10-15", 0.1, 3, 0.2), Band("medium", "15-20", 0.05, 4, 0.15), Band("high", "20-30", 0.04, 5, 0.1)),
    0.1,
    f"anyone may try, and nothing can be called back: a chance of 0.1 to 0.04 ({SOURCE})",
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


SPECIAL = word_set(
    "diagnosis disease illness condition disorder symptom treatment medication drug therapy hiv icd pregnancy "
    "disability religion belief union party orientation gene genome conviction crime offence"
)
"""Health, belief, sexuality, crime: special categories of personal data in law (GDPR articles 9 and 10)."""
ORDERED_TYPES = ("integer", "number", "decimal", "date", "timestamp")
FEW = 2


def rule_of_thumb(parameters: Sequence[str]) -> list[dict[str, Any]]:
    """What is usual for those of these parameters that sensitivity decides; one row a sensitivity.

    Examples
    --------
    >>> rule_of_thumb(["k", "quasi_identifiers"])[0]
    {'sensitivity': 'low', 'k': '3-5', 'tolerable risk 1/k': '0.33-0.2'}
    >>> rule_of_thumb(["at_most"])
    []
    """
    shown = [name for name in ("k", "l", "t") if name in parameters]
    return [_usual(band, shown) for band in RULE_OF_THUMB] if shown else []


def _usual(band: Band, shown: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"sensitivity": band.name}
    for name in shown:
        row[name] = band.range_of_k if name == "k" else getattr(band, name)
    if "k" in shown:
        row["tolerable risk 1/k"] = "-".join(f"{1 / int(k):.2g}" for k in band.range_of_k.split("-"))
    return row


@dataclass(frozen=True)
class Proposal:
    """An entry of `guarantees:` and why it is proposed."""

    name: str
    parameters: Mapping[str, Any]
    reason: str


def propose(
    sensitive: Sequence[Profile], records: int, purpose: Purpose = RESEARCH, k: int | None = None
) -> list[Proposal]:
    """Guarantees for a table with these sensitive columns.

    Parameters
    ----------
    k : int, optional
        Instead of the purpose's.

    Examples
    --------
    >>> income = Profile("income", "text", 1000, 0, 2, counts=(760, 240))
    >>> for proposal in propose([income], 1000):
    ...     print(proposal.name, proposal.parameters)
    k_anonymity {'k': 10}
    distinct_l_diversity {'column': 'income', 'l': 2}
    t_closeness {'column': 'income', 't': 0.2}
    """
    bands = {profile.name: _band(profile, purpose) for profile in sensitive}
    band = max(bands.values(), key=lambda band: band.k, default=purpose.bands[0])
    why = ", ".join(repr(name) for name, own in bands.items() if own is band) or "no sensitive column"
    said, k = k, min(band.k if k is None else k, records)
    risk = f"no person is found with a chance above 1/k = {1 / k:.2g}"
    less = "" if k in (band.k, said) else f"; the table has no more than {records:,} records"
    usual = f"{band.name} sensitivity ({why}): k {band.range_of_k}"
    reason = f"{usual if said is None else 'k as answered'}; {risk}{less}"
    return [
        Proposal("k_anonymity", {"k": k}, reason),
        *(proposal for profile in sensitive for proposal in _within_classes(profile, bands[profile.name], k)),
    ]


def _band(profile: Profile, purpose: Purpose) -> Band:
    """High for special categories of personal data, medium for what else is sensitive."""
    return purpose.bands[2 if SPECIAL.intersection(words_of(profile.name)) else 1]


def _within_classes(profile: Profile, band: Band, k: int) -> Iterator[Proposal]:
    """For one sensitive column: how many values a class must hold, and how far it may be from the whole table."""
    worth = effective_values(profile.counts)
    # Rare values cannot be in every class: two are asked of a column in which one value prevails.
    least = max(1, min(band.l, profile.distinct, k, max(FEW, math.floor(worth + 1e-9)) if worth else band.l))
    spread = f", worth {worth:.3g} even ones" if worth else ""
    why = f"each class holds {least} of {profile.distinct:,} values{spread}: being found does not reveal the value"
    yield Proposal("distinct_l_diversity", {"column": profile.name, "l": least}, why)
    if profile.distinct < FEW or not profile.counts:
        return
    ordered = profile.type in ORDERED_TYPES and not profile.missing and profile.distinct > FEW
    finest = 1 / (2 * k) if ordered else least_distance(profile.counts, k)
    t = max(band.t, math.ceil(100 * finest) / 100)
    top = max(profile.counts) / sum(profile.counts)
    why = f"no class reveals much more than the table does (commonest value {top:.0%})".replace("%", " %")
    more = f"; a class of {k} cannot come closer than {finest:.2f}" if t > band.t else ""
    distance = {"distance": "ordered"} if ordered else {}
    if t < 1:
        yield Proposal("t_closeness", {"column": profile.name, "t": t, **distance}, why + more)


def effective_values(counts: Sequence[int]) -> float:
    """exp of the entropy: as many values, all even, would be as uncertain; 0 without counts.

    Examples
    --------
    >>> round(effective_values([5, 5]), 6), effective_values([7])
    (2.0, 1.0)
    """
    total = sum(counts)
    return math.exp(-sum(count / total * math.log(count / total) for count in counts)) if total else 0.0


def least_distance(counts: Sequence[int], k: int) -> float:
    """Least distance, all values equally far apart, that any class of k records has from the whole table.

    By the largest remainders: each value gets the whole part of its share of k, the rest goes where most is missing.

    Examples
    --------
    >>> least_distance([1, 1], 10), round(least_distance([1, 1, 1], 2), 6)
    (0.0, 0.333333)
    """
    total = sum(counts)
    whole = [count * k // total for count in counts]
    remainders = sorted(((count * k % total) / total for count in counts), reverse=True)
    given = k - sum(whole)
    return (sum(1 - part for part in remainders[:given]) + sum(remainders[given:])) / (2 * k)
