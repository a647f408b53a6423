"""The tables of one release: what is known of each cell, what leaves, and what was done on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from privpipe.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed
    from privpipe.tables.entries import CellGuarantee
    from privpipe.tables.table import Table

__all__ = ["TableSet"]


@dataclass(frozen=True, kw_only=True)
class TableSet:
    """Tables by name, with what every stage after `aggregate` and every guarantee may look at.

    Parameters
    ----------
    tables : mapping of str to Table
    guarantees : sequence of CellGuarantee
        Those of the policy: they say which cells are unsafe.
    sensitive : tuple of str
        Dimensions with the role `sensitive`.
    joint : Table, optional
        All combinations of the dimensions of several tables, of which nothing is published: it shows how their
        populations lie in one another.
    seed : Seed, optional
        Keys random rounding and cell keys.
    notes : tuple of str
        What a verdict must say of the tables.
    steps : tuple of mapping
        Of each stage that ran: its name, and what it did; private.

    Examples
    --------
    >>> TableSet(tables={})
    TableSet(0 tables)
    """

    tables: Mapping[str, Table]
    guarantees: Sequence[CellGuarantee] = ()
    sensitive: tuple[str, ...] = ()
    joint: Table | None = None
    seed: Seed | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    steps: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return f"TableSet({len(self.tables)} tables)"

    def chosen(self, names: Sequence[str] | None) -> Mapping[str, Table]:
        """Tables by these names, all without any.

        Raises
        ------
        UsageError
            One is not there.
        """
        for name in names or ():
            if name not in self.tables:
                raise UsageError(f"there is no table {name!r}; there are {', '.join(self.tables)}")
        return self.tables if names is None else {name: self.tables[name] for name in names}

    def having(self, tables: Mapping[str, Table], *notes: str, step: Mapping[str, Any] | None = None) -> Self:
        """The same set with some of its tables replaced."""
        return replace(
            self,
            tables={**self.tables, **tables},
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
            steps=self.steps if step is None else (*self.steps, step),
        )

    def public(self) -> dict[str, pa.Table]:
        """The tables as they leave."""
        return {name: table.public_table() for name, table in self.tables.items()}
