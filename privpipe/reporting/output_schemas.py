"""JSON schemas of what commands print with ``--json`` and of the records of runs: what a program may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.errors import UsageError, did_you_mean

__all__ = ["OUTPUTS", "PRIVATE_MANIFEST", "PUBLIC_MANIFEST", "RECORDS", "output_schema"]


TEXT = {"type": "string"}
SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
KEYED = {"type": "string", "pattern": "^hmac-sha256:[0-9a-f]{64}$"}
TIME = {"type": "string", "format": "date-time"}
COUNT = {"type": "integer", "minimum": 0}
MAPPING = {"type": "object"}
VERSIONS = {"type": "object", "additionalProperties": TEXT}


def _record_object(properties: Mapping[str, Any], *, open_: bool = False, needs: tuple[str, ...] | None = None) -> Any:
    required = [name for name in properties if name != "batch"] if needs is None else list(needs)
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": open_}


def _record_list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(schema), {"type": "null"}]}


RECORD_GUARANTEE = _record_object(
    {
        "name": TEXT,
        "parameters": MAPPING,
        "severity": {"enum": ["fail", "warn"]},
        "outcome": {"enum": ["pass", "fail", "error"]},
    }
)
FILE = _record_object({"name": TEXT, "bytes": COUNT, "sha256": SHA256})
STAGE = _record_object({"name": TEXT, "parameters": MAPPING, "detail": MAPPING})
RECORD_VERDICT = {"enum": ["passed", "passed_with_warnings"]}
RELEASE_BEFORE = _record_object(
    {
        "run_id": TEXT,
        "created": TIME,
        "name": TEXT,
        "policy_hash": SHA256,
        "officer_policy_hash": _or_null(SHA256),
        "verdict": RECORD_VERDICT,
        "records": COUNT,
        "signed_by": _record_list(TEXT),
        "manifest_sha256": SHA256,
        "batch": TEXT,
        "before": SHA256,
        "link": SHA256,
    }
)
SIGNATURE = _record_object(
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
SIGN_OFF = _record_object(
    {
        "asked": _record_object({"by": _record_list(TEXT), "two_persons": {"type": "boolean"}, "valid_days": COUNT}),
        "statement": MAPPING,
        "checked_at": TIME,
        "signatures": _record_list(SIGNATURE),
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
    "officer_policy": _or_null(_record_object({"name": TEXT, "hash": SHA256})),
    "engine": TEXT,
    "versions": {**VERSIONS, "description": "of privpipe, Python, the engine's libraries, and plug-ins in use"},
    "solver": _or_null(_record_object({"name": TEXT, "package": TEXT, "version": TEXT})),
    "nulls": {"enum": ["own_value", "wildcard", "refuse"]},
    "suppression_mark": TEXT,
    "seed_commitment": {**KEYED, "description": "of the seed, salted with the run id"},
    "verdict": RECORD_VERDICT,
    "guarantees": _record_list(RECORD_GUARANTEE),
    "previous": _or_null(_record_object({"run_id": TEXT, "manifest_sha256": SHA256})),
    "releases_before": {
        **_record_list(RELEASE_BEFORE),
        "description": "oldest first; each holds the link of the one before",
    },
    "sign_off": _or_null(SIGN_OFF),
    "batch": {**TEXT, "description": "what the caller named it by; the same one is published once. Only where one did"},
    "checksum": {**SHA256, "description": "of the manifest as canonical JSON, without it"},
    "seal": {**_or_null(KEYED), "description": "of all but checksum and seal, under the seed; null: none was declared"},
}
OUTPUT = _record_object(
    {
        "records": COUNT,
        "suppressed_records": {"type": ["integer", "null"], "minimum": 0},
        "columns": _record_list(TEXT),
        "files": _record_list(FILE),
        "table": TEXT,
    },
    open_=True,
    needs=("records", "suppressed_records", "columns", "files"),
)
PLAN = {"plan_version": {"type": "integer"}, "policy_digest": SHA256, "stages": _record_list(STAGE)}
PUBLIC_MANIFEST = {
    **_record_object(
        {
            **COMMON,
            "edition": {"const": "public"},
            "plan": _record_object({**PLAN, "edition": {"const": "public"}}),
            "plan_hash": {**SHA256, "description": "of the public plan"},
            "private_plan": {**KEYED, "description": "of the hash of the whole plan"},
            "input": _record_object({"records": {"type": ["integer", "null"], "minimum": 0}, "fingerprint": KEYED}),
            "output": OUTPUT,
            "documents": _record_object({"verdict": SHA256, "plan": SHA256}),
        }
    ),
    "description": "_privpipe/manifest.json next to a release",
}
PRIVATE_MANIFEST = {
    **_record_object(
        {
            **COMMON,
            "edition": {"const": "private"},
            "plan": _record_object({**PLAN, "edition": {"const": "private"}}, open_=True),
            "plan_hash": {**SHA256, "description": "of the whole plan, without its salted commitment"},
            "input": _record_object(
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
            "public_documents": _record_object({"verdict": SHA256, "plan": SHA256, "manifest": SHA256}),
        }
    ),
    "description": "manifest.json of a private record",
}


DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXTS = {"type": "array", "items": TEXT}
FLAG = {"type": "boolean"}
COUNT_OR_NULL = {"type": ["integer", "null"], "minimum": 0}
NUMBER_OR_NULL = {"type": ["number", "null"]}
MAPPING_OR_NULL = {"type": ["object", "null"]}
FIGURE = {"type": ["number", "object", "array", "string", "boolean", "null"]}


def _object(required: Mapping[str, Any], known: Mapping[str, Any] | None = None, about: str = "") -> dict[str, Any]:
    """An object that has some keys, and perhaps others; more may come in later versions."""
    made: dict[str, Any] = {
        "type": "object",
        "properties": {**required, **(known or {})},
        "required": list(required),
    }
    return {**made, "description": about} if about else made


def _listed(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


COMPARED = _listed(
    _object(
        {"compared": COUNT, "of": COUNT, "what": TEXT},
        about="what the figure rests on; below half of any of them the outcome is error",
    )
)
JUDGED_MORE = {
    "compared": COMPARED,
    "table": {**TEXT, "description": "which of related tables was judged by itself; missing: all of them together"},
}
GUARANTEE = _object(
    {
        "name": TEXT,
        "parameters": MAPPING,
        "observed": FIGURE,
        "threshold": FIGURE,
        "outcome": {"enum": ["pass", "fail", "error"]},
        "severity": {"enum": ["fail", "warn"]},
        "failing_classes": COUNT_OR_NULL,
        "failing_records": COUNT_OR_NULL,
        "failing_share": NUMBER_OR_NULL,
        "reason": TEXT,
    },
    JUDGED_MORE,
)
MEASURE = _object({"name": TEXT, "parameters": MAPPING, "observed": FIGURE, "reason": TEXT}, JUDGED_MORE)
LOSSES = {"alarms": TEXTS, "column_loss": MAPPING}
VERDICT = {
    "schema_version": {"const": 2},
    "edition": {"enum": ["private", "public"]},
    "name": TEXT,
    "policy_hash": TEXT,
    "engine": TEXT,
    "versions": MAPPING,
    "nulls": TEXT,
    "suppression_mark": TEXT,
    "passed": {**FLAG, "description": "every guarantee of severity fail holds, and no alarm refuses"},
    "records": COUNT,
    "suppressed_records": COUNT_OR_NULL,
    "classes": COUNT_OR_NULL,
    "warnings": {**TEXTS, "description": "guarantees of severity warn that do not hold: required and achieved"},
    "guarantees": _listed(GUARANTEE),
    "measures": _listed(MEASURE),
    "notes": TEXTS,
}
RUN = {"run_id": TEXT, "plan_hash": TEXT}
WHOLE = {
    "whole_table": _object(
        {
            "passed": FLAG,
            "records": COUNT,
            "suppressed_records": COUNT_OR_NULL,
            "classes": COUNT_OR_NULL,
            "guarantees": _listed(GUARANTEE),
            "notes": TEXTS,
        },
        about="all rows that readers see, where the release joins those of earlier ones",
    )
}
POINT = _object(
    {
        "setting": MAPPING,
        "outcome": {"enum": ["pass", "fail", "error", "no_solution"]},
        "risk": NUMBER_OR_NULL,
        "loss": NUMBER_OR_NULL,
        "score": NUMBER_OR_NULL,
        "pareto": FLAG,
        "figures": {"type": "object", "additionalProperties": NUMBER_OR_NULL},
        "guarantees": {"type": "object", "additionalProperties": TEXT},
        "suppressed_records": COUNT_OR_NULL,
        "reason": TEXT,
    }
)
WEIGHTS = {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1}
COMPARED = _object(
    {
        "entry": TEXT,
        "left": NUMBER_OR_NULL,
        "right": NUMBER_OR_NULL,
        "difference": NUMBER_OR_NULL,
        "left_outcome": TEXT,
        "right_outcome": TEXT,
    }
)
OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    "assess": _object(VERDICT, {**RUN, **LOSSES}, "assess, validate: the verdict on a table"),
    "release": _object(
        {**VERDICT, **RUN}, {**LOSSES, **WHOLE}, "release: the verdict on what was published, or refused"
    ),
    "dry_run": _object(
        {
            **VERDICT,
            **RUN,
            "published": {"const": False},
            "target": TEXT,
            "columns": TEXTS,
            "files": _listed(_object({"name": TEXT, "bytes": COUNT})),
        },
        {**LOSSES, **WHOLE},
        "release --dry-run: the same, with what would have been published; of a refusal only the verdict",
    ),
    "plan": _object(
        {
            "plan_version": {"type": "integer"},
            "edition": {"const": "private"},
            "policy_digest": TEXT,
            "records": COUNT,
            "stages": _listed(_object({"name": TEXT, "parameters": MAPPING, "detail": MAPPING})),
        },
        {
            **LOSSES,
            "drawn": MAPPING,
            "columns": MAPPING,
            "frozen": {"type": "boolean"},
            **dict.fromkeys(("seed_commitment", "seed_salt", "source", "hash_key", "checksum"), TEXT),
        },
        "plan: the plan, with what columns lose unless --no-losses is given",
    ),
    "plan_cost": _object(
        {
            "engine": TEXT,
            "rows": COUNT,
            "columns": COUNT,
            "combinations": COUNT,
            "workers": COUNT_OR_NULL,
            "estimates": {
                "type": "object",
                "additionalProperties": _object(
                    {"amount": NUMBER_OR_NULL, "terms": {"type": "object", "additionalProperties": {"type": "number"}}}
                ),
            },
            "unknown": TEXTS,
        },
        {},
        "plan --cost: bytes (read, shuffled, spilled, written, driver) and seconds (cpu_s) that a release will take",
    ),
    "transform": _object(
        {"target": TEXT, "records": COUNT, "judged": {"const": False}},
        LOSSES,
        "transform: what was written, unjudged",
    ),
    "compare_settings": _object(
        {
            "score": TEXT,
            "risk_weights": WEIGHTS,
            "loss_weights": WEIGHTS,
            "points": _listed(POINT),
            "pareto": _listed(COUNT),
            "smallest_loss": {"type": "object", "additionalProperties": COUNT_OR_NULL},
        },
        {},
        "compare --grid: risk and loss of each setting",
    ),
    "compare_runs": _object(
        {"runs": TEXTS, "about": MAPPING, "settings": MAPPING, "figures": _listed(COMPARED)},
        {},
        "compare RUN RUN: figures of two runs",
    ),
    "verify": _object(
        {
            "release": TEXT,
            "run_id": {"type": ["string", "null"]},
            "sound": {**FLAG, "description": "nothing that was checked is broken"},
            "checks": _listed(
                _object({"check": TEXT, "outcome": {"enum": ["holds", "broken", "not_checked"]}, "about": TEXT})
            ),
        },
        {},
        "verify: what was recomputed of a release, and what does not match",
    ),
    "history": _object(
        {
            "target": TEXT,
            "releases": _listed(
                _object(
                    {
                        "run_id": TEXT,
                        "created": TEXT,
                        "name": TEXT,
                        "verdict": {"enum": ["passed", "passed_with_warnings", "refused"]},
                        "published": FLAG,
                        "current": FLAG,
                        "records": COUNT_OR_NULL,
                        "policy_hash": TEXT,
                        "policy_changed": FLAG,
                        "officer_policy_hash": {"type": ["string", "null"]},
                        "officer_policy_changed": FLAG,
                        "signed_by": TEXTS,
                    },
                    {"source_changes": {**MAPPING_OR_NULL, "description": "columns new, missing, widened or changed"}},
                )
            ),
            "problems": TEXTS,
        },
        {},
        "history: the releases of a target, in the order of publication",
    ),
}
"""By what `privpipe schema --output` calls them. Documents may have more keys than a schema names."""


RECORDS: Mapping[str, Mapping[str, Any]] = {"manifest": PUBLIC_MANIFEST, "private_manifest": PRIVATE_MANIFEST}
"""Documents that runs leave behind. An unknown key is an error in them: what is public is listed."""


def output_schema(name: str) -> dict[str, Any]:
    """The schema of a document that a command prints.

    Raises
    ------
    UsageError
        No such document.

    Examples
    --------
    >>> output_schema("transform")["required"]
    ['target', 'records', 'judged']
    """
    known = {**OUTPUTS, **RECORDS}
    if name not in known:
        raise UsageError(f"no output is called {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}")
    return {"$schema": DIALECT, "title": f"privpipe {name}", **known[name]}
