"""A policy whose sections are read but not yet checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.errors import RolesError
from privpipe.policy.entries import ReadEntry
from privpipe.policy.specs import ColumnSpec, roles_of
from privpipe.roles import Roles
from privpipe.transforms.base import Transformer

__all__ = ["Draft"]


@dataclass
class Draft:
    """A policy being read.

    `unreadable_columns` names columns whose role could not be read: nothing more is said of these.
    """

    base_dir: Path
    columns: Mapping[str, ColumnSpec] = field(default_factory=dict)
    unreadable_columns: frozenset[str] = frozenset()
    transform: Sequence[ReadEntry] = ()
    guarantees: Sequence[ReadEntry] = ()
    measures: Sequence[ReadEntry] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def with_role(self, *roles: str) -> tuple[str, ...]:
        """Columns of these roles, in policy order."""
        return tuple(name for name, column in self.columns.items() if column.role in roles)

    @property
    def roles(self) -> Roles | None:
        """The role of every column; None where some could not be read, or names differ by case alone."""
        try:
            return None if self.unreadable_columns else roles_of(self.columns)
        except RolesError:
            return None

    def judging(self) -> Iterable[tuple[ReadEntry, Guarantee]]:
        """Sound guarantees and measures."""
        for read in (*self.guarantees, *self.measures):
            if isinstance(read.entry, Guarantee):
                yield read, read.entry

    def stages(self) -> Iterable[tuple[ReadEntry, Transformer]]:
        """Sound stages."""
        for read in self.transform:
            if isinstance(read.entry, Transformer):
                yield read, read.entry
