"""The public figures of a verdict, small enough for what schedulers show next to a task or a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpipe.blocks.public_edition import LEAST_REPORTED, PublicRules
from privpipe.blocks.verdict import Verdict

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee

__all__ = ["check_metadata", "public_figures", "rules_of_judging"]

COLUMNS = ("guarantee", "parameters", "asked", "reached", "margin", "outcome")


def public_figures(shown: Mapping[str, Any], verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """What the public edition of the verdict says of each guarantee: required, achieved, margin and outcome.

    Of a table that was refused it says no more than of a release: no figure that compares with the source or rests on
    few records.

    Parameters
    ----------
    shown : mapping
        The public verdict document.
    verdicts : iterable of Verdict
        Of its guarantees, in their order.
    """
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


def check_metadata(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The guarantees as rows of texts, and the counts that the public edition shows, as plain JSON values.

    Parameters
    ----------
    figures : mapping
        Of `public_figures`. What the public edition withholds is left empty.

    Examples
    --------
    >>> row = {"guarantee": "k_anonymity", "parameters": {"k": 5}, "asked": 5, "reached": 7, "margin": 2.0}
    >>> check_metadata({"guarantees": [{**row, "outcome": "pass"}], "records": 90})["guarantees"][0]["parameters"]
    'k=5'
    """
    rows = [{name: _cell(row[name]) for name in COLUMNS} for row in figures.get("guarantees", ())]
    counts = {name: figures[name] for name in ("records", "classes") if figures.get(name) is not None}
    warned = {"warnings": list(figures["warnings"])} if figures.get("warnings") else {}
    return {"guarantees": rows, **counts, **warned} if rows else {}


def rules_of_judging(
    guarantees: Sequence[Guarantee], columns: Iterable[str], person: str | None = None, household: str | None = None
) -> PublicRules:
    """Rules for a caller that has the judgement but no policy.

    Nothing below the largest k that was asked is shown, and never below 5.

    Parameters
    ----------
    guarantees : sequence of Guarantee
    columns : iterable of str
        Those of the judged table that are released.
    person, household : str, optional
        By which column these are counted.
    """
    asked = [int(entry.demanded() or 1) for entry in guarantees if entry.name() == "k_anonymity"]
    least = max([LEAST_REPORTED, *asked])
    return PublicRules(columns=frozenset(columns), person=person, household=household, least=least, counts=False)


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


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return "" if value is None else str(value)
