"""The distinct combinations of a release and of its original, for measures of the recoding between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import RECODED_TABLES, Way

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import HierarchySpec

__all__ = ["DistinctPair", "DistinctPairMeasure"]


@dataclass(frozen=True, kw_only=True)
class DistinctPair:
    """Both tables as combinations with counts, on the driver; held in memory only, never published, never logged.

    Parameters
    ----------
    keys : tuple of str
        Quasi-identifiers.
    released : pyarrow.Table
        Distinct combinations of the columns asked for, their count in `__count`; suppressed records left out.
    original : pyarrow.Table, optional
        The same of the original; records need no ids.
    marked : int
        Suppressed records that stand in the release as rows of the mark.
    records : int, optional
        Records that entered the suppressing stage, where a run says so.
    hierarchies : mapping of column to HierarchySpec
        Declared ones.
    stages : sequence of mapping
        The release's own plan: of each stage ``name``, ``parameters`` and ``detail``.
    """

    keys: tuple[str, ...]
    released: pa.Table = field(repr=False)
    original: pa.Table | None = field(default=None, repr=False)
    marked: int = 0
    records: int | None = None
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    stages: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class DistinctPairMeasure(Guarantee):
    """A measure of the distinct combinations of the release, and of the original where there is one."""

    way: ClassVar[Way] = RECODED_TABLES
    threshold_field: ClassVar[str | None] = "at_most"

    def columns_read(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Columns whose combinations it looks at, the quasi-identifiers first."""
        return keys

    def judge_tables(self, pair: DistinctPair) -> Verdict:
        """The verdict over the two tables."""
        raise TypeError(f"{type(self).__name__} judges no tables")
