"""Reference figures of the attacks, and the tables they are of, which lie next to the project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

NAMES = {
    "age": 0,
    "workclass": 1,
    "education_num": 4,
    "marital": 5,
    "occupation": 6,
    "race": 8,
    "sex": 9,
    "hours": 12,
    "income": 14,
}
NUMBERS = ("age", "education_num", "hours")


@pytest.fixture(scope="session")
def figures(shared: Path) -> dict[str, Any]:
    """The document of reference figures."""
    path = shared / "reference" / "anonymeter.json"
    if not path.is_file() or not (shared / "data" / "uci_adult" / "adult.data").is_file():
        pytest.skip("anonymeter.json or uci_adult/adult.data is not among the reference data")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def tables(figures: dict[str, Any], shared: Path) -> Callable[[str], tuple[pa.Table, pa.Table, pa.Table]]:
    """Original, release and holdout by the name that a case gives."""
    lines = (shared / "data" / "uci_adult" / "adult.data").read_text().splitlines()[:600]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]

    def table(of: list[list[str]]) -> pa.Table:
        def cell(name: str, text: str) -> Any:
            return None if text == "?" else int(text) if name in NUMBERS else text

        return pa.table({name: [cell(name, row[at]) for row in of] for name, at in NAMES.items()})

    whole = table(rows[:300]), pa.table(figures["releases"]["synthesize"]), table(rows[300:])

    def of(name: str) -> tuple[pa.Table, pa.Table, pa.Table]:
        if name == "synthesize":
            return whole
        blanked = [_with_nulls(each, shift) for each, shift in zip(whole, (0, 3, 5), strict=True)]
        return blanked[0], blanked[1], blanked[2]

    return of


def _with_nulls(table: pa.Table, shift: int) -> pa.Table:
    columns = table.to_pydict()
    for at in range(table.num_rows):
        if (at + shift) % 7 == 0:
            columns["age"][at] = None
        if (at + shift + 1) % 7 == 0:
            columns["hours"][at] = None
    return pa.table(columns)
