"""Rare values are grouped step by step, and groups of an order need no sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import PolicyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec


def build(mapping: dict[str, Any], values: list[Any], kind: str | None = "text") -> Hierarchy:
    seen = Counter(values)
    return HierarchySpec.from_mapping(mapping, column="job").build(list(seen), list(seen.values()), kind)


JOBS = ["clerk"] * 12 + ["nurse"] * 8 + ["cook"] * 3 + ["judge", "smith"]


def test_the_most_frequent_keep_their_names() -> None:
    found = build({"frequency_groups": {"keep": [3, 1]}}, JOBS)
    assert [set(found.labels(level)) for level in (1, 2, 3)] == [
        {"clerk", "nurse", "cook", "other"},
        {"clerk", "other"},
        {"*"},
    ]
    assert found.data_dependent
    assert found.label_collisions == 0
    assert found.level_names == ("raw", "3 kept", "1 kept", "*")


def test_values_of_a_small_share_are_grouped() -> None:
    found = build({"frequency_groups": {"shares": [0.12, 0.3], "label": "rest"}}, JOBS)
    assert set(found.labels(1)) == {"clerk", "nurse", "cook", "rest"}  # 3 of 25 is not below 0.12
    assert set(found.labels(2)) == {"clerk", "nurse", "rest"}


def test_more_than_three_values_have_more_than_two_levels() -> None:
    for values in range(1, 40):
        found = build({"frequency_groups": {}}, [f"v{at}" for at in range(values) for _ in range(at + 1)])
        counts = [len(found.labels(level)) for level in range(found.height + 1)]
        assert counts == sorted(counts, reverse=True)
        assert (found.height > 1) == (values > 2)
    assert build({"frequency_groups": {}}, []).values == ()


def test_a_value_that_reads_as_the_group_belongs_to_it() -> None:
    found = build({"frequency_groups": {"keep": [2]}}, [*JOBS, *["other"] * 50, None])
    assert found.mapping(1) == {
        "clerk": "clerk", "nurse": "nurse", "cook": "other", "judge": "other", "smith": "other", "other": "other"
    }  # fmt: skip
    assert found.label_collisions == 0


@given(st.lists(st.text(max_size=2), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 5))
def test_as_defined(values: list[str], many: int, few: int) -> None:
    keep = [many, few] if 0 < few < many else [many]
    found = build({"frequency_groups": {"keep": keep, "label": "all others"}}, values)
    ranked = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    for level, names in enumerate(keep, start=1):
        wanted = {value: value if place < names else "all others" for place, (value, _) in enumerate(ranked)}
        assert found.mapping(level) == wanted


def test_groups_without_sizes_merge_two_and_two() -> None:
    order = ["none", "primary", "secondary", "bachelor", "master"]
    found = build({"groups": {"order": order}}, ["none", "master"])
    assert found.labels(1) == ("[none, primary]", "[secondary, bachelor]", "master")
    assert found.labels(2) == ("[none, bachelor]", "master")
    assert found.height == 3
    assert not found.data_dependent


def test_groups_of_the_most_frequent_first() -> None:
    found = build({"groups": {"order": "frequency", "sizes": [2]}}, JOBS)
    assert found.labels(1) == ("[clerk, nurse]", "[cook, judge]", "smith")
    assert found.data_dependent


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": [2, 3]}, "keep: must fall"),
        ({"keep": [0]}, "keep: must be an integer >= 1"),
        ({"shares": [0.2, 0.1]}, "shares: must rise"),
        ({"shares": [0]}, "shares: must be above 0"),
        ({"shares": [0.1], "keep": [1]}, "keep or shares"),
        ({"label": "*"}, "label: must be a text"),
        ({"label": 3}, "label: must be a text"),
        ({"lable": "x"}, "did you mean 'label'"),
    ],
)
def test_parameters_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping({"frequency_groups": given})
    assert message in str(caught.value)


def test_frequencies_need_counts() -> None:
    for mapping in ({"frequency_groups": {}}, {"groups": {"order": "frequency"}}, {"quantiles": {"counts": [2]}}):
        with pytest.raises(UsageError, match="needs the number of records"):
            HierarchySpec.from_mapping(mapping).build(["1", "2"], None, "integer")
