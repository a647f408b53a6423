"""Canonical text: one value, one text, from any Arrow type and any spelling."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.hierarchies import COLUMN_TYPES, canonical_literal, canonical_text

CASES: list[tuple[pa.Array, str | None, list[str | None]]] = [
    (pa.array([7, -1, None], pa.int8()), "integer", ["7", "-1", None]),
    (pa.array([2**63], pa.uint64()), "integer", [str(2**63)]),
    (pa.array([7.0, -0.0, float("nan"), None]), "integer", ["7", "0", None, None]),
    (pa.array([7.0, -0.0, 0.1, 1e22, 1e-7]), "number", ["7", "0", "0.1", "10000000000000000000000", "0.0000001"]),
    (pa.array([float("inf"), float("-inf")]), "number", ["inf", "-inf"]),
    (pa.array([0.1, 16777216.0], pa.float32()), "number", ["0.1", "16777216"]),
    (pa.array([Decimal("7.50"), Decimal("-0.00")], pa.decimal128(9, 2)), "decimal", ["7.5", "0"]),
    (pa.array([Decimal("0.000000010"), Decimal("1000")], pa.decimal128(20, 9)), "decimal", ["0.00000001", "1000"]),
    (pa.array([Decimal("120")], pa.decimal128(9, 0)), "number", ["120"]),
    (pa.array([1.5]), "decimal", ["1.5"]),
    (pa.array([dt.date(2024, 5, 1)]), "date", ["2024-05-01"]),
    (pa.array([dt.date(2024, 5, 1)]), "timestamp", ["2024-05-01T00:00:00"]),
    (pa.array([dt.datetime(2024, 5, 1)]), "date", ["2024-05-01"]),
    (pa.array([1_500_000, 0], pa.timestamp("us")), "timestamp", ["1970-01-01T00:00:01.5", "1970-01-01T00:00:00"]),
    (pa.array([1], pa.timestamp("ns")), "timestamp", ["1970-01-01T00:00:00.000000001"]),
    (pa.array([0], pa.timestamp("s", "Europe/Rome")), "timestamp", ["1970-01-01T00:00:00"]),
    (pa.array([True, False, None]), "boolean", ["true", "false", None]),
    (pa.array([1, 0]), "boolean", ["true", "false"]),
    (pa.array([" 07 ", "", None]), "text", [" 07 ", "", None]),
    (pa.array([" 07 ", "", None]), "integer", ["7", None, None]),
    (pa.array(["+7.0", "1e2", "NaN"]), "number", ["7", "100", None]),
    (pa.array(["9007199254740993", "0.10000000000000001"]), "number", ["9007199254740993", "0.1"]),
    (pa.array(["0.10000000000000001"]), "decimal", ["0.10000000000000001"]),
    (pa.array(["TRUE", "f", "0"]), "boolean", ["true", "false", "false"]),
    (pa.array(["2024-05-01", "2024-05-01 00:00:00"]), "date", ["2024-05-01", "2024-05-01"]),
    (
        pa.array(["2024-05-01T10:00Z", "2024-05-01 10:00:00.120+0200"]),
        "timestamp",
        ["2024-05-01T10:00:00", "2024-05-01T08:00:00.12"],
    ),
    (pa.array([7, 8]), "text", ["7", "8"]),
    (pa.array([7.0]), None, ["7"]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), "text", ["a", "b", "a"]),
    (pa.array(["07", None, "7"]).dictionary_encode(), "integer", ["7", None, "7"]),
    (pa.array(["x"], pa.large_string()), "text", ["x"]),
    (pa.nulls(2), "date", [None, None]),
    (pa.array([], pa.float64()), "number", []),
]


@pytest.mark.parametrize(("array", "kind", "expected"), CASES)
def test_each_arrow_type_has_its_text(array: Any, kind: str | None, expected: list[str | None]) -> None:
    text = canonical_text(array, kind)
    assert text.type == pa.string()
    assert text.to_pylist() == expected


def test_chunks_are_kept() -> None:
    text = canonical_text(pa.chunked_array([["1"], ["02", None]]), "integer")
    assert [chunk.to_pylist() for chunk in text.chunks] == [["1"], ["2", None]]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array(["seven", "seven", "8"]), "integer"),
        (pa.array([7.5, 7.5, 8.0]), "integer"),
        (pa.array(["1_000", "1_000"]), "number"),
        (pa.array([float("inf"), float("-inf")]), "decimal"),
        (pa.array(["2024-02-30", "2024-02-30"]), "date"),
        (pa.array(["2024-05-01T10:00", "2024-05-01T10:00"]), "date"),
        (pa.array(["0001-01-01T00:00+10:00", "noon"]), "timestamp"),
        (pa.array([2, 2]), "boolean"),
        (pa.array([True, True]), "integer"),
    ],
)
def test_values_of_another_type_are_counted_and_never_shown(array: Any, kind: str) -> None:
    with pytest.raises(
        DataError, match=rf"column 'x': 2 values \(\d distinct\) are not of the declared type {kind}"
    ) as error:
        canonical_text(array, kind, column="x")
    assert not any(str(value) in str(error.value) for value in array.to_pylist() if len(str(value)) > 1)


def test_binary_and_nested_columns_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="binary"):
        canonical_text(pa.array([b"x"]), "text")
    with pytest.raises(UnsupportedError, match="list"):
        canonical_text(pa.array([[1]]), None)


def test_an_unknown_type_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'integer'"):
        canonical_text(pa.array([1]), "interger")


@given(st.lists(st.floats(allow_infinity=False) | st.integers(-(2**53), 2**53).map(float), max_size=20))
def test_doubles_and_their_literals_meet(values: list[float]) -> None:
    from_doubles = canonical_text(pa.array(values, pa.float64()), "number").to_pylist()
    assert from_doubles == [canonical_literal(repr(value), "number") for value in values]
    assert all(float(text) == value for text, value in zip(from_doubles, values, strict=True) if text is not None)
    assert not any("e" in text or text.endswith(".0") for text in from_doubles if text is not None)


@given(st.sampled_from(COLUMN_TYPES), st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str))
def test_canonical_text_is_its_own_canonical_text(kind: str, literal: str) -> None:
    try:
        once = canonical_literal(literal, kind)
    except ValueError:
        return
    assert once is not None
    assert canonical_literal(once, kind) == once


@given(st.datetimes(timezones=st.none()))
def test_timestamps_of_arrow_and_of_text_meet(moment: dt.datetime) -> None:
    (text,) = canonical_text(pa.array([moment], pa.timestamp("us")), "timestamp").to_pylist()
    assert text == canonical_literal(moment.isoformat(), "timestamp")
    assert dt.datetime.fromisoformat(text) == moment


def test_what_no_double_reaches_is_infinite_among_doubles() -> None:
    assert [canonical_literal(text, "number") for text in ("1e999", "-1e999", "1e-999")] == ["inf", "-inf", "0"]
