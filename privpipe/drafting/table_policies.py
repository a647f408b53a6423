"""`init --aggregate`: the first policy that releases tables of a table of records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privpipe.drafting.column_profiles import ProfiledTable
from privpipe.drafting.draft import SCHEMA_FILE, Asked, column_lines, person_lines, place_of, source_keys
from privpipe.drafting.guesses import is_age
from privpipe.drafting.methods import flow
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.roles import Planned, person_key, planned
from privpipe.drafting.trials import loaded
from privpipe.errors import DataError

__all__ = ["aggregate_policy"]

LEAST_COUNT, LEAST_SUMMED, PERCENT = 10, 3, 10
MOST_LABELS, FEW_NUMBERS = 30, 12
MOST_DIMENSIONS, MOST_SUMS = 3, 3
MOST_CELLS = 3_000
OPEN_ROLES = ("quasi_identifier", "sensitive", "insensitive")


@dataclass(frozen=True)
class Dimensions:
    """Columns of the tables, with the levels of those that have a hierarchy."""

    names: tuple[str, ...]
    levels: dict[str, list[int]]


def aggregate_policy(table: ProfiledTable, home: Path, asked: Asked | None = None) -> str:
    """The text of a policy that publishes counts, and sums of amounts, of a table of records.

    Raises
    ------
    DataError
        No column has few values, so that none can be a dimension.
    """
    asked = asked or Asked()
    made = planned(table.profiles, table.relations, asked.answers)
    found = _dimensions(table.profiles, made)
    if not found.names:
        raise DataError(
            f"no column has 2 to {MOST_LABELS} values, by which records could be counted; draft a policy without "
            "--aggregate, or put values into groups before"
        )
    sums = _sums(table.profiles, made, found.names)
    place = place_of(table.source)
    stem = re.sub(r"\W+", "-", Path(place).stem).strip("-") or "table"
    person = asked.answers.person_of(person_key(table.profiles, made.guesses))
    kept = {name: spec for name, spec in made.hierarchies.items() if name in found.levels}
    lines = [
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        "# Written by `privpipe init --aggregate`. Roles and dimensions are guesses: read every line.",
        "version: 1",
        f"name: {flow(stem)}",
        *([f"source: {flow(source_keys(table.source, table.profiles, home))}"] if place else []),
        *(person_lines(person) if person else []),
        "columns:",
        *column_lines(table.profiles, replace(made, hierarchies=kept)),
        *_transform(found, sums, wandering=person is not None and _wanders(table, person, found.names)),
        *_guarantees(sums),
        f"sink: {flow({'path': f'published/{stem}', 'format': 'parquet'})}",
    ]
    text = "\n".join(lines) + "\n"
    loaded(text, home)
    return text


def _dimensions(profiles: Sequence[Profile], made: Planned) -> Dimensions:
    """The first few columns with few values, or with bands; known quasi-identifiers before others."""
    names: list[str] = []
    levels: dict[str, list[int]] = {}
    cells = 1
    order = sorted(
        profiles,
        key=lambda each: OPEN_ROLES.index(made.guesses[each.name].role) if _is_open(each, made) else 9,
    )
    for profile in order:
        own = _labels(profile, made) if _is_open(profile, made) else None
        if own is None or len(names) == MOST_DIMENSIONS or cells * own[0] > MOST_CELLS:
            continue
        names.append(profile.name)
        cells *= own[0]
        if own[1]:
            levels[profile.name] = own[1]
    return Dimensions(tuple(names), levels)


def _is_open(profile: Profile, made: Planned) -> bool:
    return made.guesses[profile.name].role in OPEN_ROLES


def _labels(profile: Profile, made: Planned) -> tuple[int, list[int]] | None:
    """About how many labels a column has as a dimension, and the levels of its hierarchy; None if it is none."""
    if is_age(profile) and "bands" in made.hierarchies.get(profile.name, {}):
        return 20, [2, 3]
    most = FEW_NUMBERS if profile.type in NUMBERS else MOST_LABELS
    if profile.type in ("date", "timestamp") or not 2 <= profile.distinct <= most or profile.fractions:
        return None
    return profile.distinct + 1 + (profile.missing > 0), []


def _sums(profiles: Sequence[Profile], made: Planned, dims: Sequence[str]) -> list[Profile]:
    """Columns of amounts, none of which is negative."""
    found = [
        profile
        for profile in profiles
        if profile.type in NUMBERS
        and _is_open(profile, made)
        and profile.name not in dims
        and profile.distinct > FEW_NUMBERS
        and profile.bottom >= 0
        and not is_age(profile)
        and made.guesses[profile.name].role != "quasi_identifier"
    ]
    return found[:MOST_SUMS]


def _wanders(table: ProfiledTable, person: str, dims: Sequence[str]) -> bool:
    """Whether records of one person may be in several cells: some dimension is not the same in all of them."""
    return not set(dims) <= set(table.relations.keys.get(person, dims))


def _transform(found: Dimensions, sums: Sequence[Profile], *, wandering: bool) -> Iterator[str]:
    own: dict[str, Any] = {"by": list(found.names)}
    if found.levels:
        own["levels"] = found.levels
    yield "transform:"
    yield "  # Each combination of labels is a cell, with all totals; a person counts once in each."
    yield "  - aggregate:"
    yield "      tables:"
    yield f"        counts: {flow({**own, 'responses': ['count']})}"
    if sums:
        responses = [{"sum": each.name, **({"decimals": 2} if each.type == "number" else {})} for each in sums]
        yield f"        sums: {flow({**own, 'responses': responses})}"
    if wandering:
        yield "      # Persons have records in several cells: one of each is kept, chosen by a key. Counts add up then,"
        yield "      # and hiding few cells is enough. Left out, all records count, and little can be published."
        yield "      contribution_bound: 1"
    yield "  # Hides cells that the guarantees call unsafe, and others so that none can be subtracted from totals."
    yield "  - suppress_table: {method: auto}"


def _guarantees(sums: Sequence[Profile]) -> Iterator[str]:
    yield "guarantees:"
    yield f"  # Outputs of research: a count rests on at least {LEAST_COUNT} persons (ACRO); 3 in official statistics."
    yield f"  - minimum_frequency: {flow({'at_least': LEAST_COUNT, 'tables': ['counts']})}"
    if sums:
        yield f"  # A sum rests on at least {LEAST_SUMMED}, for of two persons each knows the other's share."
        yield f"  - minimum_frequency: {flow({'at_least': LEAST_SUMMED, 'tables': ['sums']})}"
        yield f"  # No contributor can estimate the largest contribution to within {PERCENT} % of it (ACRO)."
        yield f"  - p_percent: {flow({'at_least': PERCENT, 'tables': ['sums']})}"
    yield "  # No hidden cell follows from totals, signs, or what a contributor knows, in all tables together."
    yield "  - table_audit: {}"
