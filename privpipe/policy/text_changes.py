"""Changes of values within the text of a policy: everything else, comments included, stays unchanged written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from privpipe.errors import UsageError
from privpipe.policy.plain_values import Place, shown

__all__ = ["Edit", "rewritten"]


OPEN = re.compile(r"(.*?[:-])\s*(?:\s#.*)?$")
"""A line that ends before its value, with or without a comment."""


@dataclass(frozen=True)
class Edit:
    """One value of a mapping or list.

    Parameters
    ----------
    place : Place
        Of the mapping or list; it is in the document, a mapping may be left out there as `null`.
    key : str or int
        A key that a mapping has not is added.
    value : Any
        Plain values.
    without : tuple of str
        Keys that leave the mapping.
    """

    place: Place
    key: str | int
    value: Any
    without: tuple[str, ...] = ()


def rewritten(text: str, edits: Sequence[Edit]) -> str:
    """The text of a YAML document with other values.

    Nothing outside the changed values is touched. A comment behind a key that leaves stays on its line.

    Raises
    ------
    UsageError
        A place that the text does not have.

    Examples
    --------
    >>> text = "transform:\\n- generalize:\\n    search: optimal  # the best\\n    suppress_at_most: 0.1\\n"
    >>> levels = Edit(("transform", 0, "generalize"), "levels", {"age": 1}, without=("search",))
    >>> print(rewritten(text, [levels]), end="")
    transform:
    - generalize:
        levels: {age: 1}  # the best
        suppress_at_most: 0.1
    """
    for edit in edits:
        for name in edit.without[1:] if _has(text, edit) else edit.without:
            text = _without(text, edit.place, name)
        text = _with_value(text, edit)
    return text


def _has(text: str, edit: Edit) -> bool:
    """Whether the first of the keys that leave can give its line to the new one."""
    node = _at(text, edit.place)
    names = [key.value for key, _ in node.value] if isinstance(node, MappingNode) else []
    return edit.key not in names and bool(edit.without) and edit.without[0] in names


def _with_value(text: str, edit: Edit) -> str:
    node = _at(text, edit.place)
    if isinstance(node, SequenceNode) and isinstance(edit.key, int) and edit.key < len(node.value):
        return _spliced(text, node.value[edit.key], edit.value)
    if isinstance(node, ScalarNode):
        return _put(text, node, {edit.key: edit.value})
    if not isinstance(node, MappingNode):
        raise _missing((*edit.place, edit.key))
    pairs = {key.value: (key, value) for key, value in node.value}
    if edit.key in pairs:
        return _spliced(text, pairs[edit.key][1], edit.value)
    said = f"{_flow(edit.key)}: {_flow(edit.value)}"
    if edit.without and edit.without[0] in pairs:
        key, value = pairs[edit.without[0]]
        return text[: key.start_mark.index] + said + text[_end(value) :]
    if not node.value:
        return _put(text, node, {edit.key: edit.value})
    first = node.value[0][0].start_mark
    between = ", " if node.flow_style else ("\r\n" if "\r\n" in text else "\n") + " " * first.column
    return text[: first.index] + said + between + text[first.index :]


def _spliced(text: str, node: Node, value: Any) -> str:
    """One value replaced by another; of a collection of the same shape only the values that differ are written."""
    if isinstance(node, MappingNode) and isinstance(value, Mapping):
        if [key.value for key, _ in node.value] == list(value):
            for (_, inner), each in reversed(list(zip(node.value, value.values(), strict=True))):
                text = _spliced(text, inner, each)
            return text
    elif isinstance(node, SequenceNode) and isinstance(value, list) and len(node.value) == len(value):
        for inner, each in reversed(list(zip(node.value, value, strict=True))):
            text = _spliced(text, inner, each)
        return text
    return _put(text, node, value)


def _put(text: str, node: Node, value: Any) -> str:
    start, end = node.start_mark.index, _end(node)
    if isinstance(node, ScalarNode) and text[start:end] == _flow(value):
        return text
    if start == end:
        start = end = _empty_at(text, start)
    before = text[:start]
    space = " " if before.endswith((":", "-")) else ""
    return before + space + _flow(value) + text[end:]


def _empty_at(text: str, mark: int) -> int:
    """Where a value that was left out would be: its mark is behind the comments that follow it."""
    end = mark
    while True:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end].rstrip("\r")
        if line.strip() and not line.lstrip().startswith("#"):
            found = OPEN.match(line)
            return start + (found.end(1) if found else len(line))
        if not start:
            return mark
        end = start - 1


def _without(text: str, place: Place, name: str) -> str:
    """The text without a key of a mapping, and without its line where nothing else is there."""
    node = _at(text, place)
    if not isinstance(node, MappingNode):
        return text
    pairs = node.value
    at = next((at for at, (key, _) in enumerate(pairs) if key.value == name), None)
    if at is None:
        return text
    key, value = pairs[at]
    start, end = key.start_mark.index, _end(value)
    if node.flow_style or len(pairs) == 1:
        if at + 1 < len(pairs):
            return text[:start] + text[pairs[at + 1][0].start_mark.index :]
        if at:
            return text[: _end(pairs[at - 1][1])] + text[end:]
        return text[:start] + ("" if node.flow_style else "{}") + text[end:]
    line = text.rfind("\n", 0, start) + 1
    after = text.find("\n", end)
    after = len(text) if after < 0 else after + 1
    if not text[line:start].strip() and not text[end:after].strip():
        return text[:line] + text[after:]
    if at + 1 < len(pairs) and text[line:start].strip():  # the first key, behind the dash of a list
        return text[:start] + text[pairs[at + 1][0].start_mark.index :]
    return text[:start] + text[end:].lstrip(" ")


def _at(text: str, place: Place) -> Node:
    node: Any = YAML(typ="safe", pure=True).compose(text)
    for at, step in enumerate(place):
        inner: Node | None = None
        if isinstance(node, MappingNode):
            inner = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
        if inner is None:
            raise _missing(place[: at + 1])
        node = inner
    found: Node = node
    return found


def _end(node: Node) -> int:
    """Where the text of a node ends; the mark of a block is behind the comments that follow it."""
    if not isinstance(node, MappingNode | SequenceNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _flow(value: Any) -> str:
    """A value on one line; JSON but for mappings and plain words, which read better without quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(name)}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) and _is_plain(value) else text


def _is_plain(word: str) -> bool:
    """Whether YAML reads a word without quotes as itself."""
    if not (word.isascii() and word.replace("_", "a").isalnum()):
        return False
    node = YAML(typ="safe", pure=True).compose(word)
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":str")


def _missing(place: Place) -> UsageError:
    return UsageError(f"the policy file has no {shown(place)}: it changed, or is written there by an alias")
