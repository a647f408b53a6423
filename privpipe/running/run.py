"""The release runner: stage next to the target, judge the written files, publish in one move, judge again."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from privpipe.engines import Engine, Written
from privpipe.engines.readers.files import Stamp, require_stamps, stamps_of
from privpipe.errors import EngineError, NotWithdrawn
from privpipe.judging import Assessment
from privpipe.progress import watched
from privpipe.running.attached_source import SourceDrift, attach, require_file_of_bytes, require_flat
from privpipe.running.judged_rows import (
    appended,
    judge_staged,
    judge_whole,
    judge_written,
    read_back,
    recoveries_of_source,
    require_judged_whole,
    without_notes,
)
from privpipe.running.kept_records import in_order, keep_left_out, of_sink, prune_records, published_rows, refused_runs
from privpipe.running.officers import under_officer
from privpipe.running.places import (
    clear_workplace,
    keeps_types,
    sink_format,
    target_of,
    types_kept,
    workplace,
    write_rows,
)
from privpipe.running.plan import Plan, frozen_plan, require_fitting
from privpipe.running.release_memory import Drawn, KeyHistory, Remembering, drawn_by
from privpipe.running.release_result import (
    Outcome,
    ReleaseResult,
    already_published,
    reason_of,
    require_batch,
    require_own_partitions,
)
from privpipe.running.report_figures import (
    RunReport,
    counted_ahead,
    earlier_run,
    lost_columns,
    report_figures,
    sample_of,
)
from privpipe.running.run_context import WHOLE_COURSE, Course, RunContext, population_beside, seed_of, source_of
from privpipe.running.run_documents import (
    Chain,
    chain_entry,
    chain_of,
    output_of,
    require_publishable_seed,
    run_documents,
    run_header,
    write_public,
)
from privpipe.running.staging import Rerun, Staged, run_stages
from privpipe.running.waiting_runs import HeldRun, Ready, drop_stale, held_run, require_waitable, wait_if_asked
from privpipe.sinks.records import PrivateRecords, Quarantine
from privpipe.sinks.target import Rows, Target, formula_notes, sink_faults
from privpipe.wired import room_above

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "STEPS",
    "ReleaseRun",
    "Stamps",
    "release_with",
]

log = logging.getLogger("privpipe.release")
Documents = Mapping[str, Mapping[str, Any]]
Stamps = Mapping[str, Stamp]
DRY_RUN = "dry-run"
NOTHING_TO_PUBLISH = "nothing was published, and what was published before stays unchanged."
STEPS = ("scan", "stage", "write", "judge", "publish", "judge again", "done")
"""What `progress` is called with, in this order (before each step)."""
LEDGER_OPEN = (
    "its ledger entry is written and pending: the next run that uses the ledger counts it, and "
    "`privpipe ledger repair` does so now"
)
RECORD_OPEN = "its private record is written and still marked as pending: the next run to this sink removes the mark"
QUARANTINE_OPEN = "the records in quarantine are written and pending: the next run to this sink keeps them"
KEYS_OPEN = "its draws are written and pending: the next run to this sink counts them"
RECORDS_LEFT = "private records that `retention:` does not keep were not removed: the next release does it"
WAITING_LEFT = "runs that wait for a sign-off and can no longer follow it were not removed: the next release does it"


def release_with(
    engine: Engine,
    policy: Policy,
    *,
    target: str | PurePath | None = None,
    plan: Plan | str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    course: Course = WHOLE_COURSE,
    outcome: Outcome | None = None,
) -> ReleaseResult:
    """Stage, judge and publish the policy's source on an engine, by a frozen plan where one is given or named.

    `outcome` is informed as soon as the release is published.

    Raises
    ------
    Refused
        A guarantee does not hold over the written files; it carries the assessment.
    SignOffMissing
        The run is staged and waits, or a waiting run is not approved.
    NoSolutionError, DataError, UsageError, EngineError
        Nothing was published, and what was published before is untouched.
    NotWithdrawn
        What was published went wrong, and could not be taken back.
    """
    policy, target = under_officer(policy), None if target is None else str(target)
    batch = course.batch
    require_batch(batch)
    require_publishable_seed(policy)
    seed = seed_of(policy)
    frozen = frozen_plan(policy, plan)
    if frozen is not None:
        require_fitting(frozen, policy, seed)
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    clear_workplace(policy, DRY_RUN, target)
    sink = target_of(engine, policy, target)
    keys = KeyHistory(sink.area, seed)
    run_class = _run_class(policy)
    with watched(progress) as step:
        context = RunContext(engine, policy, seed, step)
        if course.dry_run:
            reading = Remembering(policy, sink, reading=True)
            with _seen(policy, sink), workplace(policy, DRY_RUN, target) as bench, reading as memory:
                if (before := chain_of(sink).run_of(batch) if batch is not None else None) is not None:
                    return already_published(batch, before, "", sink.name)
                drift = SourceDrift.since(PrivateRecords.of(policy, sink).home, sink.current())
                return run_class(context, run_id, bench, memory, keys, sink, drift=drift).rehearse(frozen)
        with sink as place, Remembering(policy, place) as memory:
            records = PrivateRecords.of(policy, place)
            records.open(place.current())
            quarantine = Quarantine.of(policy, place)
            if quarantine is not None:
                quarantine.open(place.current())
            chain = chain_of(place)
            if (before := chain.run_of(batch)) is not None:
                return already_published(batch, before, place.name, place.name)
            require_waitable(policy, place)
            if course.resume is None:
                drift = SourceDrift.since(records.home, place.current())
                run = run_class(
                    context,
                    run_id,
                    place,
                    memory,
                    keys,
                    place,
                    records,
                    chain,
                    batch=batch,
                    quarantine=quarantine,
                    drift=drift,
                )
                planned = frozen
            else:
                held = held_run(records.home, course.resume, policy, place, chain.previous)
                run = run_class(
                    context, held.run_id, place, memory, keys, place, records, chain, held, quarantine=quarantine
                )
                planned = held.plan(policy)
            staged, stamps = run.staged(planned)
            if staged.empty and run.held is None:
                return run.nothing(staged, stamps)
            return run.publish(outcome or Outcome(), run.ready(staged, stamps), records)


def _run_class(policy: Policy) -> type[ReleaseRun]:
    """How the policy's release runs: over records, or over tables of cells."""
    if policy.related is not None:
        related: type[ReleaseRun] = room_above("running.related_release").RelatedRun
        return related
    if policy.tables is None:
        return ReleaseRun
    kind: type[ReleaseRun] = room_above("running.table_release").TableRun
    return kind


@contextmanager
def _seen(policy: Policy, sink: Target) -> Iterator[None]:
    """A sink that is looked at and not opened; refused where a release would be, as far as looking shows."""
    try:
        PrivateRecords.of(policy, sink)
        Quarantine.of(policy, sink)
        sink.require_free()
        yield
    finally:
        sink.close()


def _told_if_not(*steps: Callable[[], object]) -> None:
    """Take each step; failures are logged, and hide no error that matters more."""
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 it hides no error that matters more
            with suppress(Exception):  # a handler of the host's may fail, and there is nowhere else to report it
                log.warning("the next run settles what could not be written: %s", reason_of(error))


@dataclass
class ReleaseRun:
    """One release on its way from the source to the sink; without `records` it is not to arrive."""

    context: RunContext
    run_id: str
    place: Target
    memory: Remembering
    keys: KeyHistory
    sink: Target
    records: PrivateRecords | None = None
    chain: Chain = field(default_factory=Chain)
    held: HeldRun | None = None
    batch: str | None = None
    quarantine: Quarantine | None = None
    drift: SourceDrift = field(default_factory=SourceDrift)

    def publish(self, outcome: Outcome, ready: Ready, records: PrivateRecords) -> ReleaseResult:
        """Publish, and judge what readers then read; withdraw it if anything goes wrong before it is final.

        The release is read by others from the moment its link is switched.
        """
        policy, current = self.context.policy, self.place.current
        if self.held is None:
            wait_if_asked(records.home, policy, self.place, ready)
        try:
            folder, left_out = self._left_out(ready)
            page = ready.report.private_page(ready.private)
            record = records.keep(self.run_id, ready.private, pending=True, report=page)
        except BaseException:  # also an interrupt: rows that were set aside must not stay behind
            _told_if_not(self._settle_quarantine)
            raise
        result = replace(ready.result(self.place), record=str(record), quarantine=folder, quarantined=left_out)
        self.context.progress("publish")
        try:
            self.memory.prepare(self.run_id)
            self.keys.prepare(self._drawn(ready.staged), self.run_id, current)
            path = self.place.publish(self.run_id)
            self.context.progress("judge again")
            again = self._judged_again(ready)
            self.context.progress("done")
            outcome.stands(replace(result, path=path, assessment=again))
        except BaseException as error:  # whatever stopped it, readers may now see rows that were not judged
            if not outcome.published:
                self._withdraw(error, records)
            raise
        self._settle(outcome, records)
        return outcome.result

    def _drawn(self, staged: Staged) -> Drawn:
        """What the run drew."""
        return drawn_by(self.context.policy.transform, staged.draws)

    def _left_out(self, ready: Ready) -> tuple[str, int]:
        """Where the records that the release leaves out will be, and their number; none where it leaves none out."""
        none = not ready.judged.suppressed_records and ready.staged.plan.records == ready.written.records
        if self.quarantine is None or none:
            return "", 0
        return keep_left_out(self.context, ready.staged, self.quarantine, self.run_id)

    def rehearse(self, frozen: Plan | None) -> ReleaseResult:
        """The steps up to publishing; written files are removed."""
        staged, stamps = self.staged(frozen)
        if staged.empty:
            return self.nothing(staged, stamps)
        ready = self.ready(staged, stamps)
        self.place.refuse(self.run_id)
        self.context.progress("done")
        return replace(ready.result(self.sink), published=False)

    def nothing(self, staged: Staged, stamps: Stamps) -> ReleaseResult:
        """The end of a run over a source without records: what was published before stays unchanged.

        No verdict over nothing is published, under both append and replace.
        """
        judged = judge_staged(self.context, staged, staged.table).within(**self._header(staged))
        require_stamps(stamps)
        judged.raise_if_failed()
        self.context.progress("done")
        output = {"records": 0, "suppressed_records": 0, "columns": list(staged.table.schema.names), "files": []}
        return ReleaseResult(
            path="",
            run_id=self.run_id,
            assessment=judged.noting(NOTHING_TO_PUBLISH),
            plan=staged.plan,
            manifest={"output": output},
            target=self.sink.name,
            published=False,
        )

    def ready(self, staged: Staged, stamps: Stamps) -> Ready:
        """What is staged, written, and judged as it was written."""
        policy = self.context.policy
        self.context.progress("write")
        self.sink.fits(staged.table.schema)
        require_judged_whole(policy, staged)
        require_own_partitions(self.context.engine, policy, staged)
        folder = self.place.stage(self.run_id)
        formulas = formula_notes(self.context.engine, policy, staged.table)
        rows = self.place.rows(self.run_id)
        if self.held is None:
            written = write_rows(self.context, staged, rows, self.place.marks)
        else:
            self.held.require_source(staged.source)
            written = self.held.lay(folder)
        landed = self.place.landed(self.run_id)
        self.context.progress("judge")
        staged = self._with_memory(staged, formulas)
        judged, report = self._judged(staged, landed, written)
        require_stamps(stamps)
        self.place.completed(self.run_id)
        with sink_faults(folder):
            private, public = self._documents(staged, judged, folder, written)
            write_public(folder, public, report.public_page(public))
        return Ready(staged, judged, written, {**private, **report.documents}, public, report, folder)

    def _documents(
        self, staged: Staged, judged: Assessment, folder: Path, written: Written
    ) -> tuple[Documents, Documents]:
        if self.held is not None:
            self.held.require_verdict(judged.to_dict())
            return self.held.documents(self.context.seed)
        files = [path for path in folder.iterdir() if path.is_file()]
        output = output_of(staged, files, written)
        output.update(self.place.described(self.run_id))
        return run_documents(
            self.context,
            staged,
            judged,
            output=output,
            chain=self.chain,
            batch=self.batch,
            source=self.drift.to_dict(),
        )

    def staged(self, frozen: Plan | None) -> tuple[Staged, Stamps]:
        """The released table, with the run's statements about the keys of its draws; and the stamps of the source."""
        engine, policy = self.context.engine, self.context.policy
        source = source_of(policy)
        self.context.progress("scan")
        stamps = stamps_of(source)
        original = attach(self.context, source, drift=None if self.held else self.drift)
        require_file_of_bytes(original, policy, sink_format(policy))
        found = engine.frames.schema(source)
        if not keeps_types(policy, self.place):
            require_flat(found, policy)
        population = None if self.context.generalized_population else population_beside(engine, policy, original)
        self.context.progress("stage")
        staged = run_stages(
            self.context,
            original,
            plan=frozen,
            frozen=frozen is not None,
            salt=self.run_id,
            population=population,
        )
        if self.held is not None and frozen is not None:  # its own plan: its statements from staging remain
            staged = replace(staged, plan=replace(staged.plan, frozen=frozen.frozen))
        if staged.empty:
            return staged, stamps
        if keeps_types(policy, self.place):
            kept = types_kept(found, staged.table.schema, policy.transform)
            staged = replace(staged, types=kept)
        # Whether a key is the earlier one depends on what was learnt from the source.
        notes = (*self.keys.notes(self._drawn(staged), self.sink.current), *self.drift.notes)
        staged = replace(staged, source_notes=notes)
        if self.context.generalized_population:
            staged = replace(staged, population=population_beside(engine, policy, staged.table))
        return staged, stamps

    def _with_memory(self, staged: Staged, notes: tuple[str, ...]) -> Staged:
        """The staged table together with the memory of a ledger."""
        self.memory.gather(self.context.engine, staged.original, staged.table, staged.roles, staged.noise)
        rerun = Rerun(self.context, staged.original, staged.source)
        rules = replace(staged.rules, histories=self.memory.histories, rerun=rerun)
        known = self.memory.repeated  # person by person, where the sink knows only the releases
        counted = [
            note for note in staged.source_notes if not note.startswith(tuple(f"{name!r} was" for name in known))
        ]
        staged = replace(staged, source_notes=(*counted, *known.values()))
        return replace(staged, rules=rules, notes=(*self.memory.notes, *self.sink.notes(), *notes))

    def _judged(self, staged: Staged, rows: Rows, written: Written) -> tuple[Assessment, RunReport]:
        """The verdict on the written files, and the figures of its report.

        Raises
        ------
        Refused
        """
        read = read_back(self.context, staged, rows)
        judged = judge_written(self.context, staged, rows, written, table=read).within(**self._header(staged))
        report = RunReport(self.context, self.records, self.place.current())
        with counted_ahead(self.context, staged, reported=report.wanted):
            seen, sample = replace(staged, read=read), sample_of(self.context, staged)
            recovered = recoveries_of_source(self.context.engine, staged, sample)
            judged = recovered.joining(judged, self.context.policy.guarantees)
            judged = replace(judged, lost=lost_columns(self.context, seen, sample))
            if report.wanted and self.records is not None:
                earlier = earlier_run(self.records.home, report.current)
                figures = report_figures(self.context, seen, sample, earlier)
                report = replace(report, documents={"report": figures})
        kept = self.sink.kept(rows)
        if kept is not None:
            judged = replace(judged, whole=judge_whole(self.context, staged, appended(kept, rows)))
        if not judged.passed:
            record = ""
            self.place.refuse(self.run_id)
            if self.records is not None and self.held is None:
                documents = {"verdict": judged.to_dict(), **report.documents}
                page = report.private_page(documents)
                record = str(self.records.keep(self.run_id, documents, pending=False, report=page))
            judged.raise_if_failed(record=record)
        return judged, report

    def _header(self, staged: Staged) -> dict[str, Any]:
        return run_header(self.context.engine, self.context.policy, staged.plan, self.run_id)

    def _judged_again(self, ready: Ready) -> Assessment:
        """The verdict on what readers read, which must equal that on the staged files.

        Raises
        ------
        EngineError
            It is another.
        """
        staged, judged = ready.staged, ready.judged
        if self.held is not None:
            self.held.require_published(self.place.published(self.run_id))
        again = judge_written(self.context, without_notes(staged), self.place.published(self.run_id), ready.written)
        if set(again.notes) <= set(judged.notes):  # notes on the same rows still hold
            again = replace(again, notes=judged.notes, source_notes=judged.source_notes)
        whole = self.place.whole(self.run_id)
        if whole is not None:
            again = replace(again, whole=judge_whole(self.context, staged, whole))
        again = replace(again, lost=judged.lost)
        again = again.within(**self._header(staged))
        if again.to_dict() != judged.to_dict():
            raise EngineError("the published files do not read back as they were judged; the release was withdrawn")
        return again

    def _withdraw(self, cause: BaseException, records: PrivateRecords) -> None:
        """Restore the previous release, and settle by what the sink then points at.

        Raises
        ------
        NotWithdrawn
            It may still point at this run.
        """
        failed: BaseException | None = None
        try:
            self.place.withdraw(self.run_id)
        except BaseException as error:  # noqa: BLE001 an interruption too: what readers see is checked below
            failed = error
        _told_if_not(
            self.memory.settle,
            lambda: records.settle(self.place.current()),
            self._settle_quarantine,
            self._settle_keys,
        )
        if failed is None:
            return
        try:
            now = self.place.current() or ""
        except Exception:  # noqa: BLE001 it cannot be known
            when, seen = "while its release was published", "The sink does not show whether readers see it"
        else:
            if now.rstrip("/").rsplit("/", 1)[-1] != self.run_id:
                return
            when, seen = "after its release was published", "Readers see it, though it was not judged as published"
        raise NotWithdrawn(
            f"run {self.run_id} failed {when} ({reason_of(cause)}), and the release could not be withdrawn "
            f"({reason_of(failed)}). {seen}: look at the sink {self.place.name!r} before another run"
        ) from None

    def _settle(self, outcome: Outcome, records: PrivateRecords) -> None:
        """Settle the notes made before the release was published."""
        outcome.settled(self.memory.settle, LEDGER_OPEN)
        outcome.settled(lambda: records.settle(self.run_id), RECORD_OPEN)
        outcome.settled(self._settle_quarantine, QUARANTINE_OPEN)
        outcome.settled(self._settle_keys, KEYS_OPEN)
        outcome.settled(lambda: drop_stale(records.home, self.context.seed, self.place.name, self.run_id), WAITING_LEFT)
        outcome.settled(lambda: self._prune(records, outcome.result.manifest), RECORDS_LEFT)

    def _prune(self, records: PrivateRecords, manifest: Mapping[str, Any]) -> None:
        """Remove the records that the policy does not keep."""
        policy = self.context.policy
        if policy.retention is None:
            return
        published = published_rows(self.chain.releases, chain_entry(manifest, b""))
        rows = in_order(published, refused_runs(records.home))
        rows = of_sink(rows, shared=policy.records is not None, digest=policy.digest())
        prune_records(records.home, rows, policy.retention, self.run_id, policy)

    def _settle_keys(self) -> None:
        self.keys.settle(self.place.current)

    def _settle_quarantine(self) -> None:
        if self.quarantine is not None:
            self.quarantine.settle(self.place.current())
