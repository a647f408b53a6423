"""The ledger that a policy declares, and what must hold where an entry judges several releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.errors import UsageError
from privpipe.measures.risk.releases.repeated_noise import RepeatedNoise
from privpipe.policy.conditions import Draft
from privpipe.policy.entries import ReadEntry
from privpipe.policy.places import Report
from privpipe.policy.specs import SinkSpec
from privpipe.transforms.noise.add_noise import AddNoise

__all__ = ["NOT_JUDGED", "ONE", "DeclaredLedger", "check_ledgers", "history_entries", "kept_apart", "named_ledger"]


NOT_JUDGED = "complementary releases were not judged: no ledger and no earlier release is declared"
ONE = (
    "a policy keeps one ledger, with one key, one normalise, one sensitive column and one set of quasi_identifiers; "
    "the entries name several"
)


@dataclass(frozen=True, kw_only=True)
class DeclaredLedger:
    """Where a policy's ledger is and how it is kept.

    Parameters
    ----------
    path : str
    key : mapping, optional
        Where the key of persons is kept.
    normalise : tuple of str
        What is done to the keys of persons before they are compared.
    sensitive : str, optional
        Column whose values are remembered.
    quasi_identifiers : tuple of str, optional
        Columns that form the classes; None: all of the policy.
    """

    path: str
    key: Mapping[str, str] | None = None
    normalise: tuple[str, ...] = ()
    sensitive: str | None = None
    quasi_identifiers: tuple[str, ...] | None = None


def history_entries(entries: Iterable[Guarantee]) -> tuple[HistoryMeasure, ...]:
    """The entries over several releases among those of a policy."""
    return tuple(entry for entry in entries if isinstance(entry, HistoryMeasure))


def kept_apart(one: HistoryMeasure, other: HistoryMeasure) -> bool:
    """Whether two entries name two ledgers, or one that is kept in two ways."""
    if (one.ledger, one.key, set(one.normalise)) != (other.ledger, other.key, set(other.normalise)):
        return True
    return one.forms_classes and other.forms_classes and _classes(one) != _classes(other)


def named_ledger(entries: Iterable[Guarantee]) -> DeclaredLedger | None:
    """The ledger of a policy's entries; one, with the same settings in every entry that names it.

    Raises
    ------
    UsageError
        Two ledgers, or one that is kept in two ways.
    """
    named = [entry for entry in history_entries(entries) if entry.ledger is not None]
    if not named:
        return None
    if any(kept_apart(one, other) for one in named for other in named):
        raise UsageError(ONE)
    first = next((entry for entry in named if entry.forms_classes), named[0])
    sensitive, keys = _classes(first) if first.forms_classes else (None, None)
    return DeclaredLedger(
        path=str(first.ledger),
        key=first.key,
        normalise=first.normalise,
        sensitive=sensitive,
        quasi_identifiers=keys,
    )


def _classes(entry: HistoryMeasure) -> tuple[str | None, tuple[str, ...] | None]:
    return next(iter(entry.sensitive_columns()), None), entry.quasi_identifiers


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
