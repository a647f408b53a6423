"""Tables for entries that join class tables, and the reference figures of a file next to the project."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import Guarantee, Verdict
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.roles import Roles

__all__ = ["adult", "adult_cases", "judged", "keyed", "need_reference", "random_table"]

SHARED = Path(__file__).resolve().parents[4] / "shared"
REFERENCE = SHARED / "reference" / "anonymeter.json"
ADULT = SHARED / "data" / "uci_adult" / "adult.data"
NAMES = ("age", "workclass", "_", "_", "education_num", "marital", "occupation", "_", "race", "sex", "_", "_", "hours")
NUMBERS = ("age", "education_num", "hours")


def need_reference() -> Any:
    """Skips a test by name where the reference figures or the table they are of do not lie here."""
    absent = [path.name for path in (REFERENCE, ADULT) if not path.exists()]
    return pytest.mark.skipif(bool(absent), reason=f"not here: {', '.join(absent)}")


@cache
def _reference() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return found


def adult_cases(measure: str) -> list[dict[str, Any]]:
    """The cases of a measure; none where the file is not here."""
    return [case for case in _reference()["cases"] if case["measure"] == measure] if REFERENCE.exists() else []


@cache
def adult(data: str) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Original, release and holdout of a case."""
    with ADULT.open(encoding="utf-8") as lines:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if row][:600]
    columns: dict[str, list[Any]] = {name: [row[at] for row in rows] for at, name in enumerate(NAMES) if name != "_"}
    columns["income"] = [row[14] for row in rows]
    whole = {
        name: [None if value == "?" else int(value) if name in NUMBERS else value for value in values]
        for name, values in columns.items()
    }
    sides = [{name: values[start : start + 300] for name, values in whole.items()} for start in (0, 300)]
    released = dict(_reference()["releases"][data.removesuffix("_with_nulls")])
    tables = [sides[0], {name: list(values) for name, values in released.items()}, sides[1]]
    if data.endswith("_with_nulls"):
        for table, shift in zip(tables, (0, 3, 5), strict=True):
            for name, more in (("age", 0), ("hours", 1)):
                table[name] = [None if (i + shift + more) % 7 == 0 else value for i, value in enumerate(table[name])]
    original, shown, others = (pa.table(table) for table in tables)
    return original, shown.select(original.schema.names), others


def judged(
    engine: Engine,
    entry: Guarantee,
    original: pa.Table,
    released: pa.Table,
    *,
    seed: str = "joined",
    **rules: Any,
) -> Verdict:
    """The verdict of one entry over two tables that share no ids."""
    first, second = (engine.scan(Source(data=table)) for table in (original, released))
    ruled = JudgingRules(order=RunKey.of(Seed.insecure(seed), "", "").attacks(), **rules)
    roles = Roles(quasi_identifiers=tuple(original.schema.names))
    return assess(engine, second, guarantees=[entry], roles=roles, rules=ruled, original=first).verdicts[0]


def random_table(seed: int, rows: int) -> pa.Table:
    """A few values with nulls, texts and numbers that must not be taken for one another."""
    draw = random.Random(seed)
    return pa.table(
        {
            "town": [draw.choice(["a|b", "a", "b", None, "null", "1"]) for _ in range(rows)],
            "age": pa.array(
                [draw.choice([1.0, 2.0, float("nan"), None, -0.0, 0.0]) for _ in range(rows)], pa.float64()
            ),
            "ill": [draw.choice(["x", "y", None]) for _ in range(rows)],
        }
    )


def keyed(table: pa.Table, names: list[str]) -> Counter[tuple[Any, ...]]:
    """Rows by key, NaN as null and 1.0 as 1."""

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and value != value else value

    columns = [[plain(value) for value in table[name].to_pylist()] for name in names]
    return Counter(zip(*columns, strict=True))
