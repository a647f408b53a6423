"""Source types become logical ones, and logical ones those declared, without losing anything silently."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines.base.conversion import normalised, typing_of
from privpipe.errors import DataError


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, None], pa.uint8()), pa.int64()),
        (pa.array([1.5], pa.float32()), pa.float64()),
        (pa.array(["a"], pa.large_string()), pa.string()),
        (pa.array(["a", None], pa.string_view()), pa.string()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array([3]).dictionary_encode(), pa.int64()),
        (pa.array([None, None]), pa.string()),
        (pa.array([1_000], pa.timestamp("ns", "Europe/Paris")), pa.timestamp("us", "UTC")),
        (pa.array([86_400_000], pa.date64()), pa.date32()),
        (pa.array([b"x"], pa.binary(1)), pa.binary()),
        (pa.array([Decimal(1)], pa.decimal128(5, 2)), pa.decimal128(38, 2)),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), pa.string()),
    ],
    ids=str,
)
def test_every_type_has_one_logical_type(array: pa.Array, kind: pa.DataType) -> None:
    found = normalised(pa.chunked_array([array, array]), "c")
    assert found.type == kind
    assert len(found) == 2 * len(array)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([1], pa.timestamp("ns")),
        pa.array([1], pa.date64()),
        pa.array([[1]]),
        pa.array([dt.time(1)]),
        pa.array([Decimal(1)], pa.decimal256(50, 2)),
    ],
    ids=lambda array: str(array.type),
)
def test_what_would_lose_something_is_refused(array: pa.Array) -> None:
    with pytest.raises(DataError, match="'c'"):
        normalised(array, "c")


def converted(array: pa.Array, kind: str) -> tuple[list[Any], int]:
    typing = typing_of(pa.schema([("c", array.type)]), {"c": kind})
    batch, bad = typing.apply(pa.record_batch({"c": array}))
    return batch.column("c").to_pylist(), bad.get("c", 0)


def test_declared_types() -> None:
    assert converted(pa.array([1.0, None, 2.5, 2.0**53, float("nan"), 1e300]), "integer") == (
        [1, None, None, 2**53, None, None],
        2,
    )
    assert converted(pa.array([1, None]), "number") == ([1.0, None], 0)
    assert converted(pa.array([2**53 + 1, 3]), "number") == ([None, 3.0], 1)
    assert converted(pa.array([1.0, 0.1, None]), "text") == (["1", "0.1", None], 0)
    assert converted(pa.array(["7", "x", "y"]), "integer") == ([7, None, None], 2)
    assert converted(pa.array([dt.date(2024, 1, 1)]), "timestamp") == ([dt.datetime(2024, 1, 1)], 0)
    assert converted(pa.array([dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 1, 2)]), "date") == (
        [None, dt.date(2024, 1, 2)],
        1,
    )
    assert converted(pa.array([True, None]), "text") == (["true", None], 0)


def test_senseless_declarations_are_refused() -> None:
    with pytest.raises(DataError, match="declare number"):
        converted(pa.array([1.5]), "boolean")
    with pytest.raises(DataError, match=r"did you mean 'age'"):
        typing_of(pa.schema([("age", pa.int64())]), {"agee": "integer"})


def test_an_error_counts_and_shows_no_value() -> None:
    typing = typing_of(pa.schema([("c", pa.string())]), {"c": "integer"})
    with pytest.raises(DataError, match=r"'c' is declared integer, and 2 cells are not") as raised:
        typing.convert(pa.record_batch({"c": ["secret", "1", "secret"]}))
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
