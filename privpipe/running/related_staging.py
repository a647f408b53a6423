"""Related tables on their way: each staged by its own policy, then by the stages of the whole set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks.public_edition import public_parameters
from privpipe.blocks.requests import PERSON
from privpipe.draws import RunKey, Seed
from privpipe.engines.readers.files import stamps_of
from privpipe.errors import DataError, NoSolutionError
from privpipe.judging import Assessment
from privpipe.judging.judging import unused_quasi_identifiers
from privpipe.judging.rules import column_verdicts
from privpipe.ledger import NOT_JUDGED
from privpipe.relations import STAGES
from privpipe.relations.counting import Census, RelatedTables
from privpipe.relations.joint_generalization import GeneralizeJointly
from privpipe.relations.related_rows import closed, counts_of
from privpipe.relations.schema import RelatedColumns, Tree
from privpipe.relations.set_stages import RelatedSet, set_notes
from privpipe.running.attached_source import attach
from privpipe.running.judged_rows import recoveries_of_source
from privpipe.running.plan import DrawnIn, Plan
from privpipe.running.run_context import RunContext
from privpipe.running.run_documents import seed_notes
from privpipe.running.staging import Staged, run_stages
from privpipe.transforms.base import StageContext, StagePlan

if TYPE_CHECKING:
    from privpipe.blocks.verdict import Verdict
    from privpipe.engines import Source
    from privpipe.engines.readers.files import Stamp
    from privpipe.judging.rules import Gate
    from privpipe.policy.related import RelatedRelease
    from privpipe.roles import Roles

__all__ = ["Member", "StagedSet", "judged_alone", "judged_by_columns", "judged_together", "related_of"]


def related_of(context: RunContext) -> RelatedRelease:
    """What the policy of a run states about related tables."""
    found = context.policy.related
    if found is None:
        raise TypeError("the policy is about one table")
    return found


@dataclass(frozen=True, kw_only=True)
class SetStagePlan(StagePlan):
    """What a stage over the set did."""

    def public(self) -> StagePlan:
        kind: Any = STAGES[self.name]
        parameters = public_parameters(kind, self.parameters)
        return StagePlan(name=self.name, parameters=parameters, detail=kind.public_detail(self.detail))


@dataclass(frozen=True)
class Member:
    """One of the tables on its way.

    Parameters
    ----------
    context : RunContext
        With the table's own policy.
    staged : Staged
    """

    context: RunContext
    staged: Staged

    @property
    def keyed(self) -> Any:
        """The released columns with the keys of its relations, and record ids."""
        return self.staged.table if self.staged.counted is None else self.staged.counted

    def for_stages(self) -> StageContext:
        """What stages of the set may know of the table: hierarchies only of columns whose values are the source's."""
        staged, policy = self.staged, self.context.policy
        recoded = {column for stage in staged.plan.stages for column in stage.detail.get("recoded", ())}
        before, here = staged.original.schema, staged.table.schema
        hierarchies = {
            name: spec
            for name, spec in staged.rules.hierarchies.items()
            if name in here.names and name not in recoded and here.field(name).type.equals(before.field(name).type)
        }
        return StageContext(
            roles=staged.roles, schema=here, types=policy.types, hierarchies=hierarchies, nulls=policy.nulls
        )


@dataclass
class StagedSet:
    """Related tables after all stages.

    Parameters
    ----------
    context : RunContext
        With the policy of the set.
    run_id : str
    members : dict of str to Member
    steps : tuple of mapping
        What each stage of the set did.
    stamps : dict
        Of the files of all sources.
    plan : Plan, optional
        Of an earlier run, followed by the tables and stages over the set.
    """

    context: RunContext
    run_id: str
    members: dict[str, Member] = field(default_factory=dict)
    steps: tuple[Mapping[str, Any], ...] = ()
    stamps: dict[str, Stamp] = field(default_factory=dict)
    plan: Plan | None = None

    def stage(self, source: Callable[[str], Source]) -> StagedSet:
        """Run all stages over the sources of the tables, by the plan where there is one.

        Draws are bound to the policy of the set and to the table: neither another set nor another table has them.
        Under a plan they are those of the run in which it was learnt.

        Raises
        ------
        DataError
            Keys that are missing or repeated, rows that belong to no person.
        NoSolutionError
            A stage finds nothing within the limits.
        """
        related, digest = related_of(self.context), self._drawn_by
        for name, own in related.tables.items():
            self.context.progress(f"scan {name}")
            seed = Seed(self.context.seed.bound("privpipe/related/1", digest, name))
            context = replace(self.context, policy=own, seed=seed, carried=related.keys_of(name))
            found = source(name)
            self.stamps |= stamps_of(found)
            original = attach(context, found)
            self.context.progress(f"stage {name}")
            made = None if self.plan is None else self.plan.tables[name]
            staged = run_stages(context, original, plan=made, frozen=made is not None, salt=self.run_id)
            self.members[name] = Member(context, staged)
        self._run_set_stages()
        return self

    def related(self, tables: Mapping[str, Any]) -> RelatedTables:
        """Tables of the set, with the quasi-identifiers that are released."""
        related = related_of(self.context)
        columns = {
            name: RelatedColumns(own.key, tuple(self.members[name].staged.roles.quasi_identifiers))
            for name, own in related.tree.tables.items()
        }
        return RelatedTables(
            self.context.engine, Tree(columns, related.tree.relations), tables, orphans=related.orphans
        )

    def _run_set_stages(self) -> None:
        related, engine = related_of(self.context), self.context.engine
        found = self.related({name: member.keyed for name, member in self.members.items()})
        census, before = replace(found, orphans="drop").census(), counts_of(found)
        if census.orphans:
            self._require_removed(found, census)
        if not census.orphans and not related.stages:
            return
        found = closed(found) if census.orphans else found
        drawn = self.source if self.plan is None else self.plan.drawn.source
        key = RunKey.of(self.context.seed, self._drawn_by, drawn)
        contexts = {name: member.for_stages() for name, member in self.members.items()}
        tables = RelatedSet(related=found, guarantees=related.guarantees, seed=Seed(key.key), contexts=contexts)
        for at, stage in enumerate(related.stages):
            self.context.progress(f"stage {at + 1} of {len(related.stages)}: {stage.name()}")
            made = None if self.plan is None else self.plan.of_set[at]
            if made is not None and isinstance(stage, GeneralizeJointly):
                tables = stage.follow(tables, made.detail.get("levels", {}))
            else:
                tables = stage.run(tables)
            done = tables.steps[-1]
            if done.get("suppressed_persons") and done["suppressed_persons"] == done.get("persons"):
                raise NoSolutionError(
                    f"{stage.name()}: {done['persons']:,} of {done['persons']:,} persons would have to go, which "
                    "leaves none; generalize or cap rows before, or require less"
                )
        self.steps = tables.steps
        for name, member in self.members.items():
            left = tables.related.tables[name]
            staged = replace(
                member.staged,
                table=engine.select(left, list(member.staged.table.schema.names)),
                counted=None if member.staged.counted is None else left,
                suppressed_records=member.staged.suppressed_records + before[name] - engine.count(left),
            )
            self.members[name] = replace(member, staged=staged)

    def _require_removed(self, found: RelatedTables, census: Census) -> None:
        """Refuse rows without a person, except where a table's stages removed the person or a row between."""
        related, tree, engine = related_of(self.context), found.tree, self.context.engine
        own = {name: RelatedColumns(each.key) for name, each in tree.tables.items()}
        originals = {name: member.staged.original for name, member in self.members.items()}
        if related.orphans == "refuse":
            RelatedTables(engine, Tree(own, tree.relations), originals).census()
        raw = {name: {key: f"{PERSON}_{key}" for key in related.keys_of(name)} for name in originals}
        own = {name: RelatedColumns(tuple(raw[name][key] for key in each.key)) for name, each in tree.tables.items()}
        steps = tuple(
            replace(each, columns=tuple(raw[each.table][key] for key in each.columns)) for each in tree.relations
        )
        tables = {name: engine.beside(found.tables[name], table, raw[name]) for name, table in originals.items()}
        expected = RelatedTables(engine, Tree(own, steps), tables, orphans="drop").census().orphans
        for at, name in enumerate(tree.children, 1):
            lost = census.orphans.get(at, 0) - expected.get(at, 0)
            if lost:
                raise DataError(
                    f"table {name!r}: {lost:,} records belong to no record of {tree.root!r} after the stages of the "
                    "tables, and did before: keys that are related were changed in different ways; write the same "
                    "`pseudonymise` (key and domain) into both tables"
                )

    @property
    def _drawn_by(self) -> str:
        """The policy that draws hang on: that of the run in which a plan was learnt, else its own."""
        return self.context.policy.run_digest() if self.plan is None else self.plan.drawn.policy

    @property
    def source(self) -> str:
        """One fingerprint of all sources."""
        text = "\n".join(f"{name} {member.staged.source}" for name, member in sorted(self.members.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def whole(self) -> Staged:
        """The root's table with the statements of a run about the whole set."""
        related, policy = related_of(self.context), self.context.policy
        root = self.members[related.tree.root].staged
        stages = [
            replace(stage, parameters={"table": name, **stage.parameters})
            for name, member in self.members.items()
            for stage in member.staged.plan.stages
        ]
        stages += [
            SetStagePlan(name=stage.name(), parameters=stage.parameters(), detail=dict(done))
            for stage, done in zip(related.stages, self.steps, strict=bool(self.steps))
        ]
        staged = [member.staged for member in self.members.values()]
        common: dict[str, Any] = {
            "policy_digest": policy.digest(),
            "seed_commitment": self.context.seed.commitment(self.run_id),
            "seed_salt": self.run_id,
        }
        plan = replace(
            root.plan,
            **common,
            records=sum(each.plan.records for each in staged),
            stages=tuple(stages),
            source=self.source,
            drawn=DrawnIn(policy=policy.run_digest(), source=self.source) if self.plan is None else self.plan.drawn,
            columns={},
            hash_key=b"",
            tables={name: replace(member.staged.plan, **common) for name, member in self.members.items()},
            policy=policy,
        )
        return replace(
            root,
            plan=plan,
            source=self.source,
            draws=(),
            noise=(),
            suppressed_records=sum(each.suppressed_records for each in staged),
            empty=any(each.empty for each in staged),
        )


def judged_together(
    context: RunContext, related: RelatedTables, alone: Mapping[str, Assessment], records: int, suppressed: int
) -> Assessment:
    """The verdicts of the joint guarantees, and after them those of each table.

    Parameters
    ----------
    alone : mapping of str to Assessment
        For each table by itself.
    """
    asked = related_of(context)
    joint = tuple(each.judge(related) if asked.joined else each.judge_alone(related) for each in asked.guarantees)
    reported = tuple(each.judge(related) if asked.joined else each.judge_alone(related) for each in asked.measures)
    notes = _notes_together(asked, related)
    notes += [
        f"table {name!r}: {note}"
        for name, own in alone.items()
        for note in own.notes
        if note != NOT_JUDGED and note not in _judged_elsewhere(asked, related.tree, name)
    ]
    more = [f"table {name!r}: {note}" for name, own in alone.items() for note in own.source_notes]
    return Assessment(
        verdicts=(*joint, *(_of_table(name, each) for name, own in alone.items() for each in own.verdicts)),
        measures=(*reported, *(_of_table(name, each) for name, own in alone.items() for each in own.measures)),
        built_in=tuple(_of_table(name, each) for name, own in alone.items() for each in own.built_in),
        records=records,
        suppressed_records=suppressed,
        notes=tuple(dict.fromkeys((*seed_notes(context.policy), *notes, NOT_JUDGED))),
        source_notes=tuple(dict.fromkeys(more)),
    )


def judged_by_columns(gate: Gate, names: Sequence[str], roles: Roles, records: int) -> Assessment:
    """A table without guarantees, judged by the roles of its columns."""
    failed, held, notes = column_verdicts(gate, names, roles, ())
    return Assessment(verdicts=failed, built_in=held, records=records, notes=tuple(notes))


def judged_alone(member: Member, judge: Callable[[], Assessment]) -> Assessment:
    """One table by itself: its guarantees, if any, and what its columns reveal about generalized ones.

    Parameters
    ----------
    judge : callable
        Judges it by its own guarantees.
    """
    engine, policy, staged = member.context.engine, member.context.policy, member.staged
    names = tuple(staged.table.schema.names)
    found = (
        judge()
        if policy.entries
        else judged_by_columns(
            replace(staged.rules.gate, columns=names, notes=False), names, staged.roles, engine.count(staged.table)
        )
    )
    return recoveries_of_source(engine, staged).joining(found, policy.guarantees)


def _notes_together(asked: RelatedRelease, related: RelatedTables) -> list[str]:
    unjudged, released = {}, {}
    for name, own in asked.tables.items():
        unjudged[name] = unused_quasi_identifiers(own.guarantees, related.tree.tables[name].quasi_identifiers)
        hidden = {column for column, spec in own.columns.items() if spec.role == "identifier"}
        released[name] = [column for column in related.tables[name].schema.names if column not in hidden]
    return set_notes(related.tree, asked.guarantees, unjudged, released)


def _judged_elsewhere(asked: RelatedRelease, tree: Tree, name: str) -> set[str]:
    """What a table by itself states about columns that the joint guarantees look at, or that the set itself notes."""
    sensitive = [
        each.sensitive[1] for each in asked.guarantees if each.binds and each.sensitive and each.sensitive[0] == name
    ]
    return {
        *(f"no guarantee looks at the sensitive column {column!r}" for column in sensitive),
        *(f"no guarantee looks at the quasi-identifier {column!r}" for column in tree.tables[name].quasi_identifiers),
    }


def _of_table(name: str, verdict: Verdict) -> Verdict:
    return replace(verdict, table=name, reason=f"table {name!r}: {verdict.reason}")
