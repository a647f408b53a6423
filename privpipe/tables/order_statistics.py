"""Extremes, quantiles and modes of cells: from few contributions around their ranks, and where they may be published.

The value of one contributor is never published: an extreme or mode needs n contributors that have it, a quantile is the
mean of n or is rounded so that n contributors round to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks.aggregate_query import Ranks
from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError, UsageError
from privpipe.tables.cells import Cells
from privpipe.tables.responses import Response

__all__ = ["OrderStatistic", "RankedValues", "ranks_of", "require_units"]


def ranks_of(response: Response, around: int) -> Ranks:
    """The ranks that a response is made of; of a rounded quantile `around` on both sides.

    Examples
    --------
    >>> ranks_of(Response.read({"quantile": "cost", "q": 0.5, "smoothed": 3}), 10).start(11)
    4
    >>> ranks_of(Response.read({"quantile": "cost", "q": 0.5, "unit": 10}), 2).start(11)
    4
    """
    if response.q is None:
        kinds: Any = {"minimum": "first", "maximum": "last", "mode": "commonest"}
        return Ranks(kind=kinds[response.kind])
    above, below = response.q.numerator, response.q.denominator
    if response.smoothed is not None:
        # The window whose middle is nearest to q (N - 1).
        offset = below * (2 - response.smoothed)
        return Ranks(kind="window", numerator=2 * above, offset=offset, denominator=2 * below, width=response.smoothed)
    return Ranks(kind="window", numerator=above, offset=below * (1 - around), denominator=below, width=2 * around)


@dataclass(frozen=True, repr=False, eq=False)
class RankedValues:
    """Distinct values of cells around wanted ranks, sorted by cell and value.

    Parameters
    ----------
    cell : ndarray of int64
        Position of the cell of each.
    value, number, before, present : ndarray of int64
        As `Engine.ranked` gives them.
    """

    cell: Ints
    value: Ints
    number: Ints
    before: Ints
    present: Ints

    @classmethod
    def of(cls, parts: Sequence[tuple[pa.Table, Ints]]) -> RankedValues:
        """Of the tables that an engine gave, each with the cells of its rows."""
        arrays = [np.concatenate([cell for _found, cell in parts])]
        for name in ("value", "number", "before", "present"):
            columns = [np.asarray(found.column(name).to_numpy(), dtype=np.int64) for found, _cell in parts]
            arrays.append(np.concatenate(columns))
        order = np.lexsort((arrays[1], arrays[0]))
        return cls(*(each[order] for each in arrays))

    def chosen(self, mask: Bools) -> RankedValues:
        """Some of them."""
        arrays = (self.cell, self.value, self.number, self.before, self.present)
        return RankedValues(*(each[mask] for each in arrays))

    def commonest(self) -> RankedValues:
        """Of each cell the least of the commonest values."""
        order = np.lexsort((self.value, -self.number, self.cell))
        first = np.zeros(len(self.cell), dtype=np.bool_)
        first[order[np.flatnonzero(np.diff(self.cell[order], prepend=-1))]] = True
        return self.chosen(first)

    def windows(self, ranks: Ranks) -> Iterator[tuple[int, int, int, list[tuple[int, int, int]]]]:
        """Cell, contributors, first rank of the window, and its values with how many are inside it and before them."""
        starts = np.flatnonzero(np.diff(self.cell, prepend=-1))
        ends = np.append(starts[1:], len(self.cell))
        rows = list(zip(self.value.tolist(), self.number.tolist(), self.before.tolist(), strict=True))
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            present = int(self.present[first])
            start = ranks.start(present)
            inside = []
            for value, number, before in rows[first:last]:
                number = min(before + number, start + ranks.width) - max(before, start)
                if number > 0:
                    inside.append((value, number, before))
            yield int(self.cell[first]), present, start, inside


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OrderStatistic:
    """One response that is the figure of contributors in their order, cell by cell. Private.

    Parameters
    ----------
    response : Response
    cells : Cells
    decimals : int
        Of the unit of values.
    values : ndarray of object, shape (cells,)
        The figure in that unit: integers or rationals; None where no contributor has a value.
    present : ndarray of int64, shape (cells,)
        Contributors with a value.
    sharing : ndarray of int64, shape (cells,)
        Contributors that have the extreme or mode, round to the quantile, or are in its mean; never more than are, and
        of rounded quantiles no more than `around` on each side.
    below : ndarray of int64, shape (cells,)
        Contributors with less than a quantile.
    around : int
    hidden : ndarray of bool, shape (cells,)
    """

    response: Response
    cells: Cells
    decimals: int
    values: NDArray[np.object_]
    present: Ints
    sharing: Ints
    below: Ints
    around: int
    hidden: Bools

    def __repr__(self) -> str:
        return f"OrderStatistic({self.response.name!r}, {len(self.cells)} cells)"

    @classmethod
    def of(
        cls,
        response: Response,
        cells: Cells,
        found: RankedValues,
        decimals: int,
        around: int,
        rivals: Sequence[Response] = (),
    ) -> OrderStatistic:
        """From the values that an engine gave.

        Parameters
        ----------
        rivals : sequence of Response
            Other smoothed quantiles of the column that are published: means of windows that overlap would give single
            values by their difference, so the later one is hidden there.

        Raises
        ------
        UsageError
            The quantile's unit is finer than the column's.
        """
        arrays = [np.zeros(len(cells), dtype=np.int64) for _ in range(3)]
        none = np.zeros(len(cells), dtype=np.bool_)
        values = np.full(len(cells), None, dtype=object)
        present, sharing, below = arrays
        made = cls(
            response=response,
            cells=cells,
            decimals=decimals,
            values=values,
            present=present,
            sharing=sharing,
            below=below,
            around=around,
            hidden=none,
        )
        if response.q is None:
            rows = {
                "minimum": lambda: found.chosen(found.before == 0),
                "maximum": lambda: found.chosen(found.before + found.number == found.present),
                "mode": found.commonest,
            }[response.kind]()
            present[rows.cell], sharing[rows.cell] = rows.present, rows.number
            values[rows.cell] = rows.value.astype(object)
            return made
        ranks = ranks_of(response, around)
        earlier = [ranks_of(each, around) for each in rivals]
        for cell, number, start, inside in found.windows(ranks):
            present[cell] = number
            if response.smoothed is not None:
                figure = made._mean(number, start, inside, ranks, earlier)
            else:
                figure = made._rounded(number, inside)
            values[cell], sharing[cell], below[cell] = figure
        return made

    def _mean(
        self,
        number: int,
        start: int,
        inside: Sequence[tuple[int, int, int]],
        ranks: Ranks,
        earlier: Sequence[Ranks],
    ) -> tuple[Fraction | None, int, int]:
        """Mean of the window, how many are in it, and how many have less than the mean."""
        held = sum(count for _value, count, _before in inside)
        if held < ranks.width:
            return None, 0, 0
        mean = Fraction(sum(value * count for value, count, _before in inside), held)
        below = next(before for value, _count, before in inside if value >= mean)
        for each in earlier:
            other = each.start(number)
            same = start == other and each.width == ranks.width
            if not (same or start + ranks.width <= other or other + each.width <= start):
                return mean, 0, below
        return mean, held, below

    def _rounded(self, number: int, inside: Sequence[tuple[int, int, int]]) -> tuple[Fraction, int, int]:
        """The quantile rounded, how many of those around it round to the same, and how many have less than it."""
        assert self.response.q is not None and self.response.unit is not None  # noqa: PT018 - it is rounded
        unit = self.response.unit * 10**self.decimals
        rank = self.response.q * (number - 1)
        low, rest = rank.numerator // rank.denominator, rank % 1
        at = {"low": 0, "high": 0}
        for value, _count, before in inside:
            if before <= low:
                at["low"] = value
            if before <= low + 1:
                at["high"] = value
        exact = at["low"] + rest * (at["high"] - at["low"])
        published = ((exact / unit + Fraction(1, 2)) // 1) * unit
        near = sum(count for value, count, _before in inside if published - unit / 2 <= value < published + unit / 2)
        below = next((before for value, _count, before in inside if value >= exact), number)
        return Fraction(published), near, below

    def unsafe(self, at_least: int) -> Bools:
        """Cells whose figure must not be published where `at_least` contributors are demanded.

        Raises
        ------
        DataError
            Fewer contributions around a quantile were kept.
        """
        if self.response.unit is not None and at_least > self.around:
            raise DataError(
                f"response {self.response.name!r}: {self.around} contributions on each side of the quantile were kept, "
                f"and minimum_frequency needs {at_least}; give the guarantee to `aggregate` too"
            )
        found: Bools = self.sharing < at_least
        if self.response.q is not None:
            found = found | (self.below < at_least) | (self.present - self.below < at_least)
        if self.response.structural is not None:
            found = found & ~self._structural(at_least)
        return found & (self.present > 0)

    def _structural(self, at_least: int) -> Bools:
        """Cells whose extreme is its bound by definition, and no small cell below has it.

        A reader who sees the bound in a total, and less in all other parts, would know that the small cell has it.
        """
        assert self.response.structural is not None
        bound = self.response.structural * 10**self.decimals
        reached = np.array([value is not None and value == bound for value in self.values], dtype=np.bool_)
        small = (reached & (self.present < at_least)).reshape(tuple(len(each.labels) for each in self.cells.dimensions))
        for axis, dimension in enumerate(self.cells.dimensions):
            along = np.moveaxis(small, axis, 0)
            for code in range(len(dimension.labels) - 1, 0, -1):
                along[dimension.parent[code]] |= along[code]
        return reached & ~small.reshape(-1)

    def hiding(self, cells: Bools) -> OrderStatistic:
        """The same with more cells hidden."""
        return replace(self, hidden=self.hidden | cells)

    def public(self, hidden: Bools) -> pa.Array:
        """The figures as they leave; null where hidden or without a contributor."""
        import decimal

        gone = (self.hidden | hidden).tolist()
        shown = [None if away else value for value, away in zip(self.values.tolist(), gone, strict=True)]
        if self.response.q is not None:
            unit = 10**self.decimals
            return pa.array([None if value is None else float(value / unit) for value in shown], pa.float64())
        if not self.decimals:
            return pa.array(shown, pa.int64())
        scale = decimal.Decimal(1).scaleb(-self.decimals)
        decimals = [None if value is None else decimal.Decimal(value) * scale for value in shown]
        return pa.array(decimals, pa.decimal128(38, self.decimals))


def require_units(response: Response, decimals: int) -> None:
    """Refuse a unit that is not a multiple of that of its column.

    Raises
    ------
    UsageError
    """
    if response.unit is not None and (response.unit * 10**decimals).denominator > 1:
        raise UsageError(
            f"response {response.name!r}: unit is finer than the {decimals} decimals of column "
            f"{response.columns[0]!r}; give a multiple of 10^-{decimals}"
        )
