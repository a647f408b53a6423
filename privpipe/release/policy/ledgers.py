"""What a policy must hold where an entry judges several releases."""

from __future__ import annotations

from pathlib import Path

from privpipe.blocks.release_history import HistoryMeasure
from privpipe.release.policy.draft import Draft
from privpipe.release.policy.places import Report
from privpipe.release.policy.specs import SinkSpec

__all__ = ["check_ledgers"]


def check_ledgers(draft: Draft, report: Report) -> None:
    """A ledger follows persons by a declared key, is kept in one way, and is never published."""
    sink = draft.values.get("sink")
    target = Path(sink.target(draft.base_dir)) if isinstance(sink, SinkSpec) and "://" not in sink.path else None
    seen: HistoryMeasure | None = None
    for read, entry in draft.judging():
        if not isinstance(entry, HistoryMeasure) or entry.ledger is None:
            continue
        if entry.key is not None and not {"person_id", "record_id"} & set(draft.values):
            report.wrong(
                (*read.place, "key"),
                "persons are followed by person_id or record_id; declare one, or leave the key out to follow "
                "combinations of original quasi-identifiers",
            )
        if target is not None and target in (Path(entry.ledger), *Path(entry.ledger).parents):
            report.wrong((*read.place, "ledger"), "lies inside the sink and would be published with it")
        if seen is not None and _kept(seen) != _kept(entry):
            report.wrong(read.place, "a policy keeps one ledger, with one key, sensitive column and quasi_identifiers")
        seen = seen or entry


def _kept(entry: HistoryMeasure) -> tuple[object, ...]:
    return entry.ledger, entry.key, getattr(entry, "sensitive", None), entry.quasi_identifiers
