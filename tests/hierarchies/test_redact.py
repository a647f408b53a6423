"""Redaction: one more `*` a level, padding, declared alphabets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import HierarchyError, PolicyError
from privpipe.hierarchies import Hierarchy, HierarchySpec


def build(redact: dict[str, Any], values: list[str], **beside: Any) -> Hierarchy:
    return HierarchySpec.from_mapping({"redact": redact, **beside}, column="zip").build(values, None, "text")


def path(hierarchy: Hierarchy, value: str) -> list[str]:
    return [hierarchy.mapping(level)[value] for level in range(hierarchy.height + 1)]


def test_keeping_the_left_redacts_from_the_right() -> None:
    assert path(build({"keep": "left"}, ["4711", "4712"]), "4711") == ["4711", "471*", "47**", "4***", "*"]


def test_keeping_the_right_redacts_from_the_left() -> None:
    assert path(build({"keep": "right"}, ["4711", "4712"]), "4711") == ["4711", "*711", "**11", "***1", "*"]


def test_shorter_values_are_padded_on_the_redacted_side() -> None:
    left = build({}, ["47111", "471", ""])
    assert path(left, "471") == ["471", "471**", "471**", "47***", "4****", "*"]
    assert path(left, "") == ["", "*****", "*****", "*****", "*****", "*"]
    right = build({"keep": "right"}, ["47111", "471"])
    assert path(right, "471") == ["471", "**471", "**471", "***71", "****1", "*"]


def redacted(value: str, width: int, level: int, keep: str) -> str:
    """By the definition, from the value itself."""
    shown, stars = width - level, "*" * width
    return (value[:shown] + stars)[:width] if keep == "left" else (stars + value[max(0, len(value) - shown) :])[-width:]


@given(
    st.sets(st.text("a*b\u00e9\U0001f600 ", max_size=5), min_size=1, max_size=12), st.sampled_from(["left", "right"])
)
def test_every_label_is_that_of_the_definition(values: set[str], keep: str) -> None:
    width = max(1, *map(len, values))
    hierarchy = build({"keep": keep}, sorted(values))
    for value in values:
        between = [redacted(value, width, level, keep) for level in range(1, width)]
        assert path(hierarchy, value) == [value, *between, "*"]


def test_labels_of_shorter_values_depend_on_the_longest_unless_a_length_is_declared() -> None:
    assert build({}, ["47111", "471"]).data_dependent
    assert not build({}, ["47111", "47112"]).data_dependent
    declared = build({"length": 6}, ["47111", "471"])
    assert (declared.data_dependent, declared.height) == (False, 6)


def test_longer_than_declared_is_outside_the_range() -> None:
    with pytest.raises(
        HierarchyError, match=r"1 distinct values \(1 records\): they are longer than `length: 4`"
    ) as caught:
        build({"length": 4}, ["4711", "47111"])
    assert caught.value.kind == "outside_range"
    assert build({"length": 4}, ["4711", "47111"], unknown="root").encode(["47111"]).tolist() == [1]


def test_an_alphabet_declares_the_domain() -> None:
    hierarchy = build({"alphabet": 10}, ["471", "472"])
    assert hierarchy.domain_size == 1000
    assert [hierarchy.shares(level)[0] for level in range(4)] == pytest.approx([0.001, 0.01, 0.1, 1])
    assert build({"alphabet": 2}, ["0" * 2000]).domain_size == float("inf")
    assert build({}, ["471", "472"]).shares(1).tolist() == [1.0, 1.0]


def test_an_alphabet_smaller_than_the_one_in_use() -> None:
    with pytest.raises(
        HierarchyError, match="the values use 3 different characters, more than `alphabet: 2`"
    ) as caught:
        build({"alphabet": 2}, ["47", "41"])
    assert caught.value.kind == "alphabet"


def test_characters_are_code_points() -> None:
    assert path(build({}, ["\u00e9t\u00e9"]), "\u00e9t\u00e9") == ["\u00e9t\u00e9", "\u00e9t*", "\u00e9**", "*"]


def test_a_column_of_empty_texts() -> None:
    assert path(build({}, [""]), "") == ["", "*"]


@pytest.mark.parametrize(
    ("redact", "message"),
    [
        ({"keep": "middle"}, "keep: must be left | right"),
        ({"alphabet": 1}, "alphabet: must be an integer >= 2"),
        ({"length": 0}, "length: must be an integer >= 1"),
        ({"kepe": "left"}, "did you mean 'keep'"),
    ],
)
def test_parameters_are_checked(redact: Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping({"redact": redact})
    assert message in str(caught.value)


def test_labels_may_have_so_many_characters_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values of two characters at two levels above them: 8."""
    for most, fits in ((8, True), (7, False)):
        monkeypatch.setattr("privpipe.hierarchies.redact.MOST_CHARACTERS", most)
        if fits:
            assert build({}, ["ab", "cd"]).height == 2
        else:
            with pytest.raises(HierarchyError, match="more than 7 characters"):
                build({}, ["ab", "cd"])
