"""Entries that are counted together, and their reductions as one: twenty cost one count."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, Literal

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Guarantee, Tally
from privpipe.errors import UsageError
from privpipe.judging.rules import JudgingRules
from privpipe.models.attribute.base_distribution import GivenBase
from privpipe.progress import within
from privpipe.roles import Roles

__all__ = ["Base", "Composite", "Group", "Judged", "base_of", "groups_of", "keys_of", "query_of"]


Base = Literal["original", "released"] | GivenBase


@dataclass(frozen=True)
class Group:
    """Entries counted together: the same keys, the same base of each column.

    `over` are the columns that the entries read, of which `keys` may be a part; `population` says whether the
    classes of a population are counted with them, `weight` which column is summed in each, `unit` by which column
    those who are counted are distinguished.
    """

    keys: tuple[str, ...]
    base: Base
    over: tuple[str, ...]
    population: bool
    weight: str | None = None
    unit: str | None = None
    entries: list[tuple[int, Guarantee]] = field(default_factory=list)


def base_of(entry: Guarantee) -> Base:
    """What an entry compares classes with; entries that compare with nothing share the first."""
    base: Base = entry.base_distribution() if entry.needs_base else "original"
    return base


def keys_of(entry: Guarantee, roles: Roles) -> tuple[str, ...]:
    """The quasi-identifiers that an entry reads.

    Raises
    ------
    UsageError
        None is declared, and it does not say that it means none.
    """
    if entry.quasi_identifiers is not None:
        return entry.quasi_identifiers
    if not roles.quasi_identifiers:
        raise UsageError(
            f"{entry.name()}: no quasi-identifier is declared, so every table would be one class; declare "
            "`role: quasi_identifier`, or write `quasi_identifiers: []` on the guarantee to mean that"
        )
    return tuple(roles.quasi_identifiers)


def groups_of(
    entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules, faulty_weights: Container[str | None] = ()
) -> list[Group]:
    """Entries over classes, each with its place among all entries; the policy's own quasi-identifiers first.

    Entries whose weight is among the faulty ones are in no group.
    """
    groups: dict[tuple[Any, ...], Group] = {}
    for at, entry in enumerate(entries):
        if not entry.way.over_classes or entry.weight_column() in faulty_weights:
            continue
        base = base_of(entry)
        unit = rules.unit(entry)
        if base == "released" and not rules.counting(unit).base:
            base = "original"  # without one of the original, that of the judged table is used for both
        sets = entry.key_sets(keys_of(entry, roles))
        over = _over(entry, sets, roles)
        for keys in sets:
            kind = (keys, base, over, entry.needs_population, unit, entry.weight_column())
            group = groups.setdefault(kind, Group(*kind[:-2], unit=unit, weight=kind[-1]))
            group.entries.append((at, entry))
    _join_weighted(groups)
    # Their class count is in the verdict document.
    own = tuple(roles.quasi_identifiers)
    return sorted(groups.values(), key=lambda group: (group.keys != own, group.keys != group.over, group.population))


def _join_weighted(groups: dict[tuple[Any, ...], Group]) -> None:
    """A count that sums a weight serves those that ask for none as well."""
    for kind in [kind for kind in groups if kind[-1] is not None]:
        plain = groups.pop((*kind[:-1], None), None)
        if plain is not None:
            groups[kind].entries.extend(plain.entries)


def _over(entry: Guarantee, sets: Sequence[tuple[str, ...]], roles: Roles) -> tuple[str, ...]:
    columns = [column for keys in sets for column in keys]
    if entry.quasi_identifiers is not None and entry.own_columns() == entry.quasi_identifiers:
        columns += roles.quasi_identifiers  # it looks at some columns of the table, not at an attacker's knowledge
    return tuple(dict.fromkeys(columns))


def query_of(group: Group, facts: Facts, rules: JudgingRules) -> ClassQuery:
    """The one count that all entries of a group share."""
    entries = [entry for _, entry in group.entries]
    columns = dict.fromkeys(column for entry in entries for column in entry.sensitive_columns())
    coded = {column for entry in entries if entry.needs_base for column in entry.sensitive_columns()}
    households = [column for entry in entries if (column := entry.household_column()) is not None]
    columns |= dict.fromkeys(households)
    coded.update(households)
    return ClassQuery(
        keys=group.keys,
        columns=tuple(columns),
        dictionaries={column: facts.histograms[column] for column in columns if column in coded},
        mark=rules.mark,
        person=group.unit,
        weight=group.weight,
    )


@dataclass(frozen=True)
class Judged:
    """What all entries of a composite saw of some classes.

    `released` and `marked` count records, `classes` the released classes; `alone`, under wildcard matching, the records
    that are complete and equal no other complete record.
    """

    tallies: tuple[Tally, ...]
    released: int
    marked: int
    classes: int
    alone: int | None = None


@dataclass(frozen=True)
class Composite:
    """The entries that are judged over one set of quasi-identifiers.

    Every entry sees every class: an early exit on the first failure would leave the others unjudged.
    """

    entries: tuple[Guarantee, ...]

    def measure(self, block: ClassBlock, facts: Facts) -> Judged:
        """Measure a block with every entry; suppressed records are not a class."""
        released = block.released()
        return Judged(
            tallies=tuple(map(methodcaller("measure", released, facts), self.entries)),
            released=released.records,
            marked=block.records - released.records,
            classes=len(released),
        )

    def merge(self, left: Judged, right: Judged) -> Judged:
        """Merge entry by entry."""
        within("classes", left.classes + right.classes)
        return Judged(
            tallies=tuple(
                entry.merge(*pair)
                for entry, pair in zip(self.entries, zip(left.tallies, right.tallies, strict=True), strict=True)
            ),
            released=left.released + right.released,
            marked=left.marked + right.marked,
            classes=left.classes + right.classes,
        )
