"""k-anonymity."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts, Tally
from privpipe.errors import UsageError
from privpipe.models import KAnonymity
from privpipe.testing import judged


def test_a_table_of_sweeney() -> None:
    """Source: Sweeney, IJUFKS 10(5), 2002, figure 2: eleven records in classes of 2, 2, 2, 3 and 2; k = 2."""
    block = ClassBlock(np.array([2, 2, 2, 3, 2]))
    assert judged(KAnonymity(k=2), block).passed
    verdict = judged(KAnonymity(k=3), block)
    assert (verdict.outcome, verdict.observed, verdict.threshold) == ("fail", 2, 3)
    assert (verdict.failing_classes, verdict.failing_records) == (4, 8)
    assert verdict.failing_share == pytest.approx(8 / 11)
    assert verdict.reason == "observed 2, required at least 3; 4 of 5 classes, 8 of 11 records fail."


def test_more_than_there_are_records_is_a_failing_verdict() -> None:
    verdict = judged(KAnonymity(k=6), ClassBlock(np.array([5])))
    assert verdict.outcome == "fail"
    assert "cannot be met by this table: it has 5 records" in verdict.reason
    assert KAnonymity(k=6).unattainable(5, Facts()) != ""
    assert KAnonymity(k=5).unattainable(5, Facts()) == ""


def test_without_k_the_least_size_is_reported() -> None:
    model = KAnonymity()
    verdict = judged(model, ClassBlock(np.array([4, 3])))
    assert not model.is_gate()
    assert (verdict.observed, verdict.failing_classes) == (3, 0)


def test_no_class_has_no_figure() -> None:
    assert KAnonymity(k=2).measure(ClassBlock(np.array([], dtype=np.int64)), Facts()) == Tally()
    assert KAnonymity(k=2).judge(Tally(), Facts()).observed is None


def test_sizes_stay_integers() -> None:
    assert isinstance(judged(KAnonymity(k=2), ClassBlock(np.array([2**60, 3]))).observed, int)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "5"])
def test_k_is_a_positive_integer(k: object) -> None:
    with pytest.raises(UsageError, match="KAnonymity: k must be an integer|KAnonymity: k must be"):
        KAnonymity(k=k)


@pytest.mark.parametrize("names", ["age", ("age", "age"), (1,)])
def test_quasi_identifiers_are_a_list_of_names(names: object) -> None:
    with pytest.raises(UsageError, match="quasi_identifiers"):
        KAnonymity(k=2, quasi_identifiers=names)


def test_a_search_may_conclude_both_ways() -> None:
    assert KAnonymity.hereditary
    assert KAnonymity.convex
    assert KAnonymity(k=5).least_size() == 5


Row = tuple[str | None, ...]


def like(one: Row, other: Row) -> bool:
    return all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))


def patterns(rows: list[Row]) -> ClassBlock:
    """What an engine counts under wildcard matching: distinct rows, and how many rows each matches."""
    sizes = Counter(rows)
    return ClassBlock(
        np.array(list(sizes.values()), np.int64),
        matching=np.array([sum(like(row, other) for other in rows) for row in sizes], np.int64),
        complete=np.array([None not in row for row in sizes]),
    )


BLANKED: list[Any] = [
    [("a", "m"), ("a", None), ("b", "m"), ("b", "m")],
    [("a", "m"), ("a", "f"), ("a", None), (None, "m"), (None, "f")],
    [("a", "m")] * 3 + [("b", None)] * 3 + [("b", "f")],
    [("a", "m"), ("a", "m"), ("b", "f"), ("b", "f")],
]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rows", BLANKED)
def test_blanks_match_and_are_distinguished_from_equal_records(rows: list[Row], k: int) -> None:
    matches = [sum(like(row, other) for other in rows) for row in rows]
    equal = [rows.count(row) for row in rows]
    only = sum(size < k <= matched for size, matched in zip(equal, matches, strict=True))
    verdict = judged(KAnonymity(k=k), patterns(rows))
    assert (verdict.observed, verdict.passed) == (min(matches), min(matches) >= k)
    assert f"({min(equal)} where a blank is a value of its own, and {only} records reach k by these" in verdict.reason


@pytest.mark.parametrize("most", [0.0, 0.14, 0.2, 0.25, 0.4, 1.0])
@pytest.mark.parametrize("rows", BLANKED)
def test_no_more_complete_records_than_asked_stay_alone(rows: list[Row], most: float) -> None:
    alone = sum(rows.count(row) == 1 and None not in row for row in rows)
    least = min(sum(like(row, other) for other in rows) for row in rows)
    verdict = judged(KAnonymity(k=2, alone_at_most=most), patterns(rows))
    assert verdict.passed == (least >= 2 and alone / len(rows) <= most)
    assert f"{alone} of {len(rows)} records" in verdict.reason
