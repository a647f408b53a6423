"""Whole tables whose rows are not paired: the original, the release, and a holdout of records in neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from typing_extensions import Doc

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.marks import FilePath, Stricter
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import WHOLE_TABLES, Way
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.hierarchies import HierarchySpec

__all__ = ["TableFiles", "TableMeasure"]


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """Tables on the driver, each in a keyed order of its contents. Never published, never logged.

    Parameters
    ----------
    original, released : pyarrow.Table
        The columns asked for, under the same names; a released one may have become text (labels).
    holdout : pyarrow.Table, optional
        Records of the same population that the release was not made from.
    reference : pyarrow.Table, optional
        More of them, none of which is in the original or the holdout.
    hierarchies : mapping of column to HierarchySpec
    order : Stream, optional
        Keyed order for draws of records.
    """

    original: pa.Table = field(repr=False)
    released: pa.Table = field(repr=False)
    holdout: pa.Table | None = field(default=None, repr=False)
    reference: pa.Table | None = field(default=None, repr=False)
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    order: Stream | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class TableMeasure(Guarantee):
    """A measure of whole tables that pairs no records, hence also of synthetic ones. Subclasses give `judge_tables`."""

    way: ClassVar[Way] = WHOLE_TABLES

    holdout: Annotated[
        str | None,
        FilePath(),
        Stricter("equal"),
        Doc("table of records of the same population that the release was not made from"),
    ] = None

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        """Those it names, else all quasi-identifiers."""
        return self.own_columns() or tuple(roles.quasi_identifiers)

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        """Columns of all tables it looks at; default: those by which it compares records."""
        return self.compared_columns(roles)

    @property
    def reads_values(self) -> bool:
        """Whether it compares values with labels, so that it must know which values a label stands for."""
        return True

    def table_of_reference(self) -> str | None:
        """Path of a third table, of records in neither the original nor the holdout."""
        return None

    def judge_tables(self, files: TableFiles) -> Verdict:
        """The verdict over the tables."""
        raise TypeError(f"{type(self).__name__} judges no tables")
