"""Values as YAML on one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["flow"]

PLAIN = re.compile(r"[A-Za-z_]([\w ./-]*[\w/-])?", re.ASCII)
WORDS_OF_YAML = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))  # of 1.1 too


def flow(value: Any) -> str:
    """A value as YAML on one line.

    Written here because a column may have any name, and emitters leave some unquoted that no parser takes back.

    Examples
    --------
    >>> flow({"role": "sensitive", "zip: 5": [1, 2.5, True], "no": "a\\nb"})
    '{role: sensitive, "zip: 5": [1, 2.5, true], "no": "a\\\\U0000000ab"}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if PLAIN.fullmatch(value) and value.lower() not in WORDS_OF_YAML:
        return value
    return '"' + "".join(map(_quoted, value)) + '"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
