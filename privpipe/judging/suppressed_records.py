"""The judged table without its suppressed records, which are searched for once, and only where there may be one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks.row_reductions import Kept, NothingLeft, bears_nothing, suppressed_records

if TYPE_CHECKING:
    from privpipe.blocks import Histogram
    from privpipe.engines import Engine
    from privpipe.judging.rules import JudgingRules

__all__ = ["JudgedTable"]


@dataclass
class JudgedTable:
    """A table that is judged, and what is left of it without its suppressed records.

    A record is suppressed when every released column is the mark, or missing where the column cannot hold text. A
    count of classes shows at no cost whether a class of marks only exists; where none does, no record is
    suppressed and no column is looked at for it.

    Parameters
    ----------
    engine : Engine
    table : Table
    by : NothingLeft
        The rule over every column that is released: of a finished table all it has, of a run's those that are written.
    """

    engine: Engine
    table: Any
    by: NothingLeft
    _suppressed: int | None = field(default=None, init=False)
    _left: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.by.possible(self.table.schema):
            self._suppressed = 0

    @classmethod
    def of(cls, engine: Engine, table: Any, rules: JudgingRules) -> Self:
        """A table that is judged by these rules."""
        return cls(engine, table, NothingLeft(rules.released or tuple(table.schema.names), rules.mark, rules.untyped))

    @property
    def known(self) -> int | None:
        """The number of suppressed records, where it was asked for already."""
        return self._suppressed

    @property
    def suppressed(self) -> int:
        """The number of suppressed records."""
        if self._suppressed is None:
            self._suppressed = suppressed_records(self.engine, self.table, self.by)
        return self._suppressed

    @property
    def nothing(self) -> bool:
        """Whether every record is known to be suppressed."""
        return bool(self._suppressed) and self._suppressed == self.engine.count(self.table)

    @property
    def left(self) -> Any:
        """The table without them; the table itself where there are none."""
        if not self.suppressed:
            return self.table
        if self._left is None:
            self._left = self.engine.map_rows(self.table, Kept(self.by, suppressed=False), self.table.schema)
        return self._left

    def note_none_suppressed(self) -> None:
        """Take note that no class over some released columns consists of marks only: no record is suppressed."""
        if self._suppressed is None:
            self._suppressed = 0

    def holds_suppressed(self, keys: Sequence[str]) -> bool:
        """Whether all suppressed records are in the class of the mark over these columns."""
        return bool(keys) and not set(keys) & set(self.by.untyped)

    def is_whole_release(self, keys: Sequence[str]) -> bool:
        """Whether only these columns are released: then a row of marks over them is suppressed."""
        return self.holds_suppressed(keys) and set(self.by.columns) <= set(keys)

    def hinted(self, histograms: Mapping[str, Histogram], nulls: Mapping[str, int]) -> bool:
        """Whether what was learnt of some columns leaves room for a suppressed record, and would differ without it."""
        if self._suppressed is not None:
            return bool(self._suppressed)
        if not histograms and not any(nulls.values()):
            return False
        by = self.by
        told = {name: each.values for name, each in histograms.items() if name in by.columns}
        seen = [bears_nothing(values, by.mark, missing=name in by.untyped).any() for name, values in told.items()]
        typed = [name for name in nulls if name in by.columns and name not in by.texts(self.table.schema)]
        return bool(all(seen) and all(nulls[name] for name in typed))
