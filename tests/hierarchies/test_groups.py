"""Ordered groups: sizes, counts, orders, equal frequencies."""

from __future__ import annotations

from typing import Any

import pytest

from privpipe.errors import HierarchyError, PolicyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec

WEEK = ["mo", "tu", "we", "th", "fr", "sa", "su"]


def build(groups: dict[str, Any], values: list[str], counts: list[int] | None = None, kind: str = "text") -> Hierarchy:
    return HierarchySpec.from_mapping({"groups": groups}, column="day").build(values, counts, kind)


def test_consecutive_values_are_merged_level_by_level() -> None:
    hierarchy = build({"order": WEEK, "sizes": [[2, 3, 2], [2, 1]]}, ["mo", "su"])
    assert hierarchy.values == tuple(WEEK)
    assert hierarchy.labels(1) == ("[mo, tu]", "[we, fr]", "[sa, su]")
    assert hierarchy.labels(2) == ("[mo, fr]", "[sa, su]")
    assert hierarchy.labels(3) == ("*",)
    assert (hierarchy.domain_size, hierarchy.unused, hierarchy.data_dependent) == (7.0, 5, False)
    assert hierarchy.shares(2).tolist() == pytest.approx([5 / 7] * 5 + [2 / 7] * 2)


def test_the_last_partial_group_is_kept_and_sizes_repeat() -> None:
    assert build({"order": WEEK, "sizes": [3]}, []).labels(1) == ("[mo, we]", "[th, sa]", "su")
    assert build({"order": WEEK, "sizes": [[1, 2]]}, []).labels(1) == ("mo", "[tu, we]", "th", "[fr, sa]", "su")
    assert build({"order": WEEK, "sizes": [100]}, []).labels(1) == ("[mo, su]",)


def test_a_value_outside_the_declared_order_is_unknown() -> None:
    with pytest.raises(HierarchyError, match=r"1 distinct values of the data \(4 records\)") as caught:
        build({"order": WEEK, "sizes": [2]}, ["mo", "holiday"], [1, 4])
    assert caught.value.kind == "unknown"


def test_counts_make_groups_of_as_equal_a_number_of_values() -> None:
    hierarchy = build({"counts": [3, 2]}, ["10", "9", "2", "1", "-4"], kind="integer")
    assert hierarchy.values == ("-4", "1", "2", "9", "10")
    assert hierarchy.labels(1) == ("[-4, 1]", "[2, 9]", "10")
    assert hierarchy.labels(2) == ("[-4, 9]", "10")
    assert hierarchy.data_dependent
    assert build({"counts": [9]}, ["1", "2"], kind="integer").labels(1) == ("1", "2")


def test_equal_frequency_groups_depend_on_the_data_and_say_so() -> None:
    values, counts = ["1", "2", "3", "4"], [70, 10, 10, 10]
    hierarchy = build({"counts": [2], "by": "frequency"}, values, counts, "integer")
    assert hierarchy.labels(1) == ("1", "[2, 4]")
    assert hierarchy.data_dependent
    declared = build({"order": WEEK, "counts": [2], "by": "frequency"}, ["su", "mo"], [5, 5])
    assert declared.labels(1) == ("mo", "[tu, su]")
    assert build({"order": WEEK, "counts": [2], "by": "frequency"}, [], []).labels(1) == ("[mo, th]", "[fr, su]")
    with pytest.raises(UsageError, match="needs the number of records"):
        build({"counts": [2], "by": "frequency"}, values, None, "integer")


def test_natural_orders() -> None:
    dates = build({"sizes": [2]}, ["2024-03-01", "2023-12-31", "2024-01-01"], kind="date")
    assert dates.values == ("2023-12-31", "2024-01-01", "2024-03-01")
    numbers = build({"sizes": [2]}, ["10", "9.5", "-inf"], kind="number")
    assert numbers.values == ("-inf", "9.5", "10")
    assert build({"order": "text", "sizes": [2]}, ["b", "a"]).values == ("a", "b")
    with pytest.raises(UsageError, match="text has no natural order"):
        build({"sizes": [2]}, ["b", "a"])


def test_declared_orders_are_read_under_the_type() -> None:
    assert build({"order": [1, "02", 3.0], "sizes": [2]}, ["2"], kind="integer").values == ("1", "2", "3")
    assert build({"order": [True, False], "sizes": [2]}, ["true"], kind="boolean").values == ("true", "false")
    with pytest.raises(UsageError, match="entry 2 is not of type integer"):
        build({"order": [1, "x"], "sizes": [2]}, [], kind="integer")
    with pytest.raises(UsageError, match="entries 1 and 3 are the same value"):
        build({"order": [1, 2, "01"], "sizes": [2]}, [], kind="integer")


def test_two_groups_that_read_the_same() -> None:
    with pytest.raises(HierarchyError) as caught:
        build({"order": ["a", "b", "[a, b]"], "sizes": [2]}, [])
    assert caught.value.kind == "label_collision"


def test_empty_data_under_a_natural_order() -> None:
    for groups in ({"sizes": [2]}, {"counts": [2]}):
        assert build(groups, [], [], "integer").values == ()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"sizes": [2], "counts": [2]}, "sizes or counts: give one of the two"),
        ({"sizes": [[2, 0]]}, "sizes: must be an integer >= 1, got 0"),
        ({"sizes": [[]]}, "sizes: must be a list with at least one entry"),
        ({"counts": [2.5]}, "counts: must be an integer >= 1"),
        ({"sizes": [2], "order": "alphabetic"}, "order: must be natural | text"),
        ({"sizes": [2], "order": [["a"]]}, "order: its entries must be texts"),
        ({"sizes": [2], "by": "frequency"}, "by: frequency requires counts"),
        ({"counts": [2], "by": "freqency"}, "did you mean 'frequency'"),
        ({"size": [2]}, "unknown key 'size'; did you mean 'sizes'?"),
    ],
)
def test_parameters_are_checked(groups: Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping({"groups": groups})
    assert message in str(caught.value)
