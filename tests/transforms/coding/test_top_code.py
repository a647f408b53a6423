"""Top coding: strictly above the threshold, exact in every type, and a mean that keeps the sum."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.errors import DataError, UsageError
from privpipe.transforms import TopCode
from privpipe.transforms.coding.tail_thresholds import quantile_rank
from tests.tiers import at_most


def coded(run: Any, stage: Any, columns: dict[str, Any]) -> tuple[Any, dict[str, list[Any]]]:
    frame = pa.table({**columns, "row": range(len(next(iter(columns.values()))))})
    outcome = run(stage, frame, record_id="row")
    found = outcome.rows.sort_by("row")
    return outcome, {name: found.column(name).to_pylist() for name in columns}


def test_strictly_above_the_threshold(run: Any) -> None:
    x = [1, 99, 100, None, 2**53 + 1]
    assert coded(run, TopCode(columns=["x"], at=99), {"x": x})[1]["x"] == [1, 99, 99, None, 99]
    outcome, found = coded(run, TopCode(columns=["x"], at=99, replace="label", label="100+"), {"x": x})
    assert found["x"] == ["1", "99", "100+", None, "100+"]
    assert outcome.plan.detail["columns"]["x"][0]["replaced"] == 2
    # Beyond 2^53 two neighbours are one double: integers are compared as integers.
    assert coded(run, TopCode(columns=["x"], at=2**53), {"x": x})[1]["x"] == [1, 99, 100, None, 2**53]
    assert coded(run, TopCode(columns=["x"], at=99.5), {"x": x})[1]["x"][:3] == [1.0, 99.0, 99.5]


def test_a_threshold_of_a_policy_is_exact_beyond_2_to_53() -> None:
    """A policy's whole number is not read by way of a double."""
    column = {"role": "quasi_identifier", "type": "integer"}
    policy = {
        "version": 1,
        "columns": {"x": column},
        "guarantees": [{"k_anonymity": {"k": 1}}],
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
        "transform": [{"top_code": {"columns": ["x"], "at": 2**60 + 2}}],
    }
    frame = pa.table({"x": [2**60 + each for each in (1, 2, 3, 90)]})
    found = pp.transform(frame, pp.plan(frame, policy)).column("x").to_pylist()
    assert sorted(each - 2**60 for each in found) == [1, 2, 2, 2]


@settings(max_examples=at_most(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=40), st.sampled_from([0.1, 0.29, 0.5, 0.9]))
def test_a_mean_keeps_the_sum(run: Any, x: list[int], q: float) -> None:
    """The oracle: the value at rank ceil(q n) - 1 of the sorted list, and the mean of what exceeds it."""
    limit = sorted(x)[math.ceil(round(q * len(x), 9)) - 1]
    above = [value for value in x if value > limit]
    stage = TopCode(columns=["x"], quantile=q, replace="mean", at_least=1)
    outcome, found = coded(run, stage, {"x": x})
    assert outcome.plan.detail["columns"]["x"][0]["threshold"] == limit
    wanted = [sum(above) / len(above) if value > limit else value for value in x]
    assert found["x"] == pytest.approx(wanted)
    assert math.fsum(found["x"]) == pytest.approx(sum(x), abs=1e-9)
    assert outcome.plan.detail["confidential"]


def test_a_mean_of_few_is_refused(run: Any) -> None:
    with pytest.raises(DataError, match=r"2 values of column 'x' would be replaced by their mean, fewer than at_least"):
        coded(run, TopCode(columns=["x"], at=8, replace="mean"), {"x": range(11)})
    _, found = coded(run, TopCode(columns=["x"], at=8, replace="mean", at_least=2, round=True), {"x": range(11)})
    assert found["x"] == [*range(9), 10, 10]  # 9.5, half to even
    with pytest.raises(DataError, match="all 3 values of column 'x' are beyond"):
        coded(run, TopCode(columns=["x"], at=-1), {"x": [1, 2, 3]})


def test_dates_decimals_and_timestamps(run: Any) -> None:
    days = [datetime.date(2020, 1, day) for day in (1, 15, 31)]
    assert coded(run, TopCode(columns=["d"], at="2020-01-20"), {"d": days})[1]["d"][2] == datetime.date(2020, 1, 20)
    money = pa.array([Decimal("1.23"), Decimal("9.99"), None], pa.decimal128(8, 2))
    assert coded(run, TopCode(columns=["m"], at=5.5), {"m": money})[1]["m"] == [Decimal("1.23"), Decimal("5.50"), None]
    seen = [datetime.datetime(2020, 1, 1, 12), datetime.datetime(2020, 6, 1)]
    found = coded(run, TopCode(columns=["t"], at="2020-01-01T18:00:00"), {"t": seen})[1]["t"]
    assert found[1] == datetime.datetime(2020, 1, 1, 18)
    labelled = coded(run, TopCode(columns=["m"], at=5, replace="label", label="5+"), {"m": money})[1]["m"]
    assert labelled == ["1.23", "5+", None]


def test_strata_have_thresholds_of_their_own(run: Any) -> None:
    columns = {"g": ["a"] * 4 + ["b"] * 4, "x": [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]}
    outcome, found = coded(run, TopCode(columns=["x"], quantile=0.5, by=["g"]), columns)
    assert found["x"] == [1.0, 2.0, 2.0, 2.0, 10.0, 20.0, 20.0, 20.0]
    assert sorted(each["threshold"] for each in outcome.plan.detail["columns"]["x"]) == [2.0, 20.0]


def test_minus_999_is_a_value_and_nan_is_none(run: Any) -> None:
    """A magic number for missing made a true -999 vanish from means elsewhere."""
    x = [-999.0, 5.0, math.nan, 7.0, None]
    outcome, found = coded(run, TopCode(columns=["x"], at=-1000.5, replace="mean", at_least=1), {"x": [*x, -2000.0]})
    assert found["x"][0] == pytest.approx((-999 + 5 + 7) / 3)
    assert found["x"][2] is None
    assert outcome.plan.detail["nulls"] == {"x": 2}
    with pytest.raises(DataError, match="'x' holds 1 infinite"):
        coded(run, TopCode(columns=["x"], at=1), {"x": [1.0, -math.inf]})
    with pytest.raises(DataError, match="2 missing"):
        coded(run, TopCode(columns=["x"], at=1, nulls="refuse"), {"x": x})


def test_quantile_ranks_are_exact() -> None:
    for n in (1, 3, 10, 100, 1000):
        for percent in range(1, 100):
            assert quantile_rank(percent / 100, n) == max(-(-percent * n // 100) - 1, 0)


def test_nothing_to_code(run: Any) -> None:
    assert coded(run, TopCode(columns=["x"], at=1), {"x": pa.array([], pa.int64())})[1]["x"] == []
    assert coded(run, TopCode(columns=["x"], quantile=0.5), {"x": pa.nulls(2, pa.float64())})[1]["x"] == [None, None]
    same = [3.0] * 4
    assert coded(run, TopCode(columns=["x"], quantile=0.5, replace="mean"), {"x": same})[1]["x"] == same
    big = np.array([1e15, 1e15 + 1])
    assert coded(run, TopCode(columns=["x"], at=1e15), {"x": big})[1]["x"] == [1e15, 1e15]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "one of the three"),
        ({"at": 1, "quantile": 0.5}, "one of the three"),
        ({"quantile": 1}, "quantile must be"),
        ({"at": "soon"}, "a date like"),
        ({"at": 1, "label": "x"}, "label requires"),
        ({"at": 1, "replace": "label"}, "label requires"),
        ({"at": 1, "replace": "men"}, "did you mean 'mean'"),
        ({"at": 1, "at_least": 0}, "at_least must be"),
        ({"at": math.nan}, "at must be"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TopCode(**{"columns": ["x"], **parameters})
