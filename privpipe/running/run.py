"""The release runner: stage beside the target, judge what was written, publish in one move, judge again."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from privpipe.engines import Engine, Source, Written
from privpipe.engines.base.stamps import require_stamps, stamps_of
from privpipe.errors import EngineError, PrivpipeError
from privpipe.judging import Assessment
from privpipe.progress import watched
from privpipe.running.attaching import attach
from privpipe.running.bytes_columns import require_file_of_bytes, require_flat
from privpipe.running.counting_ahead import counted_ahead
from privpipe.running.frozen import frozen_plan, require_fitting
from privpipe.running.judging_rows import (
    judge_written,
    notes_of_source,
    read_back,
    source_of,
    without_notes,
)
from privpipe.running.kept_types import types_kept
from privpipe.running.key_history import KeyHistory
from privpipe.running.losing import lost_columns, sample_of
from privpipe.running.officers import under_officer
from privpipe.running.places import clear_workplace, keeps_types, sink_format, target_of, workplace, write_rows
from privpipe.running.plan import Plan
from privpipe.running.population import population_beside
from privpipe.running.ready import Ready
from privpipe.running.release_chain import Chain, chain_of
from privpipe.running.release_result import ReleaseResult
from privpipe.running.remembering import Remembering
from privpipe.running.rerun import Rerun
from privpipe.running.run_context import RunContext, seed_of
from privpipe.running.run_documents import output_of, run_documents, run_header, write_public
from privpipe.running.run_notes import require_publishable_seed
from privpipe.running.run_report import RunReport
from privpipe.running.staging import Staged, run_stages
from privpipe.running.waiting import HeldRun, drop_stale, held_run, require_waitable, wait_if_asked
from privpipe.running.whole_table import appended, judge_whole, require_judged_whole
from privpipe.sinks.formula_cells import formula_notes
from privpipe.sinks.local import sink_faults
from privpipe.sinks.records import PrivateRecords
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.target import Rows, Target

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "STEPS",
    "release_with",
]

log = logging.getLogger("privpipe.release")
Documents = Mapping[str, Mapping[str, Any]]
DRY_RUN = "dry-run"
STEPS = ("scan", "stage", "write", "judge", "publish", "judge again", "done")
"""What `progress` is called with, in this order (before each step)."""


def release_with(
    engine: Engine,
    policy: Policy,
    *,
    target: str | PurePath | None = None,
    plan: Plan | str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    dry_run: bool = False,
    resume: str | None = None,
) -> ReleaseResult:
    """Stage, judge and publish the policy's source on an engine, by a frozen plan where one is given or named.

    A dry run does all of it up to publishing, in a place that is gone afterwards. `resume` publishes a run that waited
    for its sign-off, byte for byte.

    Raises
    ------
    Refused
        A guarantee does not hold over the written files; it carries the assessment.
    SignOffMissing
        The run is staged and waits, or what waited is not approved.
    NoSolutionError, DataError, UsageError, EngineError
        Nothing was published, and what was published before is untouched.
    """
    policy, target = under_officer(policy), None if target is None else str(target)
    require_publishable_seed(policy)
    seed = seed_of(policy)
    frozen = frozen_plan(policy, plan)
    if frozen is not None:
        require_fitting(frozen, policy, seed)
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    clear_workplace(policy, DRY_RUN, target)
    sink = target_of(engine, policy, target)
    keys = KeyHistory(sink.area, seed)
    with watched(progress) as step:
        context = RunContext(engine, policy, seed, step)
        if dry_run:
            reading = Remembering(policy, sink, reading=True)
            with _seen(policy, sink), workplace(policy, DRY_RUN, target) as bench, reading as memory:
                return _Release(context, run_id, bench, memory, keys, sink).rehearse(frozen)
        with sink as place, Remembering(policy, place) as memory:
            records = PrivateRecords.of(policy, place)
            records.open(place.current())
            chain = chain_of(place)
            require_waitable(policy, place)
            if resume is None:
                return _Release(context, run_id, place, memory, keys, place, records, chain).publish(frozen)
            held = held_run(records.home, resume, policy, place, chain.previous)
            run = _Release(context, held.run_id, place, memory, keys, place, records, chain, held)
            return run.publish(held.plan(policy))


@contextmanager
def _seen(policy: Policy, sink: Target) -> Iterator[None]:
    """A sink that is looked at and not opened; refused where a release would be, as far as looking tells."""
    try:
        PrivateRecords.of(policy, sink)
        sink.require_free()
        yield
    finally:
        if isinstance(sink, RemoteTarget):  # it has a local folder from its birth
            sink.__exit__(None, None, None)


@dataclass
class _Release:
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

    def publish(self, frozen: Plan | None) -> ReleaseResult:
        """All steps; the release is read by others from the moment its link is switched."""
        ready = self._ready(frozen)
        if self.records is None:
            raise TypeError("a dry run publishes nothing")
        if self.held is None:
            wait_if_asked(self.records.home, self.context.policy, self.place, ready)
        page = ready.report.private_page(ready.private)
        record = self.records.keep(self.run_id, ready.private, pending=True, report=page)
        path, again = self._switched(ready.staged, ready.judged, ready.written, self.records)
        self._settle(ready.staged, self.records)
        return replace(ready.result(self.place), path=path, assessment=again, record=str(record))

    def rehearse(self, frozen: Plan | None) -> ReleaseResult:
        """The steps up to publishing; what was written goes."""
        ready = self._ready(frozen)
        self.place.refuse(self.run_id)
        self.context.progress("done")
        return replace(ready.result(self.sink), published=False)

    def _ready(self, frozen: Plan | None) -> Ready:
        """What is staged, written, and judged as it was written."""
        policy = self.context.policy
        source = source_of(policy)
        self.context.progress("scan")
        stamps = stamps_of(source)
        staged = self._staged(source, frozen)
        self.context.progress("write")
        self.sink.fits(staged.table.schema)
        require_judged_whole(policy, staged)
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
        return run_documents(self.context, staged, judged, output=output, chain=self.chain)

    def _staged(self, source: Source, frozen: Plan | None) -> Staged:
        """The released table, with what the run says of the keys it was drawn by."""
        engine, policy = self.context.engine, self.context.policy
        original = attach(self.context, source)
        require_file_of_bytes(original, policy, sink_format(policy))
        found = engine.source_schema(source)
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
        if self.held is not None and frozen is not None:  # its own plan: what it said of it when it was staged stays
            staged = replace(staged, plan=replace(staged.plan, frozen=frozen.frozen))
        if keeps_types(policy, self.place):
            kept = types_kept(found, staged.table.schema, policy.transform)
            staged = replace(staged, types=kept)
        # Whether a key is the one of before depends on what was learnt from the source.
        staged = replace(staged, source_notes=self.keys.notes(policy.transform, staged.draws))
        if self.context.generalized_population:
            staged = replace(staged, population=population_beside(engine, policy, staged.table))
        return staged

    def _with_memory(self, staged: Staged, notes: tuple[str, ...]) -> Staged:
        """The staged table beside what a ledger remembers."""
        self.memory.gather(self.context.engine, staged.original, staged.table, staged.roles, staged.noise)
        rerun = Rerun(self.context, staged.original, staged.source)
        rules = replace(staged.rules, histories=self.memory.histories, rerun=rerun)
        known = self.memory.repeated  # person by person, where the sink knows the releases alone
        counted = [
            note for note in staged.source_notes if not note.startswith(tuple(f"{name!r} was" for name in known))
        ]
        staged = replace(staged, source_notes=(*counted, *known.values()))
        return replace(staged, rules=rules, notes=(*self.memory.notes, *self.sink.notes(), *notes))

    def _judged(self, staged: Staged, rows: Rows, written: Written) -> tuple[Assessment, RunReport]:
        """The verdict on what was written, and what its report shows.

        Raises
        ------
        Refused
        """
        read = read_back(self.context, staged, rows)
        judged = judge_written(self.context, staged, rows, written, table=read).within(**self._header(staged))
        report = RunReport(self.context, self.records, self.place.current())
        with counted_ahead(self.context, staged, reported=report.wanted):
            seen, sample = replace(staged, read=read), sample_of(self.context, staged)
            judged = judged.noting(source=notes_of_source(self.context.engine, staged, sample))
            judged = replace(judged, lost=lost_columns(self.context, seen, sample))
            report = report.gathered(seen, sample)
        kept = self.sink.kept()
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

    def _switched(
        self, staged: Staged, judged: Assessment, written: Written, records: PrivateRecords
    ) -> tuple[str, Assessment]:
        """Where the release is read, and what it was judged there; withdrawn where anything went wrong."""
        self.context.progress("publish")
        self.memory.prepare(self.run_id)
        try:
            path = self.place.publish(self.run_id)
            self.context.progress("judge again")
            if self.held is not None:
                self.held.require_published(self.place.published(self.run_id))
            again = judge_written(self.context, without_notes(staged), self.place.published(self.run_id), written)
            if set(again.notes) <= set(judged.notes):  # what was noted of the same rows before still holds
                again = replace(again, notes=judged.notes, source_notes=judged.source_notes)
            whole = self.place.whole(self.run_id)
            if whole is not None:
                again = replace(again, whole=judge_whole(self.context, staged, whole))
            again = replace(again, lost=judged.lost)
            again = again.within(**self._header(staged))
            if again.to_dict() != judged.to_dict():
                raise EngineError("the published files do not read back as they were judged; the release was withdrawn")
            self.context.progress("done")
        except BaseException:  # whatever stopped it, nobody judged what readers now see, if they see it
            try:
                self.place.withdraw(self.run_id)
            finally:  # by what the sink points at
                self._told_if_not(self.memory.settle, lambda: records.settle(self.place.current()))
            raise
        return path, again

    def _settle(self, staged: Staged, records: PrivateRecords) -> None:
        """Settle what was noted before the release was published; what fails now does not make it unpublished."""
        self._told_if_not(
            self.memory.settle,
            lambda: records.settle(self.run_id),
            lambda: self.keys.keep(self.context.policy.transform, staged.draws),
            lambda: drop_stale(records.home, self.context.seed, self.place.name, self.run_id),
            outcome="the release is published; ",
        )

    def _told_if_not(self, *steps: Callable[[], object], outcome: str = "") -> None:
        """Take each step; what fails is told in the log, and hides no error that matters more."""
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 whatever it is, readers see what they saw before it
                # Texts of foreign errors may quote data values.
                told = error if isinstance(error, PrivpipeError) else type(error).__name__
                with suppress(Exception):  # a handler of the host's may fail, and there is no further place to tell it
                    log.warning("%sthe next run settles what could not be written: %s", outcome, told)
