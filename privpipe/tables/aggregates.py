"""Figures of the cells of a table: who contributed to each, and how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError, UsageError
from privpipe.tables.cells import Cells

__all__ = ["CellFigures", "exact", "pattern_mask", "rational", "times"]

LARGEST = np.iinfo(np.int64).max


def rational(value: object, what: str) -> Fraction:
    """A threshold as the rational number of its decimal text.

    Raises
    ------
    UsageError
        It is not a finite number.

    Examples
    --------
    >>> rational(0.1, "p"), rational("1000/11", "k"), rational(3, "n")
    (Fraction(1, 10), Fraction(1000, 11), Fraction(3, 1))
    """
    if isinstance(value, bool):
        raise UsageError(f"{what} must be a number, not a truth value")
    try:
        return Fraction(value if isinstance(value, int | Fraction) else str(value))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{what} must be a number, got {value!r}") from None


def exact(array: NDArray[np.int64], factor: int = 1, terms: int = 8) -> NDArray[np.int64] | NDArray[np.object_]:
    """An array times a factor, as int64 where `terms` such products can be added without overflow, else as integers.

    Examples
    --------
    >>> exact(np.array([2, 3]), 10).tolist(), exact(np.array([2**60]), 10).tolist()
    ([20, 30], [11529215046068469760])
    """
    most = max(abs(int(array.max(initial=0))), abs(int(array.min(initial=0))))
    if array.dtype == np.int64 and most * abs(factor) * terms <= LARGEST:
        return array * np.int64(factor)
    return array.astype(object) * factor


def times(left: NDArray[np.int64], right: NDArray[np.int64], terms: int = 8) -> NDArray[np.int64] | NDArray[np.object_]:
    """The products of two arrays, as `exact` gives them.

    Examples
    --------
    >>> times(np.array([2, 3]), np.array([5, 7])).tolist()
    [10, 21]
    """
    most = max(abs(int(right.max(initial=0))), abs(int(right.min(initial=0))))
    found = exact(left, most, terms)
    return left * right if found.dtype == np.int64 else left.astype(object) * right


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CellFigures:
    """One response of a table, cell by cell. Private: it holds single contributions.

    Parameters
    ----------
    cells : Cells
    response : str
        Name of the response.
    contributors : ndarray of int64, shape (cells,)
        Contributors with a value, each once.
    records : ndarray of int64, shape (cells,)
    totals : ndarray of int64, shape (cells,)
        Sum of contributions in units of 10^-decimals / weight_unit; of a count the contributors, or their weights.
    largest : ndarray of int64, shape (cells, m)
        The m largest absolute contributions (one per contributor) without zeros and without weights, falling, 0 where
        there are fewer; in units of 10^-decimals.
    holders : ndarray of int64, shape (cells, m)
        Keyed codes of their contributors; 0 where contributors are records or there are fewer.
    negative, nonzero : ndarray of int64, shape (cells,)
        Contributions below 0, and other than 0.
    single : ndarray of int64, shape (cells,)
        Code of the only contributor; 0 where there is not exactly one. Records alone in one leaf cell share a code
        with that cell's totals.
    magnitudes : ndarray of int64, shape (cells,)
        Sum of absolute contributions, in the unit of `totals`.
    decimals : int
    weighted : ndarray of int64, shape (cells, m), optional
        Weight times value of the largest contributions, in the unit of `totals`.
    weight_unit : int
        Number of units in a weight of 1.
    population : ndarray of int64, shape (cells,), optional
        Sums of weights in 1/weight_unit.
    unwaived : ndarray of int64, shape (cells,), optional
        Largest absolute contribution without a waiver; -1 where all have one.
    additive : bool
        Whether contributors add up along dimensions: each is in one leaf cell.
    persons : bool
        Whether contributors are persons (or holdings) that may have several records.
    counting : bool
        Whether the response is the number of contributors.
    squares : bool
        Whether `totals` are sums of squares.
    others : mapping of column to CellFigures
        The same response with the values of a column as contributors, for rules about holdings.
    """

    cells: Cells
    response: str
    contributors: Ints
    records: Ints
    totals: Ints
    largest: Ints
    holders: Ints
    negative: Ints
    nonzero: Ints
    single: Ints
    magnitudes: Ints
    decimals: int = 0
    weighted: Ints | None = None
    weight_unit: int = 1
    population: Ints | None = None
    unwaived: Ints | None = None
    additive: bool = True
    persons: bool = False
    counting: bool = False
    squares: bool = False
    others: Mapping[str, CellFigures] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"CellFigures({self.response!r}, {len(self)} cells)"

    def __len__(self) -> int:
        return len(self.cells)

    def require(self, number: int) -> None:
        """Refuse a rule that needs more of the largest contributions than were kept."""
        kept = self.largest.shape[1]
        if number > kept and bool((self.nonzero > kept).any()):
            raise DataError(
                f"response {self.response!r}: the {kept} largest contributions of each cell were kept, and a rule "
                f"needs {number}; aggregate with `largest: {number}` or more"
            )

    def taken(self, places: NDArray[np.int64]) -> CellFigures:
        """The figures of some cells."""
        arrays: dict[str, Any] = {}
        for name in (*PER_CELL, "largest", "holders", "weighted", "population", "unwaived"):
            found = getattr(self, name)
            if found is not None:
                arrays[name] = found[places]
        cells = Cells(self.cells.dimensions, self.cells.codes[places], self.cells.only)
        others = {column: other.taken(places) for column, other in self.others.items()}
        return replace(self, cells=cells, others=others, **arrays)

    def counted_by(self, column: str, other: CellFigures) -> CellFigures:
        """With what rules on the values of a column see: their contributions to the published cells."""
        seen = replace(other, totals=self.totals, counting=False)
        if self.counting:
            seen = replace(seen, magnitudes=self.magnitudes)
        return replace(self, others={**self.others, column: seen})

    @classmethod
    def of_contributions(
        cls,
        cells: Cells,
        contributions: Sequence[Sequence[tuple[int, int]]],
        *,
        response: str = "value",
        largest: int = 10,
        decimals: int = 0,
    ) -> CellFigures:
        """Figures of cells whose contributions are at hand: (value, contributor) pairs, one or more per contributor.

        Examples
        --------
        >>> from privpipe.tables.cells import Dimension
        >>> cells = Cells.complete([Dimension.tree("region", {"North": "Total"})])
        >>> found = CellFigures.of_contributions(cells, [[(5, 1), (5, 2)], [(5, 1), (5, 2)]])
        >>> found.totals.tolist(), found.contributors.tolist()
        ([10, 10], [2, 2])
        """
        number = len(cells)
        plain: dict[str, Any] = {name: np.zeros(number, dtype=np.int64) for name in PER_CELL}
        values = np.zeros((number, largest), dtype=np.int64)
        holders = np.zeros((number, largest), dtype=np.int64)
        for at, given in enumerate(contributions):
            own: dict[int, int] = {}
            for value, contributor in given:
                own[contributor] = own.get(contributor, 0) + value
            ranked = sorted(((abs(value), code) for code, value in own.items() if value), key=lambda x: (-x[0], x[1]))
            plain["contributors"][at], plain["records"][at] = len(own), len(given)
            plain["totals"][at] = sum(own.values())
            plain["magnitudes"][at] = sum(map(abs, own.values()))
            plain["negative"][at] = sum(value < 0 for value in own.values())
            plain["nonzero"][at] = len(ranked)
            plain["single"][at] = next(iter(own)) if len(own) == 1 else 0
            for place, (value, code) in enumerate(ranked[:largest]):
                values[at, place], holders[at, place] = value, code
        return cls(cells=cells, response=response, largest=values, holders=holders, decimals=decimals, **plain)


PER_CELL = ("contributors", "records", "totals", "magnitudes", "negative", "nonzero", "single")


def pattern_mask(cells: Cells, patterns: Sequence[Mapping[str, str]], what: str) -> NDArray[np.bool_]:
    """Cells that have the labels of one of some patterns, or are below them.

    Raises
    ------
    UsageError
        A pattern names a column or label that the table does not have.
    """
    found = np.zeros(len(cells), dtype=np.bool_)
    names = [dimension.name for dimension in cells.dimensions]
    for pattern in patterns:
        inside = np.ones(len(cells), dtype=np.bool_)
        for column, label in pattern.items():
            if column not in names:
                raise UsageError(f"{what}: {column!r} is not a dimension of the table; it has {', '.join(names)}")
            dimension = cells.dimensions[names.index(column)]
            if label not in dimension.codes:
                raise UsageError(f"{what}: dimension {column!r} has no such label as the one written there")
            below = np.zeros(len(dimension.labels), dtype=np.bool_)
            below[dimension.codes[label]] = True
            for code, parent in enumerate(dimension.parent):
                if parent >= 0 and below[parent]:
                    below[code] = True
            inside &= below[cells.codes[:, names.index(column)]]
        found |= inside
    return found
