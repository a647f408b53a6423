"""What a run of the judge is given: one table, with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from privpipe.blocks.row_reductions import weight_faults
from privpipe.judging.suppressed_records import JudgedTable

if TYPE_CHECKING:
    from privpipe.blocks import Facts, Guarantee
    from privpipe.engines import Engine
    from privpipe.judging.entry_groups import Base
    from privpipe.judging.rules import JudgingRules
    from privpipe.roles import Roles

__all__ = ["JudgingInputs"]


@dataclass(frozen=True, kw_only=True)
class JudgingInputs:
    """One table with everything that belongs to it.

    Parameters
    ----------
    judged_table : JudgedTable
        The judged table, and what is left of it without its suppressed records.
    entries : tuple of Guarantee
        All entries in their order, filled in from the roles.
    roles : Roles
    rules : JudgingRules
    facts : mapping of base to Facts
        What was learnt of the table, under each distribution that an entry compares with.
    facts_by_unit : mapping of column to such a mapping
        The same for entries that count by another column than the rest.
    original : Table, optional
    released : Table, optional
        The judged records with their ids, where the table itself carries none.
    population : Table, optional
    """

    judged_table: JudgedTable
    entries: tuple[Guarantee, ...]
    roles: Roles
    rules: JudgingRules
    facts: Mapping[Base, Facts] = field(repr=False)
    facts_by_unit: Mapping[str | None, Mapping[Base, Facts]] = field(default_factory=dict, repr=False)
    original: Any = field(default=None, repr=False)
    released: Any = field(default=None, repr=False)
    population: Any = field(default=None, repr=False)

    def facts_of(self, unit: str | None) -> Mapping[Base, Facts]:
        """Facts under each base for entries that count by this column."""
        return self.facts if unit == self.rules.person else self.facts_by_unit[unit]

    @property
    def engine(self) -> Engine:
        """The engine of all tables."""
        return self.judged_table.engine

    @cached_property
    def with_ids(self) -> JudgedTable:
        """The judged records with their ids."""
        if self.released is None:
            return self.judged_table
        # They hold the released columns and no others.
        return JudgedTable.of(self.engine, self.released, replace(self.rules, released=None))

    @cached_property
    def weight_faults(self) -> Mapping[str, str]:
        """By weight column of an entry, why its sums would be wrong; columns that are sound are not in it."""
        judged_table = self.judged_table
        columns = dict.fromkeys(name for entry in self.entries if (name := entry.weight_column()) is not None)
        found = {name: weight_faults(self.engine, judged_table.table, name) for name in columns}
        # Suppressed records have no weight, and need none.
        return {
            name: why
            for name, first in found.items()
            if first and (why := weight_faults(self.engine, judged_table.left, name))
        }

    @property
    def aligned(self) -> bool:
        """Whether an original is at hand and records of both tables have ids."""
        original = self.original
        return original is not None and bool(original.has_record_ids and self.with_ids.table.has_record_ids)
