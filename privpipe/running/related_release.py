"""Releases of related tables: each is staged by its own policy, all are judged together and published in one move."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privpipe.blocks.verdict import Verdict
from privpipe.draws import RunKey, Seed
from privpipe.engines import Written
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.errors import EngineError, UnsupportedError
from privpipe.judging import Assessment
from privpipe.relations.counting import RelatedTables
from privpipe.relations.related_rows import counts_of
from privpipe.relations.schema import RelatedColumns, Tree
from privpipe.relations.set_stages import RelatedSet
from privpipe.running.attached_source import attach
from privpipe.running.judged_rows import judge_written, read_back, source_of, without_notes
from privpipe.running.places import write_rows
from privpipe.running.plan import Plan
from privpipe.running.report_figures import RunReport
from privpipe.running.run import ReleaseRun, Stamps
from privpipe.running.run_context import RunContext
from privpipe.running.run_documents import run_documents, write_public
from privpipe.running.staging import Staged, run_stages
from privpipe.running.waiting_runs import Ready
from privpipe.sinks.local import LocalTarget, sink_faults
from privpipe.sinks.records import file_hash
from privpipe.sinks.remote import RemoteTarget
from privpipe.transforms.base import StagePlan

__all__ = ["RelatedRun"]


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


@dataclass
class RelatedRun(ReleaseRun):
    """A release of related tables on its way from the sources to the sink."""

    members: dict[str, Member] = field(default_factory=dict)
    steps: tuple[Mapping[str, Any], ...] = ()

    def staged(self, frozen: Plan | None) -> tuple[Staged, Stamps]:
        policy, related = self.context.policy, self.context.policy.related
        if related is None:
            raise TypeError("the policy is about one table")
        if type(self.place) not in (LocalTarget, RemoteTarget):
            raise UnsupportedError(
                f"several tables are published in one move into folders and object stores; {self.sink.name!r} is "
                "neither, and could show one table new and another old: give `sink:` a path"
            )
        stamps: dict[str, Any] = {}
        digest = policy.run_digest()
        for name, own in related.tables.items():
            self.context.progress(f"scan {name}")
            seed = Seed(self.context.seed.bound("privpipe/related/1", digest, name))
            context = replace(self.context, policy=own, seed=seed, carried=related.keys_of(name))
            source = source_of(own)
            stamps |= stamps_of(source)
            original = attach(context, source)
            self.context.progress(f"stage {name}")
            self.members[name] = Member(context, run_stages(context, original, salt=self.run_id))
        self._run_set_stages()
        return self._whole(), stamps

    def _related(self, tables: Mapping[str, Any]) -> RelatedTables:
        """The tables as they are to leave, with the quasi-identifiers that are released."""
        related = self.context.policy.related
        if related is None:
            raise TypeError("the policy is about one table")
        columns = {
            name: RelatedColumns(own.key, self.members[name].staged.roles.quasi_identifiers)
            for name, own in related.tree.tables.items()
        }
        return RelatedTables(
            self.context.engine, Tree(columns, related.tree.relations), tables, orphans=related.orphans
        )

    def _run_set_stages(self) -> None:
        policy, related = self.context.policy, self.context.policy.related
        if related is None:
            raise TypeError("the policy is about one table")
        found = self._related({name: member.keyed for name, member in self.members.items()})
        census = found.census()
        before = counts_of(found)
        if census.orphans:
            from privpipe.relations.related_rows import closed

            found = closed(found)
        key = RunKey.of(self.context.seed, policy.run_digest(), self._source())
        tables = RelatedSet(related=found, guarantees=related.guarantees, seed=Seed(key.key))
        for at, stage in enumerate(related.stages):
            self.context.progress(f"stage {at + 1} of {len(related.stages)}: {stage.name()}")
            tables = stage.run(tables)
        if not census.orphans and not related.stages:
            return
        self.steps = tables.steps
        for name, member in self.members.items():
            left = tables.related.tables[name]
            names = list(member.staged.table.schema.names)
            gone = before[name] - self.context.engine.count(left)
            staged = replace(
                member.staged,
                table=self.context.engine.select(left, names),
                counted=None if member.staged.counted is None else left,
                suppressed_records=member.staged.suppressed_records + gone,
            )
            self.members[name] = replace(member, staged=staged)

    def _source(self) -> str:
        """One fingerprint of all sources."""
        text = "\n".join(f"{name} {member.staged.source}" for name, member in sorted(self.members.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def _whole(self) -> Staged:
        """The root's table with what the run says of the whole set."""
        policy, related = self.context.policy, self.context.policy.related
        if related is None:
            raise TypeError("the policy is about one table")
        root = self.members[related.tree.root].staged
        stages = [
            replace(stage, parameters={"table": name, **stage.parameters})
            for name, member in self.members.items()
            for stage in member.staged.plan.stages
        ]
        stages += [
            StagePlan(name=stage.name(), parameters=stage.parameters(), detail=dict(done))
            for stage, done in zip(related.stages, self.steps, strict=True)
        ]
        plan = replace(
            root.plan,
            policy_digest=policy.digest(),
            records=sum(member.staged.plan.records for member in self.members.values()),
            stages=tuple(stages),
            source=self._source(),
            seed_commitment=self.context.seed.commitment(self.run_id),
            seed_salt=self.run_id,
            columns={},
            policy=policy,
        )
        suppressed = sum(member.staged.suppressed_records for member in self.members.values())
        return replace(
            root,
            plan=plan,
            source=plan.source,
            draws=(),
            noise=(),
            suppressed_records=suppressed,
            empty=any(member.staged.empty for member in self.members.values()),
        )

    def ready(self, staged: Staged, stamps: Stamps) -> Ready:
        self.context.progress("write")
        folder = self.place.stage(self.run_id)
        rows = self.place.rows(self.run_id)
        if not isinstance(rows, Path):
            raise TypeError("a folder gives no path")
        written = {}
        for name, member in self.members.items():
            with sink_faults(folder):
                (rows / name).mkdir()
            written[name] = write_rows(member.context, member.staged, rows / name)
        self.context.progress("judge")
        judged = self._judged_together(staged, rows, written)
        report = RunReport(self.context, self.records, self.place.current())
        if not judged.passed:
            record = ""
            self.place.refuse(self.run_id)
            if self.records is not None:
                documents = {"verdict": judged.to_dict()}
                page = report.private_page(documents)
                record = str(self.records.keep(self.run_id, documents, pending=False, report=page))
            judged.raise_if_failed(record=record)
        require_stamps(stamps)
        self.place.completed(self.run_id)
        with sink_faults(folder):
            private, public = run_documents(
                self.context,
                staged,
                judged,
                output=self._output(rows, written),
                chain=self.chain,
                batch=self.batch,
                source=self.drift.to_dict(),
            )
            write_public(folder, public, report.public_page(public))
        whole = Written(
            sum(each.records for each in written.values()),
            tuple(f"{name}/{file}" for name, each in written.items() for file in each.files),
        )
        return Ready(staged, judged, whole, private, public, report, folder)

    def _judged_together(self, staged: Staged, rows: Path, written: Mapping[str, Written]) -> Assessment:
        """The verdicts on the written files: the joint guarantees, and those of each table."""
        related = self.context.policy.related
        if related is None:
            raise TypeError("the policy is about one table")
        verdicts: list[Verdict] = []
        measures: list[Verdict] = []
        built_in: list[Verdict] = []
        notes: list[str] = []
        source_notes: list[str] = []
        tables, records = {}, 0
        for name, member in self.members.items():
            table = read_back(member.context, member.staged, rows / name)
            judged = judge_written(
                member.context, without_notes(member.staged), rows / name, written[name], table=table
            )
            verdicts += [_of_table(name, verdict) for verdict in judged.verdicts]
            measures += [_of_table(name, verdict) for verdict in judged.measures]
            built_in += [_of_table(name, verdict) for verdict in judged.built_in]
            notes += [f"table {name!r}: {note}" for note in judged.notes]
            source_notes += [f"table {name!r}: {note}" for note in judged.source_notes]
            tables[name] = self._proved(member, table)
            records += judged.records
        found = self._related(tables)
        self.context.progress("judge the tables together")
        joint = tuple(each.judge(found) for each in related.guarantees)
        reported = tuple(each.judge(found) for each in related.measures)
        return Assessment(
            verdicts=(*joint, *verdicts),
            measures=(*reported, *measures),
            built_in=tuple(built_in),
            records=records,
            suppressed_records=staged.suppressed_records,
            notes=tuple(dict.fromkeys(notes)),
            source_notes=tuple(dict.fromkeys(source_notes)),
        ).within(**self._header(staged))

    def _proved(self, member: Member, table: Any) -> Any:
        """The written rows, or those they were proved to be, with the keys of the table's relations."""
        if member.staged.counted is None:
            return table
        engine, seed = self.context.engine, self.context.seed
        if fingerprint(engine, table, seed) != fingerprint(engine, member.staged.table, seed):
            raise EngineError("the written files do not hold the records that were staged")
        return member.staged.counted

    def _output(self, rows: Path, written: Mapping[str, Written]) -> dict[str, Any]:
        """What was written: tables with their columns and rows, and files with their hashes."""
        files, tables = [], {}
        for name, each in written.items():
            for path in sorted(path for path in (rows / name).iterdir() if path.is_file()):
                files.append({"name": f"{name}/{path.name}", "bytes": path.stat().st_size, "sha256": file_hash(path)})
            columns = list(self.members[name].staged.table.schema.names)
            tables[name] = {"rows": each.records, "columns": columns}
        return {
            "records": sum(each.records for each in written.values()),
            "suppressed_records": sum(member.staged.suppressed_records for member in self.members.values()),
            "columns": list(dict.fromkeys(name for table in tables.values() for name in table["columns"])),
            "tables": tables,
            "files": files,
        }

    def _left_out(self, ready: Ready) -> tuple[str, int]:
        return "", 0

    def _judged_again(self, ready: Ready) -> Assessment:
        published = self.place.published(self.run_id)
        if not isinstance(published, Path):
            raise TypeError("the run published no folder of tables")
        written = {name: _written_of(name, ready.written, published) for name in self.members}
        again = self._judged_together(ready.staged, published, written)
        if again.to_dict() != ready.judged.to_dict():
            raise EngineError("the published files do not read back as they were judged; the release was withdrawn")
        return again


def _of_table(name: str, verdict: Verdict) -> Verdict:
    return replace(verdict, reason=f"table {name!r}: {verdict.reason}")


def _written_of(name: str, written: Written, published: Path) -> Written:
    return written
