"""What ``privpipe explain`` says of hierarchies: their builders, parameters and options, and an example that is run."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["TOPIC", "builder_document", "builder_lines", "hierarchy_document", "hierarchy_lines", "type_words"]

TOPIC = "hierarchy"
"""The name under which all builders are explained."""


def hierarchy_document() -> dict[str, Any]:
    """All builders at hand, and the keys that stand beside them."""
    from privpipe.hierarchies import BUILDERS, builders
    from privpipe.hierarchies.described import builder_text, option_parameters

    return {
        "name": TOPIC,
        "kind": "section of a policy",
        "summary": "What the values of a column become, level by level: one builder, and options beside it.",
        "builders": {
            name: builder_text(name)[0] if name in BUILDERS else "brought by a plug-in" for name in builders()
        },
        "options": [_told(each) for each in option_parameters()],
        "example": "age: {role: quasi_identifier, hierarchy: {bands: {steps: [5, 10, 20]}, min_level: 1}}",
    }


def builder_document(name: str) -> dict[str, Any]:
    """What a built-in builder says of itself, and what its example makes of some values."""
    from privpipe.hierarchies.described import builder_parameters, builder_text
    from privpipe.hierarchies.spec import CLASSES

    kind: Any = CLASSES[name]
    summary, about = builder_text(name)
    return {
        "name": name,
        "class": f"{kind.__module__}.{kind.__name__}",
        "kind": "hierarchy builder",
        "summary": summary,
        "about": about,
        "parameters": [_told(each) for each in builder_parameters(name)],
        "example": f"hierarchy: {{{name}: {kind.example}}}",
        **({"example_file": kind.example_file} if hasattr(kind, "example_file") else {}),
        "labels": _labels(name, kind),
    }


def hierarchy_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The text of `hierarchy_document`."""
    yield f"{document['name']} - {document['kind']}"
    yield document["summary"]
    yield ""
    yield "builders (`privpipe explain NAME` tells the parameters):"
    for name, summary in document["builders"].items():
        yield f"  {name:17} {summary}"
    yield ""
    yield "options beside the builder:"
    for option in document["options"]:
        yield f"  {option['name']}: {option['type']}{_default(option)}"
        yield f"      {option['about']}"
    yield ""
    yield f"example: {document['example']}"


def builder_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What follows the parameters of `builder_document`."""
    yield ""
    yield f"example: {document['example']}"
    if "example_file" in document:
        yield from (f"  {line}" for line in document["example_file"].splitlines())
    for row in document["labels"]:
        yield "  " + " -> ".join(row)


def _labels(name: str, kind: Any) -> list[list[str]]:
    """Each value of the example and its label at every level."""
    from ruamel.yaml import YAML

    from privpipe.hierarchies import HierarchySpec

    seen = Counter(kind.example_values)
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(kind, "example_file"):
            (Path(folder) / kind.example).write_text(kind.example_file, encoding="utf-8")
        mapping = YAML(typ="safe", pure=True).load(f"{{{name}: {kind.example}}}")
        spec = HierarchySpec.from_mapping(mapping, folder)
        if hasattr(kind, "example_rows"):
            spec = dataclasses.replace(spec, builder=kind.from_parameters(mapping[name]).read(kind.example_rows, ""))
        built = spec.build(list(seen), list(seen.values()), kind.example_type)
    levels = [built.mapping(level) for level in range(built.height + 1)]
    return [[level[value] for level in levels] for value in seen]


def _told(parameter: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: parameter[key] for key in ("name", "about", "required")}
    default = {"default": parameter["default"]} if "default" in parameter else {}
    return {**found, "type": type_words(parameter["schema"]), **default}


def type_words(schema: Mapping[str, Any]) -> str:
    """A JSON schema's type in a few words.

    Examples
    --------
    >>> type_words({"type": "array", "items": {"type": ["number", "string"]}}), type_words({"enum": ["a", "b"]})
    ('list of number', 'a | b')
    """
    if "anyOf" in schema:
        return " or ".join(type_words(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema["type"] == "array":
        return f"list of {type_words(schema['items'])}"
    if schema["type"] == ["string", "number", "boolean"]:
        return "value"
    kind = str(schema["type"][0] if isinstance(schema["type"], list) else schema["type"])
    return {"string": "text", "boolean": "flag"}.get(kind, kind)


def _default(option: Mapping[str, Any]) -> str:
    return f" (default {option['default']})" if "default" in option else ""
