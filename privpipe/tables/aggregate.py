"""`Aggregate`: a frame of records in, a table out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.tables.aggregation import TableSpec
from privpipe.tables.responses import Response, responses_of
from privpipe.tables.table import Table
from privpipe.wired import room_above

__all__ = ["Aggregate"]

MOST_LARGEST = 10


@bordered
@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Counts, sums, means and ratios of every combination of labels, with totals.

    Parameters
    ----------
    by : sequence of str
        Columns of the dimensions. One with a hierarchy shows all its levels.
    responses : sequence
        ``"count"``, ``{"sum": column}``, ``{"mean": column}``, ``{"ratio": [a, b]}``; ``decimals`` for columns of
        floats, ``name`` for another name than ``sum_column``.
    total : str
        Label of totals; no value may read so.
    only : mapping of column to label
        Restriction of the population, which is part of what each cell counts.
    nulls : {"label", "drop"}
        A missing dimension is ``(missing)``, or its records are left out.
    levels : mapping of column to list of levels, by number or name
        Levels of hierarchies that are shown; default: all.
    overlapping : sequence of str
        Dimensions of which a contributor may have several labels, so that these do not add up.
    weight : str, optional
        Column of sampling weights, for weighted counts and sums.
    weight_decimals : int
        Decimals of weights that are floats; they are never rounded.
    waived : str, optional
        Column of truth values: contributors who waive protection.
    contribution_bound : int, optional
        Cells of one contributor that are kept, so that counts add up (with 1) at the price of what is left out.
    largest : int
        How many of the largest contributions rules will need, at most 10.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"person": [1, 1, 2], "region": ["north", "south", "south"]})
    >>> Aggregate(by=["region"], responses=["count"]).apply(frame, person_id="person").public()
      region  count count_status
    0  Total      2    published
    1  north      1    published
    2  south      2    published
    """

    by: Sequence[str]
    responses: Sequence[Any]
    total: str = "Total"
    only: Mapping[str, str] = field(default_factory=dict)
    nulls: Literal["label", "drop"] = "label"
    levels: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    overlapping: Sequence[str] = ()
    weight: str | None = None
    weight_decimals: int = 6
    waived: str | None = None
    contribution_bound: int | None = None
    largest: int = 3

    def __post_init__(self) -> None:
        for name in ("by", "overlapping"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(each, str) for each in value):
                raise UsageError(f"Aggregate: {name} must be a list of columns")
        if len(set(self.by)) < len(self.by):
            raise UsageError("Aggregate: by names a column twice")
        if not self.by:
            raise UsageError("Aggregate: by needs a column")
        if not isinstance(self.total, str) or not self.total.strip():
            raise UsageError("Aggregate: total must be a text")
        if self.nulls not in ("label", "drop"):
            raise UsageError(f"Aggregate: nulls must be label or drop, not {self.nulls!r}")
        if isinstance(self.largest, bool) or not isinstance(self.largest, int) or not 1 <= self.largest <= MOST_LARGEST:
            raise UsageError(f"Aggregate: largest must be an integer from 1 to {MOST_LARGEST}, got {self.largest!r}")
        names = {each.name for each in self.spec.responses}
        taken = {*self.by, *(f"{name}_status" for name in names)} & names
        if taken or names & set(self.by):
            raise UsageError("Aggregate: a response has the name of a dimension or of a status; give it another `name`")

    @property
    def spec(self) -> TableSpec:
        """What the table shows."""
        responses: tuple[Response, ...] = responses_of(self.responses)
        return TableSpec(
            by=tuple(self.by),
            responses=responses,
            total=self.total,
            only=dict(self.only),
            drop_nulls=self.nulls == "drop",
            levels=dict(self.levels),
            overlapping=tuple(self.overlapping),
            weight=self.weight,
            weight_decimals=self.weight_decimals,
            waived=self.waived,
            contribution_bound=self.contribution_bound,
            largest=self.largest,
        )

    def apply(
        self,
        frame: Any,
        *,
        person_id: str | None = None,
        hierarchies: Mapping[str, Any] | None = None,
        seed: Any = None,
        engine: Any = None,
    ) -> Table:
        """Aggregate a frame; the records stay on its engine.

        Parameters
        ----------
        frame : path, or pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame
        person_id : str, optional
            Column of contributors: a person, a holding. Default: each record is one.
        hierarchies : mapping of column to Hierarchy, builder mapping or path
        seed : Seed, text, bytes or mapping, optional
            Keys contributors' codes and `contribution_bound`; default: drawn from the system.
        engine : str, Engine or DuckDB connection, optional
            Default: the one the frame is native to.

        Raises
        ------
        UsageError, DataError, HierarchyError, EngineError
        """
        found: Table = room_above("stages").aggregate(
            self, frame, person_id=person_id, hierarchies=hierarchies, seed=seed, engine=engine
        )
        return found
