"""An aggregated table: private figures of each cell, and what of it may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.border import bordered
from privpipe.errors import UsageError, did_you_mean
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated
from privpipe.tables.cells import Cells
from privpipe.tables.responses import Response
from privpipe.wired import room_above

__all__ = ["STATUSES", "Status", "Table"]

Status = Literal["published", "suppressed", "rounded", "perturbed", "noisy", "zero"]
STATUSES: tuple[Status, ...] = ("published", "suppressed", "rounded", "perturbed", "noisy", "zero")
HIDDEN = "c"
"""What a public status says of a suppressed figure, whatever the reason."""


@bordered
@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """Cells in the order of their labels, with one figure and one status for each response.

    It holds single contributions, so it is as private as the records. `public` is what may leave, once it was judged;
    nothing here judges it.

    Parameters
    ----------
    aggregated : Aggregated
    values : mapping of str to pyarrow.Array
        Figures that replace the true ones, by response.
    statuses : mapping of str to ndarray of int8
        Positions in `STATUSES`, by response.
    like : object
        The frame that was aggregated, whose kind the frames have.
    engine : object
        As it was given to `Aggregate.apply`.
    """

    aggregated: Aggregated
    values: Mapping[str, pa.Array] = field(default_factory=dict)
    statuses: Mapping[str, NDArray[np.int8]] = field(default_factory=dict)
    like: Any = None
    engine: Any = None

    def __repr__(self) -> str:
        dimensions, responses = len(self.cells.dimensions), len(self.responses)
        return (
            f"Table({dimensions} dimension{'s' if dimensions != 1 else ''}, {len(self.cells):,} cells, "
            f"{responses} response{'s' if responses != 1 else ''})"
        )

    def __len__(self) -> int:
        return len(self.cells)

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError("a table holds single contributions and is not pickled; keep public()")

    @property
    def cells(self) -> Cells:
        """Labels of each cell."""
        return self.aggregated.cells

    @property
    def responses(self) -> tuple[Response, ...]:
        """What each cell shows."""
        return self.aggregated.spec.responses

    @property
    def figures(self) -> Mapping[str, CellFigures]:
        """Private figures: of ``count``, and of each column that was added up."""
        return self.aggregated.figures

    def parts(self, response: str) -> tuple[str, ...]:
        """Keys of the figures that a response shows or lets readers work out.

        Raises
        ------
        UsageError
            There is no such response.
        """
        found = self._response(response)
        return {
            "count": (COUNT,),
            "sum": found.columns,
            "mean": found.columns,
            "ratio": tuple(dict.fromkeys(found.columns)),
        }[found.kind]

    def status(self, response: str) -> NDArray[np.int8]:
        """Status of each cell, as positions in `STATUSES`."""
        self._response(response)
        if response in self.statuses:
            return self.statuses[response]
        empty = self.figures[COUNT].contributors == 0
        return np.where(empty, STATUSES.index("zero"), STATUSES.index("published")).astype(np.int8)

    def published(self, response: str) -> NDArray[np.bool_]:
        """Cells whose figure is not suppressed."""
        found: NDArray[np.bool_] = self.status(response) != STATUSES.index("suppressed")
        return found

    def suppressed(self, cells: Mapping[str, NDArray[np.bool_]]) -> Table:
        """The table with more figures suppressed: a mask of cells for each response."""
        statuses = dict(self.statuses)
        for response, mask in cells.items():
            statuses[response] = np.where(mask, STATUSES.index("suppressed"), self.status(response)).astype(np.int8)
        return replace(self, statuses=statuses)

    def with_figures(self, response: str, values: pa.Array, status: Status) -> Table:
        """The table with other figures than the true ones; suppressed ones stay suppressed."""
        if len(values) != len(self):
            raise UsageError(f"response {response!r}: {len(values)} figures for {len(self)} cells")
        statuses = np.where(self.published(response), STATUSES.index(status), STATUSES.index("suppressed"))
        return replace(
            self,
            values={**self.values, response: values},
            statuses={**self.statuses, response: statuses.astype(np.int8)},
        )

    def true_values(self, response: str) -> pa.Array:
        """The true figure of each cell; null where a mean or ratio has nothing below."""
        found = self._response(response)
        if found.kind == "count":
            return _amounts(self.figures[COUNT])
        first = self.figures[found.columns[0]]
        if found.kind == "sum":
            return _amounts(first)
        if found.kind == "mean":
            below = first.contributors if first.population is None else first.population
            # Weights divide out: their unit is above and below.
            return _quotients(first.totals, below, 10**first.decimals)
        second = self.figures[found.columns[1]]
        shift = first.decimals - second.decimals
        scaled = second.totals if shift <= 0 else second.totals.astype(object) * 10**shift
        return _quotients(first.totals if shift >= 0 else first.totals.astype(object) * 10**-shift, scaled, 1)

    def private(self) -> Any:
        """A frame with labels, figures and statuses, and of each figure contributors, records, total and largest.

        Returns
        -------
        frame
            Of the kind that was aggregated. It must not leave.
        """
        columns = self._labels()
        for response in self.responses:
            columns[response.name] = self.values.get(response.name, self.true_values(response.name))
            names = pa.array(list(STATUSES))
            columns[f"{response.name}_status"] = names.take(pa.array(self.status(response.name).astype(np.int64)))
        for name, figures in self.figures.items():
            columns[f"{name}:contributors"] = pa.array(figures.contributors)
            columns[f"{name}:records"] = pa.array(figures.records)
            columns[f"{name}:total"] = _amounts(figures)
            if not figures.counting:
                for rank in range(figures.largest.shape[1]):
                    columns[f"{name}:largest_{rank + 1}"] = _decimals(figures.largest[:, rank], figures.decimals)
        return self._framed(pa.table(columns))

    def public(self) -> Any:
        """A frame of what may leave: labels, figures and statuses; suppressed figures are null, whatever the reason.

        Returns
        -------
        frame
            Of the kind that was aggregated; a pyarrow Table for a path.
        """
        columns = self._labels()
        shown = pa.array([HIDDEN if status == "suppressed" else status for status in STATUSES])
        for response in self.responses:
            values = self.values.get(response.name, self.true_values(response.name))
            hidden = pa.array(~self.published(response.name))
            columns[response.name] = _without(values, hidden)
            columns[f"{response.name}_status"] = shown.take(pa.array(self.status(response.name).astype(np.int64)))
        return self._framed(pa.table(columns))

    def _labels(self) -> dict[str, pa.Array]:
        return {
            dimension.name: pa.array(list(dimension.labels)).take(pa.array(self.cells.codes[:, place]))
            for place, dimension in enumerate(self.cells.dimensions)
        }

    def _framed(self, rows: pa.Table) -> Any:
        return room_above("stages").table_frame(rows, self.like, self.engine)

    def _response(self, name: str) -> Response:
        names = [each.name for each in self.responses]
        if name not in names:
            raise UsageError(f"the table has no response {name!r}{did_you_mean(name, names)}")
        return self.responses[names.index(name)]


def _without(values: pa.Array, hidden: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    # A new array: what is hidden must not remain in the buffer under a null.
    return pa.array(pc.if_else(hidden, pa.scalar(None, values.type), values).to_pylist(), values.type)


def _amounts(figures: CellFigures) -> pa.Array:
    """Totals in their decimals."""
    weights = len(str(figures.weight_unit)) - 1
    return _decimals(figures.totals, figures.decimals + weights)


def _decimals(words: NDArray[np.int64], decimals: int) -> pa.Array:
    if not decimals:
        return pa.array(words)
    return pa.array([Decimal(int(word)).scaleb(-decimals) for word in words], pa.decimal128(38, decimals))


def _quotients(above: Any, below: Any, unit: int) -> pa.Array:
    """The double that is nearest to each quotient; null where nothing is below."""
    pairs = zip(above.tolist(), below.tolist(), strict=True)
    return pa.array([None if not under else over / (under * unit) for over, under in pairs], pa.float64())
