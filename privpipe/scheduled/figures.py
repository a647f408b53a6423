"""The public figures of a verdict, small enough for what schedulers show beside a task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Verdict
from privpipe.judging import Assessment
from privpipe.running.run_documents import public_rules

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["public_figures", "refusal"]


def public_figures(assessment: Assessment, policy: Policy) -> dict[str, Any]:
    """What the public edition of the verdict says of each guarantee: asked, reached, margin and outcome.

    Of a table that was refused it says no more than of a release: no figure that compares with the source or rests on
    few records.
    """
    rules = public_rules(policy, policy.released_roles.columns)
    shown = assessment.public_dict(rules)
    verdicts = (*assessment.built_in, *assessment.verdicts)
    return {
        "passed": shown["passed"],
        "engine": shown.get("engine"),
        "policy_hash": shown.get("policy_hash"),
        "records": shown["records"],
        "suppressed_records": shown["suppressed_records"],
        "classes": shown["classes"],
        "warnings": shown["warnings"],
        "guarantees": [_row(verdict, row) for verdict, row in zip(verdicts, shown["guarantees"], strict=True)],
    }


def refusal(figures: dict[str, Any]) -> str:
    """What did not hold, in a sentence for a log."""
    failed = [row for row in figures["guarantees"] if row["outcome"] != "pass" and row["severity"] == "fail"]
    said = [f"{row['guarantee']}: asked {_shown(row['asked'])}, reached {_shown(row['reached'])}" for row in failed]
    return "; ".join(said) or "a column lost more than the policy allows"


def _row(verdict: Verdict, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "guarantee": row["name"],
        "parameters": row["parameters"],
        "asked": row["threshold"],
        "reached": row["observed"],
        "margin": _margin(row["threshold"], row["observed"], getattr(verdict.entry, "direction", None)),
        "outcome": row["outcome"],
        "severity": row["severity"],
    }


def _margin(asked: Any, reached: Any, direction: str | None) -> float | None:
    """How far the figure is on the safe side; below 0 it is not."""
    known = all(isinstance(each, int | float) and math.isfinite(each) for each in (asked, reached))
    if not known or direction is None:
        return None
    return float(reached - asked if direction == "at_least" else asked - reached)


def _shown(figure: Any) -> str:
    return "a figure that is not shown" if figure is None else str(figure)
