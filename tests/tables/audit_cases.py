"""Audit cases of the reference figures as problems, and the exact intervals that they expect."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels
from privpipe.tables.cells import Cells, Dimension, LinkedCells, linked

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A problem in units of 1/scale, with the rows of the table at each of its variables."""

    cells: LinkedCells
    names: list[str]
    rows: list[Row]
    problem: AuditProblem
    scale: int


def fraction(value: Any) -> Fraction | None:
    return None if value is None else Fraction(value)


def case_of(case: dict[str, Any]) -> Case:
    """The problem of one case."""
    tables = [case["table"]] if "table" in case else case["tables"]
    options = case["options"]
    cells = linked([_cells(table) for table in tables])
    rows: list[Row] = [{} for _ in range(cells.size)]
    names = [""] * cells.size
    scale = 2 if options.get("prior_percent") else 1
    low = np.full(cells.size, UNBOUNDED)
    high = np.full(cells.size, UNBOUNDED)
    true = np.zeros(cells.size, dtype=np.int64)
    for table, part, variables in zip(tables, cells.tables, cells.variables, strict=True):
        for at, (values, variable) in enumerate(zip(table["cells"], variables.tolist(), strict=True)):
            row = dict(zip(table["columns"], values, strict=True))
            names[variable] = part.name(at)
            rows[variable] |= row if row["status"] == "published" or not rows[variable] else {}
            true[variable] = row["value"] * scale
            below, above = _known(row, options, scale)
            low[variable] = below if low[variable] == UNBOUNDED else max(below, low[variable])
            high[variable] = min(above, high[variable])
    sensitive = [at for at, row in enumerate(rows) if row.get("upl") is not None]
    levels = [[Fraction(rows[at][name] or 0) * scale for at in sensitive] for name in ("lpl", "upl", "spl")]
    denominator = int(np.lcm.reduce([level.denominator for part in levels for level in part] or [1]))
    lower, upper, span = (np.array([int(x * denominator) for x in part], dtype=np.int64) for part in levels)
    problem = AuditProblem(
        cells.relations,
        low,
        high,
        options["integer"],
        true,
        Levels(np.array(sensitive, dtype=np.int64), lower, upper, span, denominator),
    )
    return Case(cells, names, rows, problem, scale)


def _cells(table: dict[str, Any]) -> Cells:
    dimensions = [Dimension.tree(d["name"], d["parent"]) for d in table["dims"]]
    return Cells.labelled(dimensions, [row[: len(dimensions)] for row in table["cells"]])


def _known(row: Row, options: dict[str, Any], scale: int) -> tuple[int, int]:
    """What a reader knows of a cell before relations."""
    value = row["value"] * scale
    if row["status"] == "published":
        return value, value
    if row["status"] == "interval":
        return row["low"] * scale, UNBOUNDED if row["high"] is None else row["high"] * scale
    low = UNBOUNDED if options.get("lower") is None else options["lower"] * scale
    if (percent := options.get("prior_percent")) is None:
        return low, UNBOUNDED
    part = abs(value) * percent // 100
    return value - part if low == UNBOUNDED else max(low, value - part), value + part
