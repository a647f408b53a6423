"""Methods that a draft may use for its quasi-identifiers.

They are written as lines of `transform:`, with hierarchies small enough for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privpipe.drafting.guarantees import RESEARCH, Purpose
from privpipe.drafting.profile import NUMBERS, Profile

__all__ = ["FULL_DOMAIN", "MOST_NODES", "Candidate", "Method", "candidates", "flow", "levels_of", "thinned"]


PLAIN = re.compile(r"[A-Za-z_]([\w ./-]*[\w/-])?", re.ASCII)
WORDS_OF_YAML = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))  # of 1.1 too


def flow(value: Any) -> str:
    """A value as YAML on one line.

    Written here because a column may have any name, and emitters leave some unquoted that no parser takes back.

    Examples
    --------
    >>> flow({"role": "sensitive", "zip: 5": [1, 2.5, True], "no": "a\\nb"})
    '{role: sensitive, "zip: 5": [1, 2.5, true], "no": "a\\\\U0000000ab"}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if PLAIN.fullmatch(value) and value.lower() not in WORDS_OF_YAML:
        return value
    return '"' + "".join(map(_quoted, value)) + '"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


MOST_NODES = 50_000
LISTS = {
    "intervals": "widths",
    "bands": "steps",
    "quantiles": "counts",
    "dates": "levels",
    "frequency_groups": "keep",
    "groups": "sizes",
    "from_columns": "columns",
}
USUAL = (1, 2, 3)
"""As many levels as a builder is taken to make that says not how many."""
CUT = ("intervals", "bands", "quantiles", "dates", "frequency_groups")
"""Builders whose levels do not rest on the one below."""


def levels_of(hierarchy: Mapping[str, Any], code_length: int = 0) -> int:
    """Levels that a search may choose from, of a suggested hierarchy.

    Examples
    --------
    >>> levels_of({"intervals": {"widths": [5, 10]}}), levels_of({"redact": {"keep": "left"}}, 5)
    (4, 6)
    """
    builder = next(iter(hierarchy), "")
    given = hierarchy.get(builder)
    given = given if isinstance(given, Mapping) else {}
    if builder in LISTS:
        found = 2 + len(given.get(LISTS[builder], USUAL))
    elif builder == "priority":
        found = 1 + given["levels"]
    else:
        found = 1 + (code_length if builder == "redact" and code_length else len(USUAL))
    return int(found - hierarchy.get("min_level", 0))


def thinned(
    hierarchies: Mapping[str, Mapping[str, Any]], code_lengths: Mapping[str, int], most: int = MOST_NODES
) -> dict[str, dict[str, Any]]:
    """The hierarchies with fewer levels: the one with most loses a middle one, of two the finer, then the raw values.

    Every column keeps two levels at least, so many columns may still make more vectors of levels than `most`.

    Examples
    --------
    >>> thinned({"age": {"intervals": {"widths": [5, 10]}}}, {}, most=3)
    {'age': {'intervals': {'widths': [10]}}}
    >>> thinned({"zip": {"redact": {"keep": "left"}}}, {"zip": 5}, most=4)
    {'zip': {'redact': {'keep': 'left'}, 'min_level': 2}}
    """
    left = {name: dict(hierarchy) for name, hierarchy in hierarchies.items()}
    while left:
        levels = {name: levels_of(hierarchy, code_lengths.get(name, 0)) for name, hierarchy in left.items()}
        name = max(levels, key=lambda name: levels[name])
        if math.prod(levels.values()) <= most or levels[name] <= 2:
            break
        left[name] = _coarser(left[name])
    return left


def _coarser(hierarchy: dict[str, Any]) -> dict[str, Any]:
    builder = next(iter(hierarchy))
    listed = hierarchy[builder][LISTS[builder]] if builder in CUT else ()
    if len(listed) > 1:
        gone = len(listed) // 2 if len(listed) > 2 else 0
        left = [each for at, each in enumerate(listed) if at != gone]
        return {**hierarchy, builder: {**hierarchy[builder], LISTS[builder]: left}}
    return {**hierarchy, "min_level": hierarchy.get("min_level", 0) + 1}


FULL_DOMAIN = "generalize: {search: optimal, suppress_at_most: 0.03}"
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
        What is written of it and of the others.
    without : tuple of str
        Names of proposed guarantees that no method met: they are written as comments.
    left_out : tuple of str
        Columns of which nothing would be left next to the others.
    revealing : tuple of (str, str)
        Columns that gave back a generalized one in a trial, and what was found.
    masked : bool
        Whether measured numbers are masked; not while methods are tried, for it is the same for all.
    """

    stages: tuple[str, ...] = (FULL_DOMAIN,)
    notes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    revealing: tuple[tuple[str, str], ...] = ()
    masked: bool = True


@dataclass(frozen=True)
class Candidate:
    """A method to be tried.

    Parameters
    ----------
    stages : tuple of str
    records : int
        As many records as it is tried on at most; 0: as many as the others.
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
        spec: dict[str, Any] = {"columns": [[each.name for each in profiles]], "k": k}
        if all(each.type == "integer" for each in profiles):
            spec["round"] = True
        yield Candidate((f"microaggregate: {flow(spec)}", f"suppress_records: {share}"))
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
