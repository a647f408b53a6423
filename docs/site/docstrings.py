"""numpydoc docstrings as Markdown: prose, then each section under a heading of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

__all__ = ["markdown", "section", "sections"]

UNDERLINE = re.compile(r"^-{3,}$")
TERM = re.compile(r"^(\*{0,2}\w[\w, *]*?)(?: : (.*))?$")
LISTED = ("Parameters", "Returns", "Yields", "Raises", "Attributes")


def sections(text: str | None) -> dict[str, str]:
    """Bodies by title; the prose before the first title under the empty one."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    lines = inspect.cleandoc(text or "").splitlines()
    for at, line in enumerate(lines):
        if at + 1 < len(lines) and UNDERLINE.match(lines[at + 1]) and line.strip():
            title = line.strip()
            found[title] = []
        elif not (UNDERLINE.match(line) and at and lines[at - 1].strip() == title):
            found[title].append(line)
    return {title: "\n".join(body).strip() for title, body in found.items()}


def section(text: str | None, title: str) -> str:
    """One section as Markdown; empty where there is none."""
    body = sections(text).get(title, "")
    if not body:
        return ""
    if title == "Examples":
        return f"```pycon\n{body}\n```"
    return "\n".join(_listed(body)) if title in LISTED else _prose(body)


def markdown(text: str | None, level: str = "####") -> str:
    """All of a docstring; `level` is the mark of its headings."""
    parts = []
    for title in sections(text):
        body = section(text, title) if title else _prose(sections(text)[""])
        if body:
            parts.append(f"{level} {title}\n\n{body}" if title else body)
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    return text.replace("``", "`")


def _listed(body: str) -> Iterator[str]:
    """Terms and their descriptions as a list of Markdown."""
    for line in body.splitlines():
        if not line.strip():
            continue
        if line.startswith(" "):
            yield f"    {_prose(line.strip())}"
            continue
        term = TERM.match(line)
        yield f"- `{term[1]}`{f': {_prose(term[2])}' if term[2] else ''}  " if term else f"- {_prose(line)}  "
