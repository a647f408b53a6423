"""Row blocks: a batch of records with their hidden ids; pair blocks: two of them."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ID_COLUMNS, PairBlock, RowBlock


def rows() -> RowBlock:
    columns = {"income": [1.0, None, 3.0], "name": ["a", "b", "c"]}
    ids = {ID_COLUMNS[0]: [1, 2, 3], ID_COLUMNS[1]: [4, 5, 6]}
    return RowBlock(pa.record_batch(columns | ids))


def test_ids_are_hidden_and_travel_along() -> None:
    block = rows()
    assert block.schema.names == ["income", "name"]
    assert block.take(np.array([2, 0])).record_ids.tolist() == [[3, 6], [1, 4]]
    assert block.to_batch().schema.names == ["income", "name", *ID_COLUMNS]
    assert block.drop(["name"]).record_ids.shape == (3, 2)


def test_rows_without_ids_say_so() -> None:
    block = RowBlock(pa.record_batch({"x": [1]}))
    assert block.to_batch() is block.batch
    with pytest.raises(LookupError, match="record ids"):
        _ = block.record_ids


def test_numbers_are_floats_and_null_is_nan() -> None:
    assert rows()["income"].tolist()[::2] == [1.0, 3.0]
    assert np.isnan(rows()["income"][1])


def test_nan_is_put_back_as_null() -> None:
    replaced = rows().replace("income", np.array([np.nan, 2.0, 3.0]))
    assert replaced.column("income").to_pylist() == [None, 2.0, 3.0]
    assert replaced.replace("name", pa.array(["x", None, "z"])).column("name").null_count == 1


def test_dates_are_days_and_timestamps_microseconds() -> None:
    moment = datetime.datetime(1970, 1, 2)
    batch = pa.record_batch(
        {
            "day": pa.array([moment.date()]),
            "at": pa.array([moment], pa.timestamp("ms")),
        }
    )
    block = RowBlock(batch)
    assert [block[name].item() for name in ("day", "at")] == [1.0, 86_400_000_000.0]


def test_pairs_are_equally_long() -> None:
    assert len(PairBlock(rows(), rows())) == 3
    with pytest.raises(ValueError, match="3 original rows"):
        PairBlock(rows(), rows().take(np.array([0])))
