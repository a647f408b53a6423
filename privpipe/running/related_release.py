"""Plans and releases of related tables: each is staged by its own policy, all are judged together and published
in one move.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from privpipe.engines import Written
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.base.frames import at_hand
from privpipe.engines.readers.files import require_stamps
from privpipe.errors import DataError, EngineError, UnsupportedError
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.progress import watched
from privpipe.running.frames import with_frames
from privpipe.running.judged_rows import judge_written, read_back, without_notes
from privpipe.running.places import write_rows
from privpipe.running.plan import Plan
from privpipe.running.related_staging import Member, StagedSet, judged_alone, judged_together, related_of
from privpipe.running.release_memory import Drawn, drawn_by
from privpipe.running.report_figures import RunReport
from privpipe.running.run import ReleaseRun, Stamps
from privpipe.running.run_context import OpenedEngine, RunContext, pinned_tables, seed_of, source_of
from privpipe.running.run_documents import run_documents, write_public
from privpipe.running.staging import Staged
from privpipe.running.waiting_runs import Ready
from privpipe.sinks.databases import DatabaseTarget
from privpipe.sinks.records import file_hash
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.target import LocalTarget, Rows, formula_notes, sink_faults

__all__ = ["RelatedRun", "plan_related"]


@dataclass
class RelatedRun(ReleaseRun):
    """A release of related tables on its way from the sources to the sink."""

    tables: StagedSet | None = None
    written: dict[str, Written] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    source_notes: tuple[str, ...] = ()

    @property
    def _set(self) -> StagedSet:
        if self.tables is None:
            raise TypeError("nothing is staged yet")
        return self.tables

    def staged(self, frozen: Plan | None) -> tuple[Staged, Stamps]:
        if type(self.place) not in (LocalTarget, RemoteTarget, DatabaseTarget):
            raise UnsupportedError(
                "several tables are published in one move into folders, object stores and databases; "
                f"{self.sink.name!r} is none of these, and could show one table new and another old: give `sink:` a "
                "path or a database"
            )
        tables = related_of(self.context).tables
        self.tables = StagedSet(self.context, self.run_id, plan=frozen).stage(lambda name: source_of(tables[name]))
        return self.tables.whole(), self.tables.stamps

    def ready(self, staged: Staged, stamps: Stamps) -> Ready:
        self.context.progress("write")
        engine = self.context.engine
        self.notes = tuple(
            f"table {name!r}: {note}"
            for name, member in self._set.members.items()
            for note in formula_notes(engine, member.context.policy, member.staged.table)
        )
        self.source_notes = self.keys.notes(self._drawn(staged), self.sink.current)
        folder = self.place.stage(self.run_id)
        rows = self.place.rows(self.run_id)
        if not isinstance(rows, Path):
            raise TypeError("a folder gives no path")
        for name, member in self._set.members.items():
            with sink_faults(folder):
                (rows / name).mkdir()
            self.written[name] = write_rows(member.context, member.staged, rows / name)
        landed = self._landed(rows)
        self.context.progress("judge")
        judged = self._judged_together(staged, landed)
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
                output=self._output(rows),
                chain=self.chain,
                batch=self.batch,
                source=self.drift.to_dict(),
            )
            write_public(folder, public, report.public_page(public))
        whole = Written(
            sum(each.records for each in self.written.values()),
            tuple(f"{name}/{file}" for name, each in self.written.items() for file in each.files),
        )
        return Ready(staged, judged, whole, private, public, report, folder)

    def _landed(self, rows: Path) -> Mapping[str, Rows]:
        """Where the rows of each table are in the form in which they are published."""
        if isinstance(self.place, DatabaseTarget):
            return self.place.landed_tables(self.run_id)
        return {name: rows / name for name in self._set.members}

    def _judged_together(self, staged: Staged, rows: Mapping[str, Rows]) -> Assessment:
        """The verdicts on the written files: the joint guarantees, and those of each table."""
        alone, tables = {}, {}
        for name, member in self._set.members.items():
            table = read_back(member.context, member.staged, rows[name])
            self._require_staged(member, table)
            tables[name] = table if member.staged.counted is None else member.staged.counted
            own = without_notes(member.staged)
            judge = partial(judge_written, member.context, own, rows[name], self.written[name], table=table)
            alone[name] = judged_alone(member, judge)
        self.context.progress("judge the tables together")
        records = sum(each.records for each in self.written.values())
        judged = judged_together(self.context, self._set.related(tables), alone, records, staged.suppressed_records)
        return judged.noting(*self.notes, source=self.source_notes).within(**self._header(staged))

    def _require_staged(self, member: Member, table: Any) -> None:
        """Refuse files that do not hold the staged rows: keys of relations are only in the staged table."""
        engine, seed = self.context.engine, self.context.seed
        if fingerprint(engine, table, seed) != fingerprint(engine, member.staged.table, seed):
            raise EngineError("the written files do not hold the records that were staged")

    def _output(self, rows: Path) -> dict[str, Any]:
        """What was written: tables with their columns and rows, and files, if readers read these, with their hashes."""
        files: list[dict[str, Any]] = []
        tables: dict[str, dict[str, Any]] = {}
        for name, each in self.written.items():
            for path in sorted(path for path in (rows / name).glob("*") if path.is_file()):
                files.append({"name": f"{name}/{path.name}", "bytes": path.stat().st_size, "sha256": file_hash(path)})
            columns = list(self._set.members[name].staged.table.schema.names)
            tables[name] = {"rows": each.records, "columns": columns}
        named = (column for member in self._set.members.values() for column in member.staged.table.schema.names)
        return {
            "records": sum(each.records for each in self.written.values()),
            "suppressed_records": sum(member.staged.suppressed_records for member in self._set.members.values()),
            "columns": list(dict.fromkeys(named)),
            "tables": tables,
            "files": files,
            **self.place.described(self.run_id),
        }

    def _drawn(self, staged: Staged) -> Drawn:
        """What the stages of each table drew."""
        return {
            f"{name}.{what}": drawn
            for name, member in self._set.members.items()
            for what, drawn in drawn_by(member.context.policy.transform, member.staged.draws).items()
        }

    def _left_out(self, ready: Ready) -> tuple[str, int]:
        return "", 0

    def _judged_again(self, ready: Ready) -> Assessment:
        again = self._judged_together(ready.staged, self._published())
        if again.to_dict() != ready.judged.to_dict():
            raise EngineError("the published files do not read back as they were judged; the release was withdrawn")
        return again

    def _published(self) -> Mapping[str, Rows]:
        """The tables as readers read them."""
        if isinstance(self.place, DatabaseTarget):
            return self.place.published_tables(self.run_id)
        published = self.place.published(self.run_id)
        if not isinstance(published, Path):
            raise TypeError("the run published no folder of tables")
        return {name: published / name for name in self._set.members}


def plan_related(
    policy: Policy, data: Any, *, engine: Any = None, progress: Callable[[str], None] | None = None
) -> Plan:
    """Decide every stage of a policy about related tables.

    Parameters
    ----------
    data : mapping of str to frame, or None
        None: the sources of the policy.

    Raises
    ------
    NoSolutionError
        Nothing within the limits meets the guarantees.
    DataError
        A table has no records to learn from; keys that are missing or repeated, rows that belong to no person.
    """
    if policy.related is None:
        raise TypeError("the policy is about one table")
    own = policy if data is None else with_frames(policy, data)
    if own.related is None:
        raise TypeError("the policy is about one table")
    tables = {name: pinned_tables(each) for name, each in own.related.tables.items()}
    own = own.replaced(related=replace(own.related, tables=tables))
    first = own if data is None else at_hand(next(iter(data.values())), "plan")
    with OpenedEngine(engine, first, own) as running, watched(progress) as step:
        context = RunContext(running, own, seed_of(own), step)
        staged = StagedSet(context, secrets.token_hex(16)).stage(lambda name: source_of(tables[name]))
        for name, member in staged.members.items():
            if member.staged.empty:
                raise DataError(f"table {name!r} has no records: there is nothing to learn a plan from")
        require_stamps(staged.stamps)
        return staged.whole().plan
