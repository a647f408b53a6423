"""JSON schemas of the record of a run: the public manifest, and the private one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["PRIVATE_MANIFEST", "PUBLIC_MANIFEST"]

TEXT = {"type": "string"}
SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
KEYED = {"type": "string", "pattern": "^hmac-sha256:[0-9a-f]{64}$"}
TIME = {"type": "string", "format": "date-time"}
COUNT = {"type": "integer", "minimum": 0}
MAPPING = {"type": "object"}
VERSIONS = {"type": "object", "additionalProperties": TEXT}


def _object(properties: Mapping[str, Any], *, open_: bool = False, needs: tuple[str, ...] | None = None) -> Any:
    required = [name for name in properties if name != "batch"] if needs is None else list(needs)
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": open_}


def _listed(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(schema), {"type": "null"}]}


GUARANTEE = _object(
    {
        "name": TEXT,
        "parameters": MAPPING,
        "severity": {"enum": ["fail", "warn"]},
        "outcome": {"enum": ["pass", "fail", "error"]},
    }
)
FILE = _object({"name": TEXT, "bytes": COUNT, "sha256": SHA256})
STAGE = _object({"name": TEXT, "parameters": MAPPING, "detail": MAPPING})
VERDICT = {"enum": ["passed", "passed_with_warnings"]}
RELEASE_BEFORE = _object(
    {
        "run_id": TEXT,
        "created": TIME,
        "name": TEXT,
        "policy_hash": SHA256,
        "officer_policy_hash": _or_null(SHA256),
        "verdict": VERDICT,
        "records": COUNT,
        "signed_by": _listed(TEXT),
        "manifest_sha256": SHA256,
        "batch": TEXT,
        "before": SHA256,
        "link": SHA256,
    }
)
SIGNATURE = _object(
    {
        "sign_off_version": {"const": 1},
        "name": TEXT,
        "key": TEXT,
        "decision": {"enum": ["approve", "changes", "reject"]},
        "comment": TEXT,
        "signed_at": TIME,
        "expires": _or_null(TIME),
        "statement": SHA256,
        "signature": TEXT,
    }
)
SIGN_OFF = _object(
    {
        "asked": _object({"by": _listed(TEXT), "two_persons": {"type": "boolean"}, "valid_days": COUNT}),
        "statement": MAPPING,
        "checked_at": TIME,
        "signatures": _listed(SIGNATURE),
    }
)
COMMON: Mapping[str, Any] = {
    "manifest_version": {"const": 1},
    "run_id": {"type": "string", "pattern": r"^\d{8}T\d{6}Z-[0-9a-f]{8}$", "description": "begins with when it began"},
    "created": {**TIME, "description": "when the staged files had been judged"},
    "name": TEXT,
    "policy": {
        **MAPPING,
        "description": "the policy, without places of private records, options of engines and texts of queries",
    },
    "policy_hash": {**SHA256, "description": "of that as canonical JSON, without `plan`"},
    "officer_policy": _or_null(_object({"name": TEXT, "hash": SHA256})),
    "engine": TEXT,
    "versions": {**VERSIONS, "description": "of privpipe, Python, the engine's libraries, and plug-ins in use"},
    "solver": _or_null(_object({"name": TEXT, "package": TEXT, "version": TEXT})),
    "nulls": {"enum": ["own_value", "wildcard", "refuse"]},
    "suppression_mark": TEXT,
    "seed_commitment": {**KEYED, "description": "of the seed, salted with the run id"},
    "verdict": VERDICT,
    "guarantees": _listed(GUARANTEE),
    "previous": _or_null(_object({"run_id": TEXT, "manifest_sha256": SHA256})),
    "releases_before": {
        **_listed(RELEASE_BEFORE),
        "description": "oldest first; each holds the link of the one before",
    },
    "sign_off": _or_null(SIGN_OFF),
    "batch": {**TEXT, "description": "what the caller named it by; the same one is published once. Only where one did"},
    "checksum": {**SHA256, "description": "of the manifest as canonical JSON, without it"},
    "seal": {**_or_null(KEYED), "description": "of all but checksum and seal, under the seed; null: none was declared"},
}
OUTPUT = _object(
    {
        "records": COUNT,
        "suppressed_records": {"type": ["integer", "null"], "minimum": 0},
        "columns": _listed(TEXT),
        "files": _listed(FILE),
        "table": TEXT,
    },
    open_=True,
    needs=("records", "suppressed_records", "columns", "files"),
)
PLAN = {"plan_version": {"type": "integer"}, "policy_digest": SHA256, "stages": _listed(STAGE)}
PUBLIC_MANIFEST = {
    **_object(
        {
            **COMMON,
            "edition": {"const": "public"},
            "plan": _object({**PLAN, "edition": {"const": "public"}}),
            "plan_hash": {**SHA256, "description": "of the public plan"},
            "private_plan": {**KEYED, "description": "of the hash of the whole plan"},
            "input": _object({"records": {"type": ["integer", "null"], "minimum": 0}, "fingerprint": KEYED}),
            "output": OUTPUT,
            "documents": _object({"verdict": SHA256, "plan": SHA256}),
        }
    ),
    "description": "_privpipe/manifest.json beside a release",
}
PRIVATE_MANIFEST = {
    **_object(
        {
            **COMMON,
            "edition": {"const": "private"},
            "plan": _object({**PLAN, "edition": {"const": "private"}}, open_=True),
            "plan_hash": {**SHA256, "description": "of the whole plan, without its salted commitment"},
            "input": _object(
                {
                    "records": COUNT,
                    "fingerprint": TEXT,
                    "schema": {**VERSIONS, "description": "type of each column of the source"},
                    "changes": {**MAPPING, "description": "how it differs from that of the run `since`"},
                    "versions": MAPPING,
                    "queries": MAPPING,
                },
                needs=("records", "fingerprint"),
            ),
            "output": OUTPUT,
            "public_documents": _object({"verdict": SHA256, "plan": SHA256, "manifest": SHA256}),
        }
    ),
    "description": "manifest.json of a private record",
}
