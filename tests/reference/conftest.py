"""Figures of reference tools, and the class tables of Adult to compare them with, counted in numpy."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, Facts, Histogram

SHARED = Path(__file__).resolve().parents[3] / "shared"
ABSENT = "reference figures (../shared/reference) are not next to the project"
SERVED = {
    "k-anonymity",
    "distinct-l-diversity",
    "entropy-l-diversity",
    "recursive-cl-diversity",
    "t-closeness-equal",
    "t-closeness-ordered",
    "t-closeness-hierarchical",
    "average-risk",
    "sample-uniqueness",
    "delta-disclosure",
    "k-map-estimated",
    "population-uniqueness",
    "beta-likeness-basic",
    "beta-likeness-enhanced",
}
"""Models of the reference rows that the catalogue has."""
ARX_SECTIONS = ("optimum_from_arx_tests", "optimum_generated", "loss_of_given_transformation")


@dataclass(frozen=True)
class Generalized:
    """Adult with each quasi-identifier at a level of its hierarchy, as integer codes."""

    folder: Path = field(repr=False)

    @cached_property
    def columns(self) -> dict[str, NDArray[np.str_]]:
        """The raw columns."""
        with (self.folder / "adult.csv").open(newline="") as lines:
            header, *rows = csv.reader(lines, delimiter=";")
        return {name: np.array([row[at] for row in rows]) for at, name in enumerate(header)}

    def __len__(self) -> int:
        return len(self.columns["age"])

    def levels_of(self, name: str) -> int:
        """Levels of a column's hierarchy, the raw one included."""
        return len(self._hierarchy(name)[0])

    def column(self, name: str, level: int) -> NDArray[np.str_]:
        """One column at one level."""
        if level == 0:
            return self.columns[name]
        labels = {row[0]: row[level] for row in self._hierarchy(name)}
        return np.array([labels[value] for value in self.columns[name]])

    def class_numbers(self, levels: dict[str, int]) -> NDArray[np.int64]:
        """The class of each record, numbered from 0."""
        key = np.zeros(len(self), dtype=np.int64)
        for name, level in levels.items():
            _, codes = np.unique(self.column(name, level), return_inverse=True)
            _, key = np.unique(key * (codes.max() + 1) + codes, return_inverse=True)
        return key

    def block(
        self, levels: dict[str, int], sensitive: str | None, kept: NDArray[np.bool_] | None = None
    ) -> tuple[ClassBlock, Facts]:
        """The class table with the cells of one sensitive column, and its facts, over the kept records."""
        chosen = np.ones(len(self), dtype=np.bool_) if kept is None else kept
        _, classes = np.unique(self.class_numbers(levels)[chosen], return_inverse=True)
        sizes = np.bincount(classes).astype(np.int64)
        if sensitive is None:
            return ClassBlock(sizes), Facts(records=len(classes))
        values = self.columns[sensitive][chosen]
        typed = values.astype(np.int64) if sensitive == "age" else values
        distinct, codes = np.unique(typed, return_inverse=True)
        pairs, counts = np.unique(classes * len(distinct) + codes, return_counts=True)
        per_class = np.bincount(pairs // len(distinct), minlength=len(sizes))
        offsets = np.concatenate([[0], np.cumsum(per_class)]).astype(np.int64)
        cells = Cells(offsets, (pairs % len(distinct)).astype(np.int64), counts.astype(np.int64))
        base = Histogram(pa.array(distinct.tolist()), np.bincount(codes).astype(np.int64))
        return ClassBlock(sizes, {sensitive: cells}), Facts(records=len(classes), histograms={sensitive: base})

    def _hierarchy(self, name: str) -> list[list[str]]:
        with (self.folder / f"adult_hierarchy_{name}.csv").open(newline="") as lines:
            return list(csv.reader(lines, delimiter=";"))


@pytest.fixture(scope="session")
def adult(shared: Path) -> Generalized:
    """The 30,162 complete records of Adult with their hierarchies."""
    return Generalized(shared / "data" / "adult")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each reference row a test of its own; without the figures one test that is skipped by name."""
    for fixture, rows in ROWS.items():
        if fixture in metafunc.fixturenames:
            found = rows() if (SHARED / "reference").is_dir() else []
            absent = [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT), id="absent")]
            metafunc.parametrize(fixture, found or absent)


def _read(name: str) -> Any:
    return json.loads((SHARED / "reference" / name).read_text())


def _pycanon() -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in _read("pycanon.json")["adult"]]


def _arx_raw_risk() -> list[Any]:
    rows = _read("arx.json")["estimators"]["risk_of_raw_adult"]
    return [pytest.param(row, id="-".join(row["qis"])) for row in rows]


def _arx() -> list[Any]:
    """One parameter for each row whose models are served: its transformations, each with a name."""
    found = []
    file = _read("arx.json")
    for section in ARX_SECTIONS:
        for row in file[section]:
            if any(model["type"] not in SERVED for model in row["models"]) or "not_comparable" in row:
                continue
            nodes = row.get("nodes") or [row["expected"] | row.get("by_definition", {})]
            given = {f"{row['id']}-{at}": row | {"node": n} for at, n in enumerate(nodes) if "transformation" in n}
            if given:
                found.append(pytest.param(given, id=row["id"]))
    return found


def _arx_k_map() -> list[Any]:
    """One parameter for each estimator: its rows."""
    found: dict[str, list[Any]] = {}
    for row in _read("arx.json")["estimators"]["k_map_derived_k"]:
        found.setdefault(row["estimator"], []).append(row)
    return [pytest.param(rows, id=estimator) for estimator, rows in found.items()]


def _arx_safepub() -> list[Any]:
    rows = _read("arx.json")["estimators"]["safepub_parameters"]
    return [pytest.param(row, id=f"{row['epsilon']:.3g}-{row['delta']}") for row in rows]


ROWS = {
    "pycanon_row": _pycanon,
    "arx_nodes": _arx,
    "arx_raw_risk": _arx_raw_risk,
    "arx_k_map_rows": _arx_k_map,
    "arx_safepub": _arx_safepub,
}
"""Rows of each fixture."""
