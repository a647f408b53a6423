"""Judge a release together with earlier ones: by a ledger, or only by the released tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.release_history import EarlierTables, HistoryMeasure
from privpipe.blocks.row_reductions import NothingLeft, without_suppressed
from privpipe.blocks.verdict import Comparison
from privpipe.blocks.way import HISTORY
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging.assessment import ALL_SUPPRESSED, not_judged, resting_on
from privpipe.judging.notes import stage_columns
from privpipe.judging.ways import WayOfJudging, of_kind

if TYPE_CHECKING:
    from privpipe.judging.counted_classes import JudgingContext
    from privpipe.judging.judged_table import JudgedTable

__all__ = ["ByHistory"]

NO_LEDGER = (
    "needs the original together with the release, aligned by record id, to tell who is in which class; it was not "
    "given."
)


class ByHistory(WayOfJudging):
    """An error if what an entry needs is missing, never a pass."""

    way = HISTORY
    counts_persons: ClassVar[bool] = True
    no_expectation: ClassVar[str] = (
        "it is judged together with earlier releases, by a ledger that a run keeps; judge it in a policy"
    )

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _verdict(entry, context) for at, entry in of_kind(entries, HistoryMeasure).items()}

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        if isinstance(entry, HistoryMeasure) and entry.forms_classes:
            return super().columns_used_by(entry, quasi_identifiers)
        own = entry.own_columns()
        return tuple(quasi_identifiers if own is None else own)


def _verdict(entry: HistoryMeasure, context: JudgingContext) -> Verdict:
    if entry.ledger is None:
        return _by_tables(entry, context)
    if entry.ledger in context.rules.histories:
        history = context.rules.histories[entry.ledger]
        # A person that no earlier release holds was looked up as well: the ledger notes how many it knows.
        units = len(history.current)
        rests_on = Comparison(units, units, "records or combinations of this release are looked up in the ledger")
        return resting_on(entry.judge_history(history), rests_on)
    return not_judged(entry, NO_LEDGER)


def _by_tables(entry: HistoryMeasure, context: JudgingContext) -> Verdict:
    judged_table, rules = context.with_ids, context.rules
    engine, released = judged_table.engine, judged_table.table
    keys = tuple(context.roles.quasi_identifiers) if entry.quasi_identifiers is None else entry.quasi_identifiers
    masked = {column for stage in rules.stages for column in stage_columns(stage)}
    names = tuple(released.schema.names)
    joined = tuple(name for name in names if name not in keys and name not in masked)
    tables = [engine.scan(Source(data=path, version=rules.versions.get(path))) for path in entry.earlier_tables()]
    for path, table in enumerate(tables):
        if not set(keys) & set(table.schema.names):
            raise DataError(
                f"earlier[{path}] has none of the quasi-identifiers: it cannot be compared with this release"
            )
    # Each earlier release is joined and compared only over the columns that it shares.
    current = engine.distinct(judged_table.left, [*(name for name in keys if name in names), *joined])
    if not current.num_rows:
        return not_judged(entry, ALL_SUPPRESSED)
    earlier = []
    for number, table in enumerate(tables):
        shared = [name for name in (*keys, *joined) if name in table.schema.names]
        earlier.append(engine.distinct(_unsuppressed(engine, table, judged_table), shared))
        if not earlier[-1].num_rows:
            return not_judged(
                entry, f"earlier[{number}] has no record that is not suppressed: take it out of `earlier`."
            )
    return entry.judge_tables(
        EarlierTables(current=current, earlier=tuple(earlier), keys=keys, joined=joined, hierarchies=rules.hierarchies)
    )


def _unsuppressed(engine: Engine, table: Any, judged_table: JudgedTable) -> Any:
    """An earlier release without its suppressed records, by all the columns it has.

    It is read without declared types: where this release has no text, missing there shows nothing.
    """
    names, now = tuple(table.schema.names), judged_table.table.schema
    texts = NothingLeft(tuple(name for name in names if name in now.names), judged_table.by.mark).texts(now)
    untyped = {*judged_table.by.untyped, *(name for name in names if name in now.names and name not in texts)}
    return without_suppressed(engine, table, NothingLeft(names, judged_table.by.mark, tuple(sorted(untyped))))
