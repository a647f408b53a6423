"""Sources of the embedded engine: exact types, text read the same way every time, and errors without cells."""

from __future__ import annotations

import datetime as dt
import importlib.util
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import FactsRequest
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError

SECRET = "Zebulon"


def read(engine: Engine, data: Any, **how: Any) -> list[dict[str, Any]]:
    rows = engine.collect(engine.scan(Source(data=data, **how))).to_pylist()
    return sorted(rows, key=repr)


def csv(tmp_path: Path, text: str | bytes, name: str = "a.csv") -> str:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(tmp_path / name)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dataset", "reader", "relation", "capsule"])
def test_every_local_frame_is_read(embedded: Engine, kind: str) -> None:
    rows = pa.table(
        {"a": pa.array([1, None, 2**53 + 1]), "b": ["x", None, "y"], "d": pa.array([0, 1, None], pa.date32())}
    )

    class Capsule:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return rows.__arrow_c_stream__(requested_schema)

    frame: Any = {
        "pandas": lambda: rows.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
        "polars": lambda: pl.from_arrow(rows),
        "pyarrow": lambda: rows,
        "dataset": lambda: ds.dataset(rows),
        "reader": rows.to_reader,
        "relation": lambda: duckdb.from_arrow(rows),
        "capsule": Capsule,
    }[kind]()
    table = embedded.scan(Source(data=frame))
    assert table.schema.equals(pa.schema([("a", pa.int64()), ("b", pa.string()), ("d", pa.date32())]))
    for _ in range(2):  # a stream that can be read once is still a table
        assert sorted(embedded.collect(table).to_pylist(), key=repr) == sorted(rows.to_pylist(), key=repr)


def test_pandas_oddities(embedded: Engine) -> None:
    frame = pd.DataFrame(
        {
            "floats": [1.0, np.nan, -0.0],
            "objects": pd.Series([None, float("nan"), "x"], dtype=object),
            "mixed": pd.Series([1, 2.5, None], dtype=object),
            "category": pd.Categorical(["u", None, "u"], categories=["u", "unused"]),
            "int8": np.array([1, 2, 3], dtype=np.int8),
            "ns": pd.array([np.datetime64("2024-01-01", "ns"), pd.NaT, np.datetime64(1000, "ns")]),
        }
    ).set_axis([7, 7, 7])
    table = embedded.scan(Source(data=frame))
    kinds = [pa.float64(), pa.string(), pa.float64(), pa.string(), pa.int64(), pa.timestamp("us")]
    assert table.schema.types == kinds
    back = embedded.collect(table, like=frame)
    assert isinstance(back, pd.DataFrame)
    assert back["floats"].isna().sum() == back["objects"].isna().sum() - 1 == back["category"].isna().sum() == 1
    with pytest.raises(DataError, match="'bad' mixes types"):
        embedded.scan(Source(data=pd.DataFrame({"bad": [1, SECRET]})))


def test_integers_that_came_as_floats(embedded: Engine) -> None:
    frame = pd.DataFrame({"n": [1.0, np.nan, 3.0]})
    assert embedded.scan(Source(data=frame)).schema.field("n").type == pa.float64()
    assert read(embedded, frame, types={"n": "integer"}) == [{"n": 1}, {"n": 3}, {"n": None}]
    with pytest.raises(DataError, match="'n' is declared integer, and 1 cell is not"):
        read(embedded, pd.DataFrame({"n": [1.5, 2.0]}), types={"n": "integer"})


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([1], pa.timestamp("ns")),
        pa.array([[1]]),
        pa.array([1], pa.time64("us")),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("stored", [False, True], ids=["frame", "parquet"])
def test_what_a_logical_type_cannot_hold(embedded: Engine, array: pa.Array, stored: bool, tmp_path: Path) -> None:
    rows = pa.table({"c": array})
    if stored:
        pq.write_table(rows, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="'c'"):
        embedded.scan(Source(data=tmp_path / "a.parquet" if stored else rows))


def test_parquet_types(embedded: Engine, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "u": pa.array([2**63 - 1, None], pa.uint64()),
            "f": pa.array([0.5, float("nan")], pa.float32()),
            "ns": pa.array([1000, None], pa.timestamp("ns")),
            "tz": pa.array([0, None], pa.timestamp("ms", "Europe/Paris")),
            "m": pa.array([Decimal("1.25"), None], pa.decimal128(7, 2)),
            "d": pa.array(["x", None]).dictionary_encode(),
            "z": pa.nulls(2),
            "y": pa.array([b"\x00", None]),
        }
    )
    pq.write_table(rows, tmp_path / "a.parquet")
    for source in (Source(data=tmp_path / "a.parquet"), Source(data=rows)):
        table = embedded.scan(source)
        assert [str(kind) for kind in table.schema.types] == [
            *("int64", "double", "timestamp[us]", "timestamp[us, tz=UTC]", "decimal128(38, 2)"),
            *("string", "string", "binary"),
        ]
        found = embedded.collect(table)
        assert found.schema.equals(table.schema)
        (full,) = [row for row in found.to_pylist() if row["u"] is not None]
        assert full["ns"] == dt.datetime(1970, 1, 1, microsecond=1)
        assert [row for row in found.to_pylist() if row["u"] is None] == [dict.fromkeys(rows.column_names)]


def test_csv_is_read_by_rule_and_not_by_guess(embedded: Engine, tmp_path: Path) -> None:
    text = 'n,"t, with comma",zip\n 7 ," x ",01\n,"a ""quoted""\nline",?\n-7,,\n'
    path = csv(tmp_path, text)
    assert read(embedded, path) == sorted(
        [
            {"n": " 7 ", "t, with comma": " x ", "zip": "01"},
            {"n": None, "t, with comma": 'a "quoted"\nline', "zip": "?"},
            {"n": "-7", "t, with comma": None, "zip": None},
        ],
        key=repr,
    )
    typed = read(embedded, path, types={"n": "integer"}, null_values=("", "?"))
    assert [(row["n"], row["zip"]) for row in typed] == [(-7, None), (7, "01"), (None, None)]
    headless = csv(tmp_path, b"1|x\r\n2|y\r\n", "b.csv")
    assert read(embedded, headless, header=False, columns=("a", "b"), delimiter="|") == [
        {"a": "1", "b": "x"},
        {"a": "2", "b": "y"},
    ]


def test_every_declared_type_is_read_from_text(embedded: Engine, tmp_path: Path) -> None:
    text = "i,x,m,d,t,b\n9007199254740993,0.1,1.50,2024-02-29,2024-01-01T10:00:00+01:00,TRUE\n,,,,,\n"
    types = {"i": "integer", "x": "number", "m": "decimal", "d": "date", "t": "timestamp", "b": "boolean"}
    rows = read(embedded, csv(tmp_path, text), types=types)
    assert rows[0] == {
        "i": 2**53 + 1,
        "x": 0.1,
        "m": Decimal("1.50"),
        "d": dt.date(2024, 2, 29),
        "t": dt.datetime(2024, 1, 1, 9),
        "b": True,
    }
    assert set(rows[1].values()) == {None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a,b\n1,2\n{SECRET},2,3\n", "another number of fields"),
        (f"a,b\n1,2\n{SECRET}\n", "another number of fields"),
        (f'a,b\n1,"{SECRET}\n', "ends inside a quoted field"),
        (f"a;b\n{SECRET};2\n", "is that the delimiter"),
        (b"a,b\n\xff,2\n", "UTF-8"),
        (f"a,b\n{SECRET},2\n7,1\n{SECRET},2\n", "'a' is declared integer, and 2 cells are not"),
        (f"a,A\n{SECRET},2\n", "differ only in case"),
        ("", "empty"),
        (f"b,c\n{SECRET},2\n", "declared column 'a' not in the data"),
    ],
    ids=["too many", "too few", "open quote", "delimiter", "encoding", "types", "case", "no header", "missing"],
)
def test_a_bad_csv_file_is_reported_without_its_cells(
    embedded: Engine, text: str | bytes, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DataError, match=message) as raised:
        embedded.scan(Source(data=csv(tmp_path, text), types={"a": "integer"} if "A" not in str(text) else {}))
    shown = [str(raised.value), caplog.text, repr(raised.value.__cause__)]
    if not raised.value.__suppress_context__:
        shown.append(repr(raised.value.__context__))
    assert SECRET not in "".join(shown)


def test_folders_of_csv_files(embedded: Engine, tmp_path: Path) -> None:
    for at in range(3):
        csv(tmp_path, f"n,s\n{at},x\n", f"part-{at}.csv")
    csv(tmp_path, "n,s\n", "part-3.csv")
    csv(tmp_path, "", "part-4.csv")
    csv(tmp_path, "junk", "_SUCCESS")
    assert read(embedded, tmp_path, format="csv", types={"n": "integer"}) == [{"n": n, "s": "x"} for n in range(3)]
    with pytest.raises(DataError, match="no pattern"):
        read(embedded, str(tmp_path / "part-[01].csv"))


def test_a_csv_file_of_a_header_alone_is_an_empty_table(embedded: Engine, tmp_path: Path) -> None:
    table = embedded.scan(Source(data=csv(tmp_path, "n,s\n"), types={"n": "integer"}))
    assert embedded.count(table) == 0
    assert table.schema.types == [pa.int64(), pa.string()]


def test_packed_csv(embedded: Engine, tmp_path: Path) -> None:
    import gzip

    path = csv(tmp_path, gzip.compress(b"n\n1\n"), "a.csv.gz")
    assert read(embedded, path, types={"n": "integer"}) == [{"n": 1}]


def test_json(embedded: Engine, tmp_path: Path) -> None:
    path = csv(tmp_path, '{"n": 9007199254740993, "s": "x"}\n{"n": null, "s": 1.50}\n', "a.jsonl")
    assert read(embedded, path) == [{"n": "9007199254740993", "s": "x"}, {"n": None, "s": "1.5"}]
    assert read(embedded, path, types={"n": "integer"})[0] == {"n": 2**53 + 1, "s": "x"}


def test_a_stream_of_text_columns_takes_declared_types(embedded: Engine) -> None:
    rows = pa.table({"m": ["1.5", "0.25"], "n": ["1", "x"]})
    for data in (rows, rows.to_reader()):
        with pytest.raises(DataError, match="'n' is declared integer, and 1 cell is not"):
            embedded.scan(Source(data=data, types={"m": "decimal", "n": "integer"}))
    for data in (rows, rows.to_reader()):
        assert read(embedded, data, types={"m": "decimal"})[0]["m"] in {Decimal("0.25"), Decimal("1.50")}


def test_delta_needs_its_package(embedded: Engine, tmp_path: Path) -> None:
    if importlib.util.find_spec("deltalake") is None:
        with pytest.raises(UsageError, match=r"privpipe\[delta\]"):
            embedded.scan(Source(data=tmp_path, format="delta"))


def test_not_a_number_is_missing_whatever_the_statistics_of_a_file_say(embedded: Engine, tmp_path: Path) -> None:
    """Statistics of a Parquet file leave NaN out, and an optimizer that trusts them keeps it next to null."""
    values = [float("nan"), 1.0, None, float("-inf"), float("nan"), 2.5]
    for name, kind in (("double", pa.float64()), ("single", pa.float32())):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"x": pa.array(values, kind)}), path, row_group_size=2)
        table = embedded.scan(Source(data=str(path)))
        assert embedded.facts(table, FactsRequest(nulls=("x",))).nulls == {"x": 3}
        found = embedded.collect(table)["x"].to_pylist()
        assert sorted(value for value in found if value is not None) == [float("-inf"), 1.0, 2.5]
        assert len(embedded.distinct(table, ["x"])) == 4
