"""Integral privacy of a published statistic."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks import Facts, Histogram, Tally
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.judging import assess
from privpipe.models import IntegralPrivacy
from privpipe.models.process.integral_privacy import minimal_generators, published
from privpipe.roles import Roles


def brute(data: list[int], statistic: Any, digits: int, changes: int) -> tuple[int, bool]:
    """Try every multiset of changes; keep the minimal ones; intersect."""
    domain = sorted(set(data))
    shown = published(Fraction(sum(data)), len(data), statistic, digits)
    moves = [(way, value) for value in domain for way in (1, -1)]
    kept: list[Counter[tuple[int, int]]] = []
    for size in range(1, changes + 1):
        for some in itertools.combinations_with_replacement(moves, size):
            mu = Counter(some)
            if any(mu[-1, value] > data.count(value) or (mu[1, value] and mu[-1, value]) for value in domain):
                continue
            if any(not smaller - mu for smaller in kept):
                continue
            total = sum(data) + sum(way * value for way, value in some)
            if published(Fraction(total), len(data) + sum(way for way, _ in some), statistic, digits) == shown:
                kept.append(mu)
    common = bool(kept) and bool(set.intersection(*(set(mu) for mu in kept)))
    return len(kept), common


@given(
    st.lists(st.integers(-6, 30), min_size=1, max_size=12),
    st.sampled_from(["mean", "sum", "count"]),
    st.integers(-2, 2),
    st.integers(1, 2),
)
def test_the_closed_test_is_exhaustive(data: list[int], statistic: Any, digits: int, changes: int) -> None:
    counted = sorted(Counter(data).items())
    values, counts = [value for value, _ in counted], [count for _, count in counted]
    found = minimal_generators(values, counts, statistic, digits, changes)
    assert (found.total, found.common) == brute(data, statistic, digits, changes)


def facts(values: pa.Array, counts: list[int]) -> Facts:
    return Facts(histograms={"income": Histogram(values, np.array(counts))})


def judge(known: Facts, **parameters: Any) -> Any:
    query = {"statistic": "mean", "column": "income", "digits": 0} | parameters.pop("query", {})
    return IntegralPrivacy(query=query, **parameters).judge(Tally(), known)


def test_few_digits_hide_a_record_and_many_do_not() -> None:
    known = facts(pa.array([10, 20, 30, 47]), [9, 9, 9, 9])
    coarse, fine = (judge(known, k=3, query={"digits": digits}) for digits in (-1, 6))
    assert (coarse.passed, coarse.observed) == (True, 8)
    assert (fine.passed, fine.observed) == (False, 0)
    assert "exhaustive" in fine.reason


def test_a_change_in_every_set_gives_itself_away() -> None:
    verdict = judge(facts(pa.array([0, 5]), [4, 1]), k=1, query={"statistic": "sum", "digits": 0}, changes=1)
    assert (verdict.observed, verdict.passed) == (2, True)
    alone = judge(facts(pa.array([3]), [1]), k=1)
    assert (alone.observed, alone.passed) == (1, False)
    assert "one change is in every set" in alone.reason


@pytest.mark.parametrize(
    "values", [pa.array([1.5, 2.25, None]), pa.array(["1.50", "2.25", None]).cast(pa.decimal128(6, 2))]
)
def test_numbers_are_exact_and_missing_ones_left_out(values: pa.Array) -> None:
    assert judge(facts(values, [4, 4, 4]), query={"statistic": "count"}, changes=2).observed == 2


def test_anything_but_a_number_is_refused() -> None:
    for values, text in ((pa.array(["a"]), "number column"), (pa.array([float("inf")]), "infinite")):
        with pytest.raises(DataError, match=text):
            judge(facts(values, [1]))
    assert judge(facts(pa.array([None], type=pa.int64()), [3])).outcome == "error"


def test_every_engine_gives_the_same(engine: Engine) -> None:
    frame = pa.table({"zip": ["a", "b"] * 20, "income": [at * 7 % 23 for at in range(40)]})
    model = IntegralPrivacy(k=3, query={"statistic": "mean", "column": "income", "digits": 0}, changes=2)
    table = engine.scan(Source(data=frame))
    found = assess(engine, table, guarantees=[model], roles=Roles(quasi_identifiers=["zip"], sensitive=["income"]))
    counted = sorted(Counter(frame["income"].to_pylist()).items())
    values, counts = [value for value, _ in counted], [count for _, count in counted]
    assert found.verdicts[0].observed == minimal_generators(values, counts, "mean", 0, 2).total
    assert found.records == 40


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"k": 0}, "k must"),
        ({"changes": 3}, "changes must"),
        ({"query": {"statistic": "median"}}, "statistic must"),
        ({"query": {"digits": 0.5}}, "digits must"),
        ({"query": {"column": ""}}, "column must"),
        ({"query": {"digit": 2}}, "query must be"),
    ],
)
def test_ranges(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        judge(facts(pa.array([1]), [1]), **parameters)
