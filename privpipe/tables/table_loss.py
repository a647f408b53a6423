"""What a pattern of hidden cells costs: cells and value that no reader sees, by table, response and level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.tables.aggregates import rational
from privpipe.tables.aggregation import COUNT
from privpipe.tables.cells import Cells
from privpipe.tables.entries import CellGuarantee, TableSet
from privpipe.tables.table import Table, measures_of

__all__ = ["Loss", "TableLoss", "losses", "table_loss"]

NO_CELL = "no table has a cell with contributors, so nothing could be lost."


@dataclass(frozen=True)
class Loss:
    """What a pattern hides.

    Parameters
    ----------
    cells, hidden : int
    value, hidden_value : int
        Sums of absolute values over all and over hidden cells.
    levels : mapping of tuple of int to (int, int)
        Hidden cells and all cells by the depth of their labels in each dimension.
    """

    cells: int
    hidden: int
    value: int
    hidden_value: int
    levels: Mapping[tuple[int, ...], tuple[int, int]]

    @property
    def cell_share(self) -> float:
        return self.hidden / self.cells if self.cells else 0.0

    @property
    def value_share(self) -> float:
        return self.hidden_value / self.value if self.value else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; private: the hidden value is one more sum that a reader could use."""
        return {
            "cells": self.cells,
            "hidden": self.hidden,
            "hidden_share": self.cell_share,
            "hidden_value_share": self.value_share,
            "levels": {"-".join(map(str, level)): list(counts) for level, counts in sorted(self.levels.items())},
        }


def table_loss(cells: Cells, values: Ints, hidden: Bools) -> Loss:
    """The number of hidden cells of a table, their share of its value, and their levels.

    Parameters
    ----------
    cells : Cells
    values : ndarray of int64, shape (cells,)
        In any unit; their absolute values count.
    hidden : ndarray of bool, shape (cells,)

    Examples
    --------
    >>> from privpipe.tables.cells import Dimension
    >>> cells = Cells.complete([Dimension.tree("a", {"1": "T", "2": "T"})])
    >>> table_loss(cells, np.array([10, 7, 3]), np.array([False, True, True])).levels
    {(0,): (0, 1), (1,): (2, 2)}
    """
    depth = np.column_stack(
        [dimension.depth[cells.codes[:, place]] for place, dimension in enumerate(cells.dimensions)]
    )
    levels, level, counts = np.unique(depth, axis=0, return_inverse=True, return_counts=True)
    missing = np.bincount(level.reshape(-1)[hidden], minlength=len(levels))
    size = [abs(value) for value in values.tolist()]
    return Loss(
        len(cells),
        int(hidden.sum()),
        sum(size),
        sum(value for value, gone in zip(size, hidden.tolist(), strict=True) if gone),
        {
            tuple(key): (gone, count)
            for key, gone, count in zip(levels.tolist(), missing.tolist(), counts.tolist(), strict=True)
        },
    )


def losses(table: Table) -> dict[str, Loss]:
    """The loss of each response of a table, over its cells with contributors.

    A mean or ratio is hidden where one of its parts is, and counts with the value of its first column; an extreme, a
    quantile or a variance counts with the contributors.
    """
    found = {}
    for response in table.responses:
        own = [table.measures[key] for key in measures_of(response) or (COUNT,)]
        hidden = np.logical_or.reduce([measure.hidden for measure in own])
        if response.ordered:
            hidden = hidden | table.statistics[response.name].hidden
        figures = (own[-1] if response.kind in ("sum", "mean") else own[0]).figures
        there = figures.contributors > 0
        cells = Cells(table.cells.dimensions, table.cells.codes[there])
        found[response.name] = table_loss(cells, figures.magnitudes[there], hidden[there])
    return found


@dataclass(frozen=True, kw_only=True, repr=False)
class TableLoss(CellGuarantee):
    """What suppression costs: the share of cells, or of their value, that no reader sees; observed = by response.

    Cells without contributors are not counted: an empty cell that is hidden loses nothing. A figure over no cell at
    all is an error.

    Parameters
    ----------
    of : {"value", "cells"}
        ``value``: hidden absolute value over all of it, every level added up. ``cells``: hidden cells over all.
    at_most : float, optional
        Largest share of any response, 0 to 1; without it the loss is reported under `measures:`.

    Examples
    --------
    >>> TableLoss(of="cells", at_most=0.2)
    TableLoss(of='cells', at_most=0.2)
    """

    threshold_field = "at_most"
    observes = dict[str, float]
    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 4.6"
    threat = "None: a table of blanks discloses nothing and is of no use."
    formula = "sum over hidden cells of |X| / sum over all cells of |X|"
    choose = "Compare methods and dimensions by it; as a guarantee it keeps a useless table from leaving."

    of: Annotated[Literal["value", "cells"], Doc("counts cells, or their absolute value")] = "value"
    at_most: Annotated[float | None, Ge(0), Le(1), Doc("largest share that may be hidden of a response")] = None

    @property
    def reported(self) -> bool:
        return self.at_most is None

    def judge(self, tables: TableSet) -> Verdict:
        observed: dict[str, Fraction] = {}
        cells = hidden = 0
        for name, table in tables.chosen(self.tables).items():
            for response, loss in losses(table).items():
                if not loss.cells or (self.of == "value" and not loss.value):
                    continue
                cells, hidden = cells + loss.cells, hidden + loss.hidden
                gone, of = (loss.hidden_value, loss.value) if self.of == "value" else (loss.hidden, loss.cells)
                observed[f"{name}.{response}"] = Fraction(gone, of)
        compared = (Comparison(cells, cells, "figures with contributors were counted"),)
        if not observed:
            return Verdict(self, None, "error", self.at_most, reason=NO_CELL, compared=compared)
        most = max(observed.values())
        fine = self.at_most is None or most <= rational(self.at_most, "table_loss: at_most")
        return Verdict(
            self,
            {name: float(share) for name, share in observed.items()},
            outcome="pass" if fine else "fail",
            threshold=self.at_most,
            failing_classes=hidden,
            reason=f"{hidden:,} of {cells:,} figures are hidden; of one response up to {float(most):.1%} of its "
            f"{self.of}.",
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(of="cells", at_most=0.3)]
