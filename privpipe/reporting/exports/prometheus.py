"""The main figures of a verdict in Prometheus' text format, for the textfile collector."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from privpipe.reporting.exports.rows import began, judged_rows, name_of
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["prometheus"]

GAUGES: Mapping[str, str] = {
    "privpipe_passed": "Whether the release passed.",
    "privpipe_warnings": "Guarantees of severity warn that do not hold.",
    "privpipe_records": "Records judged.",
    "privpipe_suppressed_records": "Records suppressed.",
    "privpipe_classes": "Equivalence classes.",
    "privpipe_guarantee_holds": "Whether a guarantee holds.",
    "privpipe_guarantee_observed": "The figure that a guarantee observed.",
    "privpipe_guarantee_threshold": "The figure that a guarantee asks for.",
    "privpipe_run_timestamp_seconds": "When the run began.",
}


def prometheus(run: RunDocuments) -> str:
    """The text; a figure that is withheld or no number has no line.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 5}, "outcome": "pass", "observed": 7, "threshold": 5}
    >>> found = prometheus(RunDocuments("verdict.json", {"guarantees": [row], "measures": [], "name": "people"}))
    >>> 'privpipe_guarantee_observed{release="people",guarantee="k_anonymity",column="",number="0"} 7' in found
    True
    """
    found: dict[str, list[str]] = {}
    for name, labels, value in _samples(run):
        if isinstance(value, bool | int | float) and math.isfinite(value):
            told = ",".join(f'{label}="{_label(text)}"' for label, text in labels.items())
            found.setdefault(name, []).append(f"{name}{{{told}}} {float(value):.12g}")
    lines = [
        line
        for name, about in GAUGES.items()
        if name in found
        for line in (f"# HELP {name} {about}", f"# TYPE {name} gauge", *found[name])
    ]
    return "\n".join(lines) + "\n"


def _samples(run: RunDocuments) -> Iterator[tuple[str, Mapping[str, str], Any]]:
    verdict, release = run.verdict, {"release": name_of(run)}
    yield "privpipe_passed", release, verdict.get("passed")
    yield "privpipe_warnings", release, len(verdict.get("warnings", ()))
    for name in ("records", "suppressed_records", "classes"):
        yield f"privpipe_{name}", release, verdict.get(name)
    for number, row in enumerate(judged_rows(run)):
        column = row["parameters"].get("column")
        labels = {
            **release,
            "guarantee": str(row["name"]),
            "column": column if isinstance(column, str) else "",
            "number": str(number),
        }
        yield "privpipe_guarantee_holds", labels, row["outcome"] == "pass"
        yield "privpipe_guarantee_observed", labels, row.get("observed")
        yield "privpipe_guarantee_threshold", labels, row.get("threshold")
    start = began(run)
    yield "privpipe_run_timestamp_seconds", release, None if start is None else start.timestamp()


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
