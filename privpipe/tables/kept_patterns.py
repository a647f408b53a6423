"""Patterns of hidden cells as the private plan of a run keeps them, so that the next run hides the same cells."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Bools
from privpipe.errors import DataError
from privpipe.tables.cells import Cells
from privpipe.tables.table import Table

__all__ = ["kept_pattern", "pattern_of"]

Pattern = Mapping[str, Bools]
STAGE = "suppress_table"


def cells_digest(cells: Cells) -> str:
    """Which cells a table has, in which order."""
    named = [[each.name, list(each.labels), list(each.parent)] for each in cells.dimensions]
    about = json.dumps([named, sorted(cells.only.items())], ensure_ascii=True).encode()
    return hashlib.sha256(about + np.ascontiguousarray(cells.codes, dtype="<i8").tobytes()).hexdigest()


def pattern_of(table: Table) -> dict[str, Any]:
    """The hidden cells of a table as plain JSON without a label: a bit a cell, for each measure."""
    hidden = {
        key: base64.b64encode(np.packbits(table.measures[key].hidden).tobytes()).decode()
        for key in table.shown_measures
    }
    return {"table": cells_digest(table.cells), "cells": len(table), "hidden": hidden}


def kept_pattern(file: str, tables: Mapping[str, Table]) -> dict[str, Pattern]:
    """What the private plan of an earlier run hid of these tables, by table and measure.

    Parameters
    ----------
    file : str
        A plan, or a private record that holds one.
    tables : mapping of str to Table
        As they are counted now.

    Raises
    ------
    DataError
        No such plan, a public edition, or one of tables with other cells.
    """
    found: dict[str, Pattern] = {}
    for detail in _details(file):
        for name, kept in detail.items():
            if name not in tables:
                continue
            table = tables[name]
            if kept["table"] != cells_digest(table.cells):
                raise DataError(
                    f"suppress_table: pattern: the plan is of a table {name!r} with other cells; leave `pattern` out, "
                    "or take the plan of a run with the same labels"
                )
            found[name] = {key: _bits(text, len(table)) for key, text in kept["hidden"].items()}
    missing = [name for name in tables if name not in found]
    if missing:
        raise DataError(f"suppress_table: pattern: the plan has no pattern of table {', '.join(map(repr, missing))}")
    return found


def _details(file: str) -> list[Any]:
    """The patterns of all stages in a plan that hid cells."""
    try:
        document = json.loads(Path(file).read_text())
        stages: Sequence[Any] = document["stages"] if "stages" in document else document["plan"]["stages"]
        return [stage["detail"]["pattern"] for stage in stages if stage["name"] == STAGE]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"suppress_table: pattern: the file is not a private plan of a release of tables ({type(error).__name__}); "
            "give the plan of a private record"
        ) from None


def _bits(text: str, size: int) -> Bools:
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError):
        packed = np.empty(0, dtype=np.uint8)
    if len(packed) != -(-size // 8):
        raise DataError("suppress_table: pattern: the plan is damaged; take another one, or leave `pattern` out")
    return np.unpackbits(packed)[:size].astype(np.bool_)
