"""A rule on the names of a table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import COLUMNS, Way
from privpipe.errors import UsageError
from privpipe.roles import Roles

__all__ = ["ColumnRule"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnRule(Guarantee):
    """Judges a table before any cell is looked at. Subclasses give `judge_columns`."""

    way: ClassVar[Way] = COLUMNS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.binds:
            raise UsageError(f"{self.name()}: severity must be fail: the check is built in, and nobody can waive it")

    def judge_columns(self, present: Sequence[str], roles: Roles) -> Verdict:
        """The verdict over a table with these columns."""
        raise TypeError(f"{type(self).__name__} judges no columns")
