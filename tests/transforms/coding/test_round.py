"""Rounding: multiples of the base within its distance, unbiased at random, exact for integers and decimals."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.errors import DataError, UsageError
from privpipe.transforms import Round
from privpipe.transforms.coding.round import rounded_floats
from tests.tiers import at_most


def rounded(run: Any, stage: Round, x: Any) -> list[Any]:
    frame = pa.table({"x": x, "row": range(len(x))})
    return run(stage, frame, record_id="row").rows.sort_by("row").column("x").to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=at_most(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=10), st.integers(1, 1000))
def test_integers_are_exact(run: Any, x: list[int], base: int) -> None:
    """The oracle: Python's integers and fractions, which round half to even."""
    assert rounded(run, Round(columns=["x"], base=base), x) == [round(Fraction(v, base)) * base for v in x]
    assert rounded(run, Round(columns=["x"], base=base, mode="down"), x) == [v // base * base for v in x]
    drawn = rounded(run, Round(columns=["x"], base=base, mode="random"), x)
    assert all(y in (v // base * base, -(-v // base) * base) for v, y in zip(x, drawn, strict=True))


@settings(max_examples=at_most(60))
@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.sampled_from([0.1, 0.25, 2.5, 7, 1000]))
def test_floats_stay_within_the_base(x: list[float], base: float) -> None:
    values = np.array(x)
    slack = 1e-6
    assert (np.abs(rounded_floats(values, base, "nearest", np.empty(0)) - values) <= base / 2 + slack).all()
    down = rounded_floats(values, base, "down", np.empty(0))
    assert (down <= values).all()
    assert (values - down < base + slack).all()
    up = rounded_floats(values, base, "random", np.zeros(len(values)) + 1e-300)
    assert (up >= values - slack).all()


def test_multiples_of_a_tenth_read_as_such() -> None:
    assert rounded_floats(np.array([0.3, 0.7, 1.1, 0.29]), 0.1, "nearest", np.empty(0)).tolist() == [0.3, 0.7, 1.1, 0.3]
    assert rounded_floats(np.array([math.nan, -0.0]), 0.1, "down", np.empty(0)).tolist()[1] == 0.0


def test_random_rounding_is_unbiased(run: Any) -> None:
    n = 20_000
    x = np.full(n, 13.0)
    y = np.array(rounded(run, Round(columns=["x"], base=10, mode="random"), x))
    assert set(y) == {10.0, 20.0}
    assert abs(y.mean() - 13) <= 5 * 10 * math.sqrt(0.3 * 0.7 / n)


def test_types_and_nulls(run: Any) -> None:
    money = pa.array([Decimal("2.50"), Decimal("-2.75"), None], pa.decimal128(8, 2))
    assert rounded(run, Round(columns=["x"], base=0.5), money) == [Decimal("2.50"), Decimal("-3.00"), None]
    with pytest.raises(DataError, match="has 2 digits after the point, and base 0.125 is finer"):
        rounded(run, Round(columns=["x"], base=0.125), money)
    days = pa.array([datetime.date(1970, 1, 10), None])
    assert rounded(run, Round(columns=["x"], base=7, mode="down"), days) == [datetime.date(1970, 1, 8), None]
    assert rounded(run, Round(columns=["x"], base=2.5), pa.array([1, 4, None])) == [0.0, 5.0, None]
    with pytest.raises(DataError, match="1 cells of column 'x' beyond what int64 holds"):
        rounded(run, Round(columns=["x"], base=100, mode="down"), [-(2**63), 2**63 - 1])
    assert rounded(run, Round(columns=["x"], base=0.5), [2**53 + 1]) == [2.0**53]
    with pytest.raises(DataError, match="1 missing"):
        rounded(run, Round(columns=["x"], base=10, nulls="refuse"), [1, None])
    with pytest.raises(DataError, match="infinite"):
        rounded(run, Round(columns=["x"], base=10), [1.0, math.inf])
    assert rounded(run, Round(columns=["x"], base=10), pa.array([], pa.int64())) == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"base": 0}, "base must be"), ({"base": 1, "mode": "up"}, "mode must be"), ({"base": math.inf}, "base must be")],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Round(**{"columns": ["x"], **parameters})


@settings(max_examples=at_most(100))
@given(st.integers(-(10**12), 10**12), st.sampled_from([0.1, 0.7, 0.01, 0.07, 1e-5, 2.5, 30]))
def test_a_multiple_stays_what_it_is(k: int, base: float) -> None:
    """In every mode: the division must not carry it to its neighbour, a whole base away."""
    x = np.array([float(k * Fraction(Decimal(repr(base))))])
    spacing = float(np.spacing(abs(x[0])))
    for mode in ("nearest", "down", "random"):
        assert rounded_floats(x, base, mode, np.array([0.5])) == pytest.approx(x, abs=2 * spacing)


@pytest.mark.parametrize(("x", "base"), [(1e300, 1e-10), (1e10, 1e-300), (1.0, 1e-310), (2.0**60, 0.1)])
def test_a_base_finer_than_doubles_changes_nothing(x: float, base: float) -> None:
    for mode in ("nearest", "down", "random"):
        assert rounded_floats(np.array([x, -x]), base, mode, np.array([0.5, 0.5])).tolist() == [x, -x]


def test_beyond_the_largest_double_is_an_error(run: Any) -> None:
    with pytest.raises(DataError, match="carries 1 cells of column 'x' beyond what float64 holds"):
        rounded(run, Round(columns=["x"], base=1e308), [1.7e308, 1.0])


def test_a_base_beyond_64_bits_is_refused(run: Any) -> None:
    with pytest.raises(DataError, match=r"transform\[0\]: base 1e\+19 is beyond all that int64 holds"):
        rounded(run, Round(columns=["x"], base=1e19), [1, 2])
    assert rounded(run, Round(columns=["x"], base=2**62), [1, 2**62 + 5]) == [0, 2**62]
