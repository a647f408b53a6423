"""Judge what a run wrote, and say what it discloses of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.engines import Engine, Source, Written
from privpipe.engines.base.fingerprint import fingerprint
from privpipe.errors import EngineError, UsageError
from privpipe.judging import Assessment, assess
from privpipe.judging.paired_sample import PairedSample
from privpipe.judging.recovering import recovery_notes
from privpipe.ledger import NOT_JUDGED, history_entries
from privpipe.running.aligning import reads_pairs
from privpipe.running.places import written_source
from privpipe.running.plan import Plan
from privpipe.running.positions import reads_positions, run_positions
from privpipe.running.reading import left_out_notes
from privpipe.running.run_context import RunContext
from privpipe.running.run_notes import linking_notes, seed_notes, value_notes
from privpipe.running.staging import Staged
from privpipe.sinks.target import Rows

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "judge_staged",
    "judge_written",
    "notes_of_source",
    "read_back",
    "source_of",
    "stages_of",
    "without_notes",
]


def source_of(policy: Policy) -> Source:
    """The policy's source, for a scan.

    Raises
    ------
    UsageError
        The policy names none.
    """
    if policy.source is None:
        raise UsageError("the policy has no `source:`; give one, or hand the data over in Python")
    return policy.source.to_source(policy.source_types, policy.base_dir)


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
    """Judge the files or the table, not the frame they came from; by that only to count persons they do not tell apart.

    Then they are proved to hold the very same records.

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
    judged = judge_staged(context, staged, table, positions)
    if judged.records + judged.suppressed_records != written.records + staged.suppressed_records:
        raise EngineError(
            f"{written.records:,} records were written but "
            f"{judged.records + judged.suppressed_records - staged.suppressed_records:,} were judged"
        )
    return judged


def judge_staged(context: RunContext, staged: Staged, table: Any, positions: Any = None) -> Assessment:
    """Judge a table that holds what was staged: as it was written, or as it is.

    Parameters
    ----------
    positions : RowPositions or str, optional
        Where records stand in the files, for entries that read it.
    """
    engine, policy = context.engine, context.policy
    if staged.counted is not None:
        table = staged.counted
    rules = replace(staged.rules, stages=stages_of(staged.plan), order=staged.run.attacks(), positions=positions)
    judged = assess(
        engine,
        table,
        guarantees=policy.guarantees,
        measures=policy.measures,
        roles=staged.roles,
        rules=replace(
            rules,
            gate=replace(rules.gate, columns=tuple(staged.table.schema.names)),
            released=tuple(staged.table.schema.names),
        ),
        original=staged.original,
        released=staged.table if reads_pairs(policy) else None,
        population=staged.population,
    )
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


def notes_of_source(engine: Engine, staged: Staged, sample: PairedSample | None) -> tuple[str, ...]:
    """What the release discloses of its source indirectly, in sentences."""
    if not staged.rules.gate.notes:
        return ()
    rules = replace(staged.rules, stages=stages_of(staged.plan))
    return recovery_notes(engine, staged.table, staged.original, staged.roles, rules, staged.run.attacks(), sample)


def without_notes(staged: Staged) -> Staged:
    """The same table, judged by its guarantees alone."""
    return replace(staged, rules=replace(staged.rules, gate=replace(staged.rules.gate, notes=False)))


def stages_of(plan: Plan) -> tuple[Mapping[str, Any], ...]:
    """The stages of a plan as attacks read them: methods and parameters are public."""
    stages: tuple[Mapping[str, Any], ...] = tuple(plan.to_dict()["stages"])
    return stages
