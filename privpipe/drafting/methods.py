"""The methods that a draft may take for its quasi-identifiers, as lines of `transform:`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privpipe.drafting.inline_yaml import flow
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.purposes import RESEARCH, Purpose
from privpipe.drafting.thinning import levels_of

__all__ = ["FULL_DOMAIN", "Candidate", "Method", "candidates"]

FULL_DOMAIN = "generalize: {search: optimal, suppress_at_most: 0.05}"
VECTORS_A_SECOND = 3e7
"""Vectors of levels times records that local recoding walks, under guarantees that it judges within."""
SLOWER = 12.0
"""How much longer it takes under others."""
LOCAL_SECONDS = 8.0
MOST_SECONDS = 240.0
FEWEST_RECORDS = 1_500
FEW_LABELS = 12
QUICK = ("k_anonymity", "distinct_l_diversity")
"""Guarantees that local recoding judges class by class."""


@dataclass(frozen=True)
class Method:
    """How the guarantees are to be met.

    Parameters
    ----------
    stages : tuple of str
        Lines of `transform:`, for the quasi-identifiers.
    notes : tuple of str
        What is said of it and of the others.
    without : tuple of str
        Names of proposed guarantees that no method met: they stand as comments.
    left_out : tuple of str
        Columns of which nothing would be left beside the others.
    masked : bool
        Whether measured numbers are masked; not while methods are tried, for it is the same for all.
    """

    stages: tuple[str, ...] = (FULL_DOMAIN,)
    notes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    masked: bool = True


@dataclass(frozen=True)
class Candidate:
    """A method to be tried.

    Parameters
    ----------
    stages : tuple of str
    records : int
        As many records as it is tried on at the most; 0: as many as the others.
    """

    stages: tuple[str, ...]
    records: int = 0


def candidates(
    profiles: Sequence[Profile],
    hierarchies: Mapping[str, Mapping[str, Any]],
    guarantees: Sequence[str],
    k: int,
    purpose: Purpose = RESEARCH,
) -> Iterator[Candidate]:
    """Methods that may meet the guarantees, the quick ones first.

    Parameters
    ----------
    profiles : sequence of Profile
        Of the quasi-identifiers.
    hierarchies : mapping of column to hierarchy
    guarantees : sequence of str
        Names.
    k : int
        Of k-anonymity.
    purpose : Purpose
    """
    share = flow({"suppress_at_most": purpose.suppress_at_most})
    yield Candidate(("mondrian: {score: loss}",))
    yield Candidate((f"generalize: {flow({'search': 'optimal', 'suppress_at_most': purpose.suppress_at_most})}",))
    yield Candidate(("mondrian: {}",))
    if profiles and all(_has_means(each) for each in profiles):
        columns = [each.name for each in profiles]
        yield Candidate((f"microaggregate: {flow({'columns': [columns], 'k': k})}", f"suppress_records: {share}"))
    yield Candidate((*_coarse(profiles, hierarchies), f"suppress_cells: {share}", f"suppress_records: {share}"))
    lengths = {each.name: each.code_length for each in profiles}
    vectors = math.prod(levels_of(found, lengths.get(name, 0)) for name, found in hierarchies.items())
    slower = 1.0 if set(guarantees) <= set(QUICK) else SLOWER
    affordable = int(LOCAL_SECONDS * VECTORS_A_SECOND / (vectors * slower))
    whole = max((each.records for each in profiles), default=0)
    if affordable >= min(FEWEST_RECORDS, whole) and whole * vectors * slower <= MOST_SECONDS * VECTORS_A_SECOND:
        yield Candidate((f"local_recoding: {share}",), affordable)


def _has_means(profile: Profile) -> bool:
    """Whether the mean of some values says something: of numbers, and no codes."""
    return profile.type in NUMBERS and not profile.missing and profile.distinct > FEW_LABELS


def _coarse(profiles: Sequence[Profile], hierarchies: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Levels of few labels, from which cells are blanked: of finer ones hardly any would stay."""
    found = {each.name: 0 if each.distinct <= FEW_LABELS else 1 for each in profiles if each.name in hierarchies}
    for each in profiles:
        steps = hierarchies.get(each.name, {}).get("bands", {}).get("steps", ())
        if found.get(each.name) and len(steps) > 1 and each.spread / float(steps[0]) > FEW_LABELS:
            found[each.name] = 2
    floors = {name: int(hierarchies[name].get("min_level", 0)) for name in found}
    if any(found.values()):
        yield f"generalize: {flow({'levels': {name: max(level, floors[name]) for name, level in found.items()}})}"
