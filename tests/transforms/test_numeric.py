"""Numbers in and out: types, rounding and what a type cannot hold."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import RowTransformer, StagePlan, Transformer, checked_columns
from privpipe.transforms.microaggregation.parameters import Groups
from privpipe.transforms.numeric_columns import masked_type, written
from tests.tiers import at_most


@pytest.mark.parametrize(
    ("kind", "rounded", "target"),
    [
        (pa.int64(), False, pa.float64()),
        (pa.int64(), True, pa.int64()),
        (pa.float64(), True, pa.float64()),
        (pa.date32(), False, pa.date32()),
        (pa.timestamp("us", "UTC"), False, pa.timestamp("us", "UTC")),
        (pa.decimal128(38, 3), False, pa.decimal128(38, 3)),
    ],
)
def test_masked_types(kind: Any, rounded: bool, target: Any) -> None:
    assert masked_type(pa.field("x", kind), rounded) == target


def test_written_numbers() -> None:
    x = np.array([0.5, 1.5, -2.5, np.nan])
    assert written(x, pa.float64()).to_pylist() == [0.5, 1.5, -2.5, None]
    assert written(x, pa.float64(), rounded=True).to_pylist() == [0.0, 2.0, -2.0, None]
    assert written(x, pa.int64(), rounded=True).to_pylist() == [0, 2, -2, None]
    assert written(x, pa.date32()).to_pylist()[1:] == [datetime.date(1970, 1, 3), datetime.date(1969, 12, 30), None]
    assert written(x, pa.decimal128(38, 2)).to_pylist()[:3] == [Decimal("0.50"), Decimal("1.50"), Decimal("-2.50")]
    assert written(x, pa.decimal128(38, 2), rounded=True).to_pylist()[:2] == [Decimal("0.00"), Decimal("2.00")]


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (2.0**63, pa.int64()),
        (-1e300, pa.int64()),
        (3e6, pa.date32()),
        (1e18, pa.timestamp("us")),
        (1e17, pa.decimal128(38, 2)),
    ],
)
def test_what_a_type_cannot_hold(value: float, target: Any) -> None:
    with pytest.raises(DataError, match=r"carries 1 cells of column 'x' beyond"):
        written(np.array([0.0, value, np.nan]), target, column="x", rounded=True)


CELLS = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.just(float("nan")), st.integers(-5, 5).map(float))), max_size=20
)


def middle(values: list[float]) -> float:
    """The mean of two middle values; of an odd number the middle one and the nearer neighbour, the lower of two."""
    at, odd = divmod(len(values), 2)
    if not odd:
        return (values[at - 1] + values[at]) / 2
    near = sorted(values[at - 1 : at] + values[at + 1 : at + 2], key=lambda value: abs(value - values[at]))
    return (values[at] + near[0]) / 2 if near else values[at]


@settings(max_examples=at_most(150))
@given(CELLS, st.sampled_from(["mean", "median"]))
def test_aggregates_of_groups(cells: list[tuple[int, float]], aggregate: Any) -> None:
    labels = np.unique(np.array([label for label, _ in cells], dtype=np.int64), return_inverse=True)[1]
    values = np.array([value for _, value in cells], dtype=np.float64)
    found = Groups(labels, np.arange(len(labels))).numbers(values, aggregate)
    assert len(found) == len(set(labels.tolist()))
    for group, made in enumerate(found):
        inside = values[(labels == group) & ~np.isnan(values)]
        assert np.isnan(made) == (len(inside) == 0)
        if len(inside):
            assert made == pytest.approx(np.mean(inside) if aggregate == "mean" else middle(sorted(inside)))


def test_columns_come_as_lists_or_tuples() -> None:
    assert checked_columns("X", ["a", "b"]) == checked_columns("X", ("a", "b")) == ("a", "b")
    for wrong in ([], "ab", None, [1], ["a", "a"]):
        with pytest.raises(UsageError, match="X: columns"):
            checked_columns("X", wrong)


def test_a_stage_without_a_run_says_so() -> None:
    with pytest.raises(TypeError, match="does not run"):
        Transformer().run(None, None, StagePlan(name=""), None, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="applies to no rows"):
        RowTransformer().apply_block(None, StagePlan(name=""), None)  # type: ignore[arg-type]
