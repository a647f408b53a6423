"""Documents as plain JSON values, from YAML with the line of everything or from Python."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from privpipe.errors import PolicyError, Problem
from privpipe.release.policy.places import Place, Report

__all__ = ["from_python", "from_yaml"]

MERGE = "tag:yaml.org,2002:merge"
MOST_VALUES = 100_000  # aliases of aliases grow a short text without bound


def from_yaml(text: str, file: str | None) -> tuple[Any, Report]:
    """The document of a YAML text, and a report that knows its lines.

    Aliases are followed and merge keys resolved; keys given twice, tags and non-finite numbers are noted.

    Raises
    ------
    PolicyError
        The text is not YAML, holds several documents, or refers to itself.

    Examples
    --------
    >>> document, report = from_yaml("a: [1, x]\\nb: {c: true}", "release.yaml")
    >>> document, report.lines[("b", "c")]
    ({'a': [1, 'x'], 'b': {'c': True}}, 2)
    """
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
    except YAMLError as error:
        raise PolicyError([_syntax(error, file)]) from None
    except RecursionError:
        raise PolicyError([Problem("", "not valid YAML: nested too deeply", file)]) from None
    tree = _Tree(yaml, Report({}, file))
    document = tree.value(node, ()) if node is not None else None
    return document, tree.report


def _syntax(error: YAMLError, file: str | None) -> Problem:
    """The parser's message without its excerpt of the text, which may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) if isinstance(error, MarkedYAMLError) else None
    context = getattr(error, "context", None)
    message = f"not valid YAML: {what or 'it cannot be read'}{f' ({context})' if context else ''}"
    if what and "\\t" in what:
        message += "; indent with blanks, not with tabs"
    return Problem("", message, file, mark.line + 1 if mark else None)


class _Tree:
    """Turns the nodes of one text into values and remembers their lines."""

    def __init__(self, yaml: YAML, report: Report) -> None:
        self.yaml = yaml
        self.report = report
        self.lines: dict[Place, int] = {}
        report.lines = self.lines
        self.open: set[int] = set()
        self.values = 0

    def value(self, node: Node, place: Place, line: int | None = None) -> Any:
        """The value of a node; `line` is that of its key, where it has one."""
        self.lines[place] = line or node.start_mark.line + 1
        self.values += 1
        if id(node) in self.open or self.values > MOST_VALUES:
            raise PolicyError(
                [Problem("", "aliases that refer to themselves or grow too large", self.report.file, self.lines[place])]
            )
        self.open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self.mapping(node, place)
            if isinstance(node, SequenceNode):
                return [self.value(item, (*place, at)) for at, item in enumerate(node.value)]
            return self.scalar(node, place)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if key.tag == MERGE:
                continue
            if not isinstance(key, ScalarNode):
                self.lines[place] = line
                self.report.wrong(place, "a key must be text, not a list or mapping")
                continue
            name = str(key.value)  # as written, so that a column may be called 2020
            if name in first:
                self.lines[(*place, name)] = line
                self.report.wrong((*place, name), f"this key is given twice, first in line {first[name]}")
                continue
            first[name] = line
            found[name] = self.value(item, (*place, name), line)
        for name, merged in self.merged(node, place).items():
            found.setdefault(name, merged)
        return found

    def merged(self, node: MappingNode, place: Place) -> dict[str, Any]:
        """What `<<:` adds: explicit keys and earlier mappings win."""
        found: dict[str, Any] = {}
        for key, item in node.value:
            if key.tag != MERGE:
                continue
            parts = item.value if isinstance(item, SequenceNode) else [item]
            for part in parts:
                if not isinstance(part, MappingNode):
                    self.report.wrong(place, "`<<` takes a mapping or a list of mappings")
                    continue
                kept = dict(self.lines)
                for name, merged in self.value(part, place).items():
                    found.setdefault(name, merged)
                self.lines.update(kept)
        return found

    def scalar(self, node: Node, place: Place) -> Any:
        try:
            value = self.yaml.constructor.construct_object(node)
        except (YAMLError, ValueError):
            self.report.wrong(place, f"a value of the kind {node.tag} cannot stand in a policy; use text or a number")
            return None
        return _scalar(value, place, self.report)


def from_python(value: Any, place: Place, report: Report) -> Any:
    """A Python document as plain values: tuples are lists, paths and dates text.

    Examples
    --------
    >>> from_python({"columns": ("age", "zip")}, (), Report())
    {'columns': ['age', 'zip']}
    """
    if isinstance(value, Mapping):
        found = {}
        for key, item in value.items():
            if isinstance(key, str):
                found[key] = from_python(item, (*place, key), report)
            else:
                report.wrong(place, f"a key must be text, not {type(key).__name__}")
        return found
    if isinstance(value, list | tuple):
        return [from_python(item, (*place, at), report) for at, item in enumerate(value)]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return _scalar(value, place, report)


def _scalar(value: Any, place: Place, report: Report) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        report.wrong(place, "must be a finite number")
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    report.wrong(place, f"must be text, a number, a list or a mapping, not {type(value).__name__}")
    return None
