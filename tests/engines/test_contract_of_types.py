"""A column of any type is read alike by every engine, as a frame and from Parquet, or refused in the same words."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from tests.tiers import deep_on_spark_beyond

HALVES = np.array([1.5, np.nan, -2.25, 1.5], dtype=np.float16)
READ: dict[str, tuple[Callable[[], pa.Array], pa.DataType, list[Any]]] = {
    "half floats": (lambda: pa.array(HALVES), pa.float64(), [1.5, None, -2.25, 1.5]),
    "half floats by code": (
        lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0], pa.int8()), pa.array(HALVES[:3])),
        pa.float64(),
        [1.5, None, -2.25, 1.5],
    ),
    "floats": (lambda: pa.array([1.5, None, 2.5, 1.5], pa.float32()), pa.float64(), [1.5, None, 2.5, 1.5]),
    "unsigned": (lambda: pa.array([1, None, 2**63 - 1, 1], pa.uint64()), pa.int64(), [1, None, 2**63 - 1, 1]),
    "wide decimals": (
        lambda: pa.array([Decimal("1.50"), None, Decimal("2.50"), Decimal("1.50")], pa.decimal256(30, 2)),
        pa.decimal128(38, 2),
        [Decimal("1.50"), None, Decimal("2.50"), Decimal("1.50")],
    ),
    "large texts": (lambda: pa.array(["x", None, "", "x"], pa.large_string()), pa.string(), ["x", None, "", "x"]),
    "views of texts": (lambda: pa.array(["x", None, "", "x"], pa.string_view()), pa.string(), ["x", None, "", "x"]),
    "texts by code": (lambda: pa.array(["x", None, "", "x"]).dictionary_encode(), pa.string(), ["x", None, "", "x"]),
    "lists of texts": (lambda: pa.array([["x"], None, [], ["x"]]), pa.string(), ['["x"]', None, "[]", '["x"]']),
    "seconds": (
        lambda: pa.array([1, None, 2, 1], pa.timestamp("s")),
        pa.timestamp("us"),
        [pd.Timestamp(1, unit="s"), None, pd.Timestamp(2, unit="s"), pd.Timestamp(1, unit="s")],
    ),
    "no type": (lambda: pa.nulls(4), pa.string(), [None] * 4),
}
REFUSED: dict[str, tuple[Callable[[], pa.Array], str]] = {
    "beyond 63 bits": (lambda: pa.array([1, 2**63], pa.uint64()), "values of uint64 that int64 cannot hold"),
    "nanoseconds": (lambda: pa.array([1001, 0], pa.timestamp("ns")), "values of timestamp[ns] that timestamp[us]"),
    "the last nanosecond": (lambda: pa.array([2**63 - 1], pa.timestamp("ns")), "values of timestamp[ns] that"),
    "very late": (lambda: pa.array([2**60], pa.timestamp("ms")), "values of timestamp[ms] that timestamp[us]"),
    "decimals of 40 digits": (lambda: pa.array([Decimal(1)], pa.decimal256(40, 2)), "at most 38 digits"),
    "lists of numbers": (lambda: pa.array([[1], [2]]), "which no release can carry"),
    "views of lists": (lambda: pa.array([["x"]], pa.list_view(pa.string())), "which no release can carry"),
    "records in a cell": (lambda: pa.array([{"a": 1}]), "which no release can carry"),
    "durations": (lambda: pa.array([1], pa.duration("us")), "which no release can carry"),
    "times of day": (lambda: pa.array([1], pa.time64("us")), "which no release can carry"),
    "universal ids": (
        lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
        "which no release can carry",
    ),
}


def faces(rows: pa.Table, folder: Path) -> dict[str, Any]:
    """The same rows as frames and files; a library that cannot hold them is left out."""
    found: dict[str, Any] = {"arrow": rows, "dataset": ds.dataset(rows)}
    try:
        pq.write_table(rows, folder / "rows.parquet")
        found["parquet"] = str(folder / "rows.parquet")
    except (pa.ArrowException, OSError):
        pass
    return found


@pytest.mark.parametrize("case", deep_on_spark_beyond(4, READ))
def test_it_is_read_as_its_logical_type(engine: Engine, tmp_path: Path, case: str) -> None:
    make, kind, values = READ[case]
    rows = pa.table({"at": pa.array(range(4)), "v": make()})
    for face, data in faces(rows, tmp_path).items():
        table = engine.scan(Source(data=data))
        assert table.schema.field("v").type == kind, face
        found = engine.collect(engine.with_record_ids(table, "at", Seed.insecure("a seed"))).sort_by("at")
        assert found.column("v").to_pylist() == values, face


@pytest.mark.parametrize("case", deep_on_spark_beyond(3, REFUSED))
def test_it_is_refused_in_the_same_words(engine: Engine, tmp_path: Path, case: str) -> None:
    make, words = REFUSED[case]
    for face, data in faces(pa.table({"v": make()}), tmp_path).items():
        with pytest.raises(DataError) as caught:
            engine.collect(engine.scan(Source(data=data)))
        assert "column 'v'" in str(caught.value), face
        assert words in str(caught.value), face


@pytest.mark.parametrize(
    ("ids", "missing", "repeated"),
    [(["a", "b", None, None], 2, 0), (["a", "a", "b", "a"], 0, 2), (["a", "a", None, "b"], 1, 1)],
)
def test_record_ids_that_are_none_are_one_error(
    engine: Engine, ids: list[str | None], missing: int, repeated: int
) -> None:
    table = engine.scan(Source(data=pa.table({"id": ids, "x": [1, 2, 3, 4]})))
    with pytest.raises(DataError) as caught:
        engine.with_record_ids(table, "id", Seed.insecure("a seed"))
    assert str(caught.value) == (
        f"record id column 'id' must be unique and complete: {missing} of 4 records have no value, {repeated} repeat "
        "one; name another column, or leave `record_id` out"
    )
