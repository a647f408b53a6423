"""Quasi-identifiers whose values are too many for a hierarchy in memory, told before anything is read in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.engines import Engine
from privpipe.errors import EngineError

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["VALUE_BYTES", "require_room_for_hierarchies"]

VALUE_BYTES = 1000
"""What a distinct value takes while a hierarchy is built and its labels are laid out.

Scaled from 9 GB for 10M distinct texts; not measured at other sizes.
"""
LEAST_RECORDS = 500_000
"""No hierarchy over fewer values is worth a look."""


def require_room_for_hierarchies(engine: Engine, table: Any, policy: Policy) -> None:
    """Refuse a table of which a column with a hierarchy has more distinct values than memory holds labels for.

    Only an engine that knows its memory, and estimates distinct values, can tell.

    Raises
    ------
    EngineError
        With the column, what it would need and what to change.
    """
    memory = engine.memory
    if memory is None or not any(stage.searches for stage in policy.transform):
        return
    columns = [name for name in policy.hierarchies if name in table.schema.names]
    records = engine.count(table)
    if not columns or records < LEAST_RECORDS or records * VALUE_BYTES <= memory:
        return
    for name, values in engine.estimated_distinct(table, columns).items():
        needed = min(values, records) * VALUE_BYTES
        if needed > memory:
            raise EngineError(
                f"column {name!r} has some {min(values, records):,} distinct values: its hierarchy would take some "
                f"{needed / 1e9:.1f} GB of memory, and the limit is {memory / 1e9:.1f} GB. Nothing was read further. "
                f"Give {name!r} the role identifier, or shorten its values before the release (the first digits of a "
                f"code, the year of a date), or raise `memory_limit` under `engines.embedded` to "
                f"{int(1.5 * needed / 1e9) + 1}GB"
            )
