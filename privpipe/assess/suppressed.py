"""Records of a finished table that count as suppressed: nothing but the mark in every quasi-identifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, RowBlock

if TYPE_CHECKING:
    from privpipe.engines import Engine
    from privpipe.roles import Roles

__all__ = ["Unsuppressed", "without_blank_records", "without_suppressed"]


@dataclass(frozen=True)
class Unsuppressed:
    """Keeps the records that are not suppressed: those with anything but the mark in a text, or a value elsewhere.

    In `others`, which are no quasi-identifiers, a missing text says as little as the mark.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"zip": ["*", "*", "1"], "age": [None, 30, None]}))
    >>> Unsuppressed(("zip", "age"), "*")(rows).column("age").to_pylist()
    [30, None]
    """

    columns: tuple[str, ...]
    mark: str
    others: tuple[str, ...] = ()

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(~self.suppressed(rows)))

    def suppressed(self, rows: RowBlock) -> NDArray[np.bool_]:
        """Which rows go."""
        import pyarrow as pa
        import pyarrow.compute as pc

        suppressed = np.ones(len(rows), dtype=np.bool_)
        for name in dict.fromkeys((*self.columns, *self.others)):
            column = rows.column(name)
            text = pa.types.is_string(column.type)
            nothing = name not in self.columns
            found = pc.fill_null(pc.equal(column, self.mark), nothing) if text else column.is_null()
            suppressed &= found.to_numpy(zero_copy_only=False)
        return suppressed


@dataclass(frozen=True)
class _Number:
    """How many records are suppressed."""

    by: Unsuppressed

    def measure(self, block: RowBlock, facts: Facts) -> int:
        return int(self.by.suppressed(block).sum())

    def merge(self, left: int, right: int) -> int:
        return left + right


def without_suppressed(engine: Engine, table: Any, quasi_identifiers: Sequence[str], roles: Roles, mark: str) -> Any:
    """The table without its suppressed records: the one rule of them, for guarantees, ledgers and earlier releases.

    A mark in some quasi-identifiers only is a value like any other. Where one is no text, and so cannot bear the mark,
    a record is suppressed when none of its cells, sensitive and insensitive ones among them, says anything.
    """
    import pyarrow as pa

    columns = tuple(quasi_identifiers)
    text = [name for name in columns if pa.types.is_string(table.schema.field(name).type)]
    if not text:
        return table
    others = _released(table, roles) if len(text) < len(columns) else ()
    return engine.map_rows(table, Unsuppressed(columns, mark, others), table.schema)


def without_blank_records(engine: Engine, table: Any, roles: Roles, mark: str) -> Any:
    """The table without the records of which nothing is left but the mark: nobody who attacks it looks at these.

    One with a mark in every quasi-identifier may still be recognised by what else is released of it.
    """
    import pyarrow as pa

    columns = _released(table, roles)
    if not any(pa.types.is_string(table.schema.field(name).type) for name in columns):
        return table
    blank = Unsuppressed(tuple(name for name in columns if name in roles.quasi_identifiers), mark, columns)
    if not engine.reduce_rows(table, columns, _Number(blank), Facts()):
        return table
    return engine.map_rows(table, blank, table.schema)


def _released(table: Any, roles: Roles) -> tuple[str, ...]:
    """Columns that a suppressed record is blank in: all but identifiers, which are for the run itself."""
    names = (*roles.quasi_identifiers, *roles.sensitive, *roles.insensitive)
    return tuple(name for name in names if name in table.schema.names)
