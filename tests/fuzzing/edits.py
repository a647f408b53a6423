"""Inputs for what reads documents that a run wrote: edits, made to a fresh document at every trial.

A document carries run ids, hashes and versions, so a damaged copy would soon be refused for its age alone. Edits stay
what they are: ``{"edits": [[place, what, value], ...], "bytes": [[at, cut, text], ...], "sealed": true}``.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.soak.mutants import NUMBERS, OTHERS, TEXTS, near, places

__all__ = ["Edits", "edited", "fewer_edits", "more_edits"]

WHAT = ("set", "set", "set", "near", "drop", "name", "copy", "add")
MOST = 6


@dataclass(frozen=True)
class Edits:
    """What is done to a document: to its values, then to its bytes.

    Parameters
    ----------
    values : list of [place, what, value]
        `set` puts the value there, `add` a key or item next to it, `drop` takes it out, `name` calls the key so,
        `copy` puts there the content of the place `value`.
    bytes : list of [at, cut, text]
        From the place `at` (modulo the length) so many bytes are cut, and the text put there.
    sealed : bool
        Checksums and seals are made again between the two.
    """

    values: list[list[Any]] = field(default_factory=list)
    bytes: list[list[Any]] = field(default_factory=list)
    sealed: bool = False

    @classmethod
    def read(cls, data: bytes) -> Self:
        given = json.loads(data)
        return cls(given["edits"], given["bytes"], given["sealed"])

    def written(self) -> bytes:
        document = {"edits": self.values, "bytes": self.bytes, "sealed": self.sealed}
        return json.dumps(document, sort_keys=True).encode() + b"\n"

    def on_bytes(self, data: bytes) -> bytes:
        for at, cut, text in self.bytes:
            start = at % (len(data) + 1)
            data = data[:start] + text.encode("utf-8", "surrogatepass") + data[start + cut :]
        return data


def edited(document: Any, edits: Sequence[Sequence[Any]]) -> Any:
    """A copy of a document with the edits whose place is there."""
    found = copy.deepcopy(document)
    for place, what, value in edits:
        try:
            _edit(found, place, what, copy.deepcopy(value))
        except (LookupError, TypeError, ValueError, AttributeError):
            continue
    return found


def _edit(document: Any, place: Sequence[Any], what: str, value: Any) -> None:
    holder, last = _at(document, place[:-1]), place[-1]
    if what == "set":
        holder[last] = value
    elif what == "copy":
        holder[last] = copy.deepcopy(_at(document, value))
    elif what == "drop":
        del holder[last]
    elif what == "add" and isinstance(holder, list):
        holder.insert(last, value)
    elif what == "add":
        holder[value] = copy.deepcopy(holder[last])
    else:
        holder[value] = holder.pop(last)


def _at(document: Any, place: Sequence[Any]) -> Any:
    for step in place:
        document = document[step]
    return document


def more_edits(edits: Edits, document: Any, draw: random.Random) -> Edits:
    """The same edits with one more, one less, or one exchanged."""
    values, changed = list(edits.values), list(edits.bytes)
    chance = draw.random()
    if values and (len(values) >= MOST or chance < 0.2):
        values.pop(draw.randrange(len(values)))
    if len(changed) >= MOST or (changed and chance > 0.9):
        changed.pop(draw.randrange(len(changed)))
    sealed = edits.sealed if draw.random() < 0.9 else not edits.sealed
    if draw.random() < 0.15:
        text = draw.choice(("", "", "0", "1", '"', "{", "}", "[" * 9, ",", "\0", " ", "-", "e9", draw.choice(TEXTS)))
        changed.append([draw.randrange(1 << 20), draw.choice((0, 1, 1, 4)), text])
    else:
        values.append(_one(edited(document, values), draw))
    return Edits(values, changed, sealed)


def fewer_edits(data: bytes, at: int) -> bytes | None:
    """The same without its n-th edit."""
    edits = Edits.read(data)
    if at < len(edits.values):
        return Edits(edits.values[:at] + edits.values[at + 1 :], edits.bytes, edits.sealed).written()
    at -= len(edits.values)
    if at < len(edits.bytes):
        return Edits(edits.values, edits.bytes[:at] + edits.bytes[at + 1 :], edits.sealed).written()
    return None


def _one(document: Any, draw: random.Random) -> list[Any]:
    known = list(places(document))
    if not known:
        return [[""], "set", 0]
    place, what = draw.choice(known), draw.choice(WHAT)
    if draw.random() < 0.3:  # as many edits near the top as in the deepest list
        place = place[: draw.randint(1, len(place))]
    if what == "copy":
        return [list(place), what, list(draw.choice(known))]
    if what == "near":
        return [list(place), "set", near(_at(document, place), draw)]
    if what in ("name", "add"):
        key = draw.choice((*TEXTS[:20], *(str(each[-1]) for each in known[:60])))
        return [list(place), what, key]
    return [list(place), what, draw.choice((draw.choice(TEXTS), draw.choice(NUMBERS), draw.choice(OTHERS)))]
