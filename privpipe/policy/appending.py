"""What `mode: append` asks of a policy: every guarantee must be able to judge the whole table."""

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
    if not isinstance(sink, SinkSpec) or sink.mode != "append":
        return
    judging = [read.entry for read in draft.guarantees]
    if judging and all(isinstance(entry, HistoryMeasure) for entry in judging):
        report.unsupported(
            ("sink", "mode"), "append needs a guarantee that judges the whole table, as k_anonymity does; add one"
        )
    for read in draft.guarantees:
        if isinstance(read.entry, Guarantee) and (why := unjudged_whole(read.entry)):
            report.unsupported(
                read.place,
                f"{why}, so the whole table cannot be judged by it after `mode: append`; publish with `mode: replace`, "
                "or make it one of the `measures:`, which are taken of the batch",
            )


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
