"""Ledgers of version 1: entries without a chain, to be sealed once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privpipe.blocks.release_history import ReleaseRows
from privpipe.errors import DataError, UsageError
from privpipe.ledger.chain import read_bytes
from privpipe.ledger.entry import rows_of_table
from privpipe.ledger.folder import HEAD
from privpipe.ledger.head import Head
from privpipe.ledger.seal import Seal
from privpipe.ledger.sink import counts, current_of

__all__ = ["OldEntry", "old_entries", "old_files", "old_head"]

NAME = re.compile(r"(\d+)-(.+)\.parquet")


@dataclass(frozen=True)
class OldEntry:
    """A release that a ledger of version 1 remembers; no rows: its file does not read."""

    number: int
    run_id: str
    target: str
    rows: ReleaseRows | None


def old_head(path: Path, key: Mapping[str, str] | None) -> Head:
    """The head of such a ledger, as this version writes it.

    Raises
    ------
    DataError
        It cannot be read.
    UsageError
        It was begun with another key, or without one.
    """
    try:
        found = json.loads(read_bytes(path / HEAD))
        salt, persons, commitment = str(found["salt"]), bool(found["persons"]), str(found["commitment"])
        head = Head.new(persons=persons, normalise=(), salt=salt)
        bytes.fromhex(salt)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{HEAD} is not one of ours") from None
    head.require_key(key)
    if Seal.of(key, salt).commitment() != commitment:
        raise UsageError("the ledger was begun with another key")
    return head


def old_files(path: Path) -> list[Path]:
    """The files of its entries."""
    return sorted((*path.glob("[0-9]*-*.parquet"), *path.glob("pending-*.parquet")))


def old_entries(path: Path) -> list[OldEntry]:
    """Its entries in order, then pending ones that count; torn pending ones never did."""
    found = []
    for place in sorted(path.glob("[0-9]*-*.parquet")):
        named = NAME.fullmatch(place.name)
        if named:
            rows, told = _read(place)
            found.append(OldEntry(int(named[1]), named[2], str(told.get("target", "")), rows))
    for place in sorted(path.glob("pending-*.parquet")):
        rows, told = _read(place)
        run_id, target, before = (told.get(name) for name in ("run_id", "target", "before"))
        known = isinstance(run_id, str) and isinstance(target, str) and isinstance(before, str | None)
        if rows is not None and known and counts(current_of(str(target)), str(run_id), before):
            number = 1 + max((each.number for each in found), default=0)
            found.append(OldEntry(number, str(run_id), str(target), rows))
    return found


def _read(path: Path) -> tuple[ReleaseRows | None, dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        told = json.loads((table.schema.metadata or {}).get(b"privpipe", b"{}"))
        return rows_of_table(table), told if isinstance(told, dict) else {}
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException):
        return None, {}
