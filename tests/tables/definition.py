"""Cells of a table by their definition, record by record in Python, to compare engines with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from privpipe.tables.cells import Cells


@dataclass
class Cell:
    """What contributors of one cell contributed: by contributor the records, and the value and weighted value."""

    records: dict[Any, int] = field(default_factory=dict)
    values: dict[Any, int] = field(default_factory=dict)
    products: dict[Any, int] = field(default_factory=dict)

    def largest(self, number: int) -> list[int]:
        return (sorted((abs(value) for value in self.values.values() if value), reverse=True) + [0] * number)[:number]


def in_unit(value: Any, decimals: int) -> int:
    """The exact value in units, rounded half to even."""
    return round(Fraction(value) * 10**decimals)


def cells_by_definition(
    cells: Cells,
    rows: Sequence[Mapping[str, Any]],
    label: Mapping[str, Any],
    column: str | None,
    *,
    person: str | None = None,
    decimals: int = 0,
    weight: str | None = None,
) -> list[Cell]:
    """Each cell of a table: `label` maps a dimension and a raw value to its labels from the leaf up, total left out."""
    found = []
    for codes in cells.codes:
        wanted = [dimension.labels[code] for dimension, code in zip(cells.dimensions, codes, strict=True)]
        cell = Cell()
        for at, row in enumerate(rows):
            inside = all(
                code == 0 or text in label[dimension.name](row[dimension.name])
                for dimension, code, text in zip(cells.dimensions, codes, wanted, strict=True)
            )
            if not inside:
                continue
            who = at if person is None else row[person]
            cell.records[who] = cell.records.get(who, 0) + 1
            if column is not None and row[column] is not None:
                value = in_unit(row[column], decimals)
                cell.values[who] = cell.values.get(who, 0) + value
                if weight is not None:
                    cell.products[who] = cell.products.get(who, 0) + value * row[weight]
        found.append(cell)
    return found
