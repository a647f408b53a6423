"""What is remembered of releases about the same persons: hashes of who was in which class, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import HierarchySpec

__all__ = ["EarlierTables", "HistoryMeasure", "ReleaseHistory", "ReleaseRows"]


@dataclass(frozen=True)
class ReleaseRows:
    """Who was in which class of one release; as secret as the original.

    Parameters
    ----------
    units : ndarray of int64, shape (n, 2)
        Keyed hash of the person, or of the original's quasi-identifiers where persons have no key.
    classes : ndarray of int64, shape (n, 2)
        Keyed hash of the released quasi-identifiers.
    records : ndarray of int64, shape (n,)
        Records of the unit in the class, at least 1.
    values : ndarray of int64, shape (n, 2), optional
        Keyed hash of the released sensitive value; a unit has a row for each value then.
    """

    units: NDArray[Any] = field(repr=False)
    classes: NDArray[Any] = field(repr=False)
    records: NDArray[Any] = field(repr=False)
    values: NDArray[Any] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, kw_only=True)
class ReleaseHistory:
    """Earlier releases and the one to be judged.

    Parameters
    ----------
    current : ReleaseRows
    earlier : tuple of ReleaseRows
        In the order of their publication.
    persons : bool
        Units are persons; else combinations of original quasi-identifiers, each of several records.
    """

    current: ReleaseRows
    earlier: tuple[ReleaseRows, ...] = ()
    persons: bool = True


@dataclass(frozen=True, kw_only=True)
class EarlierTables:
    """Released tables alone, as anybody has them: distinct rows with their number in ``__count``.

    Parameters
    ----------
    current : pyarrow.Table
    earlier : tuple of pyarrow.Table
    keys : tuple of str
        Quasi-identifiers; one that a table lacks may be anything there.
    joined : tuple of str
        Other columns, released as they were collected, by which rows may be told to be the same.
    hierarchies : mapping of column to HierarchySpec
        Declared ones, to read labels by.
    """

    current: pa.Table = field(repr=False)
    earlier: tuple[pa.Table, ...] = field(repr=False)
    keys: tuple[str, ...]
    joined: tuple[str, ...] = ()
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class HistoryMeasure(Guarantee):
    """A measure of a release beside the releases before it.

    Subclasses give `judge_history` (by a ledger) and `judge_tables` (by released tables alone).
    """

    reads: ClassVar[Any] = "releases"

    ledger: str | None = None
    key: dict[str, str] | None = None
    earlier: tuple[str, ...] = ()

    def joining_columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Of the released columns that no quasi-identifier is, those by which rows of two releases are joined."""
        return names

    def judge_history(self, history: ReleaseHistory) -> Verdict:
        """The verdict by what the ledger remembers."""
        raise TypeError(f"{type(self).__name__} judges no ledger")

    def judge_tables(self, tables: EarlierTables) -> Verdict:
        """The verdict by released tables alone."""
        raise TypeError(f"{type(self).__name__} judges no released tables")
