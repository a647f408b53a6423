"""The role of each column: what its name and values say, corrected by what the columns are to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from privpipe.drafting.drawing import FEW_NUMBERS
from privpipe.drafting.guessing import guess_role
from privpipe.drafting.naming import (
    BODY_SIZES,
    is_household_name,
    is_nominal,
    is_person_name,
    is_place_on_earth,
    is_weight_name,
    is_zip,
    words_of,
)
from privpipe.drafting.profile import NUMBERS, Guess, Profile
from privpipe.drafting.relating import FINE_VALUES, WORTH, Relations, is_fine, is_prose

__all__ = ["finely_valued", "household_key", "parents_of", "person_key", "related_guesses"]

ENOUGH = 5
"""Quasi-identifiers after which a further unknown column is released as it is."""
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
            guesses[name] = Guess("quasi_identifier", f"{tells}; insensitive if nobody can know it", unknown=True)
        else:
            guesses[name] = Guess("insensitive", f"{tells}; a quasi-identifier if somebody can know it", unknown=True)
    return guesses | _undoing(guesses, found)


def _undoing(guesses: Mapping[str, Guess], found: Relations) -> dict[str, Guess]:
    """Columns that would be released as they are and of which a quasi-identifier is a function: they would undo it."""
    return {
        finer: Guess("drop", f"each of its values tells {name!r}, which is released in its place")
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
    """The column that tells persons apart where a person may have several records; else nothing."""
    for each in profiles:
        several = each.distinct and 1.05 <= each.records / each.distinct <= FEW_A_GROUP
        if several and not each.missing and guesses[each.name].person:
            return each.name
    return ""


def household_key(profiles: Sequence[Profile], guesses: Mapping[str, Guess]) -> str:
    """The column that tells households apart; else nothing."""
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
        return Guess("identifier", f"a birth, from which {found.ages[name]!r} follows; the age is released instead")
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
