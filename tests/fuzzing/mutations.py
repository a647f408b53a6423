"""Another file from one: its values changed where it is a document, its lines and bytes where it is none."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML

from tests.soak.mutants import TEXTS, TOKENS, mutated, places

__all__ = ["mutated_file", "smaller_file"]

LONGEST = 4096
BYTES = (b"\x00", b"\xff", b"\xef\xbb\xbf", b'"', b'""', b"\r", b"\n", b"\r\n", b"'", b"\\", b"\xe2\x80\xa8", b"\xc3")


def mutated_file(data: bytes, queue: list[bytes], draw: random.Random, words: Sequence[str], delimiter: str) -> bytes:
    """One to four changes, each of a kind that suits a file of records (`delimiter`) or a document (none)."""
    for _ in range(draw.choice((1, 1, 1, 2, 2, 4))):
        if draw.random() < 0.1:
            data = _spliced(data, draw.choice(queue), draw)
        elif delimiter:
            data = _of_records(data, draw, delimiter.encode())
        elif draw.random() < 0.7:
            data = _of_document(data, draw, words)
        else:
            data = _of_text(data, draw, words)
    return data[:LONGEST]


def smaller_file(data: bytes, at: int) -> bytes | None:
    """The file without its n-th piece: first halves, then smaller ones."""
    sizes = [len(data) >> step for step in range(1, 5) if len(data) >> step]
    pieces = [(start, size) for size in sizes for start in range(0, len(data), size)]
    if at >= len(pieces):
        return None
    start, size = pieces[at]
    return data[:start] + data[start + size :]


def _spliced(data: bytes, other: bytes, draw: random.Random) -> bytes:
    ours, theirs = data.splitlines(keepends=True), other.splitlines(keepends=True)
    return b"".join(ours[: draw.randint(0, len(ours))] + theirs[draw.randint(0, len(theirs)) :])


def _of_records(data: bytes, draw: random.Random, delimiter: bytes) -> bytes:
    """A line or a field moved, doubled or exchanged; else some bytes."""
    lines = data.splitlines(keepends=True)
    if not lines or draw.random() < 0.4:
        return _of_bytes(data, draw, (*BYTES, delimiter))
    at = draw.randrange(len(lines))
    what = draw.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(draw.randrange(len(lines) + 1), lines[at])
    elif what == 2:
        lines[at] = lines[at] * draw.choice((2, 3, 40))
    else:
        fields = lines[at].rstrip(b"\r\n").split(delimiter)
        text = draw.choice((draw.choice(TEXTS).encode("utf-8", "surrogatepass")[:60], *BYTES, draw.choice(fields)))
        fields[draw.randrange(len(fields))] = text if draw.random() < 0.7 else b'"' + text + b'"'
        if what == 3:
            fields.append(text[:5])
        lines[at] = delimiter.join(fields) + draw.choice((b"\n", b"\r\n", b"\r", b""))
    return b"".join(lines)


def _of_bytes(data: bytes, draw: random.Random, new: Sequence[bytes]) -> bytes:
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice((0, 0, 1, 1, 4, 30)))
    put = draw.choice((b"", draw.choice(new), bytes([draw.randrange(256)]), data[start:end] * 2))
    return data[:start] + put + data[end:]


def _of_text(data: bytes, draw: random.Random, words: Sequence[str]) -> bytes:
    tokens = [text.encode("utf-8", "surrogatepass") for text in (*TOKENS, draw.choice(TEXTS), draw.choice(words))]
    return _of_bytes(data, draw, (*BYTES, *tokens))


def _of_document(data: bytes, draw: random.Random, words: Sequence[str]) -> bytes:
    """The values of a document changed, or a key of the grammar put somewhere; written as JSON, which is YAML."""
    document = _read(data)
    if not isinstance(document, dict | list):
        return _of_text(data, draw, words)
    known = [place for place in places(document) if place]
    if known and draw.random() < 0.4:
        place, word = draw.choice(known), draw.choice(words)
        holder: Any = document
        for step in place[:-1]:
            holder = holder[step]
        value = holder[place[-1]]
        if isinstance(holder, dict) and draw.random() < 0.6:
            holder[word] = draw.choice((value, True, 0.5, 2, [word], {}, draw.choice(words)))
        else:
            holder[place[-1]] = draw.choice((word, {word: value}, {word: {}}, [word]))
    else:
        document = mutated(document, draw)
    try:
        return json.dumps(document, ensure_ascii=draw.random() < 0.5, indent=draw.choice((None, 1))).encode(
            "utf-8", "surrogatepass"
        )
    except (ValueError, TypeError, RecursionError):
        return _of_text(data, draw, words)


def _read(data: bytes) -> Any:
    try:
        text = data.decode()
        return json.loads(text) if text.lstrip()[:1] in "{[" else YAML(typ="safe", pure=True).load(text)
    except Exception:  # noqa: BLE001 - whatever is not a document is mutated as text
        return None
