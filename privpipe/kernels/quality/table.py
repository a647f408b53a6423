"""What quality models read: a table's distinct combinations as leaf codes of their hierarchies, with counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.hierarchies import Hierarchy
from privpipe.kernels.columns.codes import PackedColumns

__all__ = ["CodedTable", "Counted", "CountedRows", "TableOfCodes", "TableOfColumns"]

Lookup = tuple[int, Ints, int]


class CountedRows(Protocol):
    """Records of each distinct combination, and its sensitive values as codes."""

    @property
    def counts(self) -> Ints:
        """Records, shape (t,)."""

    @property
    def sensitive(self) -> Mapping[str, Ints]:
        """Codes of columns that are not quasi-identifiers, each of shape (t,)."""


class CodedTable(Protocol):
    """A search's distinct table, or the original next to a release."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Generalized columns, m of them."""

    @property
    def fixed(self) -> tuple[str, ...]:
        """Quasi-identifiers that are not generalized; their codes follow those of `columns`."""

    @property
    def hierarchies(self) -> tuple[Hierarchy, ...]:
        """One per generalized column."""

    @property
    def codes(self) -> NDArray[np.int32]:
        """Leaf codes, then codes of the fixed columns' values, shape (t, m + fixed)."""

    @property
    def rows(self) -> CountedRows:
        """Counts."""

    @property
    def records(self) -> int:
        """N, including records suppressed beforehand."""

    @property
    def unknown(self) -> int:
        """Records suppressed beforehand, whose values are not known."""

    @property
    def places(self) -> Mapping[str, int]:
        """The position of each column in `codes`."""

    @property
    def lookups(self) -> Sequence[Sequence[Lookup]]:
        """For each column and level: its place, the label's code of each leaf code, and how many labels there are."""

    @property
    def packed(self) -> PackedColumns:
        """`codes`, packed."""


@dataclass(frozen=True)
class Counted:
    """Counts of combinations; see `CountedRows`."""

    counts: Ints
    sensitive: Mapping[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True)
class TableOfCodes:
    """A `CodedTable` made of given arrays.

    Parameters
    ----------
    columns, fixed, hierarchies, codes, rows, records, unknown
        As in `CodedTable`.
    population_counts : callable, optional
        For a vector of levels: records of a population with the labels of each combination.
    """

    columns: tuple[str, ...]
    fixed: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    codes: NDArray[np.int32] = field(repr=False)
    rows: Counted = field(repr=False)
    records: int
    unknown: int = 0
    population_counts: Callable[[Sequence[int]], Ints] | None = field(default=None, repr=False)

    @cached_property
    def places(self) -> dict[str, int]:
        """See `CodedTable`."""
        return {column: place for place, column in enumerate((*self.columns, *self.fixed))}

    @cached_property
    def lookups(self) -> list[list[Lookup]]:
        """See `CodedTable`."""
        found: list[list[Lookup]] = [
            [
                (place, hierarchy.codes(level).astype(np.int64), len(hierarchy.labels(level)))
                for level in range(hierarchy.height + 1)
            ]
            for place, hierarchy in enumerate(self.hierarchies)
        ]
        for place in range(len(self.columns), self.codes.shape[1]):
            values = int(self.codes[:, place].max(initial=-1)) + 1
            found.append([(place, np.arange(values), values)])
        return found

    @cached_property
    def packed(self) -> PackedColumns:
        """See `CodedTable`."""
        return PackedColumns(self.codes, [len(own[0][1]) for own in self.lookups])


class _Totals(PackedColumns):
    """Totals that are known already."""

    def __init__(self, records: Ints, lost: Ints) -> None:
        self._records, self._lost = records, lost

    def totals(self, counts: Ints, chosen: Bools | None = None) -> Ints:
        return self._records if chosen is None else self._lost


@dataclass(frozen=True)
class TableOfColumns:
    """A `CodedTable` whose columns are counted separately: for models with one figure per column, at given levels.

    It has no combinations; `lost` determines what is suppressed.

    Parameters
    ----------
    columns, hierarchies, records, unknown
        As in `CodedTable`.
    kept_and_lost, lost : ndarray of int64, shape (leaves of all columns,)
        Records of each leaf whose values are known, and those of them that are suppressed: counted under any leaf with
        their label.
    """

    columns: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    kept_and_lost: Ints = field(repr=False)
    lost: Ints = field(repr=False)
    records: int
    unknown: int = 0
    fixed: tuple[str, ...] = ()

    @property
    def codes(self) -> NDArray[np.int32]:
        """None of any combination."""
        return np.zeros((0, len(self.columns)), dtype=np.int32)

    @property
    def rows(self) -> Counted:
        """No combination."""
        return Counted(np.zeros(0, dtype=np.int64))

    @property
    def places(self) -> dict[str, int]:
        """See `CodedTable`."""
        return {column: place for place, column in enumerate(self.columns)}

    @property
    def lookups(self) -> list[list[Lookup]]:
        """See `CodedTable`."""
        return []

    @cached_property
    def packed(self) -> PackedColumns:
        """Totals by leaf."""
        return _Totals(self.kept_and_lost, self.lost)
