"""Hostile tables, and how they reach an engine: as several Parquet files, one of them empty, perhaps shuffled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.engines import Engine, Source

Row = dict[str, Any]
NAN = float("nan")


@dataclass(frozen=True)
class Hostile:
    """A table with the keys and the sensitive columns it is judged by."""

    rows: pa.Table
    keys: tuple[str, ...]
    columns: tuple[str, ...]

    def text(self, name: str) -> bool:
        """Whether a column holds text."""
        kind = self.rows.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)

    @property
    def plain(self) -> list[Row]:
        """Rows with NaN as None and -0.0 as 0.0: what counting sees."""
        return [{name: counted(value) for name, value in row.items()} for row in self.rows.to_pylist()]


def counted(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


def multiset(table: pa.Table) -> Counter[Any]:
    """Rows as counting sees them, in no order."""
    return Counter(tuple((name, counted(value)) for name, value in row.items()) for row in table.to_pylist())


def repeated(seed: int, n: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "zip": pa.array(rng.choice(["4711", "4712", "4713", "*"], n)),
            "age": pa.array(rng.integers(20, 24, n)),
            "ill": pa.array(rng.choice(["flu", "hiv", "ulcer"], n), mask=rng.random(n) < 0.1),
            "pay": pa.array(rng.choice([0.0, -0.0, 1.5, NAN], n)),
            "who": pa.array([f"p{i}" for i in rng.integers(0, n // 2 + 1, n)]),
            "wt": pa.array(rng.choice([0.1, 0.2, 0.7], n)),
        }
    )


TABLES = {
    "ordinary": Hostile(repeated(1, 200), ("zip", "age"), ("ill", "pay")),
    "one record": Hostile(repeated(2, 1), ("zip", "age"), ("ill", "pay")),
    "empty": Hostile(repeated(3, 1).slice(0, 0), ("zip", "age"), ("ill", "pay")),
    "no keys": Hostile(repeated(4, 50), (), ("ill",)),
    "no sensitive column": Hostile(repeated(5, 50), ("zip", "pay"), ()),
    "a key that is sensitive too": Hostile(repeated(6, 50), ("zip", "ill"), ("ill", "age")),
    "null keys": Hostile(
        pa.table(
            {
                "a": pa.array([None, "x", None, "x", None, ""], pa.string()),
                "b": pa.array(["x", None, None, None, None, ""], pa.string()),
                "ill": pa.array([None, "u", "u", None, "v", "u"]),
            }
        ),
        ("a", "b"),
        ("ill",),
    ),
    "all keys null": Hostile(
        pa.table({"a": pa.nulls(4, pa.int64()), "ill": pa.array(["u", "u", "v", None])}), ("a",), ("ill",)
    ),
    "floats": Hostile(
        pa.table(
            {
                "x": pa.array([0.0, -0.0, NAN, None, 1e308, 5e-324, 0.1, 0.1]),
                "ill": pa.array([NAN, None, 0.0, -0.0, 1.0, 2.0, 3.0, 3.0]),
            }
        ),
        ("x",),
        ("ill",),
    ),
    "categories": Hostile(
        pa.table(
            {
                "a": pa.DictionaryArray.from_arrays([0, 2, None, 0], ["x", "unused", "y"]),
                "ill": pa.DictionaryArray.from_arrays([1, 1, 1, None], ["never", "u"]),
            }
        ),
        ("a",),
        ("ill",),
    ),
    "unicode": Hostile(
        pa.table(
            {
                'naïve "col"; \'': pa.array(["é", "e\u0301", "NY", "ny", "NY ", "\U0001f600", "é", "\n,"]),
                "größe": pa.array(["ß", "ss", "SS", None, "ẞ", "ß", "ß", "\t"]),
            }
        ),
        ('naïve "col"; \'',),
        ("größe",),
    ),
    "wide integers": Hostile(
        pa.table(
            {
                "n": pa.array([2**53, 2**53 + 1, None, -(2**63), 2**63 - 1, 2**53 + 1], pa.int64()),
                "ill": pa.array([2**62, 2**62 + 1, 2**62, None, 1, 2**62 + 1], pa.int64()),
            }
        ),
        ("n",),
        ("ill",),
    ),
    "other types": Hostile(
        pa.table(
            {
                "d": pa.array([19000, 19000, None, 0], pa.int32()).cast(pa.date32()),
                "t": pa.array([1, 1, 1, None], pa.int64()).cast(pa.timestamp("us")),
                "m": pa.array([Decimal("1.50"), Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(9, 2)),
                "b": pa.array([True, True, False, None]),
            }
        ),
        ("d", "t", "b"),
        ("m", "b"),
    ),
    "one huge class": Hostile(
        pa.table({"a": pa.array(["same"] * 5000 + ["other"]), "ill": pa.array(["u", "v"] * 2500 + ["u"])}),
        ("a",),
        ("ill",),
    ),
    "all unique": Hostile(
        pa.table({"a": pa.array(range(3000)), "ill": pa.array([f"v{i}" for i in range(3000)])}), ("a",), ("ill",)
    ),
    "suppressed": Hostile(
        pa.table({"a": ["*", "*", "x", "*"], "b": ["*", "*", "*", None], "ill": ["u", "v", "u", "u"]}),
        ("a", "b"),
        ("ill",),
    ),
}


ON_SPARK = ("ordinary", "empty", "null keys", "floats", "suppressed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `hostile` runs on each hostile table; on Spark, `make test` has those of different kinds."""
    if "hostile" in metafunc.fixturenames:
        marks = {name: () if name in ON_SPARK else pytest.mark.deep_on_spark for name in TABLES}
        metafunc.parametrize("hostile", [pytest.param(TABLES[name], id=name, marks=marks[name]) for name in TABLES])


@pytest.fixture
def ordinary() -> Callable[[int, int], pa.Table]:
    """Rows of few values and many ties, by seed and number."""
    return repeated


@pytest.fixture
def scanned(engine: Engine, tmp_path: Path) -> Callable[..., Any]:
    """A table of the engine from rows, written as so many files first."""

    def scan(rows: pa.Table, parts: int = 1, *, shuffled: bool = False) -> Any:
        if shuffled and len(rows):
            rows = rows.take(np.random.default_rng(7).permutation(len(rows)))
        folder = tmp_path / f"rows-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        step = max(1, -(-len(rows) // parts))
        for part in range(parts):
            pq.write_table(rows.slice(part * step, step), folder / f"part-{part:03d}.parquet")
        pq.write_table(rows.slice(0, 0), folder / "part-999.parquet")
        (folder / "_SUCCESS").write_text("")
        return engine.scan(Source(data=str(folder)))

    return scan
