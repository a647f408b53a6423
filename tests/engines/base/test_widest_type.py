"""The type of what files hold in several: that of every order, and each value exactly or an error."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from privpipe.engines.base.conversion import holds_values, widened, widest_type
from privpipe.errors import DataError

TYPES = [
    *(pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.binary()),
    *(pa.decimal128(5, 2), pa.decimal128(9, 4), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
    *(pa.timestamp("ms", "Europe/Berlin"), pa.string(), pa.large_string(), pa.string_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.null())),
]
NUMBERS: dict[pa.DataType, Any] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5).map(lambda n: 2**53 + n),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(20, 4): st.decimals(-(10**15), 10**15, places=4),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
}


@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4, unique=True), st.randoms())
def test_the_order_of_files_decides_nothing(types: list[pa.DataType], random: Any) -> None:
    found = []
    for _ in range(2):
        random.shuffle(types)
        try:
            found.append(widest_type("q", {kind: f"{at}.parquet" for at, kind in enumerate(types)}))
        except DataError:
            found.append(None)
    assert found[0] == found[1]


@given(st.data())
def test_numbers_are_kept_exactly_or_refused(data: Any) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(NUMBERS)), min_size=2, max_size=2, unique=True))
    columns = [pa.array(data.draw(st.lists(NUMBERS[kind], min_size=1, max_size=3)), kind) for kind in kinds]
    try:
        wanted = widest_type("q", {kind: str(at) for at, kind in enumerate(kinds)})
        out = [widened(column, wanted, "q", "a.parquet") for column in columns]
    except DataError:
        return
    for before, after in zip(columns, out, strict=True):
        assert after.type == wanted
        assert [Decimal(value) for value in before.to_pylist()] == [Decimal(value) for value in after.to_pylist()]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.bool_(), pa.int64()),
        (pa.float64(), pa.decimal128(5, 2)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.string(), pa.binary()),
        (pa.string(), pa.list_(pa.string())),
        (pa.string(), pa.int64()),
        (pa.list_(pa.string()), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_what_no_type_holds_names_file_and_column(left: pa.DataType, right: pa.DataType) -> None:
    for kinds in itertools.permutations((left, right)):
        with pytest.raises(DataError, match=r"[ab]\.parquet: column 'q'") as caught:
            widest_type("q", {kinds[0]: "a.parquet", kinds[1]: "b.parquet"})
        assert str(right) in str(caught.value)


def test_columns_without_a_value_take_any_type() -> None:
    assert widest_type("q", {}) == pa.string()
    for empty in (pa.nulls(2), pa.array([None, float("nan")]), pa.array([], pa.list_(pa.struct([("a", pa.int8())])))):
        assert not holds_values(empty)
        assert widened(empty, pa.date32(), "q", "a.parquet").null_count == len(empty)
    assert widened(pa.array([2.0, None]), pa.int64(), "q", "partition 0").to_pylist() == [2, None]
    for values in ([1.5], [2.0**63], [True], ["1"]):
        with pytest.raises(DataError, match=r"partition 3: column 'q': values of \w+ that int64"):
            widened(pa.array(values), pa.int64(), "q", "partition 3")


def test_lists_of_texts_of_other_widths_are_lists() -> None:
    wanted = widest_type("q", {pa.list_(pa.large_string()): "a", pa.large_list(pa.string()): "b"})
    assert widened(pa.array([["a", None], []], pa.list_(pa.large_string())), wanted, "q", "a").to_pylist() == [
        ["a", None],
        [],
    ]
