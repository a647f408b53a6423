"""Rows of a verdict document for people: which entry it is, and what was said of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from privpipe.blocks import Entry
from privpipe.blocks.verdict import plain
from privpipe.errors import UsageError

__all__ = ["entry_class", "own_parameters", "parameter_text"]


def entry_class(name: str) -> type[Entry] | None:
    """The class of a row's entry; None for one that this version does not have, nor a sound plug-in."""
    from privpipe.measures import CATALOGUE as MEASURES
    from privpipe.models import CATALOGUE as MODELS
    from privpipe.transforms import CATALOGUE as TRANSFORMS

    for catalogue in (MODELS, MEASURES, TRANSFORMS):
        if name in catalogue:
            with contextlib.suppress(UsageError):
                found: type[Entry] = catalogue[name]
                return found
    return None


def own_parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that somebody chose: those that are not the entry's defaults.

    Examples
    --------
    >>> own_parameters({"name": "record_linkage", "parameters": {"at_most": 0.05, "ties": "fractional"}})
    {'at_most': 0.05}
    """
    entry = entry_class(str(row["name"]))
    fields = dataclasses.fields(entry) if entry is not None else ()  # type: ignore[arg-type]
    defaults = {field.name: plain(field.default) for field in fields if field.default is not dataclasses.MISSING}
    return {name: value for name, value in row["parameters"].items() if not _same(value, defaults.get(name))}


def _same(value: Any, default: Any) -> bool:
    return value == default and isinstance(value, bool) is isinstance(default, bool)


def parameter_text(value: Any) -> str:
    """A parameter in a few characters.

    Examples
    --------
    >>> [parameter_text(value) for value in ("il1s", ["age", "zip"], 0.05, {"age": 2})]
    ['il1s', '[age, zip]', '0.05', '{"age": 2}']
    """
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"[{', '.join(value)}]"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
