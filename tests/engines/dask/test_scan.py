"""Sources: Dask frames as they are, files cut into blocks, what is amiss counted over all of them."""

from __future__ import annotations

import gzip
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.engines.base import Source
from privpipe.engines.dask import DaskEngine
from privpipe.engines.dask.sources import is_dask_frame
from privpipe.errors import DataError, UsageError

from .conftest import hostile, rows_of


def records(engine: DaskEngine, table: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in rows_of(engine.collect(table)))


def of(rows: list[tuple[Any, ...]]) -> Counter[Any]:
    return Counter(rows)


@pytest.fixture(params=[True, False], ids=["cached", "read again"])
def tiny(request: pytest.FixtureRequest) -> Any:
    """An engine that cuts text into blocks of a few bytes."""
    with DaskEngine.open({"scheduler": "threads", "partition_size": 40, "cache": request.param}) as engine:
        yield engine


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that split the small files of these tests."""
    monkeypatch.setattr("privpipe.engines.dask.sources.SMALLEST_BLOCK", 16)
    monkeypatch.setattr("privpipe.engines.dask.sources.SMALLEST_RUN", 1)


def test_csv_is_cut_at_records_and_quotes_are_minded(tiny, tmp_path):
    lines = ["n,t"] + [f'{i},"line {i}\nwith ""quotes"", and a comma"' for i in range(50)]
    path = tmp_path / "quoted.csv"
    path.write_text("\n".join(lines))
    table = tiny.scan(Source(data=str(path), types={"n": "integer"}))
    assert len(table.parts) > 10
    assert tiny.count(table) == 50
    assert records(tiny, table) == of([(i, f'line {i}\nwith "quotes", and a comma') for i in range(50)])


def test_csv_cells_are_text_unless_typed(tiny, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("﻿zip;n;x;d;b\n 007 ;9007199254740993;1.5;2020-02-29;true\n;;;;\n?;-7;1e3;1999-12-31;F\n")
    types = {"n": "integer", "x": "number", "d": "date", "b": "boolean"}
    table = tiny.scan(Source(data=str(path), delimiter=";", types=types, null_values=("", "?")))
    found = tiny.collect(table).sort_by("n").to_pylist()
    assert [row["zip"] for row in found] == [None, " 007 ", None]
    assert [row["n"] for row in found] == [-7, 2**53 + 1, None]
    assert table.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.bool_()]


def test_csv_without_header_packed_and_in_folders(tiny, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "one.csv").write_text("a,1\r\nb,2\r\n")
    (tmp_path / "raw" / "two.csv").write_text("")
    (tmp_path / "raw" / "_SUCCESS").write_text("x")
    with gzip.open(tmp_path / "raw" / "three.csv.gz", "wt") as file:
        file.write("c,3\n" * 20)
    source = Source(data=str(tmp_path / "raw"), format="csv", header=False, columns=("k", "v"), types={"v": "integer"})
    assert records(tiny, tiny.scan(source)) == of([("a", 1), ("b", 2)] + [("c", 3)] * 20)


@pytest.mark.parametrize(
    ("text", "types", "said"),
    [
        ("a,b\n1,canary\n2\n3,4,5\n", {}, "2 lines of the source have another number of fields than the 2 columns"),
        ("a;b\n1;canary\n", {"b": "text"}, "delimiter"),
        ('a,b\n1,"canary\n2,3\n', {}, "ends inside a quoted field"),
        ('a,b\n1,"canary"x\n', {}, "text behind the closing quote"),
        (
            "a,b\n" + "canary,1\n" * 30 + "2,x\n",
            {"a": "integer"},
            "column 'a' is declared integer, and 30 cells are not",
        ),
        ("a,A\n1,canary\n", {}, "differ only in case"),
        ("", {}, "empty"),
    ],
)
def test_bad_csv_is_a_data_error_that_quotes_nothing(tiny, tmp_path, caplog, text, types, said):
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=said) as raised:
        tiny.scan(Source(data=str(path), types=types))
    assert "canary" not in str(raised.value) + caplog.text


def test_latin_1_is_no_utf_8(tiny, tmp_path):
    (tmp_path / "bad.csv").write_bytes(b"a,b\n1,\xe4\n")
    with pytest.raises(DataError, match="UTF-8"):
        tiny.scan(Source(data=str(tmp_path / "bad.csv")))


def test_decimals_take_the_digits_of_all_blocks(tiny, tmp_path):
    path = tmp_path / "pay.csv"
    path.write_text("pay\n" + "1.5\n" * 30 + "0.125\n")
    table = tiny.scan(Source(data=str(path), types={"pay": "decimal"}))
    assert table.schema.field("pay").type == pa.decimal128(38, 3)
    frame = tiny.scan(Source(data=pa.table({"pay": ["1.5", "0.125", None]}), types={"pay": "decimal"}))
    assert frame.schema.field("pay").type == pa.decimal128(38, 3)


def test_parquet_reads_only_the_columns_in_use(tiny, tmp_path, monkeypatch):
    pq.write_table(hostile(), tmp_path / "a.parquet", row_group_size=50)
    table = tiny.scan(Source(data=str(tmp_path / "a.parquet")))
    assert len(table.parts) == 8
    read: list[str] = []
    original = pq.ParquetFile.read_row_groups

    def spying(self: Any, groups: Any, columns: Any, use_threads: bool) -> Any:
        read.extend(columns)
        return original(self, groups, columns=columns, use_threads=use_threads)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", spying)
    list(tiny.classes(table, ClassQuery(keys=("zip",), columns=("ill",))))
    assert set(read) == {"zip", "ill"}
    assert tiny.select(table, ["x", "zip"]).schema.names == ["x", "zip"]
    assert records(tiny, tiny.select(table, ["x", "zip"])) == of([(row["x"], row["zip"]) for row in rows_of(hostile())])


def test_odd_arrow_types_become_logical_ones(threads, tmp_path):
    frame = pa.table(
        {
            "small": pa.array([1, 2, None], pa.int8()),
            "wide": pa.array([1, 2, 3], pa.uint64()),
            "half": pa.array([0.5, None, float("nan")], pa.float32()),
            "cat": pa.array(["x", None, "x"]).dictionary_encode(),
            "long": pa.array(["a", "b", None], pa.large_string()),
            "at": pa.array([1000, 2000, None], pa.timestamp("ns")),
            "pay": pa.array([1, 2, 3], pa.decimal128(9, 2)),
        }
    )
    pq.write_table(frame, tmp_path / "odd.parquet")
    for source in (frame, str(tmp_path / "odd.parquet")):
        table = threads.scan(Source(data=source))
        assert [str(kind) for kind in table.schema.types] == [
            "int64", "int64", "double", "string", "string", "timestamp[us]", "decimal128(38, 2)"
        ]  # fmt: skip
        facts = threads.facts(table, FactsRequest(histograms=("cat",), nulls=("half",)))
        assert facts.histograms["cat"].counts.tolist() == [2, 1]
        assert facts.nulls == {"half": 2}


@pytest.mark.parametrize("column", [pa.array([2**63], pa.uint64()), pa.array([1], pa.timestamp("ns"))])
def test_values_that_no_logical_type_holds_are_refused_at_scan(threads, tmp_path, column):
    pq.write_table(pa.table({"c": column}), tmp_path / "c.parquet")
    with pytest.raises(DataError, match="'c'"):
        threads.scan(Source(data=str(tmp_path / "c.parquet")))


def test_a_dask_frame_keeps_its_integers(dasks):
    frame = pd.DataFrame(
        {
            "big": pd.array([2**53 + 1, None, 3, 4], dtype="Int64"),
            "text": ["a", None, "b", "b"],
            "kind": pd.Categorical(["u", "v", None, "u"], categories=["u", "v", "unused"]),
            "number": [0.0, -0.0, np.nan, 1.5],
        },
        index=[9, 9, 8, 7],
    )
    lazy = dd.from_pandas(frame, npartitions=2, sort=False)
    assert is_dask_frame(lazy)
    assert not is_dask_frame(frame)
    for data in (lazy, frame):
        table = dasks.scan(Source(data=data))
        assert [str(kind) for kind in table.schema.types] == ["int64", "string", "string", "double"]
        wanted = [(2**53 + 1, "a", "u", 0.0), (None, None, "v", 0.0), (3, "b", None, None), (4, "b", "u", 1.5)]
        assert records(dasks, table) == of(wanted)


def test_what_an_object_column_holds_is_asked_of_all_partitions(threads):
    def lazy(values: list[Any], npartitions: int) -> Any:
        import dask

        with dask.config.set({"dataframe.convert-string": False}):
            frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
            return dd.from_pandas(frame, npartitions=npartitions, sort=False)

    table = threads.scan(Source(data=lazy([None, None, 1, 2], 2)))
    assert table.schema.field("c").type == pa.int64()
    assert records(threads, table) == of([(None,), (None,), (1,), (2,)])
    said = {1: "partition 0: column 'c' mixes types", 2: "partition 1: column 'c' is string, and int64 in partition 0"}
    for npartitions, message in said.items():
        with pytest.raises(DataError, match=message) as raised:
            threads.scan(Source(data=lazy([7, 8, "canary", "canary"], npartitions)))
        assert "canary" not in str(raised.value)


def test_partitions_that_break_the_meta_of_their_frame_are_named(threads):
    import dask

    good = pd.DataFrame({"q": [1, 2], "c": [1.0, 2.0]})

    def scanned(second: Any) -> Any:
        parts = [dask.delayed(lambda part=part: part)() for part in (good, second)]
        frame = dd.from_delayed(parts, meta=good.iloc[:0], verify_meta=False)
        return records(threads, threads.scan(Source(data=frame)))

    for column in ([3.0, None], np.array([3, 4], "int8"), [None, None]):  # what pandas makes of missing values
        out = scanned(pd.DataFrame({"c": [0.5, 1.5], "q": column}))
        assert sum(out.values()) == 4
    broken = {
        "column 'q': values of string that int64": good.assign(q=["3", "canary"]),
        "column 'q': values of double that int64": good.assign(q=[1.5, 2.5]),
        "column 'q': values of bool that int64": good.assign(q=[True, False]),
        r"column 'q': values of timestamp\[\w+\] that int64": good.assign(q=pd.to_datetime(["2020-01-01"] * 2)),
        "column 'q' is missing": good[["c"]],
        "column 'z' is not in the frame's meta": good.assign(z=1),
        "a Series, and no data frame": good["q"],
    }
    for message, second in broken.items():
        with pytest.raises(DataError, match=f"partition 1: {message}") as raised:
            scanned(second)
        assert "canary" not in str(raised.value)


def test_floats_declared_integer_are_cast_or_counted(threads):
    frame = pd.DataFrame({"age": [30.0, np.nan, 41.0]})
    table = threads.scan(Source(data=frame, types={"age": "integer"}))
    assert records(threads, table) == of([(30,), (None,), (41,)])
    with pytest.raises(DataError, match="column 'age' is declared integer, and 2 cells are not"):
        threads.scan(Source(data=pd.DataFrame({"age": [30.5, 1.0, 1.25, 2.0]}), types={"age": "integer"}))


def test_json_of_both_kinds(threads, tmp_path):
    (tmp_path / "a.json").write_text('[{"k": "x", "v": 1.50}, {"k": null}]')
    (tmp_path / "b.json").write_text('{"k": "y", "v": 2}\n{"v": 3, "w": true}\n')
    table = threads.scan(Source(data=str(tmp_path), format="json", types={"v": "number"}))
    assert records(threads, table) == of([("x", 1.5, None), (None, None, None), ("y", 2.0, None), (None, 3.0, "true")])


def test_a_truncated_parquet_file_is_a_data_error(threads, tmp_path):
    pq.write_table(hostile(), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"a\.parquet: not a readable Parquet file"):
        threads.scan(Source(data=str(tmp_path / "a.parquet")))


def test_a_file_that_vanishes_is_a_data_error(threads, tmp_path):
    pq.write_table(hostile(), tmp_path / "a.parquet")
    table = threads.scan(Source(data=str(tmp_path / "a.parquet")))
    Path(tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match=r"cannot read a\.parquet: No such file"):
        threads.count(table)


def test_delta_needs_its_library(threads, tmp_path):
    with pytest.raises((UsageError, DataError), match="(?i)delta"):
        threads.scan(Source(data=str(tmp_path), format="delta"))
