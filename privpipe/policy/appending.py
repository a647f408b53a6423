"""What a sink that keeps earlier rows asks of a policy: guarantees that can judge the whole table, known partitions."""

from __future__ import annotations

from privpipe.blocks import Guarantee
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.policy.draft import Draft
from privpipe.policy.places import Report
from privpipe.policy.specs import SinkSpec

__all__ = ["check_appending", "unjudged_whole"]


def check_appending(draft: Draft, report: Report) -> None:
    """A guarantee that cannot judge the rows of earlier releases is refused: passed over, it would seem to hold."""
    sink = draft.values.get("sink")
    if not isinstance(sink, SinkSpec):
        return
    _check_partition(draft, report, sink)
    if not sink.keeps_rows:
        return
    judging = [read.entry for read in draft.guarantees]
    if judging and all(isinstance(entry, HistoryMeasure) for entry in judging):
        report.unsupported(
            ("sink", "mode"), f"{sink.mode} needs a guarantee that judges the whole table, as k_anonymity does; add one"
        )
    for read in draft.guarantees:
        if isinstance(read.entry, Guarantee) and (why := unjudged_whole(read.entry)):
            report.unsupported(
                read.place,
                f"{why}, so the whole table cannot be judged by it after `mode: {sink.mode}`; publish with `mode: "
                "replace`, or make it one of the `measures:`, which are taken of the batch",
            )


def _check_partition(draft: Draft, report: Report, sink: SinkSpec) -> None:
    """Readers must see by which values a partition is replaced."""
    for at, name in enumerate(sink.partition):
        column, place = draft.columns.get(name), ("sink", "partition", at)
        if column is None and name not in draft.unreadable_columns:
            report.wrong(place, f"{name!r} has no role under `columns:`; give it one, as `role: insensitive`")
        elif column is not None and column.role in ("identifier", "drop"):
            report.wrong(place, f"{name!r} has `role: {column.role}` and is not released; name released columns")
        elif name in sink.partition[:at]:
            report.wrong(place, f"{name!r} is named twice")


def unjudged_whole(entry: Guarantee) -> str:
    """Why an entry cannot judge a table that holds releases of several runs; nothing where it can.

    One with a ledger judges the batch beside every release before it, which is what the whole table is.

    Examples
    --------
    >>> from privpipe.models import DifferentialPrivacy, KAnonymity
    >>> unjudged_whole(KAnonymity(k=5))
    ''
    >>> unjudged_whole(DifferentialPrivacy(epsilon=1.0, delta=1e-6))
    'it judges the process of one release'
    """
    if isinstance(entry, HistoryMeasure) and entry.ledger is not None:
        return ""
    if entry.way.of_process:
        return "it judges the process of one release"
    if not entry.way.of_table:
        return "it compares a release with its original, and earlier ones are without theirs"
    if entry.needs_population:
        return "it compares with a population that is generalized as one release is"
    return ""
