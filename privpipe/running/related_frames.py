"""Related tables judged together: frames by joint guarantees, finished tables by a policy about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.frames import as_handed, at_hand, made_like
from privpipe.engines.readers.files import require_stamps
from privpipe.engines.readers.unjudged_content import unjudged_note
from privpipe.errors import DataError, UsageError
from privpipe.judging import Assessment
from privpipe.judging.rules import metadata_notes
from privpipe.policy import Policy
from privpipe.progress import watched
from privpipe.relations.counting import Orphans, RelatedTables
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.schema import RelatedColumns, Tree
from privpipe.running.frames import with_frames
from privpipe.running.judged_rows import judge_staged, without_notes
from privpipe.running.places import return_form
from privpipe.running.related_staging import (
    Member,
    StagedSet,
    judged_alone,
    judged_by_columns,
    judged_together,
    related_of,
)
from privpipe.running.run_context import (
    OpenedEngine,
    RunContext,
    finished_source,
    is_path,
    judging_rules,
    pinned_tables,
    scanned,
    seed_of,
    source_of,
    unjudged_notes,
    versions_at_work,
    without_others,
)
from privpipe.running.verbs import assess as assess_records
from privpipe.sinks.target import METADATA

__all__ = ["apply_related", "assess", "assess_related", "check", "validate_related"]


NOTHING = Policy.of_fields(name="related tables", columns={}, guarantees=())
REFUSED = "Do not release these tables together."


@bordered
def assess(
    tables: Mapping[str, Any],
    guarantees: JointGuarantee | Sequence[JointGuarantee],
    *,
    relations: Sequence[Mapping[str, str]],
    keys: Mapping[str, str | Sequence[str]],
    quasi_identifiers: Mapping[str, Sequence[str]],
    orphans: Orphans = "refuse",
    engine: Any = None,
) -> Assessment:
    """Judge related tables together, as they will be published.

    Parameters
    ----------
    tables : mapping of str to path or frame
        Frames of one kind, or paths.
    guarantees : JointGuarantee, or a sequence of them
        Those without a threshold are reported.
    relations : sequence of mapping
        ``{"from": "visits.patient_id", "to": "patients"}``: rows of one table belong to rows of another, by the key of
        that other. All lead to one table, whose rows are persons.
    keys : mapping of str to str or sequence of str
        The key of each table that others are related to: unique, without missing values.
    quasi_identifiers : mapping of str to sequence of str
        For each table, the columns by which a person, or a row of a person, could be recognised.
    orphans : {"refuse", "drop"}
        Whether rows that belong to no person are an error, or left out.
    engine : str, Engine or DuckDB connection, optional

    Returns
    -------
    Assessment
        Also when it fails; `raise_if_failed()` raises.

    Raises
    ------
    UsageError
        Relations that do not lead to one table by one path each; a guarantee that does not apply to these tables.
    DataError
        Keys that are missing or repeated, rows that belong to no person, columns that are not there.
    UnsupportedError
        There are more combinations of a person's rows than are counted.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> patients = pd.DataFrame({"id": [1, 2, 3, 4], "town": ["a", "a", "b", "b"]})
    >>> visits = pd.DataFrame({"patient": [1, 2, 3, 3, 4], "ward": ["x", "x", "x", "y", "x"]})
    >>> found = pp.relations.assess(
    ...     {"patients": patients, "visits": visits},
    ...     pp.relations.JointKAnonymity(k=2),
    ...     relations=[{"from": "visits.patient", "to": "patients"}],
    ...     keys={"patients": "id"},
    ...     quasi_identifiers={"patients": ["town"], "visits": ["ward"]},
    ... )
    >>> found.passed, found.verdicts[0].observed, found.verdicts[0].failing_records
    (False, 1, 1)
    """
    asked = (guarantees,) if isinstance(guarantees, JointGuarantee) else guarantees
    if not isinstance(asked, Sequence) or not asked or not all(isinstance(each, JointGuarantee) for each in asked):
        raise UsageError("give a joint guarantee, or a list of them, as in [JointKAnonymity(k=5)]")
    if not isinstance(tables, Mapping) or not tables or not all(isinstance(name, str) for name in tables):
        raise UsageError("give the tables by name, as in {'patients': frame, 'visits': frame}")
    if orphans not in ("refuse", "drop"):
        raise UsageError("orphans must be refuse or drop")
    tree = Tree.of(tables, relations, keys, quasi_identifiers)
    frames = {name: at_hand(frame, "assess") for name, frame in tables.items()}
    with OpenedEngine(engine, next(iter(frames.values())), NOTHING) as opened:
        found = {name: scanned(opened, _source(frame)) for name, frame in frames.items()}
        related = RelatedTables(opened, tree, found, orphans=orphans)
        verdicts = [each.judge(related) for each in asked]
        persons = opened.count(found[tree.root])
    gates = tuple(each for each in verdicts if each.threshold is not None)
    return Assessment(
        verdicts=gates, measures=tuple(each for each in verdicts if each.threshold is None), records=persons
    )


@bordered
def check(
    tables: Mapping[str, Any], guarantees: JointGuarantee | Sequence[JointGuarantee], **options: Any
) -> Assessment:
    """Judge related tables as `assess` does, and raise where a guarantee does not hold: for a line in a job.

    Parameters
    ----------
    tables, guarantees, options : as of `assess`

    Raises
    ------
    Refused
        It carries the assessment.
    UsageError
        Also where no guarantee has a threshold, or all of them only warn, so that nothing could fail.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> patients = pd.DataFrame({"id": [1, 2], "town": ["a", "a"]})
    >>> visits = pd.DataFrame({"patient": [1, 2], "ward": ["x", "x"]})
    >>> pp.relations.check(
    ...     {"patients": patients, "visits": visits},
    ...     pp.relations.JointKAnonymity(k=2),
    ...     relations=[{"from": "visits.patient", "to": "patients"}],
    ...     keys={"patients": "id"},
    ...     quasi_identifiers={"patients": ["town"], "visits": ["ward"]},
    ... ).passed
    True
    """
    asked = (guarantees,) if isinstance(guarantees, JointGuarantee) else guarantees
    gates = [each for each in asked if isinstance(each, JointGuarantee) and each.demanded() is not None]
    if not any(each.binds for each in gates):
        raise UsageError(
            "no guarantee has a threshold and severity fail, so the check could not fail; give one, as k=5"
        )
    return assess(tables, guarantees, **options).raise_if_failed(REFUSED)


@bordered
def apply_related(
    policy: Policy, frames: Any, *, engine: Any = None, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The tables as they may leave, by name and each of the kind that was given, once every guarantee holds.

    Raises
    ------
    Refused
        A guarantee does not hold; nothing comes back.
    """
    own = with_frames(policy, frames)
    if own.related is None:
        raise TypeError("the policy is about one table")
    tables = own.related.tables
    first = next(iter(frames.values()))
    with OpenedEngine(engine, at_hand(first, "Policy.apply"), own) as running, watched(progress) as step:
        context = RunContext(running, own, seed_of(own), step)
        staged = StagedSet(context, "").stage(lambda name: source_of(tables[name]))
        context.progress("judge")
        alone = {
            name: judged_alone(
                member, partial(judge_staged, member.context, without_notes(member.staged), member.staged.table)
            )
            for name, member in staged.members.items()
        }
        found = staged.related({name: member.keyed for name, member in staged.members.items()})
        records = sum(running.count(member.staged.table) for member in staged.members.values())
        judged = judged_together(context, found, alone, records, staged.whole().suppressed_records)
        judged.raise_if_failed("Nothing was given back.")
        require_stamps(staged.stamps)
        return {name: _given_back(running, staged.members[name], frames[name]) for name in tables}


def _given_back(engine: Engine, member: Member, handed: Any) -> Any:
    data = at_hand(handed, "Policy.apply")
    form = return_form(
        engine.frames.schema(source_of(member.context.policy)), member.staged, member.context.policy.transform
    )
    out = engine.collect(member.staged.table, like=None if is_path(data) else made_like(data, handed), form=form)
    return as_handed(out, handed, form.labels)


def _source(data: Any) -> Source:
    return data if isinstance(data, Source) else Source(data=str(data) if isinstance(data, PurePath) else data)


def validate_related(policy: Policy, data: Any, *, engine: Any = None) -> Assessment:
    """Judge finished tables, each and together, by a policy about related tables.

    Parameters
    ----------
    data : mapping of str to path or frame, or path of a folder
        A folder holds a file or a folder for each table, by its name.

    Raises
    ------
    DataError
        A missing or an additional table; tables without the keys by which they are related.
    UsageError
    """
    if policy.related is None:
        raise TypeError("the policy is about one table")
    frames = _found(policy, data)
    first = next(iter(frames.values()))
    sources = {
        name: finished_source(str(frame), own) if isinstance(frame, str | PurePath) else Source(data=frame)
        for (name, frame), own in zip(frames.items(), policy.related.tables.values(), strict=True)
    }
    with OpenedEngine(engine, first if not isinstance(first, str | PurePath) else None, policy) as opened:
        context = RunContext(opened, policy, Seed.from_os())
        tables = {name: scanned(opened, source) for name, source in sources.items()}
        alone = {
            name: _alone(opened, source, policy.related.finished(name), tables[name])
            for name, source in sources.items()
        }
        hidden = _hidden_files(data)
        judged = _judged(context, _related(context, tables, finished=True), alone)
        return judged.noting(unjudged_note({"hidden": hidden})) if hidden else judged


def assess_related(policy: Policy, data: Any, *, engine: Any = None) -> Assessment:
    """Judge related tables as `assess` does: those that are given as finished, the policy's own sources as raw.

    Raises
    ------
    DataError, UsageError
    """
    if data is not None:
        return validate_related(policy, data, engine=engine)
    if policy.related is None:
        raise TypeError("the policy is about one table")
    own = {name: pinned_tables(each) for name, each in policy.related.tables.items()}
    policy = policy.replaced(related=replace(policy.related, tables=own))
    with OpenedEngine(engine, policy, policy) as opened:
        context = RunContext(opened, policy, Seed.from_os())
        tables = {name: without_others(opened, scanned(opened, source_of(each)), each) for name, each in own.items()}
        alone = {name: _alone(opened, None, each, tables[name]) for name, each in own.items()}
        return _judged(context, _related(context, tables, finished=False), alone)


def _judged(context: RunContext, related: RelatedTables, alone: Mapping[str, Assessment]) -> Assessment:
    records = sum(context.engine.count(table) for table in related.tables.values())
    policy = context.policy
    return judged_together(context, related, alone, records, 0).within(
        name=policy.name,
        policy_hash=policy.digest(),
        engine=context.engine.name,
        versions=versions_at_work(context.engine, policy),
        nulls=policy.nulls,
        suppression_mark=policy.suppression_mark,
    )


def _alone(engine: Engine, source: Source | None, own: Policy, table: Any) -> Assessment:
    """One table by its own guarantees; by the roles of its columns where it has none."""
    if own.entries:
        return assess_records(source, own, engine=engine)
    gate = replace(judging_rules(own).gate, raw=source is None)
    roles = own.roles if source is None else own.released_roles
    judged = judged_by_columns(gate, table.schema.names, roles, engine.count(table))
    return judged if source is None else judged.noting(*unjudged_notes(source), *metadata_notes(source, own.metadata))


def _related(context: RunContext, tables: Mapping[str, Any], *, finished: bool) -> RelatedTables:
    asked = related_of(context)
    for name, table in tables.items():
        for key in asked.keys_of(name):
            if key not in table.schema.names:
                raise DataError(
                    f"table {name!r} has no column {key!r}: without the keys that relate them, finished tables cannot "
                    "be judged together; judge them with their keys, or publish them by `release`"
                    if finished
                    else f"table {name!r} has no column {key!r}, a key of its relations"
                )
    columns = {}
    for name, own in asked.tree.tables.items():
        policy = asked.tables[name]
        released = (policy.released_roles if finished else policy.roles).quasi_identifiers
        columns[name] = RelatedColumns(own.key, tuple(each for each in released if each in tables[name].schema.names))
    return RelatedTables(context.engine, Tree(columns, asked.tree.relations), tables, orphans=asked.orphans)


def _found(policy: Policy, data: Any) -> dict[str, Any]:
    """The tables in the order of the policy."""
    names = list(policy.related.tables) if policy.related is not None else []
    if isinstance(data, str | PurePath):
        given = _in_folder(Path(data))
    elif isinstance(data, Mapping):
        given = {
            name: each if isinstance(each, str | PurePath) else at_hand(each, "validate") for name, each in data.items()
        }
    else:
        raise UsageError(
            f"policy {policy.name!r} is about related tables: give a folder that holds them, or a mapping of names to "
            "frames"
        )
    for name in names:
        if name not in given:
            raise DataError(f"there is no table {name!r}; there are {', '.join(sorted(given)) or 'none'}")
    for name in given:
        if name not in names:
            raise DataError(f"table {name!r} is not in the policy, which knows {', '.join(names)}; leave it out")
    return {name: given[name] for name in names}


def _hidden_files(data: Any) -> int:
    """Files with content that readers of a folder get next to its tables, and that no table holds."""
    if not isinstance(data, str | PurePath):
        return 0
    hidden = [path for path in Path(data).iterdir() if path.name.startswith(".")]
    files = [file for path in hidden for file in (path.rglob("*") if path.is_dir() else (path,))]
    return sum(file.is_file() and file.stat().st_size > 0 for file in files)


def _in_folder(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise DataError("validate: there is no folder that holds a file, or a folder, for each of the related tables")
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.name == METADATA or path.name.startswith("."):
            continue
        name = path.name if path.is_dir() else path.name.partition(".")[0]
        if name in found:
            raise DataError(f"table {name!r} is in the folder twice, as a file and as another file or folder")
        found[name] = path
    return found
