"""Roles and hierarchies of a draft, once everything that speaks for them is heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privpipe.drafting.asking import Answers
from privpipe.drafting.drawing import suggest_hierarchy
from privpipe.drafting.profile import Guess, Profile
from privpipe.drafting.relating import Relations
from privpipe.drafting.roles import parents_of, related_guesses
from privpipe.drafting.thinning import thinned

__all__ = ["Planned", "planned"]


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
    suggest: bool = True,
) -> Planned:
    """The roles of all columns and the hierarchies of the quasi-identifiers.

    Parameters
    ----------
    left_out : sequence of str
        Quasi-identifiers of which nothing would be left beside the others.
    suggest : bool
        Whether hierarchies are wanted.
    """
    guesses = answers.heard(related_guesses(profiles, relations))
    for name in left_out:
        why = "left out: beside the other quasi-identifiers next to nothing would be left of it"
        guesses[name] = replace(guesses[name], role="drop", reason=f"{why} ({guesses[name].reason})")
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
