"""Verdicts that no entry makes of itself: what could not be judged, and a table of suppressed records alone."""

from __future__ import annotations

import math
from dataclasses import replace

from privpipe.blocks import Entry, Guarantee, Outcome, Verdict
from privpipe.blocks.verdict import Comparison, least

__all__ = [
    "ALL_SUPPRESSED",
    "EMPTY_PASSED",
    "all_suppressed",
    "compares_tables",
    "empty_passed",
    "founded",
    "not_judged",
    "resting_on",
]

ALL_SUPPRESSED = "every record is suppressed."
EMPTY_PASSED = "the table has no records, which `empty: pass` allows: nothing was compared."


def not_judged(entry: Guarantee, reason: str) -> Verdict:
    """An error, which blocks as a fail does."""
    return Verdict(entry, None, "error", entry.demanded(), reason=reason)


def all_suppressed(entry: Guarantee, *, allowed: bool = False) -> Verdict:
    """The verdict over suppressed records alone: a fail, unless an empty release is allowed."""
    outcome: Outcome = "pass" if allowed else "fail"
    return Verdict(entry, None, outcome, entry.demanded(), reason=ALL_SUPPRESSED)


def empty_passed(entry: Guarantee) -> Verdict:
    """The verdict over a table without a record, where the policy lets one pass: it rests on nothing and says so.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> verdict = empty_passed(KAnonymity(k=5))
    >>> verdict.outcome, verdict.observed, verdict.compared[0].compared
    ('pass', None, 0)
    """
    nothing = Comparison(0, 0, "records judged")
    return Verdict(entry, None, "pass", entry.demanded(), reason=EMPTY_PASSED, compared=(nothing,))


def resting_on(verdict: Verdict, *comparisons: Comparison) -> Verdict:
    """The verdict with what else it rests on."""
    return replace(verdict, compared=(*verdict.compared, *comparisons))


def founded(verdict: Verdict, records: int) -> Verdict:
    """The verdict itself; an error where its figure is not a number, or rests on fewer than half of what it compares.

    An entry over one table compares all its records. One that compares two must state how much of them it compared:
    a figure over nothing is 0 as easily as a figure over everything.

    Parameters
    ----------
    records : int
        Records judged.
    """
    if verdict.outcome == "error":
        return verdict
    if isinstance(verdict.observed, float) and math.isnan(verdict.observed):
        return replace(verdict, outcome="error", observed=None, reason="the figure is undefined (not a number).")
    if not verdict.compared:
        if compares_tables(verdict.entry) and verdict.passed:
            return replace(verdict, outcome="error", reason=f"{verdict.name} does not state how much it compared.")
        return replace(verdict, compared=(Comparison(records, records, "records judged"),))
    [worst] = least(verdict.compared)
    if not worst.enough:
        # Without the remedy, a share of nothing ("0 of 0") gives no one anything to act on.
        remedy = f"; {worst.remedy}" if worst.remedy else ""
        return replace(
            verdict, outcome="error", reason=f"{worst}: a figure over fewer than half proves nothing{remedy}."
        )
    if worst.compared < worst.of:
        return replace(verdict, reason=f"{verdict.reason.removesuffix('.')}; {worst}.")
    return verdict


def compares_tables(entry: Entry) -> bool:
    """Whether an entry compares the judged table with another one."""
    return isinstance(entry, Guarantee) and (entry.needs_population or not entry.way.of_table)
