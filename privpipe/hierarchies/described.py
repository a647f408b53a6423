"""What builders and options say of themselves, for ``privpipe explain`` and the JSON schema of a policy."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.hierarchies.options import Choices, Options
from privpipe.hierarchies.parameters import hints_of
from privpipe.hierarchies.sources import File
from privpipe.hierarchies.spec import CLASSES, OPTION_KEYS

__all__ = ["builder_parameters", "builder_schema", "builder_text", "option_parameters"]

WITHOUT_KEYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "file": {"type": "string", "minLength": 1},
    "rows": {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "string"}}},
    "tree": {"type": "object", "minProperties": 1},
}
"""Builders whose value is no mapping of parameters."""
SCALAR: Final = {"type": ["string", "number", "boolean"]}


def builder_text(name: str) -> tuple[str, str]:
    """First line of a builder's docstring, and the prose below it.

    Examples
    --------
    >>> builder_text("rows")
    ('`rows`: a list a raw value, then its labels from finest to coarsest.', '')
    """
    blocks = inspect.cleandoc(CLASSES[name].__doc__ or "").split("\n\n")
    prose = []
    for block in blocks[1:]:
        lines = block.splitlines()
        if len(lines) > 1 and set(lines[1]) == {"-"}:
            break
        prose.append(" ".join(lines))
    return blocks[0].replace("``", "`"), "\n".join(prose).replace("``", "`")


def builder_parameters(name: str) -> list[dict[str, Any]]:
    """Name, JSON schema, text and default of each parameter of a built-in builder.

    Examples
    --------
    >>> [each["name"] for each in builder_parameters("equal_count")], builder_parameters("rows")
    (['sizes', 'labels'], [])
    """
    return [] if name in WITHOUT_KEYS else list(_parameters(CLASSES[name]))


def option_parameters() -> list[dict[str, Any]]:
    """The same of the keys that stand beside a builder.

    Examples
    --------
    >>> [each["name"] for each in option_parameters()][:2]
    ['min_level', 'max_level']
    """
    found = {each["name"]: each for kind in (Options, File) for each in _parameters(kind)}
    return [found[name] for name in OPTION_KEYS]


def builder_schema(name: str) -> dict[str, Any]:
    """The JSON schema of what stands under a built-in builder's name.

    Examples
    --------
    >>> schema = builder_schema("log")
    >>> schema["properties"]["per_decade"]["maximum"], schema["additionalProperties"]
    (9, False)
    """
    about = {"description": builder_text(name)[0]}
    if name in WITHOUT_KEYS:
        return {**about, **WITHOUT_KEYS[name]}
    parameters = builder_parameters(name)
    required = [each["name"] for each in parameters if each["required"]]
    return {
        **about,
        "type": "object",
        "properties": {each["name"]: {**each["schema"], "description": each["about"]} for each in parameters},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _parameters(owner: Any) -> Iterator[dict[str, Any]]:
    short_forms = getattr(owner, "short_forms", {})
    for field in dataclasses.fields(owner):
        hint = hints_of(owner)[field.name]
        said = hint.__metadata__ if typing.get_origin(hint) is Annotated else ()
        text = " ".join(each.documentation for each in said if isinstance(each, Doc))
        if not text:
            continue
        schema = _schema(hint)
        if field.name in short_forms:
            schema["items"] = {"anyOf": [schema["items"], short_forms[field.name]]}
        found = {"name": field.name, "schema": schema, "about": text, "required": field.default is dataclasses.MISSING}
        if not found["required"] and field.default is not None and field.default != ():
            found["default"] = field.default
            found["schema"] = {**schema, "default": field.default}
        yield found


def _schema(hint: Any, said: tuple[Any, ...] = ()) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _schema(arguments[0], (*said, *hint.__metadata__))
    if origin in (types.UnionType, typing.Union):
        branches = [_schema(branch, said) for branch in arguments if branch is not types.NoneType]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        items = SCALAR if arguments[0] is str else _schema(arguments[0], said)
        fixed = {} if arguments[-1] is Ellipsis else {"maxItems": len(arguments)}
        return {"type": "array", "items": items, "minItems": len(arguments) if fixed else 1, **fixed}
    for each in said:
        if isinstance(each, Choices):
            return {"enum": list(each.words)}
    bounds: dict[str, Any] = {}
    for each in said:
        bounds |= {"minimum": each.ge} if isinstance(each, Ge) else {"maximum": each.le} if isinstance(each, Le) else {}
    # An exact number may be written as a text: 1e-30 is no double.
    kinds = {int: "integer", Decimal: ["number", "string"], bool: "boolean", str: "string"}
    return {"type": kinds[hint], **bounds}
