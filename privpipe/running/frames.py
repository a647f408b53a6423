"""A policy over a frame that a caller passes: made of its columns, through the gate and back, or published."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.engines import Engine, Source
from privpipe.engines.base.frame_kinds import known_as_held
from privpipe.engines.base.frames import Held, as_handed, at_hand, made_like
from privpipe.engines.databases import Database
from privpipe.engines.lakes import IcebergName
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.errors import UsageError
from privpipe.policy import Policy
from privpipe.policy.specs import FrameSpec, SourceSpec, located
from privpipe.progress import watched
from privpipe.running.attached_source import attach
from privpipe.running.judged_rows import judge_staged, recoveries_of_source
from privpipe.running.places import return_form
from privpipe.running.release_memory import Remembering
from privpipe.running.release_result import Outcome, ReleaseResult
from privpipe.running.report_figures import lost_columns
from privpipe.running.run import release_with
from privpipe.running.run_context import (
    Course,
    OpenedEngine,
    RunContext,
    is_path,
    pinned_tables,
    population_beside,
    read_as_source,
    seed_of,
)
from privpipe.running.run_documents import require_publishable_seed
from privpipe.running.staging import Staged, run_stages
from privpipe.wired import room_above

__all__ = [
    "about",
    "apply_policy",
    "held_staged",
    "release_frame",
    "with_frames",
]


Progress = Callable[[str], None]


@bordered
def apply_policy(policy: Policy, frame: Any, *, engine: Any = None, progress: Progress | None = None) -> Any:
    """See `Policy.apply`."""
    require_publishable_seed(policy)
    if policy.tables is not None:
        return room_above("running.table_release").apply_tables(policy, frame, engine=engine, progress=progress)
    if policy.related is not None:
        return room_above("running.related_frames").apply_related(policy, frame, engine=engine, progress=progress)
    handed, frame = frame, at_hand(frame, "Policy.apply")
    own = pinned_tables(about(policy, frame))
    with OpenedEngine(engine, frame, policy) as running, Remembering(own) as memory, watched(progress) as step:
        context = RunContext(running, own, seed_of(own), step)
        source = read_as_source(frame, own)
        stamps = stamps_of(source)
        staged, held = held_staged(running, _staged(context, source))
        with held.unless_refused():
            if not staged.empty:
                memory.gather(running, staged.original, staged.table, staged.roles)
            staged = replace(staged, rules=replace(staged.rules, histories=memory.histories))
            context.progress("judge")
            judged = judge_staged(context, staged, staged.table)
            if judged.holds and not staged.empty:
                judged = recoveries_of_source(running, staged).joining(judged, own.guarantees)
            if judged.holds and not staged.empty and own.utility.column_loss.on_alarm == "refuse":
                judged = replace(judged, lost=lost_columns(context, staged))
            judged.raise_if_failed("Nothing was given back.")
            require_stamps(stamps)
        like = None if is_path(frame) else made_like(frame, handed)
        form = return_form(running.frames.schema(source), staged, own.transform)
        out = known_as_held(running.collect(staged.table, like=like, form=form))
        return known_as_held(as_handed(out, handed, form.labels))


@bordered
def release_frame(
    policy: Policy,
    frame: Any,
    *,
    target: str | PurePath | None = None,
    engine: Any = None,
    plan: Any = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> ReleaseResult:
    """See `Policy.release`."""
    if policy.related is not None and frame is not None:
        policy, frame = with_frames(policy, frame), None
    frame = at_hand(frame, "Policy.release")
    own = pinned_tables(policy if frame is None else about(policy, frame))
    data = policy if frame is None else frame
    course = Course(dry_run=dry_run)
    with Outcome() as outcome, OpenedEngine(engine, data, policy) as running:
        return release_with(running, own, target=target, plan=plan, progress=progress, course=course, outcome=outcome)
    return outcome.result  # failures after publication are noted in it


def about(policy: Policy, frame: Any) -> Policy:
    """The policy with a frame for its source."""
    if isinstance(frame, Source):
        return policy.replaced(source=_lake_spec(frame))
    if not isinstance(frame, str | PurePath):
        return policy.replaced(source=FrameSpec(frame=frame))
    described = policy.source or SourceSpec(path=str(frame))
    path = str(PurePath(frame))
    if path not in (described.path, located(described.path, policy.base_dir)):
        described = replace(described, version=None, timestamp=None)  # of another table
    return policy.replaced(source=replace(described, path=path, table=None, iceberg=None), base_dir=policy.base_dir)


def with_frames(policy: Policy, frames: Any) -> Policy:
    """A policy about related tables with frames, by the names of its tables, for its sources.

    Raises
    ------
    UsageError
        Not one for each table.
    """
    if policy.related is None:
        raise TypeError("the policy is about one table")
    names = list(policy.related.tables)
    if not isinstance(frames, Mapping) or set(frames) != set(names):
        raise UsageError(
            f"policy {policy.name!r} is about {len(names)} related tables: give a mapping with a frame for each of "
            f"{', '.join(names)}, and no other"
        )
    tables = {name: about(own, at_hand(frames[name], "Policy")) for name, own in policy.related.tables.items()}
    return policy.replaced(related=replace(policy.related, tables=tables))


def _lake_spec(source: Source) -> SourceSpec:
    """A table of a table format, or of a database, as a policy would name it."""
    if isinstance(source.data, Database):
        return SourceSpec(database=source.data)
    if isinstance(source.data, IcebergName):
        return SourceSpec(iceberg=source.data)
    place = str(source.data)
    path = place if "://" in place else os.path.abspath(place)
    return SourceSpec(path=path, format="delta", version=source.version, timestamp=source.timestamp)


def held_staged(engine: Engine, staged: Staged) -> tuple[Staged, Held]:
    """The table that is judged and returned, and how to free it."""
    held = engine.frames.hold_table(staged.table if staged.counted is None else staged.counted)
    if staged.counted is None:
        return replace(staged, table=held.rows), held
    table = engine.select(held.rows, staged.table.schema.names)
    return replace(staged, counted=held.rows, table=table), held


def _staged(context: RunContext, source: Any) -> Staged:
    engine, policy = context.engine, context.policy
    original = attach(context, source)
    population = None if context.generalized_population else population_beside(engine, policy, original)
    staged = run_stages(context, original, population=population)
    if context.generalized_population:
        staged = replace(staged, population=population_beside(engine, policy, staged.table))
    return staged
