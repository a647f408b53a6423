"""Judge measures that compare the release with its original: block by block, or as two files on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Facts, FactsRequest, FilePair, FilePairMeasure, GatheredPairs, Guarantee, Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, did_you_mean
from privpipe.roles import Roles, column_type_of

if TYPE_CHECKING:
    from privpipe.judging.rules import JudgingRules
    from privpipe.judging.suppressed import Sheet

__all__ = ["LARGEST_GATHERED", "pair_verdicts"]

LARGEST_GATHERED = 400_000_000
"""Cells of both files that are brought to the driver at the most."""

NOT_GIVEN = "needs the original table beside the released one, aligned by record id; it was not given."


def pair_verdicts(
    sheet: Sheet,
    original: Any,
    entries: Mapping[int, Guarantee],
    roles: Roles,
    rules: JudgingRules,
) -> dict[int, Verdict]:
    """The verdict of each entry that reads pairs (`reads` of ``pairs`` or ``files``), by its place.

    Without an original, without ids, or with no record in both tables, the outcome is an error, never a pass. Entries
    over whole files share one gathering of the columns that any of them reads. Suppressed records are left out: as
    records that nobody can link they would make every share look smaller.

    Raises
    ------
    DataError
        A column that one of the tables lacks.
    """
    if not entries:
        return {}
    if original is None or not (original.has_record_ids and sheet.table.has_record_ids):
        return {at: _error(entry, NOT_GIVEN) for at, entry in entries.items()}
    engine, released = sheet.engine, sheet.left
    verdicts = {
        at: _pair_verdict(engine, released, original, entry, roles)
        for at, entry in entries.items()
        if entry.reads == "pairs"
    }
    over_files = {at: entry for at, entry in entries.items() if isinstance(entry, FilePairMeasure)}
    if over_files:
        verdicts |= _file_verdicts(engine, released, original, over_files, roles, rules)
    return verdicts


def _error(entry: Guarantee, reason: str) -> Verdict:
    return Verdict(entry, None, "error", entry.demanded(), reason=reason)


def _pair_verdict(engine: Engine, released: Any, original: Any, entry: Guarantee, roles: Roles) -> Verdict:
    columns = tuple(getattr(entry, "columns", None) or roles.quasi_identifiers)
    tally = engine.reduce_pairs(original, released, columns, entry, Facts())  # type: ignore[arg-type]
    if tally is None:
        return _error(entry, "no record is in both tables.")
    return entry.judge(tally, Facts())


def _file_verdicts(
    engine: Engine,
    released: Any,
    original: Any,
    entries: Mapping[int, FilePairMeasure],
    roles: Roles,
    rules: JudgingRules,
) -> dict[int, Verdict]:
    columns = tuple(dict.fromkeys(name for entry in entries.values() for name in entry.columns_read(roles)))
    for side, table in (("original", original), ("released table", released)):
        _require(table, columns, side)
    records, kept = engine.count(original), engine.count(released)
    cells = 2 * kept * len(columns)
    if cells > LARGEST_GATHERED:
        reason = (
            f"the two files hold {cells:,} cells of the columns compared, {LARGEST_GATHERED:,} are brought together at "
            "the most; name fewer columns, or judge a sample of both files."
        )
        return {at: _error(entry, reason) for at, entry in entries.items()}
    blocks = engine.reduce_pairs(original, released, columns, GatheredPairs(), Facts())
    if not blocks:
        return {at: _error(entry, "no record is in both tables.") for at, entry in entries.items()}
    before, after, ids = GatheredPairs.joined(blocks)
    files = FilePair(
        original=before,
        released=after,
        ids=ids,
        records=records,
        released_records=kept,
        original_facts=_moments(engine, original, list(entries.values()), roles),
        stages=rules.stages,
        hierarchies=rules.hierarchies,
        order=rules.order,
        models=rules.models,
        rerun=rules.rerun,
    )
    return {at: _judged(engine, entry, files, roles) for at, entry in entries.items()}


def _judged(engine: Engine, entry: FilePairMeasure, files: FilePair, roles: Roles) -> Verdict:
    """The entry over its own columns of the shared files."""
    own = list(entry.columns_read(roles))
    files = replace(files, original=files.original.select(own), released=files.released.select(own))
    path = entry.table_beside()
    if path is not None:
        types: Any = {field.name: column_type_of(field.type) for field in files.original.schema}
        try:
            beside = engine.scan(Source(data=path, types=types))
        except DataError as error:
            error.args = (f"{entry.name()}: the table beside: {error}",)
            raise
        files = replace(files, beside=engine.collect(engine.select(beside, own)))
    return entry.judge_files(files)


def _moments(engine: Engine, original: Any, entries: Sequence[FilePairMeasure], roles: Roles) -> Facts:
    wanted = dict.fromkeys(name for entry in entries for name in entry.original_moments(roles))
    numbers = tuple(name for name in wanted if _is_number(original.schema.field(name).type))
    return engine.facts(original, FactsRequest(moments=numbers)) if numbers else Facts()


def _is_number(kind: Any) -> bool:
    return column_type_of(kind) in ("integer", "number", "decimal")


def _require(table: Any, columns: Sequence[str], side: str) -> None:
    names = list(table.schema.names)
    for column in columns:
        if column not in names:
            raise DataError(f"column {column!r} is not in the {side}{did_you_mean(column, names)}")
