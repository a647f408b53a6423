"""A source, checked against its policy and given record ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.blocks import FactsRequest
from privpipe.engines import Engine
from privpipe.errors import DataError, EngineError, did_you_mean
from privpipe.running.run_context import RunContext
from privpipe.running.source_columns import require_bytes_unjudged
from privpipe.running.tables_read import scanned, without_others

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.running.drift import SourceDrift

__all__ = ["VALUE_BYTES", "attach", "require_declared", "require_no_refused_null", "require_room_for_hierarchies"]


VALUE_BYTES = 1000
"""What a distinct value takes while a hierarchy is built and its labels are laid out.

Scaled from 9 GB for 10M distinct texts; not measured at other sizes.
"""
LEAST_RECORDS = 500_000
"""No hierarchy over fewer values is worth a look."""


def require_room_for_hierarchies(engine: Engine, table: Any, policy: Policy) -> None:
    """Refuse a table of which a column with a hierarchy has more distinct values than memory holds labels for.

    Only an engine that knows its memory, and estimates distinct values, can decide.

    Raises
    ------
    EngineError
        With the column, what it would need and what to change.
    """
    memory = engine.resources.memory
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


def attach(context: RunContext, source: Any, *, planned: bool = False, drift: SourceDrift | None = None) -> Any:
    """The source as a table of the engine, checked against the policy's columns, with record ids.

    Raises
    ------
    DataError
        A column that the policy does not declare, or declares and the data lacks; an empty table, unless the policy
        lets one pass or a plan is at hand (`planned`); a missing value where the policy refuses them; a difference
        from the run before (`drift`) that the policy does not accept.
    EngineError
        A column with more values than memory has room for their labels.
    """
    engine, policy = context.engine, context.policy
    table = _scanned(engine, source, policy)
    if drift is not None:
        drift.look(engine.frames.schema(source), table.schema, policy, engine.name)
    table = without_others(engine, table, policy)
    require_declared(table, policy)
    require_bytes_unjudged(table, policy)
    if policy.empty != "pass" and not planned and engine.count(table) == 0:
        raise DataError(
            "the source has no records: there is nothing to judge; where a batch may be empty, write `empty: pass`"
        )
    require_no_refused_null(engine, table, policy)
    require_room_for_hierarchies(engine, table, policy)
    return engine.with_record_ids(table, policy.record_id, context.seed)


def _scanned(engine: Engine, source: Any, policy: Policy) -> Any:
    """As `scanned`; an error about a declared column says where the policy declares it."""
    try:
        return scanned(engine, source)
    except DataError as error:
        if error.column in policy.columns:
            error.args = (f"{policy.located(f'columns.{error.column}')}: {error}",)
        raise


def require_no_refused_null(engine: Engine, table: Any, policy: Policy) -> None:
    """`nulls: refuse` concerns the source: a stage may give a missing value a label that no judge can recognise.

    Raises
    ------
    DataError
        A column in which missing values are refused has some (their number).
    """
    whole = policy.roles.quasi_identifiers if policy.nulls == "refuse" else ()
    refused = tuple(n for n, column in policy.columns.items() if n in whole or column.nulls == "refuse")
    nulls = engine.facts(table, FactsRequest(nulls=refused)).nulls if refused else {}
    for column, count in nulls.items():
        if count:
            values = "value" if count == 1 else "values"
            raise DataError(
                f"{policy.located(f'columns.{column}')}: {column!r} has {count:,} missing {values} and the policy says "
                "`nulls: refuse`; complete or leave out those records, or write `nulls: own_value` or `nulls: wildcard`"
            )


def require_declared(table: Any, policy: Policy) -> None:
    """Nothing is released by accident: every column has a role and every role has its column."""
    present, declared = list(table.schema.names), list(policy.columns)
    missing = [name for name in declared if name not in present]
    if missing:
        hint = "; is the delimiter right?" if len(present) == 1 and len(declared) > 1 else ""
        lines = [
            f"{policy.located(f'columns.{name}')}: the data has no column {name!r}{did_you_mean(name, present)}"
            for name in missing
        ]
        raise DataError("\n".join(lines) + hint)
    extra = [name for name in present if name not in declared]
    if extra:
        shown = ", ".join(f"{name!r}{did_you_mean(name, [])}" for name in extra)
        raise DataError(
            f"{len(extra)} column(s) of the data have no role in the policy: {shown}; give each a role under "
            '`columns:`, take it out of the data (a named index level is a column), or write `"*": drop` there to '
            "leave out what the policy does not name; nothing is released by accident"
        )
