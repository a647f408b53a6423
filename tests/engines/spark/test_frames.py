"""Sources: Spark's own frames and types, and files that Spark alone would refuse or read in its own way."""

from __future__ import annotations

import datetime
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.engines import Source
from privpipe.engines.spark import SparkEngine
from privpipe.engines.spark.sources import _remote, is_spark_frame
from privpipe.errors import DataError, EngineError, UnsupportedError, UsageError

pytestmark = pytest.mark.spark


def rows(engine: SparkEngine, table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.collect(table).to_pylist()
    return found


def test_spark_types_become_logical_ones(spark_engine: SparkEngine) -> None:
    frame = spark_engine.session.sql(
        "select cast(1 as tinyint) a, cast(2 as int) b, cast(1.5 as float) c, cast('NaN' as double) d, "
        "cast(1.25 as decimal(9,2)) e, date'2020-02-29' f, timestamp'2020-01-01 00:00:00 UTC' g, "
        "timestamp_ntz'2020-01-01 00:00:00' h, true i, cast('x' as varchar(9)) j, null k, cast('b' as binary) l"
    )
    table = spark_engine.scan(Source(data=frame))
    assert table.schema.types == [
        *(pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.decimal128(38, 2), pa.date32()),
        *(pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.bool_(), pa.string(), pa.string(), pa.binary()),
    ]
    utc = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    assert list(rows(spark_engine, table)[0].values()) == [
        *(1, 2, 1.5, None, Decimal("1.25"), datetime.date(2020, 2, 29)),
        *(utc, utc.replace(tzinfo=None), True, "x", None, b"b"),
    ]


def test_files_that_only_the_session_sees_must_agree_in_types(spark_engine: SparkEngine, tmp_path: Path) -> None:
    for name, second in (("same", pa.float32()), ("other", pa.float64())):
        (tmp_path / name).mkdir()
        for at, kind in enumerate((pa.float32(), second)):
            pq.write_table(pa.table({"q": pa.array([0.1], kind)}), tmp_path / name / f"{at}.parquet")
    found = _remote(spark_engine.session, Source(data=f"file://{tmp_path}/same", format="parquet"))
    assert found.frame.count() == 2
    with pytest.raises(DataError, match="the files hold a column in several types"):
        _remote(spark_engine.session, Source(data=f"file://{tmp_path}/other", format="parquet"))


def test_another_session_zone_changes_no_instant(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        at = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC")), "n": pa.array([0], pa.timestamp("us"))})
        table = spark_engine.scan(Source(data=at))
        assert spark_engine.collect(spark_engine.map_rows(table, lambda block: block, table.schema)).equals(at)
        assert (
            spark_engine.facts(table, FactsRequest(histograms=("t",))).histograms["t"].values.equals(at["t"].chunk(0))
        )
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_collation_merges_no_values(spark_engine: SparkEngine) -> None:
    frame = spark_engine.session.sql("select collate(v, 'UTF8_LCASE') v from values ('NY'), ('ny'), ('NY') t(v)")
    assert frame.groupBy("v").count().count() == 1
    table = spark_engine.scan(Source(data=frame))
    sizes = [block.sizes.tolist() for block in spark_engine.classes(table, ClassQuery(keys=("v",)))]
    assert sorted(sizes[0]) == [1, 2]


def test_names_may_be_anything(spark_engine: SparkEngine) -> None:
    names = ["native.country", "a`b", "c d", "select", "größe"]
    frame = spark_engine.session.createDataFrame([(1, 2, 3, 4, 5)], names)
    table = spark_engine.scan(Source(data=frame))
    assert table.schema.names == names
    back = spark_engine.collect(spark_engine.select(table, names[::-1]), like=frame)
    assert back.columns == names[::-1]
    assert [tuple(row) for row in back.collect()] == [(5, 4, 3, 2, 1)]


def test_names_that_differ_by_case_are_refused(spark_engine: SparkEngine) -> None:
    frame = spark_engine.session.createDataFrame([(1, 2)], ["age", "Age"])
    with pytest.raises(DataError, match="differ only in case"):
        spark_engine.scan(Source(data=frame))


def test_nested_columns_are_refused(spark_engine: SparkEngine) -> None:
    for kind in ("array(1)", "map('a', 1)", "struct(1)", "interval '1' day", "parse_json('1')"):
        with pytest.raises(DataError, match="'v'"):
            spark_engine.scan(Source(data=spark_engine.session.sql(f"select {kind} v")))


def test_pandas_on_spark_is_a_spark_frame(spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
    frame = spark_engine.session.createDataFrame(pd.DataFrame({"a": [1, 2]})).pandas_api()
    assert is_spark_frame(frame)
    assert spark_engine.count(spark_engine.scan(Source(data=frame))) == 2


def test_declared_types_convert_a_frame(spark_engine: SparkEngine) -> None:
    frame = spark_engine.session.createDataFrame([("7", 1.0, "1.50"), (" 8", 2.0, "2.125")], ["n", "x", "m"])
    types = {"n": "integer", "x": "integer", "m": "decimal"}
    table = spark_engine.scan(Source(data=frame, types=types))
    assert table.schema.types == [pa.int64(), pa.int64(), pa.decimal128(38, 3)]
    assert sorted(tuple(row.values()) for row in rows(spark_engine, table)) == [
        (7, 1, Decimal("1.500")),
        (8, 2, Decimal("2.125")),
    ]
    broken = spark_engine.session.createDataFrame([("7", 1.5), ("x", 2.0), ("y", None)], ["n", "x"])
    with pytest.raises(DataError, match=r"'n' is declared integer, and 2 cells"):
        spark_engine.scan(Source(data=broken, types={"n": "integer"}))
    with pytest.raises(DataError, match=r"'x' is declared integer, and 1 cell is"):
        spark_engine.scan(Source(data=broken, types={"x": "integer"}))
    with pytest.raises(DataError, match="'z'"):
        spark_engine.scan(Source(data=broken, types={"z": "integer"}))


def test_parquet_types_that_spark_does_not_read(spark_engine: SparkEngine, tmp_path: Path) -> None:
    at = pa.table(
        {"t": pa.array([1_000, 2_000, None], pa.timestamp("ns")), "u": pa.array([1, 2**63 - 1, 0], pa.uint64())}
    )
    for part in range(3):
        pq.write_table(at.slice(part, 1), tmp_path / f"{part}.parquet", store_schema=False)
    table = spark_engine.scan(Source(data=str(tmp_path)))
    assert table.schema.types == [pa.timestamp("us"), pa.int64()]
    assert sorted(rows(spark_engine, table), key=lambda row: int(row["u"])) == [
        {"t": None, "u": 0},
        {"t": datetime.datetime(1970, 1, 1, 0, 0, 0, 1), "u": 1},
        {"t": datetime.datetime(1970, 1, 1, 0, 0, 0, 2), "u": 2**63 - 1},
    ]
    pq.write_table(pa.table({"u": pa.array([2**63], pa.uint64())}), tmp_path / "over.parquet")
    with pytest.raises(DataError, match="'u'"):
        spark_engine.scan(Source(data=str(tmp_path / "over.parquet")))


def test_parquet_in_odd_places(spark_engine: SparkEngine, tmp_path: Path) -> None:
    folder = tmp_path / "50% [new] {a,b} * é"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1]}), folder / "x [1].parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").write_text("not Parquet")
    assert rows(spark_engine, spark_engine.scan(Source(data=folder))) == [{"a": 1}]


def test_unreadable_parquet_is_a_data_error(spark_engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(10_000))}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.parquet"):
        spark_engine.scan(Source(data=str(path)))
    middle = len(whole) // 3
    path.write_bytes(whole[:middle] + bytes(200) + whole[middle + 200 :])
    with pytest.raises((DataError, EngineError)):
        spark_engine.collect(spark_engine.scan(Source(data=str(path))))


def test_csv_in_blocks(spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privpipe.engines.spark.file_pieces.BLOCK_BYTES", (64, 64))
    lines = ["n;t"] + [f'{at};"line {at}\nsays ""x""; and more"' for at in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(lines[:31]))
    with gzip.open(tmp_path / "b.csv.gz", "wt") as packed:
        packed.write("\r\n".join([lines[0], *lines[31:]]) + "\r\n")
    (tmp_path / "empty.csv").write_text("n;t\n")
    table = spark_engine.scan(Source(data=str(tmp_path), format="csv", delimiter=";", types={"n": "integer"}))
    assert table.frame.count() == spark_engine.count(table) == 60
    assert sorted((row["n"], row["t"]) for row in rows(spark_engine, table)) == [
        (at, f'line {at}\nsays "x"; and more') for at in range(60)
    ]


def test_csv_nulls_and_headers(spark_engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_text(' x ,?,""\n"?",y,z\n')
    table = spark_engine.scan(Source(data=str(path), header=False, columns=("a", "b", "c"), null_values=("?",)))
    assert sorted(rows(spark_engine, table), key=repr) == [
        {"a": " x ", "b": None, "c": ""},
        {"a": None, "b": "y", "c": "z"},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3\n4,5,6\n", "2 lines"),
        ('a,b\n1,"2\n', "inside a quoted field"),
        ('a,b\n1,"2"3\n', "behind the closing quote"),
        ("a;b\n1;2\n", "declared column 'b' not in the data.*is that the delimiter"),
        ("", "empty"),
        ("a,A\n1,2\n", "differ only in case"),
        ("a,a\n1,2\n", "occurs 2 times"),
    ],
)
def test_csv_that_is_wrong(spark_engine: SparkEngine, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        spark_engine.scan(Source(data=str(path), types={"b": "text"} if ";" in text else {}))


def test_csv_that_is_not_text(spark_engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(DataError, match=r"a\.csv"):
        spark_engine.scan(Source(data=str(path)))


def test_json_lines_and_arrays(spark_engine: SparkEngine, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 7.0, "t": "x"}\n\n{"t": null, "b": true}\n')
    (tmp_path / "b.json").write_text('[{"n": 8, "t": "y"}]')
    table = spark_engine.scan(Source(data=str(tmp_path), format="json", types={"n": "integer"}))
    assert table.schema.names == ["n", "t", "b"]
    assert sorted(rows(spark_engine, table), key=repr) == sorted(
        [{"n": 7, "t": "x", "b": None}, {"n": None, "t": None, "b": "true"}, {"n": 8, "t": "y", "b": None}], key=repr
    )
    (tmp_path / "c.json").write_text('{"n": [1]}')
    with pytest.raises(DataError, match=r"c\.json"):
        spark_engine.scan(Source(data=str(tmp_path), format="json"))


def test_files_that_only_spark_reaches(spark_engine: SparkEngine) -> None:
    with pytest.raises(UnsupportedError, match="Parquet"):
        spark_engine.scan(Source(data="dbfs:/mnt/a.json"))
    with pytest.raises(EngineError, match="has no connector"):
        spark_engine.scan(Source(data="nosuchscheme://bucket/a.parquet"))


def test_delta_needs_its_package(spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("spark.sources", "lakes.sources"):
        monkeypatch.setattr(f"privpipe.engines.{room}.has_deltalake", lambda: False)
    with pytest.raises(UsageError, match="delta-spark"):
        spark_engine.scan(Source(data=str(tmp_path), format="delta"))


def test_local_frames(spark_engine: SparkEngine) -> None:
    frame = pd.DataFrame(
        {"c": pd.Categorical(["x", None, "x"], categories=["x", "unused"]), "n": [1, None, 3]}, index=[7, 7, 9]
    )
    table = spark_engine.scan(Source(data=frame, types={"n": "integer"}))
    assert table.schema.types == [pa.string(), pa.int64()]
    assert spark_engine.facts(table, FactsRequest(histograms=("c",))).histograms["c"].values.to_pylist() == ["x", None]
    back = spark_engine.collect(table, like=frame)
    assert list(back.columns) == ["c", "n"]
    assert sorted(back["n"].dropna().tolist()) == [1, 3]
    with pytest.raises(DataError, match="'m' mixes types"):
        spark_engine.scan(Source(data=pd.DataFrame({"m": [1, "x"]})))


def test_large_types_of_a_session_change_nothing(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        table = spark_engine.scan(Source(data=pa.table({"t": ["x", None], "b": [b"y", None]})))
        found = spark_engine.collect(spark_engine.map_rows(table, lambda block: block, table.schema))
        assert sorted(found.to_pylist(), key=repr) == [{"t": "x", "b": b"y"}, {"t": None, "b": None}]
        assert found.schema.types == [pa.string(), pa.binary()]
    finally:
        session.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
