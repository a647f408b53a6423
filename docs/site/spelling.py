"""An example of an entry as people write it: in a policy, and in Python."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

from ruamel.yaml import YAML

from privpipe.blocks import Entry
from privpipe.blocks.verdict import plain

__all__ = ["as_policy", "as_python", "chosen"]


def chosen(entry: Entry) -> dict[str, Any]:
    """The parameters that are not the entry's defaults, as plain values."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(entry):  # type: ignore[arg-type]
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        value = getattr(entry, field.name)
        if value != default or isinstance(value, bool) is not isinstance(default, bool):
            found[field.name] = _bare(value)
    told: dict[str, Any] = json.loads(json.dumps(found))  # an enumeration's member is its text
    return told


def _bare(value: Any) -> Any:
    """Plain lists and mappings, without what a nested value leaves at its default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _bare(each) for name, each in vars(value).items() if each is not None}
    return plain(value)


def as_python(entry: Entry, room: str) -> str:
    """The call that makes it, from the module `pp`.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> as_python(KAnonymity(k=5), "models")
    'pp.models.KAnonymity(k=5)'
    """
    given = ", ".join(f"{name}={value!r}" for name, value in chosen(entry).items())
    return f"pp.{room}.{type(entry).__name__}({given})"


def as_policy(entry: Entry, key: str) -> str:
    """The lines of a policy, under one of its keys."""
    parameters = chosen(entry)
    dumped = io.StringIO()
    yaml = YAML()
    yaml.default_flow_style = True
    yaml.width = 110
    yaml.dump({entry.name(): parameters}, dumped)
    text = dumped.getvalue().strip()[1:-1]
    return f"{key}:\n  - {text}\n"
