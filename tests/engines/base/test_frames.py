"""Local frames as Arrow: what is one type stays exact, what mixes types is refused by column."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import privpipe as pp
from privpipe.engines.base.frames import arrow_of, frame_like, is_local_frame
from privpipe.errors import DataError, UsageError

TABLE = pa.table({"a": pa.array([1, None, 2**53 + 1]), "b": ["x", None, "y"], "c": [True, False, None]})


def frames() -> dict[str, Any]:
    return {
        "pyarrow": TABLE,
        "batch": TABLE.to_batches()[0],
        "dataset": ds.dataset(TABLE),
        "polars": pl.from_arrow(TABLE),
        "pandas": TABLE.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
        "duckdb": duckdb.from_arrow(TABLE),
        "reader": TABLE.to_reader(),
    }


@pytest.mark.parametrize("kind", frames())
def test_every_kind_goes_in_and_comes_out(kind: str) -> None:
    frame = frames()[kind]
    assert is_local_frame(frame)
    arrow = arrow_of(frame)
    rows = arrow.read_all() if isinstance(arrow, pa.RecordBatchReader) else arrow
    rows = rows.to_table() if isinstance(rows, ds.Dataset) else rows
    assert rows.to_pylist() == TABLE.to_pylist()
    back = frame_like(TABLE, frame)
    assert type(back) is type(frame) or kind == "dataset"
    again = arrow_of(back)
    again = again.read_all() if isinstance(again, pa.RecordBatchReader) else again
    again = again.to_table() if isinstance(again, ds.Dataset) else again
    assert again.to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 2], pa.int64()),
        ([2**53 + 1, None], pa.int64()),
        ([1.5, 2], pa.float64()),
        (["a", float("nan"), None], pa.string()),
        ([True, None], pa.bool_()),
        ([dt.date(2024, 1, 1), None], pa.date32()),
        ([dt.datetime(2024, 1, 1), pd.NaT], pa.timestamp("us")),
        ([None, None], pa.null()),
    ],
    ids=str,
)
def test_object_columns_of_one_type(values: list[Any], kind: pa.DataType) -> None:
    assert arrow_of(pd.DataFrame({"c": pd.Series(values, dtype=object)})).schema.field("c").type == kind


@pytest.mark.parametrize(
    "values",
    [[1, "a"], [True, 1], [b"x", "y"], [1.5, "x"], [dt.date(2024, 1, 1), "x"], [{"a": 1}, 3], [2**60, 0.5]],
    ids=str,
)
def test_object_columns_that_mix_types_are_refused(values: list[Any]) -> None:
    with pytest.raises(DataError, match="'c'") as raised:
        arrow_of(pd.DataFrame({"c": pd.Series(values, dtype=object)}))
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


BEGINS = {
    "2001": ("Y", pa.int64(), 2001),
    "2001-03": ("M", pa.date32(), dt.date(2001, 3, 1)),
    "2001Q2": ("Q", pa.date32(), dt.date(2001, 4, 1)),
    "2001-03-05": ("D", pa.date32(), dt.date(2001, 3, 5)),
    "2001-03-05 07:00": ("h", pa.timestamp("ns"), dt.datetime(2001, 3, 5, 7)),
}


@pytest.mark.parametrize(("text", "expected"), BEGINS.items(), ids=BEGINS)
def test_periods_are_what_they_begin_with(text: str, expected: tuple[str, pa.DataType, Any]) -> None:
    unit, kind, begin = expected
    column = pd.Series(pd.PeriodIndex([text, None], freq=unit))
    for held in (column, column.astype("category")):
        rows = arrow_of(pd.DataFrame({"c": held}))["c"]
        assert (rows.type, rows.to_pylist()) == (kind, [begin, None])
    assert arrow_of(pd.DataFrame({"c": column[:0]})).schema.field("c").type == kind


def test_intervals_are_ordered_categories() -> None:
    cut = pd.cut(pd.Series([7.0, 150, None, 70]), [0.0, 18.0, 100.0, 200.0])
    for held in (cut, cut.astype(object).astype("interval")):
        rows = arrow_of(pd.DataFrame({"c": held}))["c"].combine_chunks()
        assert rows.type.ordered
        assert rows.dictionary.to_pylist() == ["(0.0, 18.0]", "(18.0, 100.0]", "(100.0, 200.0]"]
        assert rows.to_pylist() == ["(0.0, 18.0]", "(100.0, 200.0]", None, "(18.0, 100.0]"]


def test_a_pandas_index_and_unused_categories_are_left_behind() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["x"], categories=["x", "unused"])}, index=["secret"])
    rows = arrow_of(frame)
    assert rows.column_names == ["c"]
    assert rows.schema.metadata is None


def test_names_and_lazy_frames() -> None:
    with pytest.raises(DataError, match="2 times"):
        arrow_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="must be text"):
        arrow_of(pd.DataFrame({0: [1]}))
    with pytest.raises(UsageError, match="collect"):
        arrow_of(pl.LazyFrame({"a": [1]}))
    with pytest.raises(UsageError, match="cannot read a"):
        arrow_of(object())


def test_pandas_output_keeps_integers() -> None:
    back = frame_like(TABLE, pd.DataFrame())
    assert str(back["a"].dtype) == "Int64"
    assert back["a"].tolist() == [1, pd.NA, 2**53 + 1] or back["a"][2] == 2**53 + 1
    assert frame_like(TABLE.slice(0, 1), pd.DataFrame())["a"].dtype == np.int64


NOON = dt.datetime(2020, 1, 1, 12)
MIXED_MOMENTS = {
    "a time of day after a date": ([dt.date(2020, 1, 1), NOON], "mixes types"),
    "a date after a time of day": ([NOON, dt.date(2020, 1, 1)], "mixes types"),
    "a Timestamp after a date": ([dt.date(2020, 1, 1), pd.Timestamp(NOON)], "mixes types"),
    "no time zone after one": ([NOON.replace(tzinfo=dt.UTC), NOON], "mixes types"),
    "nanoseconds": ([pd.Timestamp(1), pd.Timestamp(2)], "cannot hold exactly"),
}


@pytest.mark.parametrize(("values", "text"), MIXED_MOMENTS.values(), ids=MIXED_MOMENTS)
def test_moments_that_arrow_would_make_equal_are_refused(values: list[object], text: str) -> None:
    """Two different values, of which pyarrow makes one: a class of two would pass where each record is alone."""
    frame = pd.DataFrame({"q": pd.Series(values, dtype=object)})
    for each in (frame, frame.astype(pd.CategoricalDtype(pd.Index(values, dtype=object)))):
        with pytest.raises(DataError, match=f"column 'q'.*{text}"):
            arrow_of(each)
        with pytest.raises(DataError, match=f"column 'q'.*{text}"):
            pp.assess(each, pp.models.KAnonymity(k=2), quasi_identifiers=["q"])


def test_moments_of_one_kind_are_read() -> None:
    east = dt.timezone(dt.timedelta(hours=5))
    zones = [NOON.replace(tzinfo=dt.UTC), NOON.replace(hour=17, tzinfo=east)]
    for values in ([NOON, pd.Timestamp(NOON), None, pd.NaT], zones, [dt.date(2020, 1, 1), None]):
        frame = pd.DataFrame({"q": pd.Series(values, dtype=object)})
        assert (
            arrow_of(frame).column("q").drop_null().unique().to_pylist() == arrow_of(frame).column("q")[:1].to_pylist()
        )
