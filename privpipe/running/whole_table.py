"""Judge the whole table that readers will see once a release has joined the rows that are there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.blocks.release_history import HistoryMeasure
from privpipe.engines import Source
from privpipe.engines.lakes import Appended
from privpipe.errors import EngineError, UnsupportedError
from privpipe.judging import Assessment, assess
from privpipe.roles import column_type_of
from privpipe.running.run_context import RunContext, judging_rules
from privpipe.running.source_columns import is_bytes
from privpipe.running.staging import Staged
from privpipe.sinks.target import Rows

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["appended", "judge_whole", "require_judged_whole"]


def require_judged_whole(policy: Policy, staged: Staged) -> None:
    """Refuse a release that joins others where persons are distinguished by a column that it does not hold.

    Raises
    ------
    UnsupportedError
    """
    if policy.sink is None or not policy.sink.keeps_rows or staged.counted is None:
        return
    held = [name for name in staged.counted.schema.names if name not in staged.table.schema.names]
    raise UnsupportedError(
        f"guarantees count by {', '.join(map(repr, held))}, and rows that were released before are without it, so the "
        f"whole table cannot be judged after `mode: {policy.sink.mode}`; publish with `mode: replace`, or release a "
        "pseudonym (`pseudonymise`)"
    )


def appended(kept: Source, rows: Rows) -> Source:
    """The kept rows and the staged ones, as one table."""
    if not isinstance(rows, Path):
        raise EngineError("what joins a table is staged as files")
    return Source(data=Appended(kept, str(rows)))


def judge_whole(context: RunContext, staged: Staged, whole: Source) -> Assessment:
    """Judge a table of the rows of several runs by the guarantees of this one, and by what it itself shows.

    Base distributions are those of the table, for nothing is known of the originals of earlier rows. Entries with a
    ledger judged the batch together with every release that it remembers.
    """
    types = {field.name: column_type_of(field.type) for field in staged.table.schema if not is_bytes(field.type)}
    policy = context.policy
    table: Any = context.engine.scan(replace(whole, types=types))
    entries = [entry for entry in policy.guarantees if not isinstance(entry, HistoryMeasure)]
    rules = replace(
        judging_rules(policy),
        hierarchies=staged.rules.hierarchies,
        order=staged.run.attacks(),
    )
    rules = replace(rules, gate=replace(rules.gate, notes=False))
    return assess(context.engine, table, guarantees=entries, roles=staged.roles, rules=rules)
