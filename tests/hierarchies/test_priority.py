"""Priority: the common give way first, the rare or important stay longest."""

from __future__ import annotations

from typing import Any

import pytest

from privpipe.errors import HierarchyError, PolicyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec


def build(priority: dict[str, Any], values: list[str], counts: list[int] | None = None) -> Hierarchy:
    return HierarchySpec.from_mapping({"priority": priority}, column="job").build(values, counts, "text")


def visible(hierarchy: Hierarchy, level: int) -> set[str]:
    return set(hierarchy.mapping(level).values()) - {"*"}


def test_the_most_frequent_value_gives_way_first() -> None:
    hierarchy = build({"levels": 3, "order": "frequency"}, ["rare", "some", "many", "most"], [1, 5, 9, 99])
    assert [visible(hierarchy, level) for level in range(4)] == [
        {"rare", "some", "many", "most"}, {"rare", "some"}, {"rare"}, set()
    ]  # fmt: skip
    assert hierarchy.data_dependent
    assert hierarchy.height == 3


def test_ties_give_way_by_text() -> None:
    values, counts = ["b", "a", "c"], [4, 4, 4]
    assert visible(build({"levels": 3}, values, counts), 1) == {"b", "c"}
    assert build({"levels": 3}, values, counts) == build({"levels": 3}, values[::-1], counts)


def test_a_list_names_the_most_important_first_and_is_the_domain() -> None:
    hierarchy = build({"levels": 2, "order": ["a", "b", "c", "d"]}, ["a"])
    assert visible(hierarchy, 1) == {"a", "b"}
    assert (hierarchy.domain_size, hierarchy.unused, hierarchy.data_dependent) == (4.0, 3, False)
    with pytest.raises(HierarchyError, match="1 distinct values of the data"):
        build({"levels": 2, "order": ["a", "b"]}, ["z"])


def test_shares_of_the_redacted_grow_with_them() -> None:
    hierarchy = build({"levels": 2, "order": ["a", "b", "c", "d"]}, [])
    assert dict(zip(hierarchy.values, hierarchy.shares(1).tolist(), strict=True)) == {
        "d": 0.5, "c": 0.5, "b": 0.25, "a": 0.25
    }  # fmt: skip


def test_frequency_needs_counts() -> None:
    with pytest.raises(UsageError, match="needs the number of records"):
        build({"levels": 2}, ["a"])


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        ({}, "levels: must be an integer >= 1, got None"),
        ({"levels": 0}, "levels: must be an integer >= 1, got 0"),
        ({"levels": 2, "order": "frequent"}, "order: must be frequency"),
        ({"levels": 2, "order": []}, "order: must be a list"),
        ({"level": 2}, "did you mean 'levels'"),
    ],
)
def test_parameters_are_checked(priority: Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping({"priority": priority})
    assert message in str(caught.value)
