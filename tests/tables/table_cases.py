"""Cases of the reference figures for tables, and figures of cells written from contributions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privpipe.tables.aggregates import CellFigures
from privpipe.tables.cells import Cells, Dimension

FILE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "tables.json"
ABSENT = "reference figures (../shared/reference) are not next to the project"


def cases(*kinds: str) -> Any:
    """A parameter for each case of these kinds; without the figures one that is skipped by name."""
    if not FILE.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT), id="absent")]
    found = json.loads(FILE.read_text())["cases"]
    return [pytest.param(case, id=case["id"]) for case in found if case["kind"] in kinds]


def row_of_cells(number: int) -> Cells:
    """So many cells of one flat dimension (the total among them)."""
    labels = {f"c{at:04}": "Total" for at in range(1, max(number, 2))}
    whole = Cells.complete([Dimension.tree("cell", labels)])
    return Cells(whole.dimensions, whole.codes[:number])


def figures_of(cells: Sequence[Sequence[Sequence[Any]]], *, response: str = "value", **more: Any) -> CellFigures:
    """Figures of cells whose contributions are written as [value], [value, weight] or [value, weight, contributor]."""
    codes: dict[Any, int] = {}
    plain, weights = [], []
    for cell in cells:
        own, given = [], []
        for at, contribution in enumerate(cell):
            who = contribution[2] if len(contribution) > 2 else (len(plain), at)
            own.append((contribution[0], codes.setdefault(who, len(codes) + 1)))
            given.append(Fraction(str(contribution[1])) if len(contribution) > 1 else Fraction(1))
        plain.append(own)
        weights.append(given)
    found = CellFigures.of_contributions(row_of_cells(len(cells)), plain, response=response, **more)
    if all(weight == 1 for given in weights for weight in given):
        return found
    return with_weights(found, plain, weights)


def with_weights(
    figures: CellFigures, cells: Sequence[Sequence[tuple[int, int]]], weights: Sequence[Sequence[Fraction]]
) -> CellFigures:
    """The same figures with totals of weight times value."""
    from dataclasses import replace

    unit = 1
    for each in {weight.denominator for given in weights for weight in given}:
        unit = unit * each // np.gcd(unit, each)
    totals = np.zeros(len(cells), dtype=np.int64)
    population = np.zeros(len(cells), dtype=np.int64)
    weighted = np.zeros_like(figures.largest)
    for at, (cell, given) in enumerate(zip(cells, weights, strict=True)):
        products: dict[int, int] = {}
        for (value, who), weight in zip(cell, given, strict=True):
            products[who] = products.get(who, 0) + int(value * weight * unit)
            population[at] += int(weight * unit)
        totals[at] = sum(products.values())
        for place, who in enumerate(figures.holders[at]):
            weighted[at, place] = products[int(who)] if who else 0
    return replace(
        figures, totals=totals, magnitudes=totals, weighted=weighted, weight_unit=int(unit), population=population
    )
