"""Judge by classes and the record that a stage left of its own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from privpipe.blocks import Guarantee
from privpipe.blocks.way import PROCESS
from privpipe.judging.ways.classes import OfCounted

__all__ = ["ByProcess"]


class ByProcess(OfCounted):
    """The process decides; no attacker's knowledge of some columns is taken for granted."""

    way = PROCESS
    no_expectation: ClassVar[str] = (
        "it is judged by the record of the process that stands beside a published release, not by a table"
    )

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        return ()
