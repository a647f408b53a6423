"""The functions of the Python interface: assess, validate, plan, transform, release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import PurePath
from typing import Any

from privpipe.blocks.table_name import TableName
from privpipe.border import bordered
from privpipe.compiled import passed_over
from privpipe.engines import Engine, Source
from privpipe.engines.base.frames import as_handed, at_hand, made_like
from privpipe.engines.databases import Database
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.errors import UsageError, did_you_mean
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.policy.grammar import SOURCE
from privpipe.progress import watched
from privpipe.running.attached_source import attach
from privpipe.running.finished_table import (
    Align,
    judge_table,
    of_records,
)
from privpipe.running.places import return_form
from privpipe.running.plan import Plan, require_same_columns
from privpipe.running.release_result import Outcome, ReleaseResult
from privpipe.running.report_figures import lost_columns
from privpipe.running.run import release_with
from privpipe.running.run_context import (
    Course,
    OpenedEngine,
    RunContext,
    finished_source,
    is_path,
    pinned_tables,
    raw_population,
    read_as_source,
    seed_of,
    source_of,
)
from privpipe.running.staging import require_learnt, run_stages
from privpipe.wired import room_above

__all__ = ["assess", "plan", "release", "transform", "validate"]


Progress = Callable[[str], None]


@bordered
def assess(
    data: Any,
    policy: Policy | str | PurePath | Mapping[str, Any],
    *,
    original: Any = None,
    align: Align = "record_id",
    engine: str | Engine | None = None,
    allow_empty: bool = False,
) -> Assessment:
    """Judge a table by a policy's guarantees and measures.

    Parameters
    ----------
    data : path or frame
        Parquet, CSV, JSON, or a pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame. None: the policy's source.
    policy : Policy, path or mapping
    original : path or frame, optional
        The table the data was made from: gives base distributions and the other half of pair measures.
    align : {"record_id", "position"}
        How pairs with the original are formed; `position` when the caller vouches for equal order. An entry
        that reads pairs is an error, never a pass, where they cannot be formed.
    engine : str or Engine, optional
        Default: the engine the frame is native to; for a path, the policy's.
    allow_empty : bool
        Let a table with only suppressed records pass.

    Returns
    -------
    Assessment
        Also when it fails; `raise_if_failed()` raises.

    Raises
    ------
    UsageError, EngineError
    DataError
        Also if a column has no role, unless the policy has `undeclared: note`.

    Notes
    -----
    A table that is passed is judged as finished: a column whose role is `identifier` is a fail, first among the
    verdicts. The policy's own source is raw by nature; its identifiers are noted.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> policy = {
    ...     "version": 1,
    ...     "columns": {"zip": {"role": "quasi_identifier"}},
    ...     "guarantees": [{"k_anonymity": {"k": 2}}],
    ... }
    >>> pp.assess(pd.DataFrame({"zip": ["081", "081", "082"]}), policy).verdicts[0].observed
    1
    """
    policy = _policy(policy)
    if policy.related is not None:
        if original is not None:
            raise UsageError("assess: related tables are judged without an original; leave `original` out")
        related: Assessment = room_above("running.related_frames").assess_related(policy, data, engine=engine)
        return related
    data, original = at_hand(data, "assess"), at_hand(original, "assess, original=")
    with _opened(engine, data, policy) as running:
        return judge_table(running, data, policy, original, align, allow_empty=allow_empty)


@bordered
def plan(
    data: Any,
    policy: Policy | str | PurePath | Mapping[str, Any],
    *,
    engine: str | Engine | None = None,
    progress: Progress | None = None,
    losses: bool = True,
) -> Plan:
    """Decide every stage of a policy over a table.

    Parameters
    ----------
    data : path, frame or None
        None: the policy's source. Of related tables, a mapping with a frame for each.
    policy : Policy, path or mapping
    engine : str or Engine, optional
    progress : callable, optional
        Called with the name of each step, and now and then with how far it is.
    losses : bool
        Whether to count the loss of each column (`Plan.lost`): the stages are applied to the whole table for it. Not
        counted of related tables.

    Raises
    ------
    NoSolutionError
        Nothing within the limits meets the guarantees.
    """
    policy = _policy(policy)
    if policy.related is not None:
        made: Plan = room_above("running.related_release").plan_related(policy, data, engine=engine, progress=progress)
        return made
    policy = of_records(policy, "plan")
    seed, data = seed_of(policy), at_hand(data, "plan")
    with _opened(engine, data, policy) as running, watched(progress) as step:
        source = _raw(data, policy)
        stamps = stamps_of(source)
        context = RunContext(running, policy, seed, step)
        original = attach(context, source)
        population = raw_population(running, policy, original)
        staged = run_stages(context, original, population=population)
        require_learnt(staged)
        lost = lost_columns(context, staged) if losses else None
        require_stamps(stamps)
        return replace(staged.plan, lost=lost)


@bordered
def transform(
    data: Any,
    plan: Plan,
    *,
    policy: Policy | None = None,
    engine: str | Engine | None = None,
    progress: Progress | None = None,
    losses: bool = False,
) -> Any:
    """Apply a plan to a table and return a table of the same kind. The result is *not* judged.

    Parameters
    ----------
    data : path or frame
    plan : Plan
        From `plan`, or read with `Plan.from_json`.
    policy : Policy, optional
        When the plan was read from JSON without one.
    losses : bool
        Return (frame, LossTable).

    Returns
    -------
    frame
        Of the kind of `data`; a pyarrow Table for a path.
    """
    policy = policy or plan.policy
    if policy is None:
        raise UsageError("the plan carries no policy: read it with Plan.from_json(text, policy)")
    policy = of_records(policy, "transform")
    seed = seed_of(policy)
    if policy.seed and plan.seed_commitment and not plan.made_with(seed):
        raise UsageError("the plan was made with another seed than the policy's; make a new plan, or restore the seed")
    require_same_columns(plan, policy)
    handed, data = data, at_hand(data, "transform")
    with _opened(engine, data, policy, holds=False) as running, watched(progress) as step:
        source = _raw(data, policy)
        stamps = stamps_of(source)
        context = RunContext(running, policy, seed, step)
        original = attach(context, source, planned=True)
        population = raw_population(running, policy, original)
        staged = run_stages(context, original, plan=plan, population=population)
        form = return_form(running.frames.schema(source), staged, policy.transform)
        released = running.collect(staged.table, like=None if is_path(data) else made_like(data, handed), form=form)
        lost = lost_columns(context, staged) if losses else None
        require_stamps(stamps)
        out = as_handed(released, handed, form.labels)
        return (out, lost) if losses else out


@bordered
def release(
    policy: Policy | str | PurePath | Mapping[str, Any],
    *,
    engine: str | Engine | None = None,
    target: str | PurePath | None = None,
    plan: Plan | str | PurePath | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
    report: bool = True,
    resume: str | None = None,
    batch: str | None = None,
) -> ReleaseResult:
    """Stage, judge and publish the policy's source.

    Parameters
    ----------
    policy : Policy, path or mapping
    engine : str or Engine, optional
        Default: the policy's.
    target : str or path, optional
        Publish here instead of the policy's sink.
    plan : Plan or path, optional
        Of an earlier run of the same stages with the same parameters: they are applied as it says and not learnt again,
        so that unchanged values keep their noise. Default: the policy's `plan:`.
    progress : callable, optional
        Called with each of `privpipe.running.run.STEPS` before it begins, and each stage; within one at most ten times
        a second, with how many nodes, passes, blocks, classes or rows are done (a `privpipe.progress.Within`). What it
        raises is raised by this function too, whichever step it was called with, and then nothing is published.
    dry_run : bool
        Do all, judge the written files, and publish nothing: no release, no private record, no entry of a ledger.
        What was written is in a private folder next to the sink until the end. Rows bound for a table of a catalogue
        are judged as Parquet files.
    report : bool
        False: no report is written, whatever the policy's `report:` is.
    resume : str, optional
        The id of a run that waits for its sign-off, or its folder: it is judged again and published as it was approved.
    batch : str, optional
        A key of the publication, as the date of a scheduled run: 1 to 64 letters, digits and ``-_:.+``. It is public.
        What the sink published under a key is not published again, whatever the source, policy or seed is now: the
        result is `repeated`, and nothing was read or changed. A correction takes a new key.

    Raises
    ------
    Refused
        A guarantee does not hold; it carries the assessment. Nothing was published.
    SignOffMissing
        An officer's policy requires a sign-off. The run is staged and waits in the folder named by the error.
    NotWithdrawn
        What was published went wrong and could not be taken back: look at the sink before another run.

    Notes
    -----
    Once the last step of `progress` has returned, the release is final and this function returns: what fails later (the
    ledger, the private record, the sink's lock), and an interruption, is in `unfinished` of the result, in the log and
    in the private record.
    """
    if resume is not None and (plan is not None or dry_run or batch is not None):
        raise UsageError("a run that waited is published as it was staged: give no plan, batch or dry run with it")
    policy = _policy(policy)
    if not report:
        policy = policy.replaced(report=replace(policy.report, write=False))
    with Outcome() as outcome, _opened(engine, None, policy) as running:
        frozen = plan if plan is None or isinstance(plan, Plan) else str(plan)
        return release_with(
            running,
            policy,
            target=target,
            plan=frozen,
            progress=progress,
            course=Course(dry_run=dry_run, resume=resume, batch=batch),
            outcome=outcome,
        )
    return outcome.result  # failures after publication are noted in it


@contextmanager
def _opened(engine: str | Engine | None, data: Any, policy: Policy, *, holds: bool = True) -> Iterator[Engine]:
    """The engine of a run, with everything that was there before it passed over by the garbage collector."""
    with passed_over(), OpenedEngine(engine, data if data is not None else policy, policy, holds=holds) as running:
        yield running


def _policy(policy: Policy | str | PurePath | Mapping[str, Any]) -> Policy:
    if not isinstance(policy, Policy):
        policy = Policy.from_dict(policy) if isinstance(policy, Mapping) else Policy.load(policy)
    return pinned_tables(policy)


def _raw(data: Any, policy: Policy) -> Source:
    return source_of(policy) if data is None else read_as_source(data, policy)


@bordered
def validate(
    data: Any,
    policy: Policy | str | PathLike[str] | Mapping[str, Any],
    *,
    original: Any = None,
    align: Align = "record_id",
    format: str | None = None,
    delimiter: str | None = None,
    table: str | None = None,
    engine: str | Engine | None = None,
) -> Assessment:
    """Judge a finished table by a policy, against the original that the policy names.

    Parameters
    ----------
    data : path, frame or mapping
        The table as it will be published. A mapping names a state of a Delta or Iceberg table: ``{"path": "visits",
        "version": 3}``, ``{"iceberg": "db.visits", "catalog": "lake", "tag": "audited"}``.
    policy : Policy, path or mapping
    original : path, frame or mapping, optional
        The table it was made from. Default: the policy's `original:`.
    align : {"record_id", "position"}
        How records pair with the original.
    format, delimiter : str, optional
        How a file is written; default: from its name and the policy.
    table : str, optional
        The table of a database, which `data` names as a policy does: a DuckDB or SQLite file, a URL without a password
        or ``postgresql``.
    engine : str or Engine, optional

    Returns
    -------
    Assessment
        Also when it fails; `raise_if_failed()` raises.

    Raises
    ------
    UsageError, DataError, EngineError

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> policy = pp.Policy(roles=pp.Roles(quasi_identifiers=["zip"]), guarantees=[pp.models.KAnonymity(k=2)])
    >>> pp.validate(pd.DataFrame({"zip": ["08*", "08*", "09*"]}), policy)
    Assessment(failed, 3 records, 1 guarantees, 1 of them failed, 0 measures)
    """
    if data is None:
        raise UsageError("validate: give a finished table, a path or a frame; `assess` judges the policy's own source")
    if not isinstance(policy, Policy):
        policy = Policy.from_dict(policy) if isinstance(policy, Mapping) else Policy.load(policy)
    if policy.related is not None:
        related: Assessment = room_above("running.related_frames").validate_related(policy, data, engine=engine)
        return related
    said = _said(format, delimiter)
    if table is not None:
        data, said = _in_database(data, table, said), {}
    if policy.tables is not None:
        found: Assessment = room_above("running.table_validation").validate_tables(policy, data, original, **said)
        return found
    if isinstance(data, str | PurePath):
        data = finished_source(data, policy, **said)
    elif isinstance(data, Database):
        data = finished_source(data, policy)
    elif said:
        raise UsageError(f"validate: {' and '.join(said)} say how a file is written, and a frame was given")
    else:
        data = at_hand(data, "validate")
    policy = pinned_tables(policy)
    if original is None and policy.original is not None:
        original = policy.original.to_source(policy.source_types, policy.base_dir)
    return assess(data, policy, original=original, align=align, engine=engine)


def _in_database(data: Any, table: str, said: Mapping[str, Any]) -> Database:
    if not isinstance(data, str | PurePath):
        raise UsageError("validate: table names one of a database, and a frame was given")
    if said:
        raise UsageError(f"validate: {' and '.join(said)} say how a file is written; a database declares it itself")
    return Database(at=str(data), table=TableName.parse(table))


def _said(format: str | None, delimiter: str | None) -> dict[str, Any]:
    formats = SOURCE["format"].choices
    if format is not None and format not in formats:
        raise UsageError(f"format must be one of {', '.join(formats)}, not {format!r}{did_you_mean(format, formats)}")
    said = {"format": format, "delimiter": delimiter}
    return {name: value for name, value in said.items() if value is not None}
