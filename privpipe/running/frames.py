"""A policy over a frame that a caller passes: made of its columns, through the gate and back, or published."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.engines import Engine, Source
from privpipe.engines.base.frame_kinds import known_as_held
from privpipe.engines.base.frames import Held, as_handed, at_hand, made_like
from privpipe.engines.databases import Database
from privpipe.engines.lakes import IcebergName
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.errors import DataError, PolicyError, UnsupportedError, UsageError, did_you_mean
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.judging.rules import UndeclaredRule
from privpipe.policy import ColumnSpec, Policy
from privpipe.policy.specs import FrameSpec, SourceSpec, located
from privpipe.progress import watched
from privpipe.roles import Roles, not_text
from privpipe.running.attached_source import attach
from privpipe.running.judged_rows import judge_staged, recoveries_of_source
from privpipe.running.places import return_form
from privpipe.running.release_memory import Remembering
from privpipe.running.release_result import Outcome, ReleaseResult
from privpipe.running.report_figures import lost_columns
from privpipe.running.run import release_with
from privpipe.running.run_context import Course, OpenedEngine, RunContext, is_path, seed_of
from privpipe.running.run_documents import require_publishable_seed
from privpipe.running.staging import Staged, run_stages
from privpipe.running.tables_read import pinned_tables, population_beside, read_as_source
from privpipe.transforms.base import Transformer
from privpipe.wired import room_above

__all__ = [
    "about",
    "apply_policy",
    "held_staged",
    "hierarchy_specs",
    "policy_around",
    "release_frame",
    "with_frames",
]


KEYS = ("record_id", "person_id", "household_id")


def policy_around(
    columns: Sequence[str],
    *,
    roles: Roles | None = None,
    hierarchies: Mapping[str, HierarchySpec] | None = None,
    transform: Sequence[Transformer] = (),
    guarantees: Sequence[Guarantee] = (),
    measures: Sequence[Guarantee] = (),
    undeclared: UndeclaredRule | None = None,
    **values: Any,
) -> Policy:
    """A policy over the columns of a frame.

    Parameters
    ----------
    columns : sequence of str
        Of the frame.
    undeclared : {"refuse", "note"}, optional
        For a frame that is judged: what becomes of a column without a role; identifiers, insensitive and dropped
        columns need not be there. Left out, a column without a role is insensitive: a stage passes it on untouched.
    values : other fields of `Policy`, such as `nulls` or `person_id`; None: as the policy's default.

    Raises
    ------
    DataError
        A column has a role (or a hierarchy) and is not in the frame.
    UsageError
        A key or a column with a hierarchy is named by a label that is not text; a key that is dropped.
    """
    roles, known = roles or Roles(), hierarchies or {}
    keys = {key: [values[key]] for key in KEYS if values.get(key) is not None}
    for option, labels in (("hierarchies", list(known)), *keys.items()):
        if wrong := not_text(labels):
            raise UsageError(f"{option}: {wrong}")
    dispensable = () if undeclared is None else (*roles.unreleased, *roles.insensitive)
    for name in (*roles.columns, *known):
        if name not in columns and name not in dispensable:
            raise DataError(f"column {name!r} is not in the frame{did_you_mean(name, columns)}")
    named = {None: tuple(columns), "refuse": roles.columns, "note": (*roles.columns, *known)}[undeclared]
    wanted = set(named)
    specs = {
        name: ColumnSpec(role=roles.of(name) if name in roles.columns else "insensitive", hierarchy=known.get(name))
        for name in dict.fromkeys((*(each for each in columns if each in wanted), *named))
    }
    for key in ("record_id", "person_id"):
        if values.get(key) in roles.dropped:
            raise UsageError(f"{key}: column {values[key]!r} is dropped; a key has the role of an identifier, or none")
    over_households = any(entry.counts_over() == "households" for entry in guarantees)
    for stage in transform if over_households or values.get("person_id") is not None else ():
        if refused := stage.uncounted_persons():
            raise UnsupportedError(f"{stage.name()} counts records, and the call distinguishes persons: {refused}")
    stages = [{stage.name(): plain(stage.parameters())} for stage in transform]
    judged = [{entry.name(): plain(entry.parameters())} for entry in guarantees]
    return Policy.of_fields(
        name="frame",
        columns=specs,
        transform=tuple(transform),
        guarantees=tuple(guarantees),
        measures=tuple(measures),
        document={"transform": stages, "guarantees": judged},
        undeclared=undeclared or "refuse",
        **{name: value for name, value in values.items() if value is not None},
    )


def hierarchy_specs(given: Mapping[str, Any] | None) -> dict[str, HierarchySpec]:
    """Hierarchies by column, from what a caller may pass.

    Parameters
    ----------
    given : mapping of column to Hierarchy, HierarchySpec, builder mapping or path of a CSV file

    Raises
    ------
    UsageError
        None of these, or a builder mapping that is wrong.

    Examples
    --------
    >>> list(hierarchy_specs({"zip": {"redact": {"keep": "left"}}}))
    ['zip']
    """
    return {column: _spec(column, value) for column, value in (given or {}).items()}


def _spec(column: str, value: Any) -> HierarchySpec:
    if isinstance(value, HierarchySpec):
        return value
    if isinstance(value, Hierarchy):
        return HierarchySpec.from_hierarchy(value, column=column)
    if isinstance(value, str | os.PathLike):
        value = {"file": os.fspath(value)}
    if isinstance(value, Mapping):
        try:
            return HierarchySpec.from_mapping(value, ".", column=column)
        except PolicyError as error:
            above = f"hierarchies.{column}"
            raise PolicyError(
                [replace(each, path=f"{above}.{each.path}" if each.path else above) for each in error.problems]
            ) from None
    raise UsageError(
        f"hierarchies: {column!r} is a {type(value).__name__}; give a Hierarchy, a builder mapping or a path"
    )


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
    return outcome.result  # what failed after it was published is noted in it


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
    """The released table as it is judged and returned, and how to free it."""
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
