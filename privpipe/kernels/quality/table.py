"""What quality models read: a table's distinct combinations as leaf codes of their hierarchies, with counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.hierarchies import Hierarchy

__all__ = ["CodedTable", "CountedRows"]

Lookup = tuple[int, NDArray[np.int64], int]


class CountedRows(Protocol):
    """Records of each distinct combination, and its sensitive values as codes."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Records, shape (t,)."""

    @property
    def sensitive(self) -> Mapping[str, NDArray[np.int64]]:
        """Codes of columns that are no quasi-identifiers, each of shape (t,)."""


class CodedTable(Protocol):
    """A search's distinct table, or the original beside a release."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Generalized columns, m of them."""

    @property
    def fixed(self) -> tuple[str, ...]:
        """Quasi-identifiers that stay as they are; their codes stand after those of `columns`."""

    @property
    def hierarchies(self) -> tuple[Hierarchy, ...]:
        """One a generalized column."""

    @property
    def codes(self) -> NDArray[np.int32]:
        """Leaf codes, then codes of the fixed columns' values, shape (t, m + fixed)."""

    @property
    def rows(self) -> CountedRows:
        """Counts."""

    @property
    def records(self) -> int:
        """N, those suppressed beforehand included."""

    @property
    def unknown(self) -> int:
        """Records suppressed beforehand, whose values are not known."""

    @property
    def places(self) -> Mapping[str, int]:
        """Where each column stands in `codes`."""

    @property
    def lookups(self) -> Sequence[Sequence[Lookup]]:
        """Of each column and level: its place, the label's code of each leaf code, and how many labels there are."""
