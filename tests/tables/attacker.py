"""A reader who has published files alone: how close can it get to any cell? No code of the product is used here.

Unknowns are the *atoms*, all combinations of the labels of all dimensions, and each published cell is a sum of atoms.
An integer program of SciPy gives the ends of any population.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.optimize import Bounds, LinearConstraint, milp

Labels = tuple[str, ...]
MOST = 1e6
"""More than any figure of the tests: a population without a bound reaches it."""
Tree = Mapping[str, str]
"""The label above each label; of the highest the total."""


@dataclass(frozen=True)
class Published:
    """One response of one published table.

    Parameters
    ----------
    dims : tuple of str
    figures : mapping of labels to a figure, None where it is blank
    only : mapping of str to str
        The population that the title of the table names.
    base : int
        Figures are rounded to multiples of it, halves up; 1: exact.
    reach : int
        How far a figure may be from the true one where rounding is controlled; 0: see `base`.
    """

    dims: tuple[str, ...]
    figures: Mapping[Labels, int | None]
    only: Mapping[str, str] = field(default_factory=dict)
    base: int = 1
    reach: int = 0

    def interval(self, figure: int) -> tuple[int, int]:
        if self.reach:
            return max(figure - self.reach, 0), figure + self.reach
        return max(figure - self.base // 2, 0), figure + (self.base + 1) // 2 - 1


def read(file: Path, dims: Sequence[str], response: str) -> dict[Labels, int | None]:
    """Figures of a file; a blank is a null or an empty field."""
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as text:
            rows: list[dict[str, object]] = [dict(row) for row in csv.DictReader(text)]
    else:
        rows = pq.read_table(file).to_pylist()
    found: dict[Labels, int | None] = {}
    for row in rows:
        figure = row[response]
        blank = figure is None or figure == ""
        assert (row[f"{response}_status"] == "c") == blank
        labels = tuple(str(row[name]) for name in dims)
        assert labels not in found
        found[labels] = None if blank else int(str(figure))
    return found


@dataclass(frozen=True)
class Attacker:
    """What all files of one measure show together.

    Parameters
    ----------
    tables : sequence of Published
    trees : mapping of dimension to Tree
    known : mapping of atoms to their sum
        What the attacker knows beforehand.
    whole : bool
        Whether figures are whole numbers.
    """

    tables: Sequence[Published]
    trees: Mapping[str, Tree]
    total: str = "Total"
    known: Mapping[frozenset[int], int] = field(default_factory=dict)
    whole: bool = True

    @cached_property
    def dims(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for table in self.tables for name in (*table.dims, *table.only)))

    @cached_property
    def atoms(self) -> list[Labels]:
        seen = self._labels
        inner = [sorted(seen[name] - set(self.trees[name].values()) - {self.total}) for name in self.dims]
        return list(product(*inner))

    @cached_property
    def _labels(self) -> dict[str, set[str]]:
        """Labels that some table has; a label without a row has no record."""
        found: dict[str, set[str]] = {name: set() for name in self.dims}
        for table in self.tables:
            for labels in table.figures:
                for name, label in zip(table.dims, labels, strict=True):
                    found[name].add(label)
            for name, label in table.only.items():
                found[name] |= {label, *(each for each in self.trees[name] if each not in self.trees[name].values())}
        return found

    def population(self, dims: Sequence[str], labels: Labels, only: Mapping[str, str]) -> frozenset[int]:
        """The atoms of a cell."""
        wanted = {**dict(zip(dims, labels, strict=True)), **only}
        return frozenset(
            at
            for at, atom in enumerate(self.atoms)
            if all(
                wanted.get(name, self.total) in self._above(name, label)
                for name, label in zip(self.dims, atom, strict=True)
            )
        )

    def _above(self, name: str, label: str) -> set[str]:
        found = {label}
        while label in self.trees[name]:
            label = self.trees[name][label]
            found.add(label)
        return found

    def cells(self) -> Iterator[tuple[Published, Labels, frozenset[int], int | None]]:
        for table in self.tables:
            for labels, figure in table.figures.items():
                yield table, labels, self.population(table.dims, labels, table.only), figure

    @cached_property
    def _programme(self) -> tuple[LinearConstraint, Bounds]:
        rows, low, high = [], [], []
        for table, _, population, figure in self.cells():
            if figure is not None:
                rows.append([float(at in population) for at in range(len(self.atoms))])
                ends = table.interval(figure)
                low.append(ends[0])
                high.append(ends[1])
        for population, figure in self.known.items():
            rows.append([float(at in population) for at in range(len(self.atoms))])
            low.append(figure)
            high.append(figure)
        return LinearConstraint(np.array(rows), low, high), Bounds(0, MOST)

    def ends(self, population: frozenset[int]) -> tuple[float, float]:
        """The least and the greatest sum of some atoms."""
        constraint, bounds = self._programme
        found = []
        for sign in (1, -1):
            target = np.array([sign * float(at in population) for at in range(len(self.atoms))])
            solved = milp(target, constraints=constraint, bounds=bounds, integrality=int(self.whole))
            assert solved.status == 0, solved.message
            value = sign * solved.fun
            found.append(round(value) if self.whole else value)
        return found[0], found[1]

    def blanks(self) -> dict[tuple[int, Labels], frozenset[int]]:
        """Blank cells by table, and their atoms."""
        number = {id(table): at for at, table in enumerate(self.tables)}
        return {
            (number[id(table)], labels): population
            for table, labels, population, figure in self.cells()
            if figure is None
        }

    def differences(self) -> dict[frozenset[int], int]:
        """What is left of each published cell without another one that is inside it."""
        exact = {p: figure for table, _, p, figure in self.cells() if figure is not None and table.base == 1}
        return {
            one ^ other: abs(a - b)
            for (one, a), (other, b) in combinations(exact.items(), 2)
            if other < one or one < other
        }

    def rests(self) -> dict[frozenset[int], int]:
        """What the blank parts of each published cell have together, along one dimension."""
        found = {}
        for table in self.tables:
            if table.base == 1:
                found |= self._rests(table)
        return found

    def _rests(self, table: Published) -> dict[frozenset[int], int]:
        found = {}
        for labels, figure in table.figures.items():
            for place, name in enumerate(table.dims):
                parts = [part for part, above in self.trees[name].items() if above == labels[place]]
                if figure is None or not parts:
                    continue
                cells = [(*labels[:place], part, *labels[place + 1 :]) for part in parts]
                cells = [cell for cell in cells if cell in table.figures]
                blank = [cell for cell in cells if table.figures[cell] is None]
                rest = figure - sum(table.figures[cell] or 0 for cell in cells)
                if blank:
                    atoms = [self.population(table.dims, cell, table.only) for cell in blank]
                    found[frozenset[int]().union(*atoms)] = rest
        return found
