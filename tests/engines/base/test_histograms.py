"""Histograms: one entry a value, in the order of the type, null last; codes are positions."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.engines.base.class_blocks import codes_of, find_codes, histogram_of, merged_histogram
from privpipe.errors import DataError

FLOATS = st.floats(allow_infinity=False) | st.none() | st.sampled_from([0.0, -0.0, float("nan")])
VALUES = st.one_of(
    st.lists(st.text(max_size=3) | st.none()).map(lambda v: pa.array(v, pa.string())),
    st.lists(FLOATS).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.booleans() | st.none()).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.dates() | st.none()).map(lambda v: pa.array(v, pa.date32())),
)


@settings(deadline=None)
@given(VALUES, st.integers(1, 4))
def test_a_histogram_is_a_sorted_count_under_any_partitioning(values: pa.Array, parts: int) -> None:
    counts = Counter(None if v is None or v != v else v for v in values.to_pylist())
    wanted = sorted(v for v in counts if v is not None)
    wanted += [None] if None in counts else []
    step = -(-len(values) // parts) or 1
    pieces = [histogram_of(values.slice(at, step)) for at in range(0, len(values), step)]
    for found in (histogram_of(values), merged_histogram(pieces, values.type)):
        assert found.values.to_pylist() == wanted
        assert found.counts.tolist() == [counts[v] for v in wanted]
        assert found.values.type == values.type
        assert codes_of(found.values, found, "c").tolist() == list(range(len(wanted)))


def test_text_goes_by_code_points() -> None:
    found = histogram_of(pa.array(["é", "z", "Z", "\U0001f600", "\uffff", None, ""]))
    assert found.values.to_pylist() == ["", "Z", "z", "é", "\uffff", "\U0001f600", None]


def test_codes_of_values_that_the_dictionary_lacks() -> None:
    dictionary = histogram_of(pa.array([dt.date(2024, 1, 1)]))
    values = pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None])
    assert find_codes(values, dictionary).tolist() == [0, -1, -1]
    with pytest.raises(DataError, match="does not cover.*'c'"):
        codes_of(values, dictionary, "c")
