"""A table of cells: the private figures of each, and the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, squares_of
from privpipe.tables.cell_keys import NoiseTable
from privpipe.tables.cells import Cells
from privpipe.tables.order_statistics import OrderStatistic
from privpipe.tables.responses import Response
from privpipe.wired import room_above

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed

__all__ = ["HIDDEN_MARK", "STATUSES", "STATUS_SUFFIX", "Measure", "Table", "measures_of"]

STATUSES = ("published", "rounded", "perturbed", "noisy")
"""What a published figure is; an empty cell that is published unchanged, is `zero`."""
STATUS_SUFFIX = "_status"
HIDDEN_MARK = "c"
"""Status of a suppressed figure, whatever the reason."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Measure:
    """A quantity that is added up in every cell, and what readers see of it.

    Parameters
    ----------
    figures : CellFigures
        What is true.
    shown : ndarray of int64, shape (cells,)
        The published figure, in the unit of `figures.totals`; it means nothing where `hidden`.
    low, high : ndarray of int64, shape (cells,)
        What a reader concludes from only the published figure; equal to it where it is exact.
    hidden : ndarray of bool, shape (cells,)
    status : str
        One of `STATUSES`, of all figures that are not hidden.
    blank : tuple of ndarray of int64, shape (cells,), optional
        Least and greatest value that a reader gives a figure because it is hidden, and marked so or not.
    below : int, optional
        Hidden figures below it are marked as such.
    noise : NoiseTable, optional
        By which perturbed figures were drawn.
    drawn_by : tuple
        What else the noise follows from; the same people have one figure where all of it is the same.
    by_interval : bool
        Whether a figure may be published though its cell is unsafe, if what a reader concludes from it keeps the
        levels of the rule.
    """

    figures: CellFigures
    shown: Ints
    low: Ints
    high: Ints
    hidden: Bools
    status: str = "published"
    blank: tuple[Ints, Ints] | None = None
    below: int | None = None
    noise: NoiseTable | None = None
    drawn_by: tuple[Any, ...] = ()
    by_interval: bool = False

    @classmethod
    def exact(cls, figures: CellFigures) -> Self:
        """As it was counted, nothing hidden."""
        none = np.zeros(len(figures), dtype=np.bool_)
        return cls(figures=figures, shown=figures.totals, low=figures.totals, high=figures.totals, hidden=none)

    @property
    def marked(self) -> Bools:
        """Hidden figures that are published as being below `below`."""
        if self.blank is None or self.below is None:
            return np.zeros(len(self.hidden), dtype=np.bool_)
        return np.asarray(self.hidden & (self.blank[1] == self.below - 1), dtype=np.bool_)

    @property
    def places(self) -> int:
        """Digits after the point of its unit."""
        return self.figures.decimals + len(str(self.figures.weight_unit)) - 1


@bordered
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Table:
    """Cells with their figures. Private: `public_table` is published.

    Parameters
    ----------
    name : str
    aggregated : Aggregated
    measures : mapping of str to Measure
        Contributors (`count`), and each column that is added up.
    primary : ndarray of bool, shape (cells,)
        Cells that are unsafe by themselves, once a stage hid them.
    statistics : mapping of response name to OrderStatistic
        Extremes, quantiles and modes.
    like : object
        The frame that the records came from: `public` gives one of its kind.
    engine : object
        As it was given to `Aggregate.apply`.
    joint : Table, optional
        All combinations of the dimensions of the tables that it was counted with, where those need one.
    seed : Seed, optional
        Under which it was counted.
    process : mapping, optional
        What `private_table` did; all of it is public.
    """

    name: str
    aggregated: Aggregated
    measures: Mapping[str, Measure]
    primary: Bools
    statistics: Mapping[str, OrderStatistic] = field(default_factory=dict)
    like: Any = field(default=None, repr=False)
    engine: Any = field(default=None, repr=False)
    joint: Table | None = field(default=None, repr=False)
    seed: Seed | None = field(default=None, repr=False)
    process: Mapping[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, name: str, aggregated: Aggregated, like: Any = None, engine: Any = None) -> Self:
        """A table as it was counted, nothing hidden."""
        measures = {key: Measure.exact(figures) for key, figures in aggregated.figures.items()}
        none = np.zeros(len(aggregated.cells), dtype=np.bool_)
        return cls(
            name=name,
            aggregated=aggregated,
            measures=measures,
            primary=none,
            statistics=aggregated.statistics,
            like=like,
            engine=engine,
        )

    def __repr__(self) -> str:
        shape = " x ".join(str(len(dimension.labels)) for dimension in self.cells.dimensions)
        return f"Table({shape} cells, {len(self.responses)} responses)"

    def __len__(self) -> int:
        return len(self.cells)

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError("a table holds single contributions and is not pickled; keep public()")

    @property
    def cells(self) -> Cells:
        return self.aggregated.cells

    @property
    def responses(self) -> tuple[Response, ...]:
        return self.aggregated.spec.responses

    @cached_property
    def hidden(self) -> Bools:
        """Cells with a hidden figure."""
        found: Bools = np.logical_or.reduce([measure.hidden for measure in self.measures.values()])
        return found

    @cached_property
    def shown_measures(self) -> tuple[str, ...]:
        """Measures whose figures a reader sees or computes: those of its responses."""
        return tuple(dict.fromkeys(key for response in self.responses for key in measures_of(response)))

    def hiding(self, cells: Bools, primary: Bools | None = None, *, only: str | None = None) -> Self:
        """The same table with more cells hidden, in every measure or only in one.

        Raises
        ------
        UsageError
            The table has noise of differential privacy, which statements about true figures would undo.
        """
        if self.process is not None:
            raise UsageError(f"table {self.name!r} has noise of private_table; nothing is hidden by its true figures")
        measures = {
            key: replace(measure, hidden=measure.hidden | cells) if only in (None, key) else measure
            for key, measure in self.measures.items()
        }
        found = self.primary if primary is None else self.primary | primary
        return replace(self, measures=measures, primary=found)

    def hiding_statistics(self, cells: Mapping[str, Bools]) -> Self:
        """The same table with figures of extremes, quantiles and modes hidden, which no other figure gives away."""
        found = {name: self.statistics[name].hiding(mask) for name, mask in cells.items()}
        return replace(self, statistics={**self.statistics, **found})

    def public(self) -> Any:
        """What may leave once every guarantee holds, as a frame of the kind that was aggregated.

        One row per cell: the labels, and each response with its status.
        """
        return self._framed(self.public_table())

    def public_table(self) -> pa.Table:
        """The same as a pyarrow Table."""
        import pyarrow as pa

        columns: dict[str, pa.Array] = {}
        for place, dimension in enumerate(self.cells.dimensions):
            labels = pa.array(dimension.labels, pa.string())
            columns[dimension.name] = labels.take(pa.array(self.cells.codes[:, place]))
        for response in self.responses:
            if response.name in columns or f"{response.name}{STATUS_SUFFIX}" in columns:
                raise UsageError(
                    f"table {self.name!r}: two columns are called {response.name!r}; give the response another `name`"
                )
            columns[response.name], columns[f"{response.name}{STATUS_SUFFIX}"] = self._response(response)
        return pa.table(columns)

    def _response(self, response: Response) -> tuple[pa.Array, pa.Array]:
        import pyarrow as pa

        own = [self.measures[key] for key in measures_of(response)]
        changed = [measure.status for measure in self._shown() if measure.status != "published"]
        if changed and (response.ordered or response.spread):
            raise UsageError(
                f"table {self.name!r}: {response.name!r} would be published unchanged, while other figures are "
                f"{changed[0]}; publish it in a separate table that is not"
            )
        if response.ordered:
            hidden = self.statistics[response.name].hidden | self.hidden
            values = self.statistics[response.name].public(self.hidden)
        else:
            hidden = np.logical_or.reduce([measure.hidden for measure in own])
            if response.kind == "percentage":
                base = bases_of(self.cells, response)
                hidden = hidden | hidden[base]
            values = self._values(response, own, hidden)
        empty = self.measures[COUNT].figures.contributors == 0
        plain = [measure.status for measure in own if measure.status != "published"]
        status = np.where(empty & (not plain), "zero", plain[0] if plain else "published").astype(object)
        status[hidden] = HIDDEN_MARK
        if response.kind == "count":
            status[own[0].marked] = f"<{own[0].below}"
        return values, pa.array(status.tolist(), pa.string())

    def _shown(self) -> list[Measure]:
        return [self.measures[key] for key in self.shown_measures]

    def _values(self, response: Response, own: Sequence[Measure], hidden: Bools) -> pa.Array:
        """Figures that are made of sums and counts."""
        if response.kind in ("count", "sum"):
            return _decimals(own[-1].shown, own[-1].places, hidden)
        if response.kind == "percentage":
            base = own[-1].shown[bases_of(self.cells, response)]
            # What noise made of a base may be below 0, which no true one is.
            base = np.maximum(base, 0) if own[-1].status == "noisy" else base
            return _percentages(response, own[-1].shown, base, hidden)
        if response.spread:
            return _spreads(response, own, hidden)
        return _quotients(response, own, hidden)

    def private(self) -> Any:
        """Labels and public figures, and of each figure contributors, records, total and largest contributions.

        Returns
        -------
        frame
            Of the kind that was aggregated. It must not leave.
        """
        import pyarrow as pa

        columns = {name: self.public_table().column(name) for name in self.public_table().schema.names}
        for key, measure in self.measures.items():
            figures, shown = measure.figures, np.zeros(len(self), dtype=np.bool_)
            columns[f"{key}:contributors"] = pa.chunked_array([pa.array(figures.contributors)])
            columns[f"{key}:records"] = pa.chunked_array([pa.array(figures.records)])
            columns[f"{key}:total"] = pa.chunked_array([_decimals(figures.totals, measure.places, shown)])
            if not figures.counting:
                for rank, largest in enumerate(figures.largest.T, 1):
                    columns[f"{key}:largest_{rank}"] = pa.chunked_array([_decimals(largest, figures.decimals, shown)])
        return self._framed(pa.table(columns))

    def _framed(self, rows: pa.Table) -> Any:
        return room_above("running.table_frames").table_frame(rows, self.like, self.engine)

    def private_rows(self) -> list[dict[str, Any]]:
        """What is known of each suppressed figure; never for readers."""
        rows = []
        for at in np.flatnonzero(self.hidden).tolist():
            labels = {
                dimension.name: dimension.labels[code]
                for dimension, code in zip(self.cells.dimensions, self.cells.codes[at], strict=True)
            }
            for key in self.shown_measures:
                measure = self.measures[key]
                if measure.hidden[at]:
                    rows.append(
                        {
                            **labels,
                            "figure": key,
                            "value": str(_text(int(measure.figures.totals[at]), measure.places)),
                            "contributors": int(measure.figures.contributors[at]),
                            "reason": "primary" if self.primary[at] else "secondary",
                        }
                    )
        return rows


def measures_of(response: Response) -> tuple[str, ...]:
    """Keys of the measures that a response is made of; all of them are judged, and hidden together."""
    if response.ordered:
        return ()
    if response.kind == "count" or (response.kind == "percentage" and not response.columns):
        return (COUNT,)
    if response.spread:
        return (COUNT, *response.columns, squares_of(response.columns[0]))
    return (COUNT, *response.columns) if response.kind == "mean" else response.columns


def bases_of(cells: Cells, response: Response) -> Ints:
    """The cell that is 100 % for each cell: the total of some dimensions, in all cells of a table.

    Raises
    ------
    UsageError
        Something else than a dimension is named.
    """
    names = [dimension.name for dimension in cells.dimensions]
    for name in response.of:
        if name not in names:
            raise UsageError(f"response {response.name!r}: {name!r} is not a dimension; there are {', '.join(names)}")
    codes = cells.codes.copy()
    codes[:, [names.index(name) for name in response.of]] = 0
    return np.asarray(np.ravel_multi_index(tuple(codes.T), cells.shape), dtype=np.int64)


def _percentages(response: Response, part: Ints, base: Ints, hidden: Bools) -> pa.Array:
    """Percentages as decimals, rounded half to even; null where hidden or of nothing."""
    import decimal
    from fractions import Fraction

    import pyarrow as pa

    scale = decimal.Decimal(1).scaleb(-response.digits)
    factor = 100 * 10**response.digits
    values = [
        None if gone or not whole else decimal.Decimal(round(Fraction(each * factor, whole))) * scale
        for each, whole, gone in zip(part.tolist(), base.tolist(), hidden.tolist(), strict=True)
    ]
    return pa.array(values, pa.decimal128(38, response.digits))


def _spreads(response: Response, own: Sequence[Measure], hidden: Bools) -> pa.Array:
    """Variances with divisor N - 1, or their roots; null where hidden or of fewer than two."""
    import math
    from fractions import Fraction

    import pyarrow as pa

    count, total, squares = own
    unit = 10**squares.places
    values: list[float | None] = []
    for n, x, xx, gone in zip(
        count.shown.tolist(), total.shown.tolist(), squares.shown.tolist(), hidden.tolist(), strict=True
    ):
        if gone or n < 2:
            values.append(None)
            continue
        variance = float(Fraction(n * xx - x * x, n * (n - 1) * unit))
        values.append(math.sqrt(variance) if response.kind == "sd" else variance)
    return pa.array(values, pa.float64())


def _decimals(units: Ints, places: int, hidden: Bools) -> pa.Array:
    """Whole numbers, or exact decimals; null where hidden."""
    import decimal

    import pyarrow as pa

    if places == 0:
        return pa.array(np.where(hidden, 0, units), pa.int64(), mask=hidden)
    scale = decimal.Decimal(1).scaleb(-places)
    values = [
        None if gone else decimal.Decimal(unit) * scale for unit, gone in zip(units.tolist(), hidden, strict=True)
    ]
    return pa.array(values, pa.decimal128(38, places))


def _quotients(response: Response, own: Sequence[Measure], hidden: Bools) -> pa.Array:
    """Means and ratios; null where hidden or over nothing."""
    import pyarrow as pa

    above = own[-1] if response.kind == "mean" else own[0]
    below = own[0] if response.kind == "mean" else own[1]
    more = below.places - above.places
    over, under = above.shown.astype(object) * 10 ** max(more, 0), below.shown.astype(object) * 10 ** max(-more, 0)
    # Python divides integers to the nearest float.
    # What noise made of a denominator may be below 0, which no true one is.
    none = under <= 0 if below.status == "noisy" else under == 0
    values = [
        None if gone or bare else a / b
        for a, b, gone, bare in zip(over, under, hidden.tolist(), none.tolist(), strict=True)
    ]
    return pa.array(values, pa.float64())


def _text(units: int, places: int) -> str:
    if places == 0:
        return str(units)
    sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"
