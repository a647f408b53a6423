"""The release runner: stage beside the target, judge what was written, publish in one move, judge again."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.draws import Seed
from privpipe.engines import Engine, Source, Written
from privpipe.engines.base.fingerprint import fingerprint
from privpipe.engines.base.stamps import require_stamps, stamps_of
from privpipe.errors import EngineError, SinkError, UsageError
from privpipe.judging import Assessment, assess
from privpipe.judging.recovering import recovery_notes
from privpipe.ledger import NOT_JUDGED, history_entries
from privpipe.roles import column_type_of
from privpipe.running.aligning import reads_pairs
from privpipe.running.attaching import attach
from privpipe.running.frozen import frozen_plan, require_fitting
from privpipe.running.key_history import KeyHistory
from privpipe.running.plan import Plan
from privpipe.running.population import population_beside
from privpipe.running.positions import reads_positions, run_positions
from privpipe.running.reading import left_out_notes
from privpipe.running.remembering import Remembering
from privpipe.running.rerun import Rerun
from privpipe.running.run_documents import output_of, run_documents, run_header, write_public
from privpipe.running.run_notes import linking_notes, require_publishable_seed, seed_notes
from privpipe.running.staging import Staged, run_stages
from privpipe.sinks.formula_cells import escapes_formulas, formula_notes
from privpipe.sinks.local import LocalTarget, sink_faults
from privpipe.sinks.records import PrivateRecords
from privpipe.sinks.remote import RemoteTarget, is_remote

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "STEPS",
    "ReleaseResult",
    "judge_written",
    "notes_of_source",
    "release_with",
    "sink_format",
    "source_of",
    "stages_of",
    "target_of",
    "without_notes",
]

log = logging.getLogger("privpipe.release")
STEPS = ("scan", "stage", "write", "judge", "publish", "judge again", "done")
"""What `progress` is called with, in this order (before each step)."""


@dataclass(frozen=True, kw_only=True)
class ReleaseResult:
    """A published release.

    Parameters
    ----------
    path : str
        Where it is read.
    run_id : str
    assessment : Assessment
        Of the published files.
    plan : Plan
    manifest : mapping
        The whole manifest, as the private record holds it.
    record : str
        Folder of the private record.
    public : mapping of str to mapping
        The public documents by name, as published: verdict, manifest, plan.
    """

    path: str
    run_id: str
    assessment: Assessment
    plan: Plan
    manifest: Mapping[str, Any]
    record: str = ""
    public: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)

    @property
    def verdict_document(self) -> dict[str, Any]:
        """The whole verdict document, as the private record holds it."""
        return self.assessment.to_dict()


def release_with(
    engine: Engine,
    policy: Policy,
    *,
    target: str | None = None,
    plan: Plan | str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> ReleaseResult:
    """Stage, judge and publish the policy's source on an engine, by a frozen plan where one is given or named.

    Raises
    ------
    Refused
        A guarantee does not hold over the written files; it carries the assessment.
    NoSolutionError, DataError, UsageError, EngineError
        Nothing was published, and what was published before is untouched.
    """
    require_publishable_seed(policy)
    tell = progress or (lambda step: None)  # what it raises ends the run like any error: nothing is published then
    seed = policy.seed.resolve() if policy.seed else Seed.from_os()
    frozen = frozen_plan(policy, plan)
    if frozen is not None:
        require_fitting(frozen, policy, seed)
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    with target_of(policy, target) as place, Remembering(policy, place) as memory:
        records = PrivateRecords.of(policy, place)
        records.open(place.current())
        tell("scan")
        source = source_of(policy)
        stamps = stamps_of(source)
        original = attach(engine, source, policy, seed)
        generalized = policy.population is not None and policy.population.generalized
        population = None if generalized else population_beside(engine, policy, original)
        tell("stage")
        staged = run_stages(
            engine,
            original,
            policy,
            seed,
            plan=frozen,
            frozen=frozen is not None,
            salt=run_id,
            population=population,
            progress=tell,
        )
        keys = KeyHistory(place.state if isinstance(place, LocalTarget) else None, seed)
        # Whether a key is the one of before depends on what was learnt from the source.
        staged = replace(staged, source_notes=keys.notes(policy.transform, staged.draws))
        if generalized:
            staged = replace(staged, population=population_beside(engine, policy, staged.table))
        tell("write")
        folder = place.stage(run_id)
        formulas = formula_notes(engine, policy, staged.table)
        escape = escapes_formulas(policy)
        written = engine.write(staged.table, str(folder), sink_format(policy), staged.order, escape=escape)
        tell("judge")
        header = run_header(engine, policy, staged.plan, run_id)
        memory.gather(engine, staged.original, staged.table, staged.roles, staged.noise)
        rerun = Rerun(engine, policy, staged.original, seed, staged.source)
        rules = replace(staged.rules, histories=memory.histories, rerun=rerun)
        staged = replace(staged, rules=rules, notes=(*memory.notes, *formulas))
        judged = judge_written(engine, policy, staged, folder, written, seed).within(**header)
        judged = judged.noting(source=notes_of_source(engine, staged))
        if not judged.passed:
            place.refuse(run_id)
            records.keep(run_id, {"verdict": judged.to_dict()}, pending=False)
            judged.raise_if_failed()
        require_stamps(stamps)
        with sink_faults(folder):
            files = [path for path in folder.iterdir() if path.is_file()]
            private, public = run_documents(
                engine, policy, staged, judged, seed=seed, output=output_of(staged, files, written)
            )
            write_public(folder, public)
        record = records.keep(run_id, private, pending=True)
        tell("publish")
        memory.prepare(run_id)
        try:
            path = place.publish(run_id)
            tell("judge again")
            again = judge_written(engine, policy, without_notes(staged), place.published(run_id), written, seed)
            if set(again.notes) <= set(judged.notes):  # what was noted of the same rows before still holds
                again = replace(again, notes=judged.notes, source_notes=judged.source_notes)
            again = again.within(**header)
            if again.to_dict() != judged.to_dict():
                raise EngineError("the published files do not read back as they were judged; the release was withdrawn")
            tell("done")
        except BaseException:  # whatever stopped it, nobody judged what readers now see, if they see it
            try:
                place.withdraw(run_id)
            finally:  # by what the sink points at
                memory.settle()
                records.settle(place.current())
            raise
        _tidied(memory, records, keys, policy, staged, run_id)
    return ReleaseResult(
        path=path,
        run_id=run_id,
        assessment=again,
        plan=staged.plan,
        manifest=private["manifest"],
        record=str(record),
        public=public,
    )


def _tidied(
    memory: Remembering, records: PrivateRecords, keys: KeyHistory, policy: Policy, staged: Staged, run_id: str
) -> None:
    """Settle what was noted before the release was published; what fails now does not make it unpublished."""
    steps = (memory.settle, lambda: records.settle(run_id), lambda: keys.keep(policy.transform, staged.draws))
    for step in steps:
        try:
            step()
        except SinkError as error:
            log.warning("the release is published; the next run settles what could not be written: %s", error)


def source_of(policy: Policy) -> Source:
    """The policy's source, for a scan.

    Raises
    ------
    UsageError
        The policy names none.
    """
    if policy.source is None:
        raise UsageError("the policy has no `source:`; give one, or hand the data over in Python")
    return policy.source.to_source(policy.types, policy.base_dir)


def sink_format(policy: Policy) -> Any:
    """Format of the released files."""
    return policy.sink.format if policy.sink else "parquet"


def target_of(policy: Policy, target: str | None) -> LocalTarget | RemoteTarget:
    """The place to publish to: `target`, else the policy's sink."""
    path = target or (policy.sink.path if policy.sink else None)
    if path is None:
        raise UsageError("nowhere to publish to: give a `sink:` in the policy, or --target")
    if is_remote(path):
        return RemoteTarget(path)
    # A path of the policy starts at the policy file, one of the command line where the user stands.
    return LocalTarget(Path(path) if target else policy.base_dir / path)


def judge_written(
    engine: Engine, policy: Policy, staged: Staged, folder: Path, written: Written, seed: Seed
) -> Assessment:
    """Judge the files, not the frame they came from; by that frame only to count persons the files do not tell apart.

    Then the files are proved to hold the very same records.
    """
    types = {field.name: column_type_of(field.type) for field in staged.table.schema}
    files = Source(
        data=str(folder),
        format=sink_format(policy),
        types=types,
        quoted_nulls=False,
        escaped_formulas=escapes_formulas(policy),
    )
    table = engine.scan(files)
    if list(table.schema.names) != list(staged.table.schema.names):
        raise EngineError("the written files do not have the columns of the release")
    paired = reads_pairs(policy)
    if (staged.counted is not None or paired) and fingerprint(engine, table, seed) != fingerprint(
        engine, staged.table, seed
    ):
        raise EngineError("the written files do not hold the records that were staged")
    positions = None
    if reads_positions(policy):
        positions = run_positions(engine, policy, source_of(policy), staged.table, files, seed, staged.order)
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
        released=staged.table if paired else None,
        population=staged.population,
    )
    if judged.records + judged.suppressed_records != written.records:
        raise EngineError(
            f"{written.records:,} records were written but {judged.records + judged.suppressed_records:,} were judged"
        )
    notes = (*seed_notes(policy), *judged.notes, *linking_notes(policy), *staged.notes)
    return replace(
        judged,
        suppressed_records=judged.suppressed_records + staged.suppressed_records,
        notes=notes if history_entries(policy) else (*notes, NOT_JUDGED),
        source_notes=(
            *judged.source_notes,
            *staged.source_notes,
            *left_out_notes(policy, source=source_of(policy)),
        ),
    )


def notes_of_source(engine: Engine, staged: Staged) -> tuple[str, ...]:
    """What the release discloses of its source indirectly, in sentences."""
    if not staged.rules.gate.notes:
        return ()
    rules = replace(staged.rules, stages=stages_of(staged.plan))
    return recovery_notes(engine, staged.table, staged.original, staged.roles, rules, staged.run.attacks())


def without_notes(staged: Staged) -> Staged:
    """The same table, judged by its guarantees alone."""
    return replace(staged, rules=replace(staged.rules, gate=replace(staged.rules.gate, notes=False)))


def stages_of(plan: Plan) -> tuple[Mapping[str, Any], ...]:
    """The stages of a plan as attacks read them: methods and parameters are public."""
    stages: tuple[Mapping[str, Any], ...] = tuple(plan.to_dict()["stages"])
    return stages
