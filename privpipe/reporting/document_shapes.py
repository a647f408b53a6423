"""The shape of a run's documents, as far as reports read them: checked before a report is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["MANIFEST", "REPORT", "REQUEST", "TRIED", "VERDICT", "Shape", "misshapen"]

Shape = Callable[[Any], str]
"""What is wrong with a value, as the end of a sentence that begins with its place; nothing where it fits."""


def text(value: Any) -> str:
    return "" if isinstance(value, str) else " is no text"


def flag(value: Any) -> str:
    return "" if isinstance(value, bool) else " is neither true nor false"


def count(value: Any) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else " is no number of things"


def anything(value: Any) -> str:
    """A figure, or figures under names; numbers are finite."""
    if isinstance(value, Mapping):
        return mapping(anything)(value)
    if isinstance(value, list):
        return listed(anything)(value)
    if isinstance(value, float) and not math.isfinite(value):
        return " is no finite number"
    return "" if not isinstance(value, int) or -(2**63) <= value < 2**63 else " is a number beyond 64 bits"


def number(value: Any) -> str:
    return anything(value) if isinstance(value, int | float) and not isinstance(value, bool) else " is no number"


PLAIN = (text, flag, count, anything, number)


def optional(shape: Shape) -> Shape:
    return lambda value: "" if value is None else shape(value)


def listed(shape: Shape) -> Shape:
    def check(value: Any) -> str:
        if not isinstance(value, list):
            return " is no list"
        wrong = ((at, shape(item)) for at, item in enumerate(value))
        return next((f"[{at}]{problem}" for at, problem in wrong if problem), "")

    return check


def mapping(shape: Shape) -> Shape:
    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return " is no mapping"
        wrong = ((name, shape(item)) for name, item in value.items())
        return next((f".{name}{problem}" for name, problem in wrong if problem), "")

    return check


def document(required: Mapping[str, Shape], known: Mapping[str, Shape]) -> Shape:
    """A mapping that has some keys, and others perhaps; what else it holds is not looked at.

    A text, a number or a flag may be null where its key may be missing; a list or a mapping has to say so.
    """

    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return " is no mapping"
        missing = [name for name in required if name not in value]
        if missing:
            return f".{missing[0]} is missing"
        shapes = {**{name: optional(shape) if shape in PLAIN else shape for name, shape in known.items()}, **required}
        wrong = ((name, shape(value[name])) for name, shape in shapes.items() if name in value)
        return next((f".{name}{problem}" for name, problem in wrong if problem), "")

    return check


ROW = document(
    {"name": text, "parameters": mapping(anything)},
    {
        "observed": anything,
        "threshold": anything,
        "outcome": text,
        "severity": text,
        "failing_records": count,
        "failing_classes": count,
        "reason": text,
    },
)
STAGE = document({"name": text, "parameters": mapping(anything)}, {"detail": mapping(anything)})
LOST = document(
    {"column": text, "role": text},
    {
        "done": listed(text),
        **dict.fromkeys(("labels_before", "labels_after"), count),
        **dict.fromkeys(("changed", "blanked", "loss"), number),
        **dict.fromkeys(("measured_by", "alarm"), text),
    },
)
WHOLE = document({"passed": flag, "records": count, "guarantees": listed(ROW)}, {"notes": listed(text)})
VERDICT = document(
    {"guarantees": listed(ROW), "measures": listed(ROW)},
    {
        **dict.fromkeys(("run_id", "name", "engine", "policy_hash", "plan_hash", "nulls", "edition"), text),
        **dict.fromkeys(("records", "suppressed_records", "classes"), count),
        "passed": flag,
        "versions": mapping(text),
        "notes": listed(text),
        "source_notes": listed(text),
        "built_in": listed(ROW),
        "alarms": listed(text),
        "warnings": listed(text),
        "whole_table": WHOLE,
        "column_loss": document({"columns": listed(LOST)}, {"records": count, "whole": flag, "withheld": flag}),
    },
)
FILE = document({"name": text, "bytes": count, "sha256": text}, {})
EARLIER = document(
    {
        **dict.fromkeys(("run_id", "created", "name", "policy_hash", "verdict", "manifest_sha256"), text),
        **dict.fromkeys(("before", "link"), text),
        "officer_policy_hash": optional(text),
        "records": count,
        "signed_by": listed(text),
    },
    {},
)
SIGNATURE = document(dict.fromkeys(("name", "decision", "signed_at", "signature"), text), {})
MANIFEST = document(
    {"plan": document({}, {"stages": listed(STAGE)})},
    {
        **dict.fromkeys(("run_id", "created", "name", "edition"), text),
        "policy": mapping(anything),
        "sign_off": optional(document({}, {"signatures": listed(SIGNATURE)})),
        "input": mapping(anything),
        "previous": optional(document(dict.fromkeys(("run_id", "manifest_sha256"), text), {})),
        "releases_before": listed(EARLIER),
        "output": document({}, {"columns": listed(text), "files": listed(FILE), "records": count}),
    },
)
REQUEST = document(
    {
        "asked": document({"by": listed(text), "two_persons": flag, "valid_days": count}, {}),
        "statement": document({"run_id": text}, {}),
    },
    {},
)
LINE = document({"kind": text, "label": text, "counts": listed(count), "labels": count}, {})
BIN = document({"from": count, "counts": listed(count)}, {"to": count})
CLASSES = document(
    {"unit": text, "keys": listed(text), "sides": listed(text), "records": listed(count), "bins": listed(BIN)},
    {"perturbed": listed(text)},
)
RISKS = document(
    {},
    {"records": count, **dict.fromkeys(("prosecutor", "journalist", "marketer"), optional(mapping(optional(number))))},
)
REPORT = document(
    {"report_version": count, "threshold": count},
    {
        **dict.fromkeys(("edition", "created", "lang"), text),
        "policy": mapping(anything),
        "reasons": mapping(text),
        "stages": listed(STAGE),
        "columns": listed(text),
        **dict.fromkeys(("input_records", "sampled"), count),
        "classes": optional(CLASSES),
        "risks": optional(document({}, {"at_risk": number, "before": optional(RISKS), "after": optional(RISKS)})),
        "distributions": mapping(document({"form": text, "lines": listed(LINE)}, {})),
        "earlier": optional(document({"verdict": VERDICT}, {"created": text, "columns": listed(text)})),
    },
)
TRIED = document(
    {
        "points": listed(
            document(
                {"setting": mapping(anything), "outcome": text, "pareto": flag},
                dict.fromkeys(("risk", "loss"), number),
            )
        )
    },
    {},
)


def misshapen(found: Any, shape: Shape) -> str:
    """What is wrong with a document, or nothing.

    Examples
    --------
    >>> misshapen({"guarantees": [], "measures": [{"name": "k_anonymity", "parameters": 3}]}, VERDICT)
    'measures[0].parameters is no mapping'
    >>> misshapen({"guarantees": [], "measures": []}, VERDICT), misshapen([], MANIFEST)
    ('', 'it is no mapping')
    """
    wrong = shape(found)
    return wrong.removeprefix(".") if wrong.startswith((".", "[")) else f"it{wrong}" if wrong else ""
