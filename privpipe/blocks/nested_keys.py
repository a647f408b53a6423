"""Unknown keys inside the parameters of an entry, and a schema that forbids them.

Pydantic passes over a key that a nested dataclass does not have; a policy must not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privpipe.errors import did_you_mean

__all__ = ["closed", "unknown_keys"]


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, with every object of named properties refusing others."""
    for definition in (schema, *schema.get("$defs", {}).values()):
        if "properties" in definition:
            definition["additionalProperties"] = False
    return schema


def unknown_keys(schema: Mapping[str, Any], value: Any) -> dict[str, str]:
    """What is wrong with the keys at every level below the first, by dotted path.

    Parameters
    ----------
    schema : mapping
        JSON schema of the whole, with its ``$defs``.
    value : Any
        Plain JSON value.

    Examples
    --------
    >>> inner = {"properties": {"nodes": {}}, "additionalProperties": False}
    >>> schema = {"properties": {"budget": {"$ref": "#/$defs/Budget"}}, "$defs": {"Budget": inner}}
    >>> unknown_keys(schema, {"budget": {"node": 3}})
    {'budget.node': "unknown key; did you mean 'nodes'?"}
    """
    return dict(_walk(schema, value, (), schema.get("$defs", {})))


def _walk(
    schema: Mapping[str, Any], value: Any, path: tuple[str, ...], definitions: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        schema = definitions.get(schema["$ref"].rsplit("/", 1)[-1], {})
    if "anyOf" in schema:
        schema = _branch_of_mappings(schema["anyOf"])
        yield from _walk(schema, value, path, definitions) if schema else ()
        return
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _walk(schema.get("items", {}), item, (*path, str(at)), definitions)
    elif isinstance(value, Mapping) and "properties" in schema:
        for key, item in value.items():
            if key in schema["properties"]:
                yield from _walk(schema["properties"][key], item, (*path, key), definitions)
            elif path:
                near = did_you_mean(key, schema["properties"]) or f"; known: {', '.join(schema['properties'])}"
                yield ".".join((*path, key)), f"unknown key{near}"


def _branch_of_mappings(branches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one branch of a union that names properties; with several, any of them may be meant, and none is taken."""
    named = [branch for branch in branches if "$ref" in branch or "properties" in branch]
    return named[0] if len(named) == 1 else {}
