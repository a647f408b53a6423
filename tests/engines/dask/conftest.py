"""Dask engines of several shapes, and tables that have hurt someone before."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("dask")

from privpipe.engines.base import Source
from privpipe.engines.dask import DaskEngine


@pytest.fixture(scope="session")
def cluster() -> Iterator[DaskEngine]:
    """An engine on two worker processes of this machine."""
    pytest.importorskip("distributed")
    with DaskEngine.open({"workers": 2, "threads_per_worker": 1, "driver_bytes": 0}) as engine:
        yield engine


@pytest.fixture(scope="session")
def threads() -> Iterator[DaskEngine]:
    """An engine on threads that cuts every frame into three parts."""
    with DaskEngine.open({"scheduler": "threads", "npartitions": 3}) as engine:
        yield engine


@pytest.fixture(params=["threads", "cluster"])
def dasks(request: pytest.FixtureRequest) -> DaskEngine:
    """Both."""
    found: DaskEngine = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def scan() -> Callable[..., Any]:
    """A frame as a table of an engine."""
    return lambda engine, frame, **source: engine.scan(Source(data=frame, **source))


def hostile(rows: int = 400, seed: int = 7) -> pa.Table:
    """Nulls, NaN, both zeros, ties, integers above 2^53, text in odd alphabets, decimals, dates."""
    rng = np.random.default_rng(seed)

    def holed(values: list[Any], share: float = 0.1) -> list[Any]:
        return [None if rng.random() < share else value for value in values]

    numbers = [0.0, -0.0, float("nan"), 1.5, -2.25, 1e300]
    return pa.table(
        {
            "zip": pa.array(holed(rng.choice(["a", "b", "ä", "*", ""], rows).tolist()), pa.string()),
            "age": pa.array(holed((2**53 + rng.integers(0, 3, rows)).tolist()), pa.int64()),
            "x": pa.array(holed(rng.choice(numbers, rows).tolist()), pa.float64()),
            "ill": pa.array(holed(rng.choice(["flu", "hiv", "ok"], rows, p=[0.2, 0.1, 0.7]).tolist()), pa.string()),
            "pay": pa.array(holed([Decimal(int(v)) / 100 for v in rng.integers(-5, 5, rows)]), pa.decimal128(38, 2)),
            "day": pa.array(holed([datetime.date(2020, 1, int(d)) for d in rng.integers(1, 9, rows)]), pa.date32()),
            "ok": pa.array(holed((rng.random(rows) < 0.5).tolist()), pa.bool_()),
            "who": pa.array((rng.integers(0, rows // 3, rows)).tolist(), pa.int64()),
            "w": pa.array(rng.choice([0.1, 0.2, 1e6, 3.0], rows).tolist(), pa.float64()),
        }
    )


def same(value: Any) -> Any:
    """A value as a key: NaN is None and minus zero is zero."""
    if isinstance(value, float):
        return None if value != value else value + 0.0
    return value


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Records with comparable values."""
    return [{name: same(value) for name, value in row.items()} for row in table.to_pylist()]
