"""Contributions as integers: floats are rounded half to even once, from their exact value."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import DataError, UsageError
from privpipe.tables.contribution_rows import decimals_of, in_units


@given(st.floats(-1e11, 1e11), st.integers(0, 7))
def test_the_exact_value_is_rounded(value: float, decimals: int) -> None:
    assert in_units("x", pa.array([value]), decimals).to_pylist() == [round(Fraction(value) * 10**decimals)]


@pytest.mark.parametrize("decimals", range(10))
def test_halves_and_their_neighbours(decimals: int) -> None:
    draw = np.random.default_rng(decimals)
    halves = (draw.integers(-(10**6), 10**6, 500) + 0.5) / 10**decimals
    whole = draw.integers(2**51, 2**54, 500) / 4.0 / 10**decimals
    values = np.concatenate([halves, np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf), whole])
    found = in_units("x", pa.array(values), decimals).to_pylist()
    assert found == [round(Fraction(value) * 10**decimals) for value in values.tolist()]


def test_what_64_bits_do_not_hold_is_an_error() -> None:
    for values in (pa.array([float("inf"), 1.0]), pa.array([1e17]), pa.array([2**60])):
        with pytest.raises(DataError, match="1 values of a part"):
            in_units("x", values, 3)


def test_decimals_come_from_the_type_or_are_written() -> None:
    assert decimals_of("x", pa.decimal128(9, 2), None) == 2
    assert decimals_of("x", pa.int64(), None) == 0
    assert decimals_of("x", pa.float64(), 3) == 3
    for kind, declared, message in (
        (pa.float64(), None, "write how many decimals"),
        (pa.decimal128(9, 2), 1, "2 decimals by its type"),
        (pa.string(), None, "cannot be summed"),
        (pa.int64(), 19, "from 0 to 18"),
    ):
        with pytest.raises(UsageError, match=message):
            decimals_of("x", kind, declared)
