"""A run as an OpenLineage event: its verdict as facets of the output, and where each column came from."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from privpipe.reporting.exports.rows import began, called, judged_rows, name_of
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["openlineage"]

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
