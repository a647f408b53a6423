"""Policies whose release is tables of cells: `aggregate`, the stages after it, and guarantees on cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.policy.entries import Lists, ReadEntry, is_of_tables
from privpipe.policy.plain_values import Report
from privpipe.policy.specs import ColumnSpec
from privpipe.tables.entries import CellGuarantee, TableSet, TableStage, UnionGuarantee
from privpipe.tables.private_noise import of_tables
from privpipe.tables.private_tables import PrivateTable
from privpipe.tables.response_judgement import unjudged, unjudged_text
from privpipe.tables.stages import Aggregate
from privpipe.tables.table_audit import TableAudit
from privpipe.transforms.sampling.safepub import HARMLESS_BEFORE

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableRelease", "without_tables"]


def asked_of_tables(item: ReadEntry) -> ReadEntry:
    """A guarantee on how the data were made, as it is asked of tables."""
    if item.kind is None:
        return item
    return replace(item, kind=of_tables(item.kind), entry=None if item.entry is None else of_tables(item.entry))


def check_private(
    report: Report, before: Sequence[ReadEntry], after: Sequence[ReadEntry], asked: Sequence[ReadEntry]
) -> bool:
    """Whether tables are under differential privacy: then nothing is learnt from true figures, before or after."""
    private = [item for item in after if isinstance(item.entry, PrivateTable)]
    if not private:
        return False
    for item in before:
        if item.name not in HARMLESS_BEFORE:
            report.wrong(
                item.place,
                "looks at all records together, and private_table covers only what treats each by itself; leave it out",
            )
    if len(after) > 1:
        other = next((item for item in after if item is not private[0]), private[-1])
        report.wrong(other.place, "private_table is the only stage after aggregate: others go by true figures")
    for item in asked:
        if isinstance(item.entry, CellGuarantee) and not item.entry.of_process:
            report.wrong(
                item.place,
                f"{item.name} does not apply to tables with noise of private_table: it would reveal what true figures "
                "are; ask `differential_privacy` instead",
            )
    return True


def check_counting(report: Report, after: Sequence[ReadEntry], aggregate: Aggregate, *, kept_seed: bool) -> None:
    """What stages on cells need of the tables, and of the seed."""
    specs = aggregate.specs()
    for item in after:
        stage = item.entry
        if not isinstance(stage, TableStage):
            continue
        if stage.needs_seed and not kept_seed:
            report.wrong(
                item.place,
                "draws what must be the same in every release: give `seed:` with its place, as in {from_env: SEED}; "
                "under another seed each time the average of several releases shows the true figures",
            )
        names = getattr(stage, "tables", None) or tuple(specs)
        try:
            for name in names:
                if name in specs:
                    specs[name] = stage.counting(specs[name], Seed.public("policy"))
        except UsageError as error:
            report.wrong(item.place, str(error))


UNSERVED = {
    "population": "nothing in a table of cells is compared with a population",
    "plan": "tables are counted again in every run, by no plan",
    "failing": "no record is left out of a release of tables",
    "uses": "nothing is known of how tables serve a use",
}
"""Sections that mean nothing for a release of tables."""


@dataclass(frozen=True, kw_only=True)
class TableRelease:
    """What a policy states about tables of cells.

    Parameters
    ----------
    aggregate : Aggregate
    stages : tuple of TableStage
        After `aggregate`, in order.
    guarantees : tuple of CellGuarantee
    counted : callable, optional
        Makes the tables of the rows of a source whose rows are cells, which several holders counted; of records,
        `aggregate` does.
    """

    aggregate: Aggregate
    stages: tuple[TableStage, ...] = ()
    guarantees: tuple[CellGuarantee, ...] = ()
    counted: Callable[[pa.Table], TableSet] | None = field(default=None, compare=False)

    def secrets(self) -> dict[str, tuple[str, ...]]:
        """Parameters that no public document shows, by the name of their entry."""
        return {entry.name(): entry.withheld for entry in (self.aggregate, *self.stages, *self.guarantees)}


def without_tables(
    report: Report, read: Lists, columns: Mapping[str, ColumnSpec], found: Mapping[str, Any]
) -> tuple[dict[str, list[ReadEntry]], TableRelease | None]:
    """The lists with entries about records alone, and those about tables; None where there are none.

    What cannot be had of records or of cells is noted with its line.
    """
    stages, asked = read["transform"], [*read["guarantees"], *read["measures"]]
    aggregates = [item for item in stages if item.kind is not None and issubclass(item.kind, Aggregate)]
    if not aggregates:
        for item in (*stages, *asked):
            if is_of_tables(item):
                report.wrong(item.place, "is about cells of tables, and no `aggregate` stage makes any; add one before")
        return {name: [item for item in items if not is_of_tables(item)] for name, items in read.items()}, None
    read = {**read, "guarantees": [asked_of_tables(item) for item in read["guarantees"]]}
    asked = [*read["guarantees"], *read["measures"]]
    first, *more = aggregates
    for item in more:
        report.wrong(item.place, f"is there already (transform[{first.at}].aggregate); name all tables in one stage")
    before, after = stages[: first.at], stages[first.at + 1 :]
    _check_order(report, first, before, after)
    _check_guarantees(report, first, read["guarantees"], read["measures"])
    records = {**read, "transform": before, "guarantees": [], "measures": []}
    aggregate = first.entry
    if not isinstance(aggregate, Aggregate):
        return records, None
    _check_columns(report, first, aggregate, columns)
    for section, why in UNSERVED.items():
        if section in found:
            report.unsupported((section,), f"{why}; leave it out, or publish records under another policy")
    _check_tables(report, asked, aggregate)
    _check_tables(report, after, aggregate)
    check_counting(report, after, aggregate, kept_seed=found.get("seed") is not None)
    for item in asked:
        for name in item.entry.holdings() if isinstance(item.entry, CellGuarantee) else ():
            _check_column(report, (*item.place, "holding"), name, columns)
    _check_ledger(report, asked, found)
    if check_private(report, before, after, asked):
        return records, _release(aggregate, after, asked)
    for name, spec in aggregate.specs().items():
        entries = [item.entry for item in asked if isinstance(item.entry, CellGuarantee)]
        for response in unjudged(name, spec.responses, entries):
            place = ("tables", name, "responses") if aggregate.tables else ("responses",)
            report.wrong((*first.place, *place), unjudged_text(response))
    if not any(item.kind is not None and issubclass(item.kind, TableAudit) for item in asked):
        report.warn(
            ("guarantees",),
            "no `table_audit` judges whether cells can be worked out from others, or from other tables; add "
            "`- table_audit: {}`",
        )
    return records, _release(aggregate, after, asked)


def _release(aggregate: Aggregate, after: Sequence[ReadEntry], asked: Sequence[ReadEntry]) -> TableRelease:
    return TableRelease(
        aggregate=aggregate,
        stages=tuple(item.entry for item in after if isinstance(item.entry, TableStage)),
        guarantees=tuple(item.entry for item in asked if isinstance(item.entry, CellGuarantee)),
    )


def _check_order(report: Report, first: ReadEntry, before: Sequence[ReadEntry], after: Sequence[ReadEntry]) -> None:
    """Stages on records come before `aggregate`, stages on cells after it."""
    for item in before:
        if is_of_tables(item):
            report.wrong(
                item.place, f"works on cells, and comes before transform[{first.at}].aggregate; move it behind"
            )
    for item in after:
        if not is_of_tables(item) and item.kind is not None:
            report.wrong(
                item.place, f"works on records, and transform[{first.at}].aggregate leaves none; move it before"
            )


def _check_guarantees(
    report: Report, first: ReadEntry, guarantees: Sequence[ReadEntry], measures: Sequence[ReadEntry]
) -> None:
    """Cells are judged, and by something that can refuse."""
    for item in (*guarantees, *measures):
        if not is_of_tables(item) and item.kind is not None:
            report.wrong(
                item.place,
                f"{item.name} judges records, and transform[{first.at}].aggregate leaves only cells; judge these by "
                "minimum_frequency, p_percent or table_audit, or publish records under another policy",
            )
    for item in measures:
        if is_of_tables(item) and not _is_reported(item):
            report.wrong(item.place, f"{item.name} judges: move it to `guarantees:`")
    for item in guarantees:
        if _is_reported(item):
            field = getattr(item.kind, "threshold_field", "at_least")
            report.wrong(
                (*item.place, field),
                f"a guarantee needs its threshold `{field}`; without one the entry belongs under `measures:`",
            )
    sound = [item.entry for item in guarantees if isinstance(item.entry, CellGuarantee)]
    if sound and not any(entry.binds for entry in sound):
        report.wrong(
            (*guarantees[0].place, "severity"),
            "at least one guarantee must have `severity: fail`: with warnings only every table would be published",
        )


def _is_reported(item: ReadEntry) -> bool:
    return isinstance(item.entry, CellGuarantee) and item.entry.reported


def _check_columns(report: Report, item: ReadEntry, aggregate: Aggregate, columns: Mapping[str, ColumnSpec]) -> None:
    """Dimensions and responses are declared columns that the stage still has."""
    for place, name in aggregate.columns_named():
        _check_column(report, (*item.place, *place), name, columns)


def _check_column(report: Report, place: tuple[str | int, ...], name: str, columns: Mapping[str, ColumnSpec]) -> None:
    if name not in columns:
        report.wrong(place, f"{name!r} is not among `columns:`; give it a role there")
    elif columns[name].role in ("identifier", "drop"):
        report.wrong(place, f"{name!r} has `role: {columns[name].role}` and is gone before this stage; give it another")


def _check_ledger(report: Report, asked: Sequence[ReadEntry], found: Mapping[str, Any]) -> None:
    """One ledger, kept in one way, of persons that the policy distinguishes."""
    first: UnionGuarantee | None = None
    for item in asked:
        entry = item.entry
        if not isinstance(entry, UnionGuarantee) or entry.ledger is None:
            continue
        if not {"person_id", "record_id"} & set(found):
            report.wrong(
                (*item.place, "key"),
                "persons are followed by person_id or record_id; declare one, or leave the ledger out",
            )
        first = first or entry
        if (entry.ledger, entry.key, set(entry.normalise)) != (first.ledger, first.key, set(first.normalise)):
            report.wrong(
                item.place, "a policy keeps one ledger, with one key and one normalise; the entries name several"
            )


def _check_tables(report: Report, asked: Sequence[ReadEntry], aggregate: Aggregate) -> None:
    known = aggregate.table_names
    for item in asked:
        for at, name in enumerate(getattr(item.entry, "tables", None) or ()):
            if name not in known:
                report.wrong(
                    (*item.place, "tables", at), f"{name!r} is not a table of `aggregate`; it makes {', '.join(known)}"
                )
