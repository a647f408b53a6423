"""The JSON schema of a policy, for editors; derived from the grammar and the catalogues."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from typing import Any

from privpipe.blocks import Entry, Guarantee
from privpipe.blocks.marks import Columns, SensitiveColumn
from privpipe.blocks.parameters import marked
from privpipe.engines import engine_names
from privpipe.hierarchies import BUILDERS, builders
from privpipe.hierarchies.spec import builder_schema, option_parameters
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.grammar import (
    COLUMN,
    COLUMN_LOSS,
    DRIFT,
    FAILING,
    FAILING_SINK,
    LONGEST_REASON,
    MEMBER,
    OFFICER,
    OFFICER_COLUMN,
    OTHERS,
    PLAN,
    RELATED,
    REPORT,
    RETENTION,
    SIGN_OFF,
    SIGNER,
    SINK,
    SOURCE_SECTIONS,
    TOP,
    UTILITY,
    VERSION,
    Key,
)
from privpipe.relations.guarantees import JointGuarantee
from privpipe.transforms.base import Transformer

__all__ = ["json_schema", "officer_schema"]

FROM = r"^[^.\[\]]+\.(\[[^\[\]]+\]|[^\[\]]+)$"
"""As relations are read."""
ENTRIES = ("transform", "guarantees", "measures")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SECRET = {
    "oneOf": [
        {"type": ["string", "integer"], "description": "the seed itself, of at least 128 bits: not advised"},
        *(
            {
                "type": "object",
                "properties": {key: {"type": "string"}},
                "required": [key],
                "additionalProperties": False,
            }
            for key in ("from_env", "from_file")
        ),
        {
            "type": "object",
            "description": "any text or integer: for demonstrations and tests",
            "properties": {"insecure": {"type": ["string", "integer"]}},
            "required": ["insecure"],
            "additionalProperties": False,
        },
    ]
}
SOURCE_PLACES = [
    {"required": ["path"], "properties": {"table": False, "database": False, "query": False}},
    {"required": ["table"], "properties": {"path": False, "database": False, "query": False}},
    {"required": ["database", "table"], "properties": {"path": False, "query": False}},
    {"required": ["database", "query"], "properties": {"path": False, "table": False}},
]
SINK_PLACES = [
    {"required": ["path"], "properties": {"table": False, "database": False}},
    {"required": ["table"], "properties": {"path": False, "database": False}},
    {"required": ["database", "table"], "properties": {"path": False}},
]
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "integer": {"type": "integer"},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "flag": {"type": "boolean"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "text or texts by name": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
        ]
    },
    "database": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {
                "type": "object",
                "properties": {"env": {"type": "string", "minLength": 1}},
                "required": ["env"],
                "additionalProperties": False,
            },
        ]
    },
    "mapping": {"type": "object"},
    "hierarchy": {"$ref": "#/$defs/hierarchy"},
    "secret": SECRET,
    "sink": {"$ref": "#/$defs/sink"},
    "plan": {"$ref": "#/$defs/plan"},
    "utility": {"$ref": "#/$defs/utility"},
    "report": {"$ref": "#/$defs/report"},
    "retention": {"$ref": "#/$defs/retention"},
    "column_loss": {"$ref": "#/$defs/column_loss"},
    "columns": {
        "type": "object",
        "minProperties": 1,
        "properties": {"*": {"anyOf": [{"enum": list(OTHERS)}, {"$ref": "#/$defs/column"}]}},
        "additionalProperties": {"$ref": "#/$defs/column"},
    },
    "drift": {"$ref": "#/$defs/drift"},
    "failing": {"$ref": "#/$defs/failing"},
    "failing_sink": {"$ref": "#/$defs/failing_sink"},
}


def json_schema(catalogues: Catalogues | None = None) -> dict[str, Any]:
    """The schema of a whole policy (draft 2020-12): about one table, or about related ones where it has `tables:`.

    Examples
    --------
    >>> known = json_schema()["$defs"]
    >>> known["one_table"]["required"], known["one_table"]["properties"]["version"]["const"]
    (['columns', 'guarantees'], 1)
    >>> known["related_tables"]["required"]
    ['tables', 'relations', 'guarantees']
    """
    catalogues = catalogues or Catalogues.shipped()
    definitions: dict[str, Any] = {
        "column": _section(COLUMN),
        "sink": _section(SINK),
        "drift": _section(DRIFT),
        "failing": _section(FAILING),
        "failing_sink": _section(FAILING_SINK),
        "plan": _section(PLAN),
        "utility": _section(UTILITY),
        "report": _section(REPORT),
        "retention": _section(RETENTION),
        "column_loss": _section(COLUMN_LOSS),
        "hierarchy": _hierarchy(),
        **{name: _section(SOURCE_SECTIONS[name]) for name in ("source", "population")},
    }
    definitions["column"]["properties"]["reason"]["maxLength"] = LONGEST_REASON
    definitions["one_table"] = _table(TOP, catalogues, definitions)
    definitions["one_of_several"] = _member(catalogues, definitions)
    definitions["related_tables"] = _related(catalogues.of_sets(), definitions)
    return {
        "$schema": DIALECT,
        "title": "privpipe policy",
        "type": "object",
        "if": {"anyOf": [{"required": ["tables"]}, {"required": ["relations"]}]},
        "then": {"$ref": "#/$defs/related_tables"},
        "else": {"$ref": "#/$defs/one_table"},
        "$defs": definitions,
    }


def _table(keys: Mapping[str, Key], catalogues: Catalogues, definitions: dict[str, Any]) -> dict[str, Any]:
    """What a policy states about one table, with some of its keys."""
    schema = _section(keys)
    properties = schema["properties"]
    for name in ("source", "original", "population"):
        if name in properties:
            properties[name]["$ref"] = f"#/$defs/{'population' if name == 'population' else 'source'}"
    for name in ENTRIES:
        properties[name].update(_entries(name, catalogues, definitions))
    if "version" in properties:
        properties["version"]["const"] = VERSION
    return schema


def _member(catalogues: Catalogues, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _table(MEMBER, catalogues, definitions)
    schema["required"].remove("guarantees")
    del schema["properties"]["guarantees"]["minItems"]
    names = {"type": "array", "minItems": 1, "items": {"type": "string"}}
    schema["properties"]["key"] = {
        "description": "distinguishes its rows, where a relation leads to it; a column, or a list of them",
        "anyOf": [{"type": "string", "minLength": 1}, names],
    }
    return schema


def _related(catalogues: Catalogues, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _section(RELATED)
    properties = schema["properties"]
    properties["version"]["const"] = VERSION
    properties["tables"].update(minProperties=1, additionalProperties={"$ref": "#/$defs/one_of_several"})
    relation = {
        "type": "object",
        "properties": {"from": {"type": "string", "pattern": FROM}, "to": {"type": "string", "minLength": 1}},
        "required": ["from", "to"],
        "additionalProperties": False,
    }
    properties["relations"].update(type="array", items=relation)
    for name in ENTRIES:
        properties[name].update(_entries(name, catalogues, definitions))
    return schema


def officer_schema() -> dict[str, Any]:
    """The schema of an officer's policy.

    Examples
    --------
    >>> sorted(officer_schema()["properties"]["sign_off"]["properties"])
    ['by', 'two_persons', 'valid_days']
    """
    catalogues = Catalogues.shipped()
    definitions: dict[str, Any] = {}
    schema = {"$schema": DIALECT, "title": "privpipe officer's policy", **_section(OFFICER)}
    properties = schema["properties"]
    properties["version"]["const"] = VERSION
    signers = {"type": "array", "minItems": 1, "items": _section(SIGNER)}
    properties["sign_off"].update(_section(SIGN_OFF))
    properties["sign_off"]["properties"]["by"].update(signers)
    properties["columns"] = {"type": "object", "additionalProperties": _section(OFFICER_COLUMN)}
    entries = _entries("guarantees", catalogues, definitions)
    for name, entry in entries["items"]["properties"].items():
        kind = next(room[name] for room in catalogues.of("guarantees") if name in room)
        if marked(kind, SensitiveColumn) == ("column",) and "column" in entry.get("required", ()):
            entry["required"].remove("column")  # left out, it is each sensitive column of a job
    entries["items"]["properties"].update({"reason": {"type": "string"}, "source": {"type": "string"}})
    entries["items"]["maxProperties"] = 3
    properties["guarantees"].update({**entries, "minItems": 0})
    schema["$defs"] = definitions
    return schema


def _section(keys: Mapping[str, Key]) -> dict[str, Any]:
    section: dict[str, Any] = {
        "type": "object",
        "properties": {name: _key(key) for name, key in keys.items()},
        "additionalProperties": False,
    }
    choice = [[name, *key.instead] for name, key in keys.items() if key.required and key.instead]
    required = [name for name, key in keys.items() if key.required and not key.instead]
    if required:
        section["required"] = required
    for either in choice:
        places = SOURCE_PLACES if "query" in keys else SINK_PLACES
        section["oneOf"] = [{"required": [name]} for name in either] if "database" not in keys else places
    return section


def _key(key: Key) -> dict[str, Any]:
    found = {"description": key.about, **json.loads(json.dumps(SHAPES.get(key.kind, {})))}
    if key.kind == "engine":
        found = {"description": key.about, "enum": list(engine_names())}
    if key.choices:
        found = {"description": key.about, "enum": list(key.choices)}
    if key.default is not None:
        found["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    return found


def _hierarchy() -> dict[str, Any]:
    known = builders()
    return {
        "type": "object",
        "description": f"one builder of {', '.join(known)}, and options",
        "properties": {
            **{name: builder_schema(name) if name in BUILDERS else {} for name in known},
            **{each["name"]: {**each["schema"], "description": each["about"]} for each in option_parameters()},
        },
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in known],
    }


def _entries(section: str, catalogues: Catalogues, definitions: dict[str, Any]) -> dict[str, Any]:
    """A list of mappings with one key, the entry's name."""
    names = {}
    for room in catalogues.of(section):
        for name in room:
            schema = _entry(room[name], section)
            for inner, definition in schema.pop("$defs", {}).items():
                definitions.setdefault(inner, definition)
            names[name] = schema
        names.update({other: names[name] for other, name in room.other_names.items()})
    items = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": names,
    }
    return {"type": "array", "items": items, **({"minItems": 1} if section == "guarantees" else {})}


@functools.cache
def _parameters(entry: type[Entry]) -> dict[str, Any]:
    """For copies alone: several sections list one entry."""
    return entry.json_schema()


def _entry(entry: type[Entry], section: str) -> dict[str, Any]:
    schema = copy.deepcopy(_parameters(entry))  # type: ignore[arg-type]
    schema["description"] = entry.summary()
    required = set(schema.get("required", ()))
    if issubclass(entry, Guarantee) and entry.threshold_field is not None:
        thresholds = (entry.threshold_field, *entry.other_thresholds)
        if section == "guarantees" and entry.other_thresholds:
            schema["anyOf"] = [{"required": [name]} for name in thresholds]
        elif section == "guarantees":
            required.add(entry.threshold_field)
        else:
            for name in thresholds:
                schema["properties"].pop(name, None)
                required.discard(name)
    if issubclass(entry, JointGuarantee) and section == "guarantees":
        required.add(entry.threshold_field)
    if issubclass(entry, Guarantee) and section == "measures":
        schema["properties"].pop("severity", None)
    if issubclass(entry, Transformer) and entry.columns_rule == "required":
        required.add(next(iter(marked(entry, Columns)), "columns"))
    if required:
        schema["required"] = sorted(required)
    else:
        schema["type"] = ["object", "null"]
    return schema
