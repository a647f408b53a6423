"""Lists of texts as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.engines import Engine, Source
from privpipe.engines.base.logical_types import is_text_list, json_of_lists
from tests.tiers import at_most

LISTS: list[Any] = [["a", None, ""], [], None, ['"\\/\b\f\n\r\t', "\x00\x1f\x7f\u2028é\U0001f600", "[x]"], ["1,2"]]


@settings(max_examples=at_most(40))
@given(st.lists(st.none() | st.lists(st.none() | st.text(max_size=4), max_size=4), max_size=6))
def test_json_reads_them_back(lists: list[Any]) -> None:
    texts = json_of_lists(pa.array(lists, pa.list_(pa.string()))).to_pylist()
    assert [None if text is None else json.loads(text) for text in texts] == lists


def test_which_types_they_are() -> None:
    for kind in (pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.string_view(), 2)):
        assert is_text_list(kind)
    for kind in (pa.string(), pa.list_(pa.int64()), pa.struct({"a": pa.string()}), pa.list_(pa.list_(pa.string()))):
        assert not is_text_list(kind)


def test_every_engine_writes_the_same_text(engine: Engine, tmp_path: Path) -> None:
    frame = pa.table({"basket": pa.array(LISTS, pa.list_(pa.string()))})
    pq.write_table(frame, tmp_path / "rows.parquet")
    wanted = json_of_lists(frame.column("basket").combine_chunks()).to_pylist()
    for data in (str(tmp_path / "rows.parquet"), frame):
        table = engine.scan(Source(data=data))
        assert sorted(engine.collect(table).column("basket").to_pylist(), key=str) == sorted(wanted, key=str)


@pytest.mark.spark
def test_a_spark_column_of_arrays(spark_engine: Engine) -> None:
    rows = [(items,) for items in LISTS]
    frame = spark_engine.session.createDataFrame(rows, "basket array<string>")  # type: ignore[attr-defined]
    table = spark_engine.scan(Source(data=frame))
    wanted = json_of_lists(pa.array(LISTS, pa.list_(pa.string()))).to_pylist()
    found = spark_engine.collect(table).column("basket").to_pylist()
    assert sorted(found, key=str) == sorted(wanted, key=str)
