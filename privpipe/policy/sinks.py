"""The sink of a policy and its ledgers: read, and checked against its other sections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.blocks.release_history import HistoryMeasure
from privpipe.blocks.table_name import MOST_PARTS, OWN_CATALOGUE
from privpipe.engines.lakes import IcebergName
from privpipe.errors import UsageError
from privpipe.policy.entries import Draft, ReadEntry
from privpipe.policy.grammar import FAILING, FAILING_SINK, SINK
from privpipe.policy.ledgers import ONE, kept_apart
from privpipe.policy.plain_values import Place, Report
from privpipe.policy.sections import check_url, read_database_sink, read_keys, table_name
from privpipe.policy.specs import FailingSpec, SinkSpec, SourceSpec, located, suppresses

if TYPE_CHECKING:
    from privpipe.measures.risk.releases.repeated_noise import RepeatedNoise

__all__ = [
    "check_failing",
    "check_ledgers",
    "read_failing",
    "read_sink",
]


OF_LAKES = ("mode", "schema")
BY_PARTITION = "replace_partition"
WHOLE = "is replaced as a whole; publish a folder, a Delta or an Iceberg table"
ONE_PLACE = "a release has one place: leave one of them out"


def read_sink(report: Report, value: Any, place: Place) -> SinkSpec | None:
    """`sink`."""
    found = read_keys(report, value, place, SINK)
    # A default that is written out asks for nothing, also where the key is of another kind of sink.
    found = {name: given for name, given in found.items() if SINK[name].default is None or given != SINK[name].default}
    if "partition" in found:
        found["partition"] = tuple(found["partition"])
    if found.get("mode") == BY_PARTITION and not found.get("partition"):
        report.wrong(
            (*place, "mode"), "replace_partition needs `partition:`, the columns whose values make a partition"
        )
        return None
    if "iceberg" in found:
        return _iceberg_sink(report, found, place)
    if "database" in found:
        return read_database_sink(report, found, place)
    if "catalog" in found:
        report.wrong((*place, "catalog"), "is for an Iceberg table, which `iceberg:` names instead of `path:`")
        return None
    if "table" in found:
        return _named_sink(report, found, place)
    kind = found.get("format", "parquet")
    if "formula_cells" in found and kind != "csv":
        report.wrong((*place, "formula_cells"), "is for `format: csv`; other formats declare what is text")
    if "partition" in found and kind not in ("parquet", "delta"):
        report.unsupported(
            (*place, "partition"), "partitions are kept in Parquet files: use `format: parquet` or `delta`"
        )
        return None
    if kind != "delta":
        for name in OF_LAKES:
            if name in found and found[name] != BY_PARTITION:
                report.wrong((*place, name), "is for `format: delta` and `iceberg:`; files are replaced as a whole")
                return None
    if "path" in found:
        check_url(report, found["path"], (*place, "path"))
    return SinkSpec(**found) if "path" in found else None


def _iceberg_sink(report: Report, found: Mapping[str, Any], place: Place) -> SinkSpec | None:
    """A table of a catalogue that pyiceberg knows."""
    wrong = False
    for name in found:
        if name in ("path", "table"):
            report.wrong((*place, "iceberg"), f"is given in addition to `{name}:`; {ONE_PLACE}")
            wrong = True
        elif name not in ("iceberg", "catalog", "partition", *OF_LAKES):
            report.wrong((*place, name), "is for files; an Iceberg table has its own format")
            wrong = True
    try:
        table = IcebergName(name=found["iceberg"], **{key: found[key] for key in ("catalog",) if key in found})
    except UsageError as error:
        report.wrong((*place, "iceberg"), str(error))
        return None
    return (
        None
        if wrong
        else SinkSpec(iceberg=table, **{key: found[key] for key in ("partition", *OF_LAKES) if key in found})
    )


def _named_sink(report: Report, found: Mapping[str, Any], place: Place) -> SinkSpec | None:
    """A view of a catalogue that every release of this policy replaces."""
    for name in found:
        if name == "path":
            report.wrong((*place, "table"), f"is given in addition to `path:`; {ONE_PLACE}")
        elif name == "partition" or found[name] == BY_PARTITION:
            report.unsupported((*place, name), f"a view of a catalogue {WHOLE}")
            return None
        elif name in OF_LAKES:
            report.wrong((*place, name), "is for tables of a table format; a view shows one release")
        elif name != "table":
            report.wrong((*place, name), "is for files; a table has neither a format nor formulas")
    table = table_name(report, found["table"], (*place, "table"))
    if table is not None and not all(re.fullmatch(r"[A-Za-z0-9_]+", part) for part in table.parts):
        report.wrong((*place, "table"), "a catalogue names what is published only by letters, digits and _")
        return None
    if table is not None and len(table.parts) == MOST_PARTS and table.parts[0].casefold() != OWN_CATALOGUE:
        what = f"a release is published as a view of Spark's own catalogue: write {OWN_CATALOGUE}.db.table"
        report.unsupported((*place, "table"), what)
    return None if table is None else SinkSpec(table=table)


DRAWING = ("sample", "safepub")
"""Stages by which records are left out that are of no failing class."""


def read_failing(report: Report, value: Any, place: Place) -> FailingSpec | None:
    """`failing`."""
    found = read_keys(report, value, place, FAILING)
    sink = read_keys(report, found["sink"], (*place, "sink"), FAILING_SINK) if "sink" in found else {}
    return FailingSpec(**sink) if "path" in sink else None


def check_failing(draft: Draft, report: Report) -> None:
    """Records of failing classes are those that stages suppress, and they are kept apart from all that others read."""
    failing = draft.values.get("failing")
    if not isinstance(failing, FailingSpec):
        return
    stages = [stage for _, stage in draft.stages()]
    if any(read.entry is None for read in draft.transform):
        return
    if not any(suppresses(stage) and getattr(stage, "suppress_at_most", None) for stage in stages):
        report.wrong(
            ("failing",),
            "no stage suppresses failing classes, so none would be kept: add `suppress_records: {suppress_at_most: "
            "...}` with the share of the records that may go",
        )
    for read, stage in draft.stages():
        if stage.name() in DRAWING or stage.draws_records(set(draft.columns)):
            report.wrong(
                read.place, f"{read.name} leaves records out that are of no failing class; take `failing:` out"
            )
    place = ("failing", "sink", "path")
    if "://" in failing.path:
        report.wrong(place, "records that are left out are on a local (or mounted) file system; name a folder there")
        return
    home = Path(located(failing.path, draft.base_dir))
    sink = draft.values.get("sink")
    others = {
        name: located(spec.path, draft.base_dir)
        for name in ("source", "original", "population")
        if isinstance(spec := draft.values.get(name), SourceSpec) and spec.path and "://" not in spec.path
    }
    if isinstance(sink, SinkSpec) and sink.is_folder:
        others["sink"] = sink.target(draft.base_dir)
    if isinstance(records := draft.values.get("records"), str):
        others["records"] = located(records, draft.base_dir)
    for name, path in others.items():
        other = Path(path)
        if home == other or home in other.parents or other in home.parents:
            report.wrong(place, f"overlaps with the path of `{name}:`; name a folder apart from it")


def check_ledgers(draft: Draft, report: Report) -> None:
    """A ledger follows persons by a declared key, is kept in one way, and is never published."""
    sink = draft.values.get("sink")
    named = isinstance(sink, SinkSpec) and not sink.is_folder
    local = isinstance(sink, SinkSpec) and not named and "://" not in sink.path
    target = Path(sink.target(draft.base_dir)) if isinstance(sink, SinkSpec) and local else None
    seen: list[HistoryMeasure] = []
    for read, entry in draft.judging():
        if not isinstance(entry, HistoryMeasure) or entry.ledger is None:
            continue
        if named:
            report.unsupported(
                (*read.place, "ledger"),
                "asks its sinks what they published, and a table keeps no record of it; publish into a folder with "
                "`path:`",
            )
        if entry.key is not None and not {"person_id", "record_id"} & set(draft.values):
            report.wrong(
                (*read.place, "key"),
                "persons are followed by person_id or record_id; declare one, or leave the key out to follow "
                "combinations of original quasi-identifiers",
            )
        from privpipe.measures.risk.releases.repeated_noise import RepeatedNoise

        if isinstance(entry, RepeatedNoise):
            _check_noise(draft, report, read, entry)
        if target is not None and target in (Path(entry.ledger), *Path(entry.ledger).parents):
            report.wrong((*read.place, "ledger"), "is inside the sink and would be published with it")
        if any(kept_apart(one, entry) for one in seen):
            report.wrong(read.place, ONE)
        seen.append(entry)


def _check_noise(draft: Draft, report: Report, read: ReadEntry, entry: RepeatedNoise) -> None:
    """Each column that is judged has noise of one known ratio."""
    from privpipe.transforms.noise.add_noise import AddNoise

    if any(stage.entry is None for stage in draft.transform):
        return
    for at, column in enumerate(entry.columns):
        place = (*read.place, "columns", at)
        masking = [stage for _, stage in draft.stages() if isinstance(stage, AddNoise) and column in stage.columns]
        if column not in draft.columns:
            continue  # said already
        if len(masking) != 1:
            many = (
                f"{len(masking)} add_noise stages mask {column!r}"
                if masking
                else f"no add_noise stage masks {column!r}"
            )
            report.wrong(place, f"{many}; the ratio is that of one")
        elif masking[0].kind == "orthogonal":
            report.wrong(place, f"{column!r} has orthogonal noise, which has no variance ratio; take another kind")
        elif masking[0].outliers is not None:
            report.wrong(place, f"{column!r} has noise only for outliers, and none for other persons; mask all records")
