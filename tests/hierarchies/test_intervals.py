"""Intervals: exact boundaries, nesting, coding, ranges, declared domains."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import HierarchyError, PolicyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec


def build(intervals: dict[str, Any], values: list[Any], kind: str | None = "integer", **beside: Any) -> Hierarchy:
    spec = HierarchySpec.from_mapping({"intervals": {"labels": "open", **intervals}, **beside}, column="age")
    return spec.build([None if value is None else str(value) for value in values], [1] * len(values), kind)


def label(hierarchy: Hierarchy, value: str, level: int) -> str:
    return hierarchy.mapping(level)[value]


def test_a_boundary_value_belongs_to_the_right_hand_interval() -> None:
    hierarchy = build({"start": 0, "widths": [5, 10, 20]}, [15, 19, 20, 24, 25])
    assert [label(hierarchy, value, 1) for value in ("15", "19", "20", "24", "25")] == [
        "[15, 20[", "[15, 20[", "[20, 25[", "[20, 25[", "[25, 30["
    ]  # fmt: skip
    assert [label(hierarchy, "20", level) for level in range(5)] == ["20", "[20, 25[", "[20, 30[", "[20, 40[", "*"]
    assert hierarchy.level_names == ("raw", "width 5", "width 10", "width 20", "*")
    assert hierarchy.domain_size == 5


def test_doubles_are_cut_by_their_decimals() -> None:
    values = ["0.3", "0.7", "0.6", "0.30000000000000004", "0.29999999999999999"]
    hierarchy = build({"widths": [0.1]}, values, "number")
    assert [label(hierarchy, value, 1) for value in values] == [
        "[0.3, 0.4[", "[0.7, 0.8[", "[0.6, 0.7[", "[0.3, 0.4[", "[0.2, 0.3["
    ]  # fmt: skip


def test_values_are_in_numeric_order_and_negative_ones_fall() -> None:
    hierarchy = build({"widths": [10]}, [5, -10, 100, -1, -11])
    assert hierarchy.values == ("-11", "-10", "-1", "5", "100")
    assert hierarchy.labels(1) == ("[-20, -10[", "[-10, 0[", "[0, 10[", "[100, 110[")


def test_numbers_beyond_64_bits() -> None:
    huge = 10**30
    hierarchy = build({"widths": [10**30, 2 * 10**30]}, [huge - 1, huge, -huge - 1])
    assert hierarchy.labels(1) == (f"[{-2 * huge}, {-huge}[", f"[0, {huge}[", f"[{huge}, {2 * huge}[")
    tiny = build({"cuts": [["0", "1e-30", 1]]}, ["0." + "0" * 29 + "1", "0"], "decimal")
    assert tiny.labels(1) == ("[0, 0.000000000000000000000000000001[", "[0.000000000000000000000000000001, 1[")


def test_bottom_and_top_coding_at_every_level_above_the_raw_one() -> None:
    hierarchy = build({"start": 0, "widths": [5, 10], "lowest": 15, "highest": 90}, [-3, 14, 15, 89, 90, 120])
    for level in (1, 2):
        assert [label(hierarchy, value, level) for value in ("-3", "14", "90", "120")] == ["<15", "<15", ">=90", ">=90"]
    assert (label(hierarchy, "15", 1), label(hierarchy, "89", 2)) == ("[15, 20[", "[80, 90[")
    assert label(hierarchy, "14", 0) == "14"


def test_infinite_values_need_coding() -> None:
    values = ["-inf", "3", "inf"]
    coded = build({"widths": [5], "lowest": 0, "highest": 10}, values, "number")
    assert coded.values == ("-inf", "3", "inf")
    assert coded.labels(1) == ("<0", "[0, 5[", ">=10")
    with pytest.raises(HierarchyError, match=r"outside range: 2 distinct values \(2 records\)"):
        build({"widths": [5]}, values, "number")


@pytest.mark.parametrize(
    ("intervals", "outside"),
    [
        ({"start": 10, "widths": [5]}, 1),
        ({"cuts": [[0, 10, 20]]}, 2),
        ({"widths": [5], "domain": [0, 20]}, 2),
        ({"start": 10, "widths": [5], "highest": 15}, 1),
    ],
)
def test_outside_the_range_is_an_error_with_counts(intervals: dict[str, Any], outside: int) -> None:
    with pytest.raises(HierarchyError) as caught:
        build(intervals, [3, 12, 20, 20.5] if outside == 2 else [3, 12, 20], "number")
    assert caught.value.kind == "outside_range"
    assert f"column 'age' (intervals): outside range: {outside} distinct values ({outside} records)" in str(
        caught.value
    )
    assert "20.5" not in str(caught.value)


def test_outside_the_range_follows_the_unknown_rule() -> None:
    rooted = build({"start": 10, "widths": [5]}, [3, 12], unknown="root")
    assert rooted.encode(["3", "12"]).tolist() == [1, 0]
    assert build({"start": 10, "widths": [5]}, [3, 12], unknown="suppress").encode(["3"]).tolist() == [-1]


def test_cuts_per_level() -> None:
    hierarchy = build({"cuts": [[0, 18, 65, 120], [0, 65, 120]], "highest": 100}, [0, 17, 18, 64, 65, 99, 100, 130])
    assert hierarchy.labels(1) == ("[0, 18[", "[18, 65[", "[65, 120[", ">=100")
    assert hierarchy.labels(2) == ("[0, 65[", "[65, 120[", ">=100")
    assert hierarchy.level_names == ("raw", "cuts 1", "cuts 2", "*")


def test_a_declared_domain_gives_shares_of_its_length() -> None:
    hierarchy = build({"widths": [5, 50], "lowest": 17, "highest": 90, "domain": [0, 100]}, [3, 17, 20, 95])
    assert hierarchy.domain_size == 100
    assert hierarchy.shares(0).tolist() == [0.01] * 4
    assert hierarchy.shares(1).tolist() == [0.17, 0.03, 0.05, 0.1]  # [15, 20[ is cut to [17, 20[
    assert hierarchy.shares(2).tolist() == [0.17, 0.33, 0.33, 0.1]
    assert hierarchy.shares(3).tolist() == [1.0] * 4
    assert build({"widths": [0.5], "domain": [0, 10]}, ["1.25"], "number").domain_size == 1000


def test_text_that_is_not_a_number_is_outside_when_the_type_is_unknown() -> None:
    with pytest.raises(HierarchyError, match="1 distinct values"):
        build({"widths": [5]}, ["1e1", "ten"], None)
    assert build({"widths": [5]}, ["1e1"], None).labels(1) == ("[10, 15[",)


@pytest.mark.parametrize("kind", ["text", "date", "boolean"])
def test_other_types_are_refused(kind: str) -> None:
    with pytest.raises(
        UsageError, match=f"column 'age' has type {kind}; this builder needs integer or number or decimal"
    ):
        build({"widths": [5]}, [1], kind)


@pytest.mark.parametrize(
    ("intervals", "message"),
    [
        ({"widths": [5, 12]}, "widths: not functional: 12 is not a whole multiple of 5"),
        ({"widths": [5, 0]}, "widths: must be above 0"),
        ({"widths": []}, "widths: must be a list"),
        ({"widths": ["wide"]}, "widths: must be a finite number"),
        ({"widths": [True]}, "widths: must be a finite number"),
        ({"widths": [float("nan")]}, "widths: must be a finite number"),
        ({"start": 0}, "widths or cuts: give one of the two"),
        ({"widths": [5], "cuts": [[0, 1]]}, "widths or cuts: give one of the two"),
        ({"cuts": [[0, 10, 5]]}, "in rising order"),
        ({"cuts": [[0]]}, "at least two cuts"),
        ({"cuts": [[0, 10, 20], [0, 15, 20]]}, "cuts: not functional"),
        ({"cuts": [[0, 10, 20], [0, 10]]}, "cuts: not functional"),
        ({"cuts": [[0, 10]], "start": 0}, "start: belongs to widths"),
        ({"widths": [5], "lowest": 9, "highest": 9}, "lowest: must be below highest"),
        ({"widths": [5], "start": 10, "lowest": 9}, "lowest: 9 is below the range"),
        ({"cuts": [[0, 10]], "highest": 11}, "highest: 11 is above the range"),
        ({"widths": [5], "domain": [5, 5]}, "domain: its lower end"),
        ({"widths": [5], "domain": [5]}, "domain: must be a list of 2"),
        ({"widht": [5]}, "unknown key 'widht'; did you mean 'widths'?"),
        ([5, 10], "must be a mapping like {start: 0, widths: [5, 10, 20]"),
    ],
)
def test_parameters_are_checked(intervals: Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping({"intervals": intervals})
    assert caught.value.problems[0].path == "intervals"
    assert message in str(caught.value)


@given(
    st.lists(st.decimals(-1000, 1000, places=2), min_size=1, max_size=30, unique=True),
    st.integers(1, 400),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_every_value_is_in_the_interval_its_label_says(values: list[Decimal], cents: int, factors: list[int]) -> None:
    widths = [Decimal(cents) / 100]
    for factor in factors:
        widths.append(widths[-1] * factor)
    hierarchy = build({"widths": [str(width) for width in widths]}, [f"{value:f}" for value in values], "decimal")
    for level, width in enumerate(widths, start=1):
        for text, shown in hierarchy.mapping(level).items():
            low, high = (Fraction(end) for end in shown.strip("[").split(", "))
            assert low <= Fraction(text) < high
            assert high - low == Fraction(width)
            assert (low / Fraction(width)).denominator == 1


def test_a_domain_finer_than_a_double_counts() -> None:
    """One tiny value makes 10^601 units of the domain: shares are still parts of its length."""
    hierarchy = build({"widths": [Decimal("1e300")], "domain": [0, Decimal("1e301")]}, ["1e-300", "2e300"], "number")
    assert hierarchy.domain_size == float("inf")
    assert hierarchy.shares(1).tolist() == [0.1, 0.1]
    assert hierarchy.shares(0).tolist() == [0.0, 0.0]
