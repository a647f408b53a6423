"""Bottom coding mirrors top coding: what holds above for x holds below for -x."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.errors import DataError
from privpipe.transforms import BottomCode, TopCode


def coded(run: Any, stage: Any, x: Any) -> list[Any]:
    frame = pa.table({"x": x, "row": range(len(x))})
    return run(stage, frame, record_id="row").rows.sort_by("row").column("x").to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=30), st.integers(-20, 20))
def test_it_mirrors_top_coding(run: Any, x: list[int], at: int) -> None:
    if all(value < at for value in x):
        with pytest.raises(DataError, match="are beyond the threshold; with top_code"):
            coded(run, BottomCode(columns=["x"], at=at), x)
        return
    below = coded(run, BottomCode(columns=["x"], at=at), x)
    assert below == [max(value, at) for value in x]
    assert below == [-value for value in coded(run, TopCode(columns=["x"], at=-at), [-value for value in x])]
    mean = BottomCode(columns=["x"], at=at, replace="mean", at_least=1)
    assert sum(coded(run, mean, x)) == pytest.approx(sum(x), abs=1e-9)


def test_quantile_label_and_dates(run: Any) -> None:
    assert coded(run, BottomCode(columns=["x"], quantile=0.5, replace="label", label="low"), [1, 2, 3, 4]) == [
        "low",
        "2",
        "3",
        "4",
    ]
    days = [datetime.date(1900, 1, 1), datetime.date(2000, 1, 1)]
    assert coded(run, BottomCode(columns=["x"], at="1950-06-30"), days)[0] == datetime.date(1950, 6, 30)
