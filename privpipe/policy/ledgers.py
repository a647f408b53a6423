"""What a policy must hold where an entry judges several releases."""

from __future__ import annotations

from pathlib import Path

from privpipe.blocks.release_history import HistoryMeasure
from privpipe.measures.risk.releases.repeated_noise import RepeatedNoise
from privpipe.policy.declared_ledger import ONE, kept_apart
from privpipe.policy.draft import Draft
from privpipe.policy.entries import ReadEntry
from privpipe.policy.places import Report
from privpipe.policy.specs import SinkSpec
from privpipe.transforms.noise.add_noise import AddNoise

__all__ = ["check_ledgers"]


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
        if isinstance(entry, RepeatedNoise):
            _check_noise(draft, report, read, entry)
        if target is not None and target in (Path(entry.ledger), *Path(entry.ledger).parents):
            report.wrong((*read.place, "ledger"), "lies inside the sink and would be published with it")
        if any(kept_apart(one, entry) for one in seen):
            report.wrong(read.place, ONE)
        seen.append(entry)


def _check_noise(draft: Draft, report: Report, read: ReadEntry, entry: RepeatedNoise) -> None:
    """Each column that is judged has noise of one known ratio."""
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
            report.wrong(
                place, f"{column!r} has noise for outliers alone, and none for other persons; mask all records"
            )
