"""A finished run in the formats of other tools: JUnit XML, GitHub-flavoured Markdown, Prometheus text, OpenLineage."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from privpipe.blocks.verdict import warning_of
from privpipe.errors import UsageError, did_you_mean, escaped
from privpipe.html_tables import figure
from privpipe.reporting.entry_rows import asked_in_words
from privpipe.reporting.run_documents import RunDocuments

__all__ = [
    "FORMATS",
    "began",
    "called",
    "exported",
    "judged_rows",
    "junit",
    "markdown",
    "name_of",
    "openlineage",
    "prometheus",
]


def judged_rows(run: RunDocuments) -> list[Mapping[str, Any]]:
    """Guarantees in the order of the verdict, built-in ones first."""
    return [*run.verdict.get("built_in", ()), *run.verdict["guarantees"]]


def called(row: Mapping[str, Any]) -> str:
    """A guarantee with what is asked of it.

    Examples
    --------
    >>> called({"name": "t_closeness", "parameters": {"column": "illness", "t": 0.2}})
    't_closeness(column=illness, t=0.2)'
    """
    plain = {name: value for name, value in row["parameters"].items() if isinstance(value, str | int | float)}
    said = ", ".join(f"{name}={value}" for name, value in plain.items())
    return escaped(f"{row['name']}({said})" if said else str(row["name"]))


def name_of(run: RunDocuments) -> str:
    """The release's name."""
    return escaped(str(run.verdict.get("name") or "privpipe"))


def began(run: RunDocuments) -> datetime | None:
    """When the run began, by its id; None: it has none."""
    found = re.match(r"\d{8}T\d{6}Z", str(run.verdict.get("run_id") or ""))
    if found is None:
        return None
    try:
        return datetime.strptime(found[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def junit(run: RunDocuments) -> str:
    """The XML text; a warning that is not met is shown in the output of a case that passes.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 5}, "outcome": "fail", "severity": "fail", "reason": "k = 1"}
    >>> "<failure" in junit(RunDocuments("verdict.json", {"guarantees": [row], "measures": []}))
    True
    """
    rows = judged_rows(run)
    binding = [row for row in rows if row.get("severity", "fail") == "fail"]
    alarms = [escaped(str(alarm)) for alarm in run.verdict.get("alarms", ())] if not run.verdict.get("passed") else []
    failed = sum(row["outcome"] == "fail" for row in binding)
    lost = bool(alarms) and all(row["outcome"] == "pass" for row in binding)
    suite = ElementTree.Element(
        "testsuite",
        name=name_of(run),
        tests=str(len(rows) + lost),
        failures=str(failed + lost),
        errors=str(sum(row["outcome"] == "error" for row in binding)),
        skipped="0",
    )
    start = began(run)
    if start is not None:
        suite.set("timestamp", f"{start:%Y-%m-%dT%H:%M:%S}")
    home = f"privpipe.{name_of(run)}"
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=home, name=called(row), time="0")
        told, warning = escaped(str(row.get("reason", ""))), escaped(warning_of(row))
        if warning:
            ElementTree.SubElement(case, "system-out").text = f"WARNING {warning}"
        elif row["outcome"] != "pass":
            kind = "failure" if row["outcome"] == "fail" else "error"
            ElementTree.SubElement(case, kind, message=told, type=escaped(str(row["name"]))).text = told
    if lost:
        case = ElementTree.SubElement(suite, "testcase", classname=f"privpipe.{name_of(run)}", name="utility", time="0")
        ElementTree.SubElement(case, "failure", message="; ".join(alarms), type="utility")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


SIGNS = {"pass": ":white_check_mark:", "fail": ":x:", "error": ":boom:"}


def markdown(run: RunDocuments) -> str:
    """The text; a name is shown unchanged and adds no markup.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 5}, "outcome": "pass", "severity": "fail", "observed": 7}
    >>> verdict = {"guarantees": [row], "measures": [], "passed": True, "name": "a|b"}
    >>> markdown(RunDocuments("verdict.json", verdict)).splitlines()[0]
    '### :white_check_mark: a\\\\|b: passed'
    """
    verdict = run.verdict
    rows = judged_rows(run)
    warnings = [warning_of(row) for row in rows if warning_of(row)]
    passed = verdict.get("passed") is True
    word = ("passed with warnings" if warnings else "passed") if passed else "refused"
    lines = [
        f"### {SIGNS['pass' if passed else 'fail']} {_text(name_of(run))}: {word}",
        "",
        "| | guarantee | observed | required |",
        "|---|---|---|---|",
    ]
    for row in rows:
        sign = ":warning:" if warning_of(row) else SIGNS.get(row["outcome"], ":grey_question:")
        cells = (called(row), _figure(row.get("observed")), asked_in_words(row, _figure(row.get("threshold"))))
        lines.append(f"| {sign} | " + " | ".join(map(_text, cells)) + " |")
    told = [f"{_text(row['name'])}: {_text(row.get('reason', ''))}" for row in rows if row["outcome"] != "pass"]
    told += [_text(str(each)) for each in verdict.get("alarms", ())]
    lines += ["", *(f"- {each}" for each in told)] if told else []
    counts = [
        f"{verdict[name]:,} {what}"
        for name, what in (("records", "records"), ("suppressed_records", "suppressed"), ("classes", "classes"))
        if isinstance(verdict.get(name), int)
    ]
    about = [*counts, *(f"{what} `{_code(verdict.get(key))}`" for what, key in ABOUT if verdict.get(key))]
    return "\n".join([*lines, "", " · ".join(about)]).rstrip() + "\n"


ABOUT = (("run", "run_id"), ("policy", "policy_hash"))


def _text(value: Any) -> str:
    """Text without markup: HTML, links, mentions and table bars escaped."""
    plain = escaped(str(value))
    return re.sub(r"([\\`*_{}\[\]<>|~#!@])", r"\\\1", plain)


def _code(value: Any) -> str:
    return re.sub(r"[^\w.:-]", "", escaped(str(value)))


def _figure(value: Any) -> str:
    return "" if value is None else str(figure(value))


SPEC = "https://openlineage.io/spec"
PRODUCER = "https://pypi.org/project/privpipe"
RUNS = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)
"""Within which the id of a run becomes a UUID."""


def openlineage(run: RunDocuments) -> str:
    """One RunEvent as JSON: plain, so that any transport can send it.

    Examples
    --------
    >>> event = json.loads(openlineage(RunDocuments("v.json", {"guarantees": [], "measures": [], "passed": True})))
    >>> event["eventType"], event["inputs"]
    ('COMPLETE', [])
    """
    manifest = run.manifest
    start = began(run)
    source = _dataset(run.policy.get("source"))
    output = _dataset(run.policy.get("sink")) or ("privpipe", name_of(run))
    event = {
        "eventType": "COMPLETE" if run.verdict.get("passed") is True else "FAIL",
        "eventTime": str(manifest.get("created") or (start or datetime.now(UTC)).isoformat()),
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(uuid.uuid5(RUNS, run.name)), "facets": {}},
        "job": {"namespace": "privpipe", "name": name_of(run), "facets": {}},
        "inputs": [] if source is None else [{"namespace": source[0], "name": source[1], "facets": {}}],
        "outputs": [{"namespace": output[0], "name": output[1], "facets": _facets(run, source)}],
    }
    return json.dumps(event, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def _facets(run: RunDocuments, source: tuple[str, str] | None) -> dict[str, Any]:
    verdict = run.verdict
    kept = ("run_id", "edition", "passed", "records", "policy_hash", "plan_hash", "warnings")
    told = {name: verdict[name] for name in kept if verdict.get(name) is not None}
    rows = judged_rows(run)
    figures = [{key: row.get(key) for key in ("name", "outcome", "severity", "observed", "threshold")} for row in rows]
    facets = {
        "privpipe_verdict": {
            "_producer": PRODUCER,
            "_schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/DatasetFacet",
            **told,
            "guarantees": figures,
        },
        "dataQualityAssertions": _facet("1-0-1/DataQualityAssertionsDatasetFacet", assertions=list(_assertions(rows))),
    }
    columns = run.manifest.get("output", {}).get("columns", [])
    if columns:
        facets["schema"] = _facet("1-1-1/SchemaDatasetFacet", fields=[{"name": name} for name in columns])
    if columns and source is not None:
        fields = {name: _lineage(run, source, name) for name in columns}
        facets["columnLineage"] = _facet("1-2-0/ColumnLineageDatasetFacet", fields=fields)
    return facets


def _facet(schema: str, **content: Any) -> dict[str, Any]:
    name = schema.partition("/")[2]
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{schema}.json#/$defs/{name}", **content}


def _assertions(rows: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        column = row["parameters"].get("column")
        about = {"column": column} if isinstance(column, str) else {}
        yield {"assertion": called(row), "success": row["outcome"] == "pass", **about}


def _lineage(run: RunDocuments, source: tuple[str, str], column: str) -> dict[str, Any]:
    """Where a released column came from, and whether a stage masked it on the way."""
    stages = [str(stage["name"]) for stage in run.stages if column in _touched(run, stage)]
    if column not in _columns(run):  # a stage made it
        return {"inputFields": []}
    how = {
        "type": "DIRECT",
        "subtype": "TRANSFORMATION" if stages else "IDENTITY",
        "description": ", ".join(stages),
        "masking": bool(stages),
    }
    field = {"namespace": source[0], "name": source[1], "field": column, "transformations": [how]}
    return {"inputFields": [field]}


def _touched(run: RunDocuments, stage: Mapping[str, Any]) -> set[str]:
    """Columns that a stage changes: those it names, else those of its levels, else all quasi-identifiers."""
    for said in (stage["parameters"].get("columns"), stage.get("detail", {}).get("levels")):
        if isinstance(said, list | Mapping):
            return {name for name in said if isinstance(name, str)}
    return {name for name, role in _columns(run).items() if role == "quasi_identifier"}


def _columns(run: RunDocuments) -> dict[str, Any]:
    """The role of each column of the policy."""
    declared = run.policy.get("columns")
    every = declared.items() if isinstance(declared, Mapping) else ()
    return {name: spec.get("role") if isinstance(spec, Mapping) else None for name, spec in every}


def _dataset(spec: Any) -> tuple[str, str] | None:
    """Namespace and name of a table as OpenLineage has them; None where the policy names none."""
    if not isinstance(spec, Mapping):
        return None
    place = spec.get("path") or spec.get("table") or spec.get("iceberg")
    if isinstance(spec.get("database"), str):
        return str(spec["database"]), str(place or "query")
    if not isinstance(place, str):
        return None
    scheme, found, rest = place.partition("://")
    if found:
        authority, _, path = rest.partition("/")
        return f"{scheme}://{authority}", path or "/"
    return ("file" if spec.get("path") else "catalog"), place


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


FORMATS: Mapping[str, Callable[[RunDocuments], str]] = {
    "junit": junit,
    "markdown": markdown,
    "openlineage": openlineage,
    "prometheus": prometheus,
}


def exported(run: str, format: str) -> str:
    """The text of a run in one of `FORMATS`.

    Parameters
    ----------
    run : str
        A released folder, the folder of a private record, or a verdict file.

    Raises
    ------
    UsageError
        No such format, or no finished run.
    """
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise UsageError(f"--format must be one of {known}, not {format!r}{did_you_mean(format, FORMATS)}")
    return FORMATS[format](RunDocuments.read(run))
