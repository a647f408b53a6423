"""Templates of pages for people: everything that is filled in is escaped."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from privpipe.errors import escaped

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["template"]

SPACES = "\u00a0\u202f"
"""Spaces that do not break, within numbers."""


@functools.cache
def template(name: str) -> Template:
    """A template by its place below the room of reports.

    Examples
    --------
    >>> "<script" in template("officer/style.css").render()
    False
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("privpipe", "reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_printable,
    ).get_template(name)


def _printable(value: Any) -> Any:
    """What a page shows of a value: names may hold what turns the direction of reading."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join(part if part in SPACES else escaped(part) for part in re.split(f"([{SPACES}])", value))
