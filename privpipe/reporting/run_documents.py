"""The documents of a finished run: read from next to its data or from its private record, their shape checked first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from privpipe.errors import UsageError, escaped

__all__ = ["MANIFEST", "PUBLISHED", "REPORT", "REQUEST", "TRIED", "VERDICT", "RunDocuments", "Shape", "misshapen"]


Shape = Callable[[Any], str]
"""What is wrong with a value, as the end of a sentence that begins with its place; nothing where it fits."""

DEEPEST = 100
"""Lists and mappings within one another: whatever shows them goes down by calls, of which there are a thousand."""
LARGEST = 1e300
"""Of whole numbers, which a report divides; the vectors of levels of forty columns are more than 64 bits count."""


def text(value: Any) -> str:
    return "" if isinstance(value, str) else " is not text"


def flag(value: Any) -> str:
    return "" if isinstance(value, bool) else " is neither true nor false"


def count(value: Any) -> str:
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return "" if counts else " is not a number of things"


def anything(value: Any) -> str:
    """A figure, or figures under names, at any depth; no place within it is reported, as names there may be values."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping | list):
            left.extend(each.values() if isinstance(each, Mapping) else each)
        elif isinstance(each, float) and not math.isfinite(each):
            return " is not a finite number" if each is value else " holds what is not a finite number"
        elif isinstance(each, int) and abs(each) > LARGEST:
            return f" {'is' if each is value else 'holds'} a number beyond {LARGEST:g}"
    return ""


def number(value: Any) -> str:
    return anything(value) if isinstance(value, int | float) and not isinstance(value, bool) else " is not a number"


PLAIN = (text, flag, count, anything, number)


def optional(shape: Shape) -> Shape:
    return lambda value: "" if value is None else shape(value)


def listed(shape: Shape) -> Shape:
    def check(value: Any) -> str:
        if not isinstance(value, list):
            return " is not a list"
        wrong = ((at, shape(item)) for at, item in enumerate(value))
        return next((f"[{at}]{problem}" for at, problem in wrong if problem), "")

    return check


def mapping(shape: Shape) -> Shape:
    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return " is not a mapping"
        wrong = ((name, shape(item)) for name, item in value.items())
        return next((f".{name}{problem}" for name, problem in wrong if problem), "")

    return check


def document(required: Mapping[str, Shape], known: Mapping[str, Shape]) -> Shape:
    """A mapping that has some keys, and others perhaps; what else it holds is not looked at.

    A text, a number or a flag may be null where its key may be missing; a list or a mapping has to say so.
    """

    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return " is not a mapping"
        missing = [name for name in required if name not in value]
        if missing:
            return f".{missing[0]} is missing"
        shapes = {**{name: optional(shape) if shape in PLAIN else shape for name, shape in known.items()}, **required}
        wrong = ((name, shape(value[name])) for name, shape in shapes.items() if name in value)
        return next((f".{name}{problem}" for name, problem in wrong if problem), "")

    return check


def both(*shapes: Shape) -> Shape:
    """What has each of these shapes; a later one may rely on those before it."""
    return lambda value: next((wrong for shape in shapes if (wrong := shape(value))), "")


def where(kind: type, shape: Shape) -> Shape:
    """A shape for what is of a type; another value is not looked at."""
    return lambda value: shape(value) if isinstance(value, kind) else ""


def word(*known: str) -> Shape:
    return lambda value: "" if value in known and isinstance(value, str) else f" is not one of {', '.join(known)}"


def _detail(value: Mapping[str, Any]) -> str:
    """What a search of vectors of levels looked at; under the same keys other stages keep what they like."""
    searched = isinstance(value.get("levels"), Mapping) and value.get("nodes_checked") is not None
    return SEARCHED(value) if searched else ""


def _as_many(value: Mapping[str, Any]) -> str:
    """A number for each side."""
    sides = len(value["sides"])
    lists = {
        ".records": value["records"],
        **{f".bins[{at}].counts": each["counts"] for at, each in enumerate(value["bins"])},
    }
    return next((f"{name} is not as long as sides" for name, each in lists.items() if len(each) != sides), "")


def _one_length(lines: list[Mapping[str, Any]]) -> str:
    """Counts of one side, or of both, as in the first line."""
    lengths = [len(line["counts"]) for line in lines]
    wrong = next((at for at, length in enumerate(lengths) if length not in (1, 2) or length != lengths[0]), None)
    return "" if wrong is None else f"[{wrong}].counts has not one number a side"


def _ends(line: Mapping[str, Any]) -> str:
    """The label of an interval is two numbers about a colon; an end that is open is left out."""
    if line["kind"] != "interval":
        return ""
    try:
        ends = [float(end) for end in str(line["label"]).partition(":")[::2] if end]
    except ValueError:
        return ".label is not an interval"
    return "" if all(map(math.isfinite, ends)) else ".label is not an interval"


def _of_classes(figures: Mapping[str, Any]) -> str:
    return ".risks are of no classes" if figures.get("risks") and not figures.get("classes") else ""


LEVELS = mapping(count)
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
        "table": text,
    },
)
JUDGED = both(ROW, document({"outcome": text}, {}))
SEEN = document({}, {"levels": where(Mapping, LEVELS), **dict.fromkeys(("suppressed_records", "average_risk"), number)})
SEARCHED = document(
    {},
    {
        **dict.fromkeys(("neighbours", "runners_up", "front"), optional(listed(SEEN))),
        **dict.fromkeys(("records", "suppressed_records", "classes"), number),
    },
)
DETAIL = both(mapping(anything), document({}, {"levels": where(Mapping, LEVELS)}), _detail)
STAGE = document({"name": text, "parameters": mapping(anything)}, {"detail": DETAIL})
PLAN = document({}, {"stages": listed(STAGE)})
LOST = document(
    {"column": text, "role": text},
    {
        "done": listed(text),
        **dict.fromkeys(("labels_before", "labels_after"), count),
        **dict.fromkeys(("changed", "blanked", "zeros", "zeros_changed", "signs_changed", "missing_changed"), number),
        **dict.fromkeys(("mean_change", "quantile_change", "loss"), number),
        **dict.fromkeys(("measured_by", "alarm"), text),
    },
)
RELATION = document(
    {"columns": listed(text), "measured_by": text, "before": number, "after": number, "records": count, "of": count}, {}
)
WHOLE = document({"passed": flag, "records": count, "guarantees": listed(JUDGED)}, {"notes": listed(text)})
VERDICT = document(
    {"guarantees": listed(JUDGED), "measures": listed(ROW)},
    {
        **dict.fromkeys(("run_id", "name", "engine", "policy_hash", "plan_hash", "nulls", "edition"), text),
        **dict.fromkeys(("records", "suppressed_records", "classes"), count),
        "passed": flag,
        "versions": mapping(text),
        "notes": listed(text),
        "source_notes": listed(text),
        "built_in": listed(JUDGED),
        "alarms": listed(text),
        "warnings": listed(text),
        "whole_table": WHOLE,
        "column_loss": document(
            {"columns": listed(LOST)},
            {"records": count, "whole": flag, "withheld": flag, "relations": listed(RELATION)},
        ),
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
    {"batch": text},
)
SIGNATURE = document(dict.fromkeys(("name", "decision", "signed_at", "signature"), text), {})
MANIFEST = document(
    {"plan": PLAN},
    {
        **dict.fromkeys(("run_id", "created", "name", "edition", "batch"), text),
        "policy": mapping(anything),
        "officer_policy": optional(document({"hash": text}, {})),
        "sign_off": optional(document({}, {"signatures": listed(SIGNATURE)})),
        "input": mapping(anything),
        "previous": optional(document(dict.fromkeys(("run_id", "manifest_sha256"), text), {})),
        "releases_before": listed(EARLIER),
        "output": document(
            {},
            {
                "columns": listed(text),
                "files": listed(FILE),
                "records": count,
                "tables": mapping(document({"rows": count}, {})),
            },
        ),
    },
)
PUBLISHED = both(
    MANIFEST,
    document(
        {
            "output": document({"records": count}, {}),
            "sign_off": optional(document({"signatures": listed(SIGNATURE)}, {})),
        },
        {},
    ),
)
"""What a chain of releases records of one, which has all of it since there are chains."""
REQUEST = document(
    {
        "asked": document({"by": listed(text), "two_persons": flag, "valid_days": count}, {}),
        "statement": document({"run_id": text}, {}),
    },
    {},
)
LINE = both(
    document(
        {
            "kind": word("label", "interval", "missing", "suppressed", "others"),
            "label": text,
            "counts": listed(count),
            "labels": count,
        },
        {},
    ),
    _ends,
)
BIN = document({"from": count, "counts": listed(count)}, {"to": count})
CLASSES = both(
    document(
        {
            "unit": text,
            **dict.fromkeys(("keys", "perturbed"), listed(text)),
            "sides": listed(word("before", "after")),
            "records": listed(count),
            "bins": listed(BIN),
        },
        {},
    ),
    _as_many,
)
RISKS = document(
    {},
    {"records": count, **dict.fromkeys(("prosecutor", "journalist", "marketer"), optional(mapping(optional(number))))},
)
EARLIER_RUN = document({"verdict": VERDICT}, {"created": text, "columns": listed(text), "plan": optional(PLAN)})
REPORT = both(
    document(
        {"report_version": count, "threshold": count},
        {
            **dict.fromkeys(("edition", "created", "lang"), text),
            "policy": mapping(anything),
            "reasons": mapping(text),
            "stages": listed(STAGE),
            "columns": listed(text),
            **dict.fromkeys(("input_records", "sampled"), count),
            "classes": optional(CLASSES),
            "risks": optional(document({"at_risk": number, **dict.fromkeys(("before", "after"), optional(RISKS))}, {})),
            "distributions": mapping(document({"form": text, "lines": both(listed(LINE), _one_length)}, {})),
            "earlier": optional(EARLIER_RUN),
        },
    ),
    _of_classes,
)
TRIED = document(
    {
        "points": listed(
            document(
                {
                    "setting": mapping(anything),
                    "outcome": text,
                    "pareto": flag,
                    **dict.fromkeys(("risk", "loss"), optional(number)),
                },
                {},
            )
        )
    },
    {},
)


def _unwritten(found: Any) -> str:
    """Why no run can have written a document, wherever in it; nothing where one can."""
    layer, depth = [found], 0
    while layer:
        if depth > DEEPEST:
            return " is nested too deeply"
        held = [each for each in layer if isinstance(each, Mapping | list)]
        if not all(map(_is_unicode, chain(layer, *(each for each in held if isinstance(each, Mapping))))):
            return " holds a text that is not Unicode"
        layer = [item for each in held for item in (each.values() if isinstance(each, Mapping) else each)]
        depth += 1
    return ""


def _is_unicode(value: Any) -> bool:
    """Whether a text can be written; JSON can name halves of a character."""
    try:
        return not isinstance(value, str) or value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def misshapen(found: Any, shape: Shape) -> str:
    """What is wrong with a document, or nothing; names the place, never a value.

    Examples
    --------
    >>> misshapen({"guarantees": [], "measures": [{"name": "k_anonymity", "parameters": 3}]}, VERDICT)
    'measures[0].parameters is not a mapping'
    >>> misshapen({"guarantees": [], "measures": []}, VERDICT), misshapen([], MANIFEST)
    ('', 'it is not a mapping')
    """
    wrong = escaped(_unwritten(found) or shape(found))
    return wrong.removeprefix(".") if wrong.startswith((".", "[")) else f"it{wrong}" if wrong else ""


HOME = "_privpipe"
SHAPES = {"manifest.json": MANIFEST, "report.json": REPORT, "request.json": REQUEST}


@dataclass(frozen=True)
class RunDocuments:
    """What a run left, in one of its editions.

    Parameters
    ----------
    path : str
        As it was given.
    verdict : mapping
        The verdict document.
    manifest : mapping
        With the plan and the public policy; empty for a verdict alone, such as that of a refused run.
    report : mapping
        Figures that only a report shows, of a private record; empty in the public edition.
    request : mapping
        What is to be signed, of a run that waits.

    Examples
    --------
    >>> RunDocuments("published/adult", {"run_id": "r", "guarantees": [], "measures": []}).name
    'r'
    """

    path: str
    verdict: Mapping[str, Any] = field(repr=False)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    report: Mapping[str, Any] = field(default_factory=dict, repr=False)
    request: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Run id, else the path."""
        return str(self.verdict.get("run_id") or self.path)

    @property
    def edition(self) -> str:
        """``public``: what is next to the data; ``private``: what only the person who ran it may read."""
        return str(self.verdict.get("edition") or "private")

    @property
    def stages(self) -> list[Mapping[str, Any]]:
        """The stages of its plan."""
        return list(self.manifest.get("plan", {}).get("stages", self.report.get("stages", [])))

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each released table, where it released several."""
        tables = self.manifest.get("output", {}).get("tables", {})
        return {name: int(each["rows"]) for name, each in tables.items()}

    @property
    def policy(self) -> Mapping[str, Any]:
        """Its policy, without secrets."""
        found: Mapping[str, Any] = self.manifest.get("policy", self.report.get("policy", {}))
        return found

    @classmethod
    def read(cls, path: str) -> RunDocuments:
        """The documents of a released folder, of a private record, of a run that waits, or of a verdict file alone.

        Raises
        ------
        UsageError
            Nothing of the kind is there.
        """
        place = Path(path)
        if place.is_file():
            return cls(path, _document(place, path))
        waits = (place / "request.json").is_file()
        possible = (place / "private",) if waits else (place / HOME, place)
        homes = [home for home in possible if (home / "verdict.json").is_file()]
        if not homes:
            raise UsageError(
                f"{path!r} is not a finished run: it has no {HOME}/verdict.json; name the folder of a release, the "
                "folder of a private record or of a run that waits, or the verdict file of a run"
            )
        home = homes[0]
        found = {
            name: _document(home / f"{name}.json", path) if (home / f"{name}.json").is_file() else {}
            for name in ("manifest", "report")
        }
        request = _document(place / "request.json", path) if waits else {}
        return cls(path, _document(home / "verdict.json", path), found["manifest"], found["report"], request)


def _document(file: Path, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file.name} of {path!r} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):  # whatever is malformed was not written by a run
        raise UsageError(f"{file.name} of {path!r} cannot be read: it is not JSON, or damaged") from None
    wrong = misshapen(found, SHAPES.get(file.name, VERDICT))
    if wrong:
        raise UsageError(f"{file.name} of {path!r} is not a document of a run, or damaged: {wrong}")
    document: Mapping[str, Any] = found
    return document
