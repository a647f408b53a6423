"""Judge the release and its original as two whole files on the driver, row beside row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from privpipe.blocks import Facts, FactsRequest, FilePair, FilePairMeasure, GatheredPairs, Guarantee, Verdict
from privpipe.blocks.comparison import least
from privpipe.blocks.way import FILES
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging.required_columns import require_columns
from privpipe.judging.verdicts import not_judged, resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind
from privpipe.judging.ways.pairs import NOT_ALIGNED, NOT_IN_BOTH, paired
from privpipe.measures.label_meaning import labels_compared, values_compared
from privpipe.roles import Roles, column_type_of

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["LARGEST_GATHERED", "ByFiles"]

LARGEST_GATHERED = 400_000_000
"""Cells of both files that are brought to the driver at the most."""


class ByFiles(WayOfJudging):
    """Entries share one gathering of the columns that any of them reads; suppressed records are left out.

    Without an original, without ids, or with no record in both tables the outcome is an error, never a pass.
    """

    way = FILES
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        if not context.aligned:
            return {at: not_judged(entry, NOT_ALIGNED) for at, entry in entries.items()}
        over = of_kind(entries, FilePairMeasure)
        found = _gathered(context, list(over.values()))
        if isinstance(found, str):
            return {at: not_judged(entry, found) for at, entry in entries.items()}
        return {at: _judged(context, entry, found) for at, entry in over.items()}


def _gathered(context: JudgingContext, entries: Sequence[FilePairMeasure]) -> FilePair | str:
    """The columns of both files that an entry reads, or why they are not brought together.

    Raises
    ------
    DataError
        A column that one of the tables lacks.
    """
    engine, original, released = context.engine, context.original, context.with_ids.left
    columns = tuple(dict.fromkeys(name for entry in entries for name in entry.columns_read(context.roles)))
    for side, table in (("original", original), ("released table", released)):
        require_columns(table.schema.names, columns, side)
    records, kept = engine.count(original), engine.count(released)
    cells = 2 * kept * len(columns)
    if cells > LARGEST_GATHERED:
        return (
            f"the two files hold {cells:,} cells of the columns compared, {LARGEST_GATHERED:,} are brought together at "
            "the most; name fewer columns, or judge a sample of both files."
        )
    blocks = engine.reduce_pairs(original, released, columns, GatheredPairs(), Facts())
    if not blocks:
        return NOT_IN_BOTH
    before, after, ids = GatheredPairs.joined(blocks)
    rules = context.rules
    return FilePair(
        original=before,
        released=after,
        ids=ids,
        records=records,
        released_records=kept,
        original_facts=_moments(engine, original, entries, context.roles),
        stages=rules.stages,
        hierarchies=rules.hierarchies,
        order=rules.order,
        models=rules.models,
        rerun=rules.rerun,
    )


def _judged(context: JudgingContext, entry: FilePairMeasure, files: FilePair) -> Verdict:
    """The entry over its own columns of the shared files."""
    engine, own = context.engine, list(entry.columns_read(context.roles))
    files = replace(files, original=files.original.select(own), released=files.released.select(own))
    path = entry.table_beside()
    if path is not None:
        types: Any = {field.name: column_type_of(field.type) for field in files.original.schema}
        try:
            beside = engine.scan(Source(data=path, version=context.rules.versions.get(path), types=types))
        except DataError as error:
            error.args = (f"{entry.name()}: the table beside: {error}",)
            raise
        files = replace(files, beside=engine.collect(engine.select(beside, own)))
    verdict = resting_on(entry.judge_files(files), paired(len(files), files.released_records))
    if not entry.reads_values:
        return verdict
    labels = labels_compared(files.original, files.released, files.hierarchies, context.rules.mark)
    return resting_on(verdict, values_compared(files.original, files.released), *least(labels))


def _moments(engine: Engine, original: Any, entries: Sequence[FilePairMeasure], roles: Roles) -> Facts:
    wanted = dict.fromkeys(name for entry in entries for name in entry.original_moments(roles))
    numbers = tuple(name for name in wanted if _is_number(original.schema.field(name).type))
    return engine.facts(original, FactsRequest(moments=numbers)) if numbers else Facts()


def _is_number(kind: Any) -> bool:
    return column_type_of(kind) in ("integer", "number", "decimal")
