"""Verdicts that no entry makes of itself: what could not be judged, and a table of suppressed records alone."""

from __future__ import annotations

import math
from dataclasses import replace

from privpipe.blocks import Guarantee, Outcome, Verdict

__all__ = ["ALL_SUPPRESSED", "all_suppressed", "defined", "not_judged"]

ALL_SUPPRESSED = "every record is suppressed."


def not_judged(entry: Guarantee, reason: str) -> Verdict:
    """An error, which blocks as a fail does."""
    return Verdict(entry, None, "error", entry.demanded(), reason=reason)


def all_suppressed(entry: Guarantee, *, allowed: bool = False) -> Verdict:
    """The verdict over suppressed records alone: a fail, unless an empty release is allowed."""
    outcome: Outcome = "pass" if allowed else "fail"
    return Verdict(entry, None, outcome, entry.demanded(), reason=ALL_SUPPRESSED)


def defined(verdict: Verdict) -> Verdict:
    """The verdict itself; an error where its figure is no number, for which every comparison would be false."""
    if isinstance(verdict.observed, float) and math.isnan(verdict.observed):
        return replace(verdict, outcome="error", observed=None, reason="the figure is undefined (not a number).")
    return verdict
