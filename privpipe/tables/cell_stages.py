"""Stages over tables of cells: rounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.errors import DataError, UsageError
from privpipe.tables.aggregation import COUNT
from privpipe.tables.cells import linked
from privpipe.tables.controlled_rounding import controlled
from privpipe.tables.entries import TableSet, TableStage
from privpipe.tables.rounding import reader_intervals, rounded
from privpipe.tables.table import Measure, Table

__all__ = ["RoundTable"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RoundTable(TableStage):
    """Publish multiples of a base in the place of figures.

    Rounding alone hides neither small cells nor differences: the audit judges it with the interval of each figure.

    Parameters
    ----------
    base : int
        At least 2; for sums in units of the column, not of its decimals.
    method : {"nearest", "midpoint", "controlled"}
        ``nearest``: halves up. ``midpoint``: 0, or the middle of an interval (counts). ``controlled``: up or down so
        that all totals are the sums of their parts.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.tables import Aggregate
    >>> table = Aggregate(by=["region"], responses=["count"]).apply(pd.DataFrame({"region": list("NNNNNNNSSS")}))
    >>> RoundTable(base=5).apply(table).public()["count"].tolist()
    [10, 5, 5]
    """

    source: ClassVar[str] = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 5.4"
    preserves: ClassVar[str] = "figures to within the base"
    reveals: ClassVar[str] = "the interval that each rounded figure can come from"

    base: Annotated[int, Ge(2), Doc("figures become multiples of it")]
    method: Annotated[Literal["nearest", "midpoint", "controlled"], Doc("how figures are rounded")] = "nearest"
    tables: Annotated[tuple[str, ...] | None, Doc("tables that are rounded; left out: all")] = None

    def run(self, tables: TableSet) -> TableSet:
        changed = {}
        for name, table in tables.chosen(self.tables).items():
            measures = dict(table.measures)
            for key in table.shown_measures:
                measures[key] = self._rounded(table, key, measures[key])
            changed[name] = replace(table, measures=measures)
        note = (
            ()
            if self.method == "controlled"
            else (f"figures are rounded to multiples of {self.base} one by one, so parts need not add up to totals",)
        )
        return tables.having(changed, *note, step={})

    def _rounded(self, table: Table, key: str, measure: Measure) -> Measure:
        if measure.status != "published":
            raise UsageError(f"round_table: table {table.name!r} is {measure.status} already; round once")
        base = self.base * 10**measure.places
        counts = key == COUNT
        if self.method == "midpoint" and not counts:
            raise UsageError("round_table: midpoint is for counts; round sums by nearest or controlled")
        steps = 0
        if self.method == "controlled":
            if (measure.figures.negative > 0).any() or not measure.figures.additive:
                raise DataError("round_table: controlled rounding needs figures that add up and are not negative")
            done = controlled(linked([table.cells]), measure.figures.totals, base)
            shown, steps = done.published, done.steps
        else:
            shown = rounded(measure.figures.totals, base, self.method)
        nonnegative = not (measure.figures.negative > 0).any()
        low, high = reader_intervals(shown, base, self.method, counts=nonnegative, steps=steps)
        return replace(measure, shown=shown, low=low, high=high, status="rounded")

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(base=5), cls(base=3, method="controlled")]
