"""How the columns of a table hang together: what repeats another column, what makes records unique, what is a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from privpipe.drafting.guessing import Guess, Profile, guess_role, word_set, words_of
from privpipe.engines import Engine

__all__ = ["Relations", "finely_valued", "relate", "related_guesses"]


MANY = 8
"""Quasi-identifiers after which a further unknown column is released as it is."""
WEIGHTS = word_set("weight weights wgt wt fnlwgt pweight poids ponderation gewicht hochrechnung peso pond")
BODIES = word_set("body birth kg lb lbs height")
HOUSEHOLDS = word_set("household hh hhid hnr family dwelling haushalt hogar menage foyer couple")
FREE_WORDS = 4.0
MOST_DISTINCT = 10_000
MOST_RECORDS = 1_000_000
FINE_VALUES = 50
FINE_SHARE = 0.05


@dataclass(frozen=True)
class Relations:
    """What was measured between columns.

    Parameters
    ----------
    repeats : mapping of column to column
        Columns whose values stand one to one for those of an earlier column.
    follows : mapping of column to column
        Columns that are a function of an earlier or later, finer one.
    alone : float
        Share of records that the recognised quasi-identifiers make unique.
    adds : mapping of column to float
        Share of records that a column not recognised makes unique on top of these.
    """

    repeats: Mapping[str, str] = field(default_factory=dict)
    follows: Mapping[str, str] = field(default_factory=dict)
    alone: float = 0.0
    adds: Mapping[str, float] = field(default_factory=dict)


def relate(engine: Engine, table: Any, profiles: Sequence[Profile]) -> Relations:
    """Measure a table; nothing of a table of more than a million records, which would take long.

    Parameters
    ----------
    profiles : sequence of Profile
        Of all its columns.
    """
    records = profiles[0].records
    if records > MOST_RECORDS:
        return Relations()
    coarse = [each.name for each in profiles if 1 < each.distinct <= min(MOST_DISTINCT, records // 2)]
    sizes = {name: engine.distinct(table, [name]).num_rows for name in coarse}
    repeats: dict[str, str] = {}
    follows: dict[str, str] = {}
    for first, second in combinations(coarse, 2):
        if first in repeats or second in repeats or max(sizes[first], sizes[second]) <= 2:
            continue
        if engine.distinct(table, [first, second]).num_rows != max(sizes[first], sizes[second]):
            continue
        if sizes[first] == sizes[second]:
            repeats[second] = first
        else:
            finer, coarser = (first, second) if sizes[first] > sizes[second] else (second, first)
            follows.setdefault(coarser, finer)
    guesses = {each.name: _of_column(each, Relations(repeats, follows)) for each in profiles}
    known = [name for name, guess in guesses.items() if guess.role == "quasi_identifier" and not guess.unknown]
    unknown = [name for name, guess in guesses.items() if guess.unknown]
    alone = _uniqueness(engine, table, known, records)
    adds = {name: _uniqueness(engine, table, [*known, name], records) - alone for name in unknown}
    return Relations(repeats, follows, alone, adds)


def related_guesses(profiles: Sequence[Profile], found: Relations) -> dict[str, Guess]:
    """The guesses of single columns, corrected by what they are to each other."""
    guesses = {each.name: _of_column(each, found) for each in profiles}
    room = MANY - sum(guess.role == "quasi_identifier" and not guess.unknown for guess in guesses.values())
    ranked = sorted(found.adds, key=lambda name: (-found.adds[name], list(guesses).index(name)))
    for place, name in enumerate(each for each in ranked if guesses[each].unknown):
        share = f"{100 * found.adds[name]:.1f} %".replace(".0 %", " %")
        tells = f"not recognised; on top of the columns above it makes {share} more of the records unique"
        if place < room:
            guesses[name] = Guess("quasi_identifier", f"{tells}; insensitive if nobody can know it")
        else:
            guesses[name] = Guess("insensitive", f"{tells}; a quasi-identifier if somebody can know it")
    return guesses


def finely_valued(profiles: Iterable[Profile], guesses: Mapping[str, Guess]) -> list[str]:
    """Numbers that are released, and by which records could be linked: to be masked in small groups."""
    return [
        each.name
        for each in profiles
        if guesses[each.name].role in ("insensitive", "sensitive") and _is_fine(each) and not each.missing
    ]


def _of_column(profile: Profile, found: Relations) -> Guess:
    guess = guess_role(profile)
    words = set(words_of(profile.name))
    numeric = profile.type in ("integer", "number", "decimal")
    if guess.role == "identifier":
        return guess
    if profile.name in found.repeats:
        other = found.repeats[profile.name]
        return Guess("identifier", f"says what {other!r} says, value for value, and is released once")
    if numeric and words & WEIGHTS and not words & BODIES and profile.distinct > FINE_VALUES:
        return Guess("identifier", "a survey weight: it undoes the generalization of what it was made of")
    if words & HOUSEHOLDS and profile.distinct > max(FINE_VALUES, profile.records // 10):
        size = profile.records / profile.distinct
        return Guess("identifier", f"a key of households, of {size:.1f} records each")
    if profile.words >= FREE_WORDS and profile.distinct > FINE_VALUES:
        return Guess("identifier", f"free text, of {profile.words:.0f} words")
    if guess.unknown and _is_fine(profile):
        return Guess("insensitive", f"a measured number, {profile.distinct:,} distinct values; masked in groups of 5")
    if profile.name in found.follows:
        return replace(guess, reason=f"{guess.reason}; follows from {found.follows[profile.name]!r}")
    return guess


def _is_fine(profile: Profile) -> bool:
    numeric = profile.type in ("integer", "number", "decimal")
    return numeric and profile.distinct > max(FINE_VALUES, FINE_SHARE * profile.records)


def _uniqueness(engine: Engine, table: Any, columns: Sequence[str], records: int) -> float:
    """Share of records that are alone with their values."""
    if not columns:
        return 0.0
    counts = engine.distinct(table, columns).column("__count").to_numpy()
    return float((counts == 1).sum() / records)
