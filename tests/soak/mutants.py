"""Documents that someone damaged: every kind of thing that can stand where something else should."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

__all__ = ["NUMBERS", "OTHERS", "TEXTS", "TOKENS", "mutated", "mutated_text", "near", "places"]

TEXTS = (
    *("", " ", "a", "age", "Age", "town", "*", "null", "true", "yes", "0", "-1", "1e9", "nan", "inf", "k_anonymity"),
    *("a" * 3000, "\u202eabc", "\x1b[31m", 'naïve "col"; \'', "\U0001f600", "é", "e\u0301", "a\nb", "a\0b", "\ud800"),
    *("../x", "no/such/file.csv", "people.csv", "file://people.csv", "[", "{", "%s", "{0}", "$HOME", "__privpipe_x"),
)
NUMBERS = (0, 1, -1, 2, 3, 7, 100, 10**6, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**30, -(2**63))
NUMBERS += (0.0, 0.5, 1.0, -0.5, 1e-300, 1e300, 0.1 + 0.2)  # type: ignore[assignment]
OTHERS = (None, True, False, [], {}, [[]], [None], {"": None}, [1, "a"], {"a": {"b": [1]}}, {"from_env": "X"})
TOKENS = (
    *("!!bool ", "!!int ", "!!python/name:os.system ", "!foo ", "&a ", "*a", "<<: ", "- ", ": ", "{", "}", "[", "]"),
    *("\t", "\n", "\0", "\x07", "\u202e", '"', "'", "|", ">", "#", "---\n", "%YAML 9\n", ",", "?", "~", "1e999", "0x"),
)
Place = tuple[Any, ...]


def mutated(document: Any, draw: random.Random, changes: int = 1) -> Any:
    """A copy of a document with so many changes."""
    found = copy.deepcopy(document)
    for _ in range(changes):
        known = list(places(found))
        if not known:
            return draw.choice(OTHERS)
        found = _changed(found, draw.choice(known), draw)
    return found


def places(value: Any, place: Place = ()) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*place, key)
            yield from places(item, (*place, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield (*place, at)
            yield from places(item, (*place, at))


def _changed(document: Any, place: Place, draw: random.Random) -> Any:
    holder = document
    for step in place[:-1]:
        holder = holder[step]
    last = place[-1]
    what = draw.choice((0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 6, 7))
    if what == 0:
        del holder[last]
    elif what == 1 and isinstance(holder, dict):
        items = [
            (draw.choice((*TEXTS, _typo(str(last), draw))) if key == last else key, v) for key, v in holder.items()
        ]
        holder.clear()
        holder.update(items)
    elif what == 1:
        holder.insert(last, copy.deepcopy(holder[last]))
    elif what == 2:
        holder[last] = draw.choice(TEXTS)
    elif what == 3:
        holder[last] = draw.choice(NUMBERS)
    elif what == 4:
        holder[last] = copy.deepcopy(draw.choice(OTHERS))
    elif what == 5:
        holder[last] = near(holder[last], draw)
    elif what == 6:
        holder[last] = copy.deepcopy(_at(document, draw.choice(list(places(document)))))
    elif isinstance(holder, dict):
        holder[draw.choice(TEXTS)] = copy.deepcopy(holder[last])
    else:
        draw.shuffle(holder)
    return document


def _at(document: Any, place: Place) -> Any:
    for step in place:
        document = document[step]
    return document


def _typo(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text) + 1)
    return text[:at] + draw.choice("abcx_ 1") + text[at + draw.randrange(2) :]


def near(value: Any, draw: random.Random) -> Any:
    """A value of the same type, or what looks like it."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return draw.choice((-value, value + 1, value + 1, value * 2, value * 1000, value / 3, str(value), [value]))
    if isinstance(value, str):
        return draw.choice((_typo(value, draw), value.upper(), value[::-1], [value], value + "\u202e", value * 50))
    return draw.choice((json.dumps(value), [value], None))


def mutated_text(text: str, draw: random.Random, changes: int = 1) -> str:
    """A text with so many places cut out, doubled or replaced; it need not be a document any more."""
    for _ in range(changes):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice((0, 1, 1, 3, 20)))
        text = (
            text[:start] + draw.choice((draw.choice(TOKENS), draw.choice(TEXTS), text[start:end] * 2, "")) + text[end:]
        )
    return text
