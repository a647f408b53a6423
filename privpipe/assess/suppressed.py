"""Records of a finished table that count as suppressed: nothing but the mark in every quasi-identifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import RowBlock

if TYPE_CHECKING:
    from privpipe.assess.rules import JudgingRules
    from privpipe.engines import Engine
    from privpipe.roles import Roles

__all__ = ["Unsuppressed", "without_suppressed"]


@dataclass(frozen=True)
class Unsuppressed:
    """Keeps the records that are not suppressed: those with anything but the mark in a text, or a value elsewhere.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"zip": ["*", "*", "1"], "age": [None, 30, None]}))
    >>> Unsuppressed(("zip", "age"), "*")(rows).column("age").to_pylist()
    [30, None]
    """

    columns: tuple[str, ...]
    mark: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        suppressed = np.ones(len(rows), dtype=np.bool_)
        for name in self.columns:
            column = rows.column(name)
            text = pa.types.is_string(column.type)
            found = pc.fill_null(pc.equal(column, self.mark), False) if text else column.is_null()
            suppressed &= found.to_numpy(zero_copy_only=False)
        return rows.take(np.flatnonzero(~suppressed))


def without_suppressed(
    engine: Engine, table: Any, quasi_identifiers: Sequence[str], roles: Roles, rules: JudgingRules
) -> Any:
    """The table without its suppressed records.

    A mark in some quasi-identifiers only is a value like any other. Where one is no text, and so cannot bear the mark,
    a record is suppressed when none of its cells, sensitive and insensitive ones among them, says anything.
    """
    import pyarrow as pa

    text = [name for name in table.schema.names if pa.types.is_string(table.schema.field(name).type)]
    columns = tuple(quasi_identifiers)
    if not set(columns) & set(text):
        return table
    if not set(columns) <= set(text):
        others = [*roles.quasi_identifiers, *roles.sensitive, *roles.insensitive]
        kept = [name for name in others if name in table.schema.names and name != rules.person]
        columns = tuple(dict.fromkeys([*columns, *kept]))
    return engine.map_rows(table, Unsuppressed(columns, rules.mark), table.schema)
