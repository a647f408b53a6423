"""The judged table without its suppressed records: looked for once, and only where something hints at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privpipe.blocks.suppressed import NothingLeft, bears_nothing, suppressed_records, without_suppressed

if TYPE_CHECKING:
    from privpipe.blocks import Histogram
    from privpipe.engines import Engine

__all__ = ["Sheet"]


@dataclass
class Sheet:
    """A table that is judged, and what is left of it without its suppressed records.

    A record is suppressed when every released column is the mark, or missing where the column cannot hold text. A
    count of classes tells at no cost whether a class of nothing but marks exists; where none does, no record is
    suppressed and no column is looked at for it.

    Parameters
    ----------
    engine : Engine
    table : Table
    columns : tuple of str
        Every column that is released: of a finished table all it has, of a run's table those that are written.
    mark : str
    """

    engine: Engine
    table: Any
    columns: tuple[str, ...]
    mark: str
    _suppressed: int | None = field(default=None, init=False)
    _left: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not NothingLeft(self.columns, self.mark).possible(self.table.schema):
            self._suppressed = 0

    @property
    def known(self) -> int | None:
        """The number of suppressed records, where it was asked for already."""
        return self._suppressed

    @property
    def suppressed(self) -> int:
        """The number of suppressed records."""
        if self._suppressed is None:
            self._suppressed = suppressed_records(self.engine, self.table, self.columns, self.mark)
        return self._suppressed

    @property
    def left(self) -> Any:
        """The table without them; the table itself where there are none."""
        if not self.suppressed:
            return self.table
        if self._left is None:
            self._left = without_suppressed(self.engine, self.table, self.columns, self.mark)
        return self._left

    def none_found(self) -> None:
        """Take note that no class over some released columns is of nothing but marks: no record is suppressed."""
        if self._suppressed is None:
            self._suppressed = 0

    def alone_in(self, keys: Sequence[str]) -> bool:
        """Whether nothing but these columns is released: then a row of marks over them is suppressed."""
        return set(self.columns) <= set(keys)

    def hinted(self, histograms: Mapping[str, Histogram], nulls: Mapping[str, int]) -> bool:
        """Whether what was learnt of some columns leaves room for a suppressed record, and would differ without it."""
        if self._suppressed is not None:
            return bool(self._suppressed)
        if not histograms and not any(nulls.values()):
            return False
        known = {name: each.values for name, each in histograms.items() if name in self.columns}
        seen = [bears_nothing(values, self.mark).any() for values in known.values()]
        text = NothingLeft(self.columns, self.mark).texts(self.table.schema)
        missing = [count > 0 for name, count in nulls.items() if name in self.columns and name not in text]
        return bool(all(seen) and all(missing))
