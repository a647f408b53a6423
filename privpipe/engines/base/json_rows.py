"""JSON records as Arrow batches of text: one reader for all engines, since each would guess types differently."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from privpipe.engines.base.files import open_text
from privpipe.engines.base.unpacking import MOST_BYTES, reading
from privpipe.errors import DataError, EngineError
from privpipe.hierarchies import canonical_literal

__all__ = ["json_batches", "json_columns"]

BATCH = 65536
HALVES = re.compile("[\ud800-\udfff]")


def json_columns(files: list[str], most: int = MOST_BYTES) -> list[str]:
    """Names of all columns, in order of first appearance over all files.

    Parameters
    ----------
    most : int
        Bytes that a packed file may unpack to.

    Raises
    ------
    DataError
        A file is not JSON, or its records are not flat objects.
    EngineError
        A file cannot be reached.
    """
    names: dict[str, None] = {}
    for record in _all_records(files, most):
        names.update(dict.fromkeys(record))
    return list(names)


def json_batches(files: list[str], names: list[str], most: int = MOST_BYTES) -> Iterator[pa.RecordBatch]:
    """Batches of text columns; a field that a record lacks is null, numbers are canonical texts.

    Raises
    ------
    DataError
        As `json_columns`.
    """
    schema = pa.schema([(name, pa.string()) for name in names])
    waiting: list[dict[str, str | None]] = []
    known = set(names)
    for record in _all_records(files, most):
        if not known.issuperset(record):
            raise EngineError("a JSON file changed while it was read; run again once its writer is done")
        waiting.append(record)
        if len(waiting) == BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema)


def _all_records(files: list[str], most: int) -> Iterator[dict[str, str | None]]:
    for name in files:
        place = Path(name).name
        try:
            with reading(name, "JSON"), open_text(name, most) as lines:
                yield from (_texts(record, place) for record in _records(lines))
        except (ValueError, RecursionError):
            raise DataError(f"{place}: not readable as JSON (one object a line, or one array of objects)") from None


def _records(lines: Any) -> Iterator[Any]:
    decode = json.JSONDecoder(
        parse_int=_number, parse_float=_number, parse_constant=_number, object_pairs_hook=_object
    ).decode
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("["):
        yield from decode(first + lines.read())
        return
    if first:
        yield decode(first)
    for line in lines:
        if line.strip():
            yield decode(line)


class _Number(str):
    """A number of the file as canonical text; None where it is NaN."""


def _number(text: str) -> _Number | None:
    canonical = canonical_literal(text, "decimal" if text[-1:].isdigit() else "number")
    return None if canonical is None else _Number(canonical)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise DataError("a JSON object names a key twice")
    return dict(pairs)


def _texts(record: Any, place: str) -> dict[str, str | None]:
    if not isinstance(record, dict):
        raise DataError(f"{place}: a record is not a JSON object")
    return {name: _text(value, name, place) for name, value in record.items()}


def _text(value: Any, column: str, place: str) -> str | None:
    if isinstance(value, str) and HALVES.search(value):
        raise DataError(f"{place}: column {column!r} holds half of a surrogate pair, which is no character")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    raise DataError(f"{place}: column {column!r} holds nested values; a record must be flat")
