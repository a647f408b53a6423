"""Judge the rows that a run wrote, and the whole table that they join.

This covers its records paired with their originals, their positions, and what they disclose about the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.blocks.file_pair import RowPositions
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.draws import Stream
from privpipe.engines import Engine, Source, Written
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.lakes import Appended
from privpipe.engines.readers.source_facts import POSITION, positioned
from privpipe.errors import EngineError, UnsupportedError
from privpipe.judging import Assessment, assess
from privpipe.judging.paired_columns import PairedSample
from privpipe.judging.recovery import Recoveries, recoveries
from privpipe.judging.release_memory import hashed_rows
from privpipe.ledger import NOT_JUDGED, history_entries
from privpipe.roles import column_type_of
from privpipe.running.attached_source import is_bytes
from privpipe.running.finished_table import (
    NO_MATCH,
    found_at,
    group_numbers,
    reads_pairs,
    reads_positions,
    row_hashes,
)
from privpipe.running.places import written_source
from privpipe.running.plan import Plan
from privpipe.running.run_context import RunContext, judging_rules, left_out_notes, run_columns, source_of
from privpipe.running.run_documents import linking_notes, seed_notes, value_notes
from privpipe.running.staging import Staged
from privpipe.sinks.target import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = [
    "appended",
    "judge_staged",
    "judge_whole",
    "judge_written",
    "read_back",
    "recoveries_of_source",
    "require_judged_whole",
    "run_positions",
    "stages_of",
    "without_notes",
]


def run_positions(
    context: RunContext, source: Source, released: Any, files: Source, order: Stream
) -> RowPositions | str:
    """Of the records of a run: the files' order is compared, row by row, with the keyed one they were written in.

    Parameters
    ----------
    source : Source
        The original.
    released : Table
        The staged records, with their ids.
    files : Source
        As they were written.
    order : Stream
        The sink's.

    Returns
    -------
    RowPositions or str
        Why there are none: a source or files without an order.
    """
    try:
        first, written = positioned(context.engine.frames.held(source)), positioned(files)
    except UnsupportedError as error:
        return f"{error}."
    engine, seed = context.engine, context.seed
    names = list(released.schema.names)
    ids, hashes = hashed_rows(engine, released, names, seed)
    keyed = order.arrange(ids)
    proved = bool(np.array_equal(row_hashes(written, names, seed), hashes[keyed]))
    places = np.empty(len(ids), dtype=np.int64)
    places[keyed] = np.arange(len(ids))
    own, at = _original_ids(context, source, first)
    found = found_at(own, ids)
    if (found < 0).any():
        return NO_MATCH
    return RowPositions(classes=group_numbers(hashes), released=places, original=at[found], proved=proved)


def _original_ids(context: RunContext, source: Source, first: pa.Table) -> tuple[Ints, Ints]:
    """The record ids of the original and the position of each; rows that are identical are taken as they come."""
    from privpipe.kernels.ids.record_ids import content_hash, declared_id, ordinals, record_id

    engine, policy, seed = context.engine, context.policy, context.seed
    table = engine.collect(engine.scan(Source(data=first, types=source.types)))
    at = table[POSITION].to_numpy()
    if policy.record_id is not None:
        return declared_id(table[policy.record_id], seed), at
    words = content_hash(table.select(run_columns(table.drop_columns([POSITION]).schema.names, policy)), seed)
    return record_id(words, ordinals(words), seed), at


def read_back(context: RunContext, staged: Staged, place: Rows) -> Any:
    """The table of the files, or of the table, that a release was written to.

    Raises
    ------
    EngineError
        It has other columns.
    """
    table = context.engine.scan(written_source(context.policy, staged, place))
    names = list(staged.table.schema.names)
    if isinstance(place, Source) and sorted(table.schema.names) == sorted(names):
        table = context.engine.select(table, names)  # a table has its columns in the order of its first release
    if list(table.schema.names) != names:
        raise EngineError("the written files do not have the columns of the release")
    return table


def judge_written(
    context: RunContext, staged: Staged, place: Rows, written: Written, *, table: Any = None
) -> Assessment:
    """Judge the files or the table, not the frame they came from, which only counts persons they do not distinguish.

    Then they are proved to hold the same records.

    Parameters
    ----------
    table : Table, optional
        From `read_back`, for one judgement: the next one reads the files again.
    """
    engine, policy, seed = context.engine, context.policy, context.seed
    table = read_back(context, staged, place) if table is None else table
    paired = reads_pairs(policy)
    if (staged.counted is not None or paired) and fingerprint(engine, table, seed) != fingerprint(
        engine, staged.table, seed
    ):
        raise EngineError("the written files do not hold the records that were staged")
    positions = None
    if reads_positions(policy):
        files = written_source(policy, staged, place)
        positions = run_positions(context, source_of(policy), staged.table, files, staged.order)
    judged = _noted(context, staged, assess(engine, **_asked(context, staged, table, positions)))
    if judged.records + judged.suppressed_records != written.records + staged.suppressed_records:
        raise EngineError(
            f"{written.records:,} records were written but "
            f"{judged.records + judged.suppressed_records - staged.suppressed_records:,} were judged"
        )
    return judged


def judge_staged(context: RunContext, staged: Staged, table: Any) -> Assessment:
    """Judge a table that holds the staged rows, unchanged."""
    return _noted(context, staged, assess(context.engine, **_asked(context, staged, table, None)))


def _asked(context: RunContext, staged: Staged, table: Any, positions: Any) -> dict[str, Any]:
    """The arguments of `assess` for a table that holds the staged rows."""
    policy, released = context.policy, tuple(staged.table.schema.names)
    rules = replace(staged.rules, stages=stages_of(staged.plan), order=staged.run.attacks(), positions=positions)
    return {
        "table": table if staged.counted is None else staged.counted,
        "guarantees": policy.guarantees,
        "measures": policy.measures,
        "roles": staged.roles,
        "rules": replace(rules, gate=replace(rules.gate, columns=released), released=released),
        "original": staged.original,
        "released": staged.table if reads_pairs(policy) else None,
        "population": staged.population,
    }


def _noted(context: RunContext, staged: Staged, judged: Assessment) -> Assessment:
    """The judgement with what the run states about itself."""
    policy = context.policy
    linked = linking_notes(policy, frozen=staged.plan.frozen)
    notes = (*seed_notes(policy), *judged.notes, *linked, *value_notes(policy), *staged.notes)
    return replace(
        judged,
        suppressed_records=judged.suppressed_records + staged.suppressed_records,
        notes=notes if history_entries(policy.entries) else (*notes, NOT_JUDGED),
        source_notes=(
            *judged.source_notes,
            *staged.source_notes,
            *left_out_notes(policy, source=source_of(policy)),
        ),
    )


def recoveries_of_source(engine: Engine, staged: Staged, sample: PairedSample | None = None) -> Recoveries:
    """What the release discloses of its source indirectly."""
    if not staged.rules.gate.notes:
        return Recoveries()
    rules = replace(staged.rules, stages=stages_of(staged.plan))
    return recoveries(engine, staged.table, staged.original, staged.roles, rules, staged.run.attacks(), sample)


def without_notes(staged: Staged) -> Staged:
    """The same table, judged only by its guarantees."""
    return replace(staged, rules=replace(staged.rules, gate=replace(staged.rules.gate, notes=False)))


def stages_of(plan: Plan) -> tuple[Mapping[str, Any], ...]:
    """The stages of a plan as attacks read them: methods and parameters are public."""
    stages: tuple[Mapping[str, Any], ...] = tuple(plan.to_dict()["stages"])
    return stages


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
        raise EngineError("rows that join a table are staged as files")
    return Source(data=Appended(kept, str(rows)))


def judge_whole(context: RunContext, staged: Staged, whole: Source) -> Assessment:
    """Judge a table of the rows of several runs by the guarantees of this one, from the table alone.

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
