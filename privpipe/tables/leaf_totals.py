"""All cells of a table in one grid: leaves as an engine counted them, totals added up or placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from privpipe.blocks.aggregate_query import AggregateQuery
from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.cells import Cells, Dimension

__all__ = ["Grid", "all_cells"]

LARGEST = ("unwaived",)
"""Figures whose total is the largest of their parts, not the sum."""


def all_cells(dimensions: Sequence[Dimension]) -> Cells:
    """Every combination of labels, in the order of the labels."""
    shape = tuple(len(each.labels) for each in dimensions)
    codes = np.stack(np.unravel_index(np.arange(int(np.prod(shape, dtype=np.int64))), shape), axis=1)
    return Cells(tuple(dimensions), codes.astype(np.int64).reshape(-1, len(shape)))


@dataclass
class Grid:
    """Figures of all combinations of labels.

    Parameters
    ----------
    cells : Cells
    query : AggregateQuery
    figures : dict of str to ndarray of int64, shape (cells,)
    lists : dict of str to ndarray of int64, shape (cells, largest)
    additive : bool
        Whether contributors add up.
    """

    cells: Cells
    query: AggregateQuery
    figures: dict[str, Ints] = field(default_factory=dict)
    lists: dict[str, Ints] = field(default_factory=dict)
    additive: bool = True

    @classmethod
    def of_leaves(cls, leaves: pa.Table, dimensions: Sequence[Dimension], codes: Ints, query: AggregateQuery) -> Grid:
        """The grid with its leaves; totals are still empty."""
        grid = cls(all_cells(dimensions), query)
        grid.place(leaves, codes)
        return grid

    def place(self, found: pa.Table, codes: Ints) -> None:
        """Put cells with their figures where their labels say.

        Raises
        ------
        DataError
            Two of them have the same labels.
        """
        place = np.zeros(len(codes), dtype=np.int64)
        for at, size in enumerate(self.cells.shape):
            place = place * size + codes[:, at]
        if len(np.unique(place)) < len(place):
            raise DataError(
                "values of a dimension share one label, so that cells would replace one another; give each value "
                "another label"
            )
        for name in found.column_names:
            if name.startswith("key_"):
                continue
            column = found.column(name).combine_chunks()
            if pa.types.is_fixed_size_list(column.type):
                values = column.flatten().to_numpy(zero_copy_only=False).reshape(len(found), column.type.list_size)
                if name not in self.lists:
                    self.lists[name] = np.zeros((len(self.cells), values.shape[1]), dtype=np.int64)
                self.lists[name][place] = values
            else:
                if name not in self.figures:
                    empty = -1 if name.startswith(LARGEST) else 0
                    self.figures[name] = np.full(len(self.cells), empty, dtype=np.int64)
                self.figures[name][place] = column.to_numpy(zero_copy_only=False)

    def counted_by_levels(self) -> Grid:
        """Marks that contributors do not add up."""
        self.additive = False
        return self

    def with_totals(self, *, own_codes: bool = False) -> Grid:
        """Totals from leaves, for contributors who are each in one leaf.

        Parameters
        ----------
        own_codes : bool
            A contributor alone in a leaf has no code: the number of the leaf serves as one.
        """
        if own_codes:
            numbers = np.arange(1, len(self.cells) + 1)
            for name, alone in self._alone():
                self.figures[name] = np.where(self.figures[alone] == 1, numbers, 0)
        for name, values in self.figures.items():
            # Codes may be negative. Where a total has one contributor, one leaf has a code and all others have 0.
            self._accumulate(values, np.maximum if name.startswith(LARGEST) else np.add)
        for at, measure in enumerate(self.query.measures):
            if not measure.once and f"largest_{at}" in self.lists:
                self._accumulate_lists(at)
        for name, alone in self._alone():
            self.figures[name] = np.where(self.figures[alone] == 1, self.figures[name], 0)
        return self

    def _alone(self) -> list[tuple[str, str]]:
        """Columns of codes of those who are alone, and the number of contributors of each."""
        pairs = [("single", "contributors")]
        return pairs + [(f"single_{at}", f"present_{at}") for at in range(len(self.query.measures))]

    def _accumulate(self, values: Ints, join: np.ufunc) -> None:
        """Add children to their parents, the deepest first, one dimension after the other, in place."""
        shaped = values.reshape(self.cells.shape)
        for axis, dimension in enumerate(self.cells.dimensions):
            along = np.moveaxis(shaped, axis, 0)
            for code in range(len(dimension.labels) - 1, 0, -1):
                parent = dimension.parent[code]
                join(along[parent : parent + 1], along[code : code + 1], out=along[parent : parent + 1])

    def _accumulate_lists(self, at: int) -> None:
        """Merge lists of the largest contributions in the same way."""
        names = [f"{name}_{at}" for name in ("largest", "products", "holders")]
        shaped = [self.lists[name].reshape(*self.cells.shape, -1) for name in names]
        for axis, dimension in enumerate(self.cells.dimensions):
            along = [np.moveaxis(each, axis, 0) for each in shaped]
            for code in range(len(dimension.labels) - 1, 0, -1):
                _merge(along, dimension.parent[code], code)

    def counts(self, cells: Cells, weight: int | None, unit: int) -> CellFigures:
        """The response `count`, weighted where a measure is the weight."""
        number = self.figures["contributors"]
        nothing = np.zeros((len(cells), 1), dtype=np.int64)
        population = None if weight is None else self.figures[f"total_{weight}"]
        return CellFigures(
            cells=cells,
            response="count",
            contributors=number,
            records=self.figures["records"],
            totals=number if population is None else population,
            largest=nothing,
            holders=nothing,
            negative=np.zeros_like(number),
            nonzero=number,
            single=self.figures["single"],
            magnitudes=number if population is None else population,
            weight_unit=unit,
            population=population,
            additive=self.additive,
            counting=True,
        )

    def sums(self, cells: Cells, at: int, column: str, decimals: int, unit: int) -> CellFigures:
        """The response that adds up a measure."""
        figures, lists = self.figures, self.lists
        weighted = f"product_{at}" in figures
        return CellFigures(
            cells=cells,
            response=column,
            contributors=figures[f"present_{at}"],
            records=figures["records"],
            totals=figures[f"product_{at}" if weighted else f"total_{at}"],
            largest=lists[f"largest_{at}"],
            holders=lists[f"holders_{at}"],
            negative=figures[f"negative_{at}"],
            nonzero=figures[f"nonzero_{at}"],
            single=figures[f"single_{at}"],
            magnitudes=figures[f"size_{at}" if weighted else f"magnitude_{at}"],
            decimals=decimals,
            weighted=lists[f"products_{at}"] if weighted else None,
            weight_unit=unit,
            population=figures[f"total_{len(self.query.measures) - 1}"] if weighted else None,
            unwaived=figures.get(f"unwaived_{at}"),
            additive=self.additive,
        )

    def squares(self, figures: CellFigures, at: int, name: str) -> CellFigures:
        """The sums of squares of a measure whose sums are known. No concentration rule uses them."""
        squares = self.figures[f"square_{at}"]
        nothing = np.zeros((len(squares), 1), dtype=np.int64)
        return replace(
            figures,
            response=name,
            totals=squares,
            magnitudes=squares,
            largest=nothing,
            holders=nothing,
            negative=np.zeros_like(squares),
            decimals=2 * figures.decimals,
            unwaived=None,
            squares=True,
        )


def _merge(along: list[Ints], parent: int, code: int) -> None:
    """The largest of two lists of each cell, in the first of them: by value, weighted value and code, falling."""
    some = along[0][code][..., 0] > 0
    if not some.any():
        return
    most = along[0].shape[-1]
    both = [np.concatenate([each[parent][some], each[code][some]], axis=-1) for each in along]
    order = np.lexsort((-both[2], -both[1], -both[0]), axis=-1)[..., :most]
    for each, merged in zip(along, both, strict=True):
        target = each[parent]
        target[some] = np.take_along_axis(merged, order, axis=-1)
