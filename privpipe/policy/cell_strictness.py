"""Which of two guarantees on cells is stricter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from privpipe.blocks.marks import Stricter
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.blocks.verdict import plain
from privpipe.tables.entries import CellGuarantee

__all__ = ["looser_cells"]

OF_SOME = ("tables", "response")
"""Parameters that restrict what is judged; left out: all."""
FREE = ("time_limit",)
"""What makes no verdict looser: a shorter time is an error."""
THRESHOLDS = {"at_least": "larger", "at_most": "smaller"}


def looser_cells(mine: CellGuarantee, wanted: CellGuarantee) -> Iterator[tuple[str, str]]:
    """Parameters by which a guarantee on cells is weaker than another."""
    directions = {**THRESHOLDS, **{name: mark.direction for name, mark in _strictness(type(wanted))}}
    for name in parameters_of(type(wanted)):
        own, other = getattr(mine, name), getattr(wanted, name)
        if name in FREE:
            continue
        if name in OF_SOME:
            fine = own is None or (other is not None and plain(own) == plain(other))
        elif name == "severity":
            fine = own == "fail" or other == own
        elif directions.get(name) in ("larger", "smaller"):
            fine = other is None or (
                own is not None and (own >= other if directions[name] == "larger" else own <= other)
            )
        else:
            fine = plain(own) == plain(other)
        if not fine:
            yield name, f"is {'left out' if own is None else plain(own)}"


def _strictness(kind: type[Any]) -> Iterator[tuple[str, Stricter]]:
    for name in marked(kind, Stricter):
        yield name, parameters_of(kind)[name].marked(Stricter)
