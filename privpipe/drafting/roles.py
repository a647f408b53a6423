"""Roles and hierarchies of a draft: by name and values, corrected by relations between columns and by answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privpipe.drafting.guesses import (
    BODY_SIZES,
    guess_role,
    is_age,
    is_household_name,
    is_nominal,
    is_person_name,
    is_place_on_earth,
    is_weight_name,
    is_zip,
    likeliest_sensitive,
    words_of,
)
from privpipe.drafting.methods import thinned
from privpipe.drafting.profile import NUMBERS, Guess, Profile
from privpipe.drafting.questions import Answers
from privpipe.drafting.relations import FINE_VALUES, WORTH, Relations, is_fine, is_prose

__all__ = [
    "FEW_NUMBERS",
    "Planned",
    "finely_valued",
    "household_key",
    "parents_of",
    "person_key",
    "planned",
    "related_guesses",
    "suggest_hierarchy",
]


AGE_STEPS = (5, 10, 20)
OLDEST = 90
"""Ages from here on are one group: HIPAA Safe Harbor has them pooled."""
FEW_NUMBERS = 12
MANY_NUMBERS = 30
FEW_WORDS = 3
MOST_KEPT = 24
CUTS = (16, 8, 4, 2)
MOST_LEVELS = 4
CALENDAR = ("month", "quarter", "year", "decade")
POSTAL = (10, 100, 1000)


def suggest_hierarchy(profile: Profile) -> dict[str, Any] | None:
    """A builder that needs no list of values, or one of a known scale.

    Ages by bands of 5, 10 and 20 years with the oldest in one group; few numbers unchanged, then in twos, with the
    rare end in one group; skewed amounts by quantiles at round numbers; other numbers by round bands; dates by the
    calendar, without the time of day; a known scale of words and codes with an order by neighbours; other words by how
    frequent they are.

    Examples
    --------
    >>> suggest_hierarchy(Profile("age", "integer", 1000, 0, 73, spread=73, top=92))
    {'bands': {'steps': [5, 10, 20], 'highest': 90}}
    >>> suggest_hierarchy(Profile("zip", "text", 1000, 0, 90, code_length=5))
    {'redact': {'keep': 'left'}}
    """
    if profile.type == "date":
        return {"dates": {"levels": list(CALENDAR)}}
    if profile.type == "timestamp":
        return {"dates": {"levels": ["day", *CALENDAR]}, "min_level": 1}
    if profile.type in ("integer", "number", "decimal") and profile.spread > 0:
        return _of_numbers(profile)
    return _of_words(profile)


def _of_numbers(profile: Profile) -> dict[str, Any]:
    if is_zip(profile) and profile.type == "integer":
        return {"intervals": {"widths": list(POSTAL)}}
    if is_nominal(profile) and profile.distinct <= MOST_KEPT * 2:
        return _by_frequency(profile)
    # A single real number next to an interval would be a label of another style.
    floor = {} if profile.whole else {"min_level": 1}
    if is_age(profile):
        return {"bands": {"steps": list(AGE_STEPS), **_top(profile, AGE_STEPS[0], OLDEST)}, **floor}
    if profile.type == "integer" and profile.distinct <= FEW_NUMBERS and profile.spread < 2 * FEW_NUMBERS:
        return _few_numbers(profile)
    if profile.distinct <= FEW_WORDS:
        return {"priority": {"levels": 1}}
    if profile.skewed and profile.distinct > MANY_NUMBERS:
        return {"quantiles": {"counts": list(CUTS), "round": "auto"}, **floor}
    return {"bands": {"steps": _steps(profile.spread, least=2 if profile.type == "integer" else 0)}, **floor}


def _of_words(profile: Profile) -> dict[str, Any] | None:
    if profile.scale and profile.distinct > FEW_WORDS:
        return {"groups": {"order": list(profile.scale), "sizes": _pairs(profile.distinct)}}
    if profile.type == "text" and profile.by_text and profile.distinct > FEW_WORDS:
        return {"groups": {"order": "text", "sizes": _pairs(profile.distinct)}}
    if profile.type == "text" and profile.code_length > 1 and profile.distinct > MOST_KEPT:
        return {"redact": {"keep": "left"}}
    if profile.distinct > FEW_WORDS:
        return _by_frequency(profile)
    return {"priority": {"levels": 1}} if profile.distinct else None


def _by_frequency(profile: Profile) -> dict[str, Any]:
    if profile.distinct <= FEW_WORDS:
        return {"priority": {"levels": 1}}
    return {"frequency_groups": {"keep": _falling(min(MOST_KEPT, -(-2 * profile.distinct // 3)))}}


def _few_numbers(profile: Profile) -> dict[str, Any]:
    if profile.distinct <= FEW_WORDS:
        return {"priority": {"levels": 1}}
    return {"bands": {"steps": [1, 2] if profile.tail else [2, 4], **_top(profile, 1, None)}}


def _top(profile: Profile, step: int, most: int | None) -> dict[str, int]:
    """Where the top is coded: the last multiple of the step with enough records above it."""
    if not profile.tail and most is None:
        return {}
    found = int(profile.tail // step * step) if profile.tail else most
    bound = min(found, most) if found is not None and most is not None else found
    return {"highest": bound} if bound is not None and bound < profile.top else {}


def _falling(most: int) -> list[int]:
    """The number, two thirds of it and so on, down to two.

    Examples
    --------
    >>> _falling(9)
    [9, 6, 4, 2]
    """
    found = [most]
    while found[-1] > 2:
        found.append(max(2, 2 * found[-1] // 3))
    return found


def _pairs(distinct: int) -> list[list[int]]:
    """Neighbours by two and two, as long as three groups are left.

    Examples
    --------
    >>> _pairs(16)
    [[2], [2]]
    """
    found = [[2]]
    while distinct > 2 * 2 ** (len(found) + 1):
        found.append([2])
    return found


def _steps(spread: float, *, least: float) -> Sequence[int | float]:
    """A round step that makes some twenty bands, doubled until a few are left."""
    wanted = max(spread / 20, least)
    unit = 10.0
    while unit > wanted:
        unit /= 10
    while unit * 10 <= wanted:
        unit *= 10
    first = next(unit * step for step in (1, 2, 5, 10) if unit * step >= wanted)
    steps = [first]
    while steps[-1] * 4 < spread and len(steps) < MOST_LEVELS:
        steps.append(steps[-1] * 2)
    return [int(step) if float(step).is_integer() else float(f"{step:.12g}") for step in steps]


ENOUGH = 5
"""Quasi-identifiers after which a further unknown column is released unchanged."""
FEW_A_GROUP = 30.0


def related_guesses(profiles: Sequence[Profile], found: Relations) -> dict[str, Guess]:
    """The guesses of single columns, corrected by what they are to each other."""
    bodies = any(BODY_SIZES.intersection(words_of(each.name)) for each in profiles)
    guesses = {each.name: _of_column(each, found, bodies=bodies) for each in profiles}
    for name, finer in found.follows.items():
        if _is_level(name, finer, profiles, guesses):
            reason = f"a function of {finer!r}: it is a level of that column's hierarchy, and is released there"
            guesses[name] = Guess("identifier", reason, level_of=finer)
    measured = {each.name: each.type in NUMBERS and each.distinct > FEW_NUMBERS for each in profiles}
    room = ENOUGH - sum(guess.role == "quasi_identifier" and not guess.unknown for guess in guesses.values())
    for place, name in enumerate(each for each in found.adds if guesses.get(each, Guess("identifier", "")).unknown):
        share = f"{100 * found.adds[name]:.1f} %".replace(".0 %", " %")
        tells = f"not recognised; on top of the columns above it makes {share} more of the records unique"
        if place < room and found.adds[name] >= WORTH and not measured[name]:
            guesses[name] = Guess("quasi_identifier", f"{tells}; insensitive if no attacker can know it", unknown=True)
        else:
            guesses[name] = Guess(
                "insensitive", f"{tells}; a quasi-identifier if an attacker can know it", unknown=True
            )
    if likeliest := "" if _has_sensitive(guesses) else likeliest_sensitive(profiles, guesses, named=True):
        reason = "the likeliest sensitive column: no other was found; a quasi-identifier if an attacker can know it"
        guesses[likeliest] = Guess("sensitive", reason, unknown=True)
    guesses |= _undoing(guesses, found)
    return {name: found.decided.get(name, guess) for name, guess in guesses.items()}


def _has_sensitive(guesses: Mapping[str, Guess]) -> bool:
    return any(guess.role == "sensitive" for guess in guesses.values())


def _undoing(guesses: Mapping[str, Guess], found: Relations) -> dict[str, Guess]:
    """Columns that would be released unchanged and of which a quasi-identifier is a function: they would undo it."""
    return {
        finer: Guess("drop", f"each of its values reveals {name!r}, which is released in its place")
        for name, finer in found.follows.items()
        if guesses[name].role == "quasi_identifier" and guesses[finer].role == "insensitive"
    }


def parents_of(guesses: Mapping[str, Guess], found: Relations) -> dict[str, list[str]]:
    """For each column the columns that are levels of its hierarchy, finest first.

    Examples
    --------
    >>> level = Guess("identifier", "", level_of="town")
    >>> parents_of({"country": replace(level, level_of="region"), "region": level}, Relations())
    {'town': ['region', 'country']}
    """
    above = {name: guess.level_of for name, guess in guesses.items() if guess.level_of}
    parents: dict[str, list[str]] = {}
    for name, finer in above.items():
        chain = [name]
        while finer in above:
            chain.append(finer)
            finer = above[finer]
        if len(chain) > len(parents.get(finer, ())):
            parents[finer] = chain[::-1]
    return parents


def finely_valued(profiles: Iterable[Profile], guesses: Mapping[str, Guess]) -> list[str]:
    """Numbers that are released, and by which records could be linked: to be masked in small groups."""
    return [each.name for each in profiles if guesses[each.name].role in ("insensitive", "sensitive") and is_fine(each)]


def person_key(profiles: Sequence[Profile], guesses: Mapping[str, Guess]) -> str:
    """The column that identifies persons where a person may have several records; else nothing."""
    for each in profiles:
        several = each.distinct and 1.05 <= each.records / each.distinct <= FEW_A_GROUP
        if several and not each.missing and guesses[each.name].person:
            return each.name
    return ""


def household_key(profiles: Sequence[Profile], guesses: Mapping[str, Guess]) -> str:
    """The column that identifies households; else nothing."""
    return next((each.name for each in profiles if guesses[each.name].household), "")


def _is_level(name: str, finer: str, profiles: Sequence[Profile], guesses: Mapping[str, Guess]) -> bool:
    """Whether both are known of a person, and neither is a number that is measured."""
    by_name = {each.name: each for each in profiles}
    both = [guesses[each] for each in (name, finer)]
    known = all(guess.role == "quasi_identifier" and not guess.unknown for guess in both)
    plain = all(_is_named(by_name[each]) for each in (name, finer))
    return known and plain and by_name[name].distinct > 1


def _is_named(profile: Profile) -> bool:
    """Whether values are names or codes, and no amounts."""
    return profile.type == "text" or is_nominal(profile) or (is_zip(profile) and profile.type == "integer")


def _of_column(profile: Profile, found: Relations, *, bodies: bool) -> Guess:
    name = profile.name
    guess = guess_role(profile)
    size = profile.records / profile.distinct if profile.distinct else 0.0
    key = size > 1 and profile.distinct > max(FINE_VALUES, profile.records // 10)
    if name in found.repeats:
        return Guess("drop", f"says what {found.repeats[name]!r} says, value for value, and is released once")
    if is_weight_name(name) and not bodies and profile.type in NUMBERS and profile.bottom >= 0 and profile.distinct > 2:
        return Guess("drop", "a survey weight: it undoes the generalization of what it was made of")
    if is_person_name(name) and key:
        return Guess("identifier", f"a key of persons, of {size:.1f} records each", person=True)
    if is_household_name(name) and key and not (is_fine(profile) and profile.type != "integer"):
        return Guess("identifier", f"a key of households, of {size:.1f} records each", household=True)
    if name in found.keys:
        alike = ", ".join(map(repr, found.keys[name][:3]))
        return Guess("identifier", f"a key of groups of {size:.1f} records each, which are alike in {alike}")
    if guess.role == "identifier":
        return guess
    if is_place_on_earth(profile) and profile.distinct > FINE_VALUES:
        return Guess("identifier", "a coordinate: with its like it names an address")
    if name in found.ages:
        return Guess("drop", f"runs along {found.ages[name]!r}, which follows from it; the age is released instead")
    if is_prose(profile):
        return Guess("identifier", f"free text, of {profile.words:.0f} words")
    if guess.unknown and profile.type in NUMBERS and _is_weight(profile, found):
        of = found.follows[name]
        return Guess("drop", f"a survey weight, it seems: positive, no whole number, and a function of {of!r}")
    if guess.unknown and is_fine(profile):
        return Guess("insensitive", f"a measured number, {profile.distinct:,} distinct values; masked in groups of 5")
    if name in found.follows:
        return replace(guess, reason=f"{guess.reason}; follows from {found.follows[name]!r}")
    return guess


def _is_weight(profile: Profile, found: Relations) -> bool:
    """Positive fractions, none missing, one for each stratum."""
    return (
        profile.name in found.follows
        and not profile.whole
        and profile.bottom > 0
        and not profile.missing
        and profile.distinct > 2
        and profile.fractions
    )


@dataclass(frozen=True)
class Planned:
    """What each column is, and how it is made coarser.

    Parameters
    ----------
    guesses : mapping of column to Guess
    hierarchies : mapping of column to mapping
    shortened : bool
        Whether hierarchies lost levels so that a search ends soon.
    """

    guesses: Mapping[str, Guess]
    hierarchies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shortened: bool = False


def planned(
    profiles: Sequence[Profile],
    relations: Relations,
    answers: Answers,
    *,
    left_out: Sequence[str] = (),
    revealing: Sequence[tuple[str, str]] = (),
    suggest: bool = True,
) -> Planned:
    """The roles of all columns and the hierarchies of the quasi-identifiers.

    Parameters
    ----------
    left_out : sequence of str
        Quasi-identifiers of which nothing would be left next to the others.
    revealing : sequence of (str, str)
        Columns that gave back a generalized one in a trial, and what was found.
    suggest : bool
        Whether hierarchies are wanted.
    """
    guesses = answers.heard(related_guesses(profiles, relations))
    for name in left_out:
        why = "left out: with the other quasi-identifiers almost nothing of it would remain"
        guesses[name] = replace(guesses[name], role="drop", reason=f"{why} ({guesses[name].reason})")
    for name, found in revealing:
        guesses[name] = replace(guesses[name], role="drop", reason=f"{found} ({guesses[name].reason})")
    if not suggest:
        return Planned(guesses)
    parents = parents_of(guesses, relations)
    offered: dict[str, Mapping[str, Any]] = {}
    for profile in profiles:
        if guesses[profile.name].role != "quasi_identifier":
            continue
        own = suggest_hierarchy(profile)
        if profile.name in parents:
            own = {"from_columns": {"columns": parents[profile.name]}}
        if own:
            offered[profile.name] = own
    kept = thinned(offered, {profile.name: profile.code_length for profile in profiles})
    return Planned(guesses, kept, kept != offered)
