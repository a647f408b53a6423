"""Releases of tables: records are aggregated on the engine, cells are judged, a file per table is published."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.engines import Written
from privpipe.engines.base.frames import at_hand
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.errors import EngineError, UnsupportedError, UsageError
from privpipe.judging import Assessment
from privpipe.policy.specs import located
from privpipe.private_files import sync_folder
from privpipe.progress import watched
from privpipe.reporting.table_pages import drawn_tables, table_page
from privpipe.running.attached_source import attach
from privpipe.running.frames import about
from privpipe.running.places import sink_format
from privpipe.running.release_memory import Remembering
from privpipe.running.report_figures import RunReport
from privpipe.running.run import ReleaseRun, Stamps
from privpipe.running.run_context import OpenedEngine, RunContext, is_path, pinned_tables, read_as_source, seed_of
from privpipe.running.run_documents import run_documents, write_public
from privpipe.running.staging import Staged, run_stages
from privpipe.running.table_frames import table_frame
from privpipe.running.waiting_runs import Ready
from privpipe.sinks.records import document_values, file_hash
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.target import LocalTarget, sink_faults
from privpipe.tables.attacker_intervals import suppressed_rows
from privpipe.tables.entries import TableSet, idle_notes
from privpipe.tables.private_tables import PrivateTable
from privpipe.tables.response_judgement import require_judged
from privpipe.tables.table import Table
from privpipe.tables.table_audit import stored_proofs
from privpipe.tables.table_history import require_same_noise
from privpipe.tables.table_loss import table_loss
from privpipe.transforms.base import StagePlan

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = [
    "FORMATS",
    "TableRun",
    "aggregated",
    "apply_tables",
    "cells_document",
    "judge_tables",
    "read_tables",
    "tables_of",
    "write_tables",
]


def require_ledger_apart(policy: Policy) -> None:
    """Refuse a ledger within the sink: replacing a release would remove the record of spent budget.

    Raises
    ------
    UsageError
    """
    if policy.tables is None or policy.sink is None or not policy.sink.is_folder or "://" in policy.sink.path:
        return
    target = os.path.realpath(policy.sink.target(policy.base_dir))
    for stage in policy.tables.stages:
        if isinstance(stage, PrivateTable):
            ledger = os.path.realpath(stage.ledger)
            if os.path.commonpath([target, ledger]) == target:
                raise UsageError(
                    "private_table: the ledger is inside the sink, and would be published and replaced with it; name "
                    "a folder apart from it"
                )


def spending_source(policy: Policy) -> str:
    """By which a ledger knows the source and the contributors of a policy's tables."""
    spec = policy.source
    where = "frames"
    if spec is not None:
        named = (spec.table, spec.database, spec.iceberg)
        path = located(spec.path, policy.base_dir)
        path = path if "://" in path else os.path.realpath(path)  # one budget, by whatever link it is reached
        where = next((repr(each) for each in named if each is not None), path)
    return json.dumps([where, policy.person_id])


def cells_document(tables: TableSet, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The private document of suppressed cells: their values, the intervals an attacker can derive, the cost."""
    return {
        "edition": "private",
        "tables": suppressed_rows(tables),
        "losses": {name: _losses(table) for name, table in tables.tables.items()},
        "drawn": dict(drawn),
    }


def _losses(table: Table) -> list[dict[str, Any]]:
    """Hidden cells of each figure by the depth of their labels, and in all with the share of the value."""
    rows: list[dict[str, Any]] = []
    for key in table.shown_measures:
        measure = table.measures[key]
        loss = table_loss(table.cells, measure.figures.magnitudes, measure.hidden)
        rows.append(
            {
                "figure": key,
                "depth": "all",
                "hidden": loss.hidden,
                "cells": loss.cells,
                "share": f"{loss.value_share:.2%}",
            }
        )
        rows += [
            {"figure": key, "depth": ", ".join(map(str, depth)), "hidden": hidden, "cells": cells, "share": ""}
            for depth, (hidden, cells) in sorted(loss.levels.items())
        ]
    return rows


@dataclass(frozen=True)
class TableReport(RunReport):
    """The report of a release of tables.

    Parameters
    ----------
    tables : TableSet
        With all that is known of each cell.
    shown : mapping of str to pyarrow.Table
        As they leave.
    """

    tables: TableSet = field(default_factory=lambda: TableSet(tables={}), repr=False)
    shown: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    drawn: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        policy = self.context.policy
        if self.wanted and policy.tables is not None:
            drawn = drawn_tables(self.shown, policy.tables.aggregate.total, sink_format(policy))
            object.__setattr__(self, "drawn", drawn)
            object.__setattr__(self, "documents", {"cells": cells_document(self.tables, drawn)})

    def _page(
        self,
        documents: Mapping[str, Mapping[str, Any]],
        figures: Mapping[str, Any],
        request: Mapping[str, Any] | None = None,
        path: str = "",
    ) -> str:
        verdict = document_values(documents["verdict"])
        private = verdict.get("edition") == "private"
        cells = document_values(self.documents["cells"]) if private else {}
        return table_page(verdict, document_values(dict(self.drawn)), cells)


FORMATS = ("parquet", "csv")
"""In which tables are published."""
EARLIER = (
    "earlier tables about the same persons were not judged: what two releases show together may be more than each "
    "shows; where one owner counts all records, give `table_audit` a `ledger`"
)


def aggregated(context: RunContext, staged: Staged, memory: Remembering | None = None) -> TableSet:
    """The tables of the policy over the records after its stages, before any stage on cells.

    Parameters
    ----------
    memory : Remembering, optional
        Adds the memory of a ledger.
    """
    policy = context.policy
    if policy.tables is None:
        raise TypeError("the policy makes no tables")
    if policy.tables.counted is not None:
        return policy.tables.counted(context.engine.collect(staged.table))
    require_ledger_apart(policy)
    records = staged.table if staged.counted is None else staged.counted
    made = policy.tables.aggregate.tables_over(
        context.engine,
        records,
        person=policy.person_id,
        seed=context.seed,
        hierarchies=policy.hierarchies,
        guarantees=policy.tables.guarantees,
        sensitive=policy.roles.sensitive,
        stages=policy.tables.stages,
    )
    made = replace(made, source=spending_source(policy))
    if memory is None:
        return made
    return replace(made, history=memory.gather_tables(context.engine, staged.original, records, made.tables))


def tables_of(context: RunContext, staged: Staged, memory: Remembering | None = None) -> TableSet:
    """The tables as they will be published, after all stages."""
    tables = aggregated(context, staged, memory)
    for stage in () if context.policy.tables is None else context.policy.tables.stages:
        context.progress(stage.name())
        tables = stage.run(tables)
    require_same_noise(tables.tables, tables.history)
    if memory is not None:
        memory.remember_tables(tables.tables)
    return tables


def judge_tables(context: RunContext, tables: TableSet, memory: Remembering | None = None) -> Assessment:
    """The verdict of every guarantee on tables as they will be published."""
    policy = context.policy
    asked = () if policy.tables is None else policy.tables.guarantees
    require_judged(tables)
    cells = sum(len(table) for table in tables.tables.values())
    notes: tuple[str, ...] = () if tables.history is not None else (EARLIER,)
    source: tuple[str, ...] = ()
    if memory is not None:
        notes, source = (*notes, *memory.notes), memory.source_notes
    judged = [guarantee.judged_over(tables) for guarantee in asked]
    return Assessment(
        verdicts=tuple(verdict for verdict, by in zip(judged, asked, strict=True) if not by.reported),
        measures=tuple(verdict for verdict, by in zip(judged, asked, strict=True) if by.reported),
        records=cells,
        notes=(*tables.notes, *idle_notes(asked), *notes),
        source_notes=source,
    )


def apply_tables(policy: Policy, frame: Any, *, engine: Any, progress: Callable[[str], None] | None) -> Any:
    """The tables of a frame as they may leave, once every guarantee holds: frames by name, or the only one.

    Raises
    ------
    Refused
        A guarantee does not hold; nothing comes back.
    """
    data = at_hand(frame, "Policy.apply")
    own = pinned_tables(about(policy, data))
    with OpenedEngine(engine, data, own) as running, Remembering(own) as memory, watched(progress) as step:
        context = RunContext(running, own, seed_of(own), step)
        source = read_as_source(data, own)
        stamps = stamps_of(source)
        tables = tables_of(context, run_stages(context, attach(context, source)), memory)
        context.progress("judge")
        judge_tables(context, tables, memory).raise_if_failed("Nothing was given back.")
        require_stamps(stamps)
        like = None if is_path(data) else frame
        shown = {name: table_frame(table, like, engine) for name, table in tables.public().items()}
    return shown if own.tables is not None and own.tables.aggregate.tables else next(iter(shown.values()))


def write_tables(tables: Mapping[str, pa.Table], folder: Path, file_format: str) -> Written:
    """Write each table to a file of its name; equal tables give equal bytes.

    Raises
    ------
    UnsupportedError
        Tables are not written in that format.
    """
    if file_format not in FORMATS:
        raise UnsupportedError(f"tables are published as {' or '.join(FORMATS)}, not as {file_format}; change `sink:`")
    import pyarrow.csv
    import pyarrow.parquet

    names = []
    for name, table in tables.items():
        file = folder / f"{name}.{file_format}"
        if file_format == "parquet":
            pyarrow.parquet.write_table(table, file)
        else:
            pyarrow.csv.write_csv(table, file)
        names.append(file.name)
    sync_folder(folder)
    return Written(sum(table.num_rows for table in tables.values()), tuple(names))


def read_tables(tables: Mapping[str, pa.Table], folder: Path, file_format: str) -> dict[str, pa.Table]:
    """The written tables, read back with the columns and types of `tables`."""
    import pyarrow.csv
    import pyarrow.parquet

    found = {}
    for name, table in tables.items():
        file = folder / f"{name}.{file_format}"
        if file_format == "parquet":
            found[name] = pyarrow.parquet.read_table(file)
            continue
        types = pyarrow.csv.ConvertOptions(
            column_types=table.schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        found[name] = pyarrow.csv.read_csv(file, convert_options=types)
    return found


def require_equal(tables: Mapping[str, pa.Table], folder: Path, file_format: str, when: str) -> None:
    """Refuse files that do not read back as the tables that were judged.

    Raises
    ------
    EngineError
    """
    with sink_faults(folder):
        found = read_tables(tables, folder, file_format)
    differing = [name for name, table in tables.items() if not found[name].equals(table)]
    if differing:
        raise EngineError(
            f"{len(differing)} of {len(tables)} tables do not read back as they were judged ({when}); nothing of "
            "this run stays published"
        )


@dataclass
class TableRun(ReleaseRun):
    """A release of tables on its way from the source to the sink."""

    tables: TableSet | None = None

    def ready(self, staged: Staged, stamps: Stamps) -> Ready:
        policy, context = self.context.policy, self.context
        if type(self.place) not in (LocalTarget, RemoteTarget):
            raise UnsupportedError(
                f"tables are published into folders and object stores, which hold one file per table; "
                f"{self.sink.name!r} is neither, or joins releases: give `sink:` a path, without a mode that keeps rows"
            )
        tables = self.tables = tables_of(context, staged, self.memory)
        shown = tables.public()
        context.progress("write")
        folder = self.place.stage(self.run_id)
        rows = self.place.rows(self.run_id)
        if not isinstance(rows, Path):
            raise TypeError("a folder gives no path")
        with sink_faults(folder):
            written = write_tables(shown, rows, sink_format(policy))
        context.progress("judge")
        require_equal(shown, rows, sink_format(policy), "when they were staged")
        staged = replace(staged, plan=replace(staged.plan, stages=(*staged.plan.stages, *_plans(context, tables))))
        judged = judge_tables(context, tables, self.memory).within(**self._header(staged))
        report = TableReport(context, self.records, self.place.current(), tables=tables, shown=shown)
        if not judged.passed:
            record = ""
            self.place.refuse(self.run_id)
            if self.records is not None:
                documents = {"verdict": judged.to_dict(), **report.documents}
                page = report.private_page(documents)
                record = str(self.records.keep(self.run_id, documents, pending=False, report=page))
            judged.raise_if_failed(record=record)
        require_stamps(stamps)
        self.place.completed(self.run_id)
        with sink_faults(folder):
            private, public = run_documents(
                context,
                staged,
                judged,
                output=_output(shown, rows, written),
                chain=self.chain,
                batch=self.batch,
                source=self.drift.to_dict(),
            )
            write_public(folder, public, report.public_page(public))
        kept = {**private, **report.documents, **stored_proofs(judged.verdicts)}
        return Ready(staged, judged, written, kept, public, report, folder)

    def _left_out(self, ready: Ready) -> tuple[str, int]:
        return "", 0

    def _judged_again(self, ready: Ready) -> Assessment:
        published = self.place.published(self.run_id)
        if self.tables is None or not isinstance(published, Path):
            raise TypeError("the run published no folder of tables")
        require_equal(self.tables.public(), published, sink_format(self.context.policy), "after publishing")
        return ready.judged


def _plans(context: RunContext, tables: TableSet) -> tuple[StagePlan, ...]:
    """What `aggregate` and each stage after it decided."""
    policy = context.policy
    if policy.tables is None:
        return ()
    stages = (policy.tables.aggregate, *policy.tables.stages)
    return tuple(
        StagePlan(
            name=stage.name(),
            parameters={
                **{name: value for name, value in stage.parameters().items() if name not in stage.withheld},
                **({} if not done else dict(done).get("public", {})),
            },
            detail={"parameters": stage.parameters(), **({} if not done else dict(done))},
        )
        for stage, done in zip(stages, (None, *tables.steps), strict=False)
    )


def _output(shown: Mapping[str, pa.Table], folder: Path, written: Written) -> dict[str, Any]:
    """What was written: tables with their columns and rows, and files with their hashes."""
    files = []
    for name in sorted(written.files):
        path = folder / name
        files.append({"name": name, "bytes": path.stat().st_size, "sha256": file_hash(path)})
    return {
        "records": written.records,
        "suppressed_records": None,
        "columns": list(dict.fromkeys(name for table in shown.values() for name in table.schema.names)),
        "tables": {name: {"rows": table.num_rows, "columns": table.schema.names} for name, table in shown.items()},
        "files": files,
    }
