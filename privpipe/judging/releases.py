"""Judge a release together with earlier ones: by a ledger, or by the released tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Verdict
from privpipe.blocks.release_history import EarlierTables, HistoryMeasure
from privpipe.blocks.suppressed import NothingLeft, without_suppressed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging.perturbed import stage_columns
from privpipe.roles import Roles

if TYPE_CHECKING:
    from privpipe.judging.rules import JudgingRules
    from privpipe.judging.suppressed import Sheet

__all__ = ["history_verdicts"]

NO_LEDGER = (
    "needs the original beside the release, aligned by record id, to tell who is in which class; it was not given."
)


def history_verdicts(
    sheet: Sheet, entries: Mapping[int, HistoryMeasure], roles: Roles, rules: JudgingRules
) -> dict[int, Verdict]:
    """The verdict of each entry that reads `releases`, by its place; without what it needs an error, never a pass."""
    verdicts = {}
    for at, entry in entries.items():
        if entry.ledger is None:
            verdicts[at] = _by_tables(sheet, entry, roles, rules)
        elif entry.ledger in rules.histories:
            verdicts[at] = entry.judge_history(rules.histories[entry.ledger])
        else:
            verdicts[at] = Verdict(entry, None, "error", entry.demanded(), reason=NO_LEDGER)
    return verdicts


def _by_tables(sheet: Sheet, entry: HistoryMeasure, roles: Roles, rules: JudgingRules) -> Verdict:
    engine, released = sheet.engine, sheet.table
    keys = tuple(roles.quasi_identifiers) if entry.quasi_identifiers is None else entry.quasi_identifiers
    masked = {column for stage in rules.stages for column in stage_columns(stage["parameters"])}
    names = tuple(released.schema.names)
    joined = tuple(name for name in names if name not in keys and name not in masked)
    tables = [engine.scan(Source(data=path)) for path in entry.earlier_tables()]
    for path, table in enumerate(tables):
        if not set(keys) & set(table.schema.names):
            raise DataError(
                f"earlier[{path}] has none of the quasi-identifiers: it cannot be compared with this release"
            )
    earlier = []
    for table in tables:
        shared = [name for name in (*keys, *joined) if name in table.schema.names]
        earlier.append(engine.distinct(_unsuppressed(engine, table, sheet), shared))
    # By what an earlier release lacks no row is joined with it; each is compared over the columns it shares.
    current = engine.distinct(sheet.left, [*(name for name in keys if name in names), *joined])
    return entry.judge_tables(
        EarlierTables(current=current, earlier=tuple(earlier), keys=keys, joined=joined, hierarchies=rules.hierarchies)
    )


def _unsuppressed(engine: Engine, table: Any, sheet: Sheet) -> Any:
    """An earlier release without its suppressed records, by all the columns it has.

    It is read without declared types: where this release has no text, missing there says nothing.
    """
    names, now = tuple(table.schema.names), sheet.table.schema
    texts = NothingLeft(tuple(name for name in names if name in now.names), sheet.by.mark).texts(now)
    untyped = {*sheet.by.untyped, *(name for name in names if name in now.names and name not in texts)}
    return without_suppressed(engine, table, NothingLeft(names, sheet.by.mark, tuple(sorted(untyped))))
