"""Notes on a judged table beyond its guarantees: near-unique columns, and figures that depend on spelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks import ClassModel, ClassQuery, Facts, FactsRequest, Guarantee, Histogram
from privpipe.blocks.guarantee import short
from privpipe.engines import Engine
from privpipe.judging.gate import Gate
from privpipe.judging.grouping import keys_of
from privpipe.judging.near_unique import Values, near_unique_notes, values_of
from privpipe.judging.persons import count_persons
from privpipe.judging.spelling import Fold, Known, folded, is_text
from privpipe.roles import Roles

if TYPE_CHECKING:
    from privpipe.judging.assessment import Assessment
    from privpipe.judging.rules import JudgingRules

__all__ = ["table_notes"]

LARGEST_FOLDED = 1_000_000
"""Distinct values whose spelling is compared, at the most."""
Judge = Callable[..., "Assessment"]


def table_notes(
    engine: Engine,
    table: Any,
    records: int,
    entries: Sequence[Guarantee],
    roles: Roles,
    rules: JudgingRules,
    judge: Judge,
) -> list[str]:
    """Notes on a table without its suppressed records; a function of its cells alone.

    Parameters
    ----------
    engine : Engine
    table : Table
    records : int
        How many it has.
    entries : sequence of Guarantee
        Guarantees and measures over it.
    roles : Roles
    rules : JudgingRules
    judge : callable
        `assess`, to judge the table again with its values folded.
    """
    household = _household(table.schema.names, entries)
    values = values_of(engine, table, _unmasked(table.schema.names, roles, rules.gate), records, household)
    notes = near_unique_notes(values, records, household)
    again = _Again(engine, table, [entry for entry in entries if _of_values(entry)], roles, rules, judge)
    for name in roles.sensitive:
        if name in table.schema.names:
            notes += again.of_column(name, values.get(name))
    if rules.person is not None and is_text(table, rules.person):
        notes += again.of_persons(rules.person)
    return notes


def _unmasked(names: Sequence[str], roles: Roles, gate: Gate) -> list[str]:
    """Columns that are released beside the quasi-identifiers, without pseudonyms."""
    seen = [name for name in gate.seen(names) if name in names]
    released = (*roles.sensitive, *roles.insensitive, *roles.carried)
    return [name for name in seen if name in released and name not in gate.pseudonyms]


def _household(names: Sequence[str], entries: Sequence[Guarantee]) -> str | None:
    """The first column of the table by which an entry tells households apart."""
    return next((column for entry in entries if (column := entry.household_column()) in names), None)


def _of_values(entry: Guarantee) -> bool:
    """Whether a figure rests on how values are told apart in classes of the judged table alone."""
    return entry.way.classes_alone and not entry.needs_base and not entry.needs_population


class _Again:
    """Judges a table once more with other values."""

    def __init__(
        self,
        engine: Engine,
        table: Any,
        entries: Sequence[Guarantee],
        roles: Roles,
        rules: JudgingRules,
        judge: Judge,
    ) -> None:
        self._engine, self._table, self._entries = engine, table, entries
        self._roles, self._judge = roles, judge
        self._rules = replace(rules, gate=Gate(columns=()))

    def of_column(self, column: str, values: Values | None) -> list[str]:
        """What the spelling of a sensitive column, and its missing values, hold up."""
        about = [entry for entry in self._entries if column in entry.sensitive_columns()]
        towards_l = [entry for entry in about if isinstance(entry, ClassModel) and ({"l", "p"} & set(vars(entry)))]
        text = is_text(self._table, column)
        nulls = self._engine.facts(self._table, FactsRequest(nulls=(column,))).nulls[column] if towards_l else 0
        if not text and not nulls:
            return []
        if values is not None and values.distinct > LARGEST_FOLDED:
            return [f"`{column}` has {values.distinct:,} values: their spelling was not compared"]
        histogram = self._engine.facts(self._table, FactsRequest(histograms=(column,))).histograms[column]
        notes = self._of_spelling(column, histogram, about) if text else []
        return notes + (self._of_missing(column, histogram, towards_l) if nulls else [])

    def _of_spelling(self, column: str, histogram: Histogram, about: Sequence[Guarantee]) -> list[str]:
        fold = folded(histogram.values)
        before, after = (len(values.drop_null().unique()) for values in (histogram.values, fold))
        if after == before:
            return []
        table = self._engine.recode(self._table, {column: (histogram.values, fold)})
        return [f"`{column}` has {before:,} values, {after:,} of them apart from spelling{self._figures(table, about)}"]

    def _of_missing(self, column: str, histogram: Histogram, entries: Sequence[Guarantee]) -> list[str]:
        facts = Facts(histograms={column: histogram})
        figures = []
        for entry in entries:
            query = ClassQuery(
                keys=keys_of(entry, self._roles),
                columns=entry.sensitive_columns(),
                dictionaries={column: histogram},
                mark=self._rules.mark,
                person=self._rules.unit(entry),
            )
            found = self._engine.reduce_classes(self._table, query, Known(entry, column, len(histogram) - 1), facts)
            if found is not None:
                figures.append(f"{entry.name()} observed {_shown(entry.judge(found, facts).observed)}")
        told = f"; without them {', '.join(figures)}" if figures else ""
        return [f"`{column}` has missing values, which count as a value{told}"]

    def of_persons(self, person: str) -> list[str]:
        """What the spelling of the column that distinguishes persons holds up."""
        alone = self._engine.select(self._table, [person])
        before = count_persons(self._engine, alone, person)
        after = count_persons(self._engine, self._engine.map_rows(alone, Fold(person), alone.schema), person)
        if before == after:
            return []
        table = self._engine.map_rows(self._table, Fold(person), self._table.schema)
        told = self._figures(table, self._entries)
        return [f"`{person}` tells {before:,} persons apart, {after:,} of them apart from spelling{told}"]

    def _figures(self, table: Any, entries: Sequence[Guarantee]) -> str:
        if not entries:
            return ""
        judged = self._judge(self._engine, table, guarantees=entries, roles=self._roles, rules=self._rules)
        told = [f"{each.name} observed {_shown(each.observed)}" for each in judged.verdicts]
        return f"; after folding {', '.join(told)}"


def _shown(observed: Any) -> str:
    if isinstance(observed, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in observed.items())
    return "no number" if observed is None else short(observed)
