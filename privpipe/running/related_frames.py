"""Related tables handed over as frames: judged together by joint guarantees, without a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.engines import Engine, Source
from privpipe.engines.base.frames import as_handed, at_hand, made_like
from privpipe.engines.readers.files import require_stamps
from privpipe.errors import UsageError
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.progress import watched
from privpipe.relations.counting import Orphans, RelatedTables
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.schema import Tree
from privpipe.running.frames import with_frames
from privpipe.running.judged_rows import judge_staged, without_notes
from privpipe.running.places import return_form
from privpipe.running.related_staging import Member, StagedSet, judged_alone, judged_together
from privpipe.running.run_context import OpenedEngine, RunContext, is_path, seed_of
from privpipe.running.tables_read import scanned, source_of

__all__ = ["apply_related", "assess", "check"]

NOTHING = Policy.of_fields(name="related tables", columns={}, guarantees=())
REFUSED = "The tables are not to be used together as they are."


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
    """Judge related tables together, as they are to leave.

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
        Of each table that others are related to, its key: unique, without missing values.
    quasi_identifiers : mapping of str to sequence of str
        Of each table, the columns by which a person, or a row of a person, could be recognised.
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
        Relations that lead not to one table by one path each; a guarantee that cannot be asked of these tables.
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
