"""Fitting a hierarchy to data: nulls, values it does not list, rows never seen."""

from __future__ import annotations

import re

import pytest

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec

ROWS = [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]]


def test_nulls_get_a_leaf_below_the_root_and_count_in_the_domain() -> None:
    covered = Hierarchy.from_rows(ROWS).cover(["a", None], [5, 2])
    assert (covered.domain_size, covered.null_code, covered.height) == (4.0, 3, 2)
    assert [covered.released(level)[3] for level in range(3)] == [None, None, "*"]
    assert covered.shares(1).tolist() == [0.5, 0.5, 0.25, 0.25]
    assert covered.encode([None, "c"]).tolist() == [3, 2]
    assert covered.leaf_order.tolist() == [0, 1, 2, -1]


def test_without_nulls_the_domain_stays() -> None:
    covered = Hierarchy.from_rows(ROWS).cover(["a", "b"])
    assert (covered.domain_size, covered.null_code, covered.unused) == (3.0, None, 1)


def test_covering_twice_adds_nothing() -> None:
    once = Hierarchy.from_rows(ROWS, unknown="root").cover(["a", "q", None])
    assert once.cover(["a", "q", None]) == once


def test_a_null_label_is_written_between_the_raw_level_and_the_root() -> None:
    covered = Hierarchy.from_rows(ROWS, null_label="missing").cover(["a", None], [5, 2])
    assert [covered.released(level)[3] for level in range(3)] == [None, "missing", "*"]
    forest = Hierarchy.from_rows([["a", "x"], ["b", "y"]], root="optional", null_label="missing").cover(["a", None])
    assert [forest.released(level)[2] for level in range(2)] == [None, "missing"]
    for wrong in ("", 5):
        with pytest.raises(UsageError, match="null_label: must be a text"):
            Hierarchy.from_rows(ROWS, null_label=wrong)  # type: ignore[arg-type]


def test_the_label_null_is_not_a_missing_value() -> None:
    covered = Hierarchy.from_rows([["a", "null", "*"], ["b", "y", "*"]]).cover(["a", None])
    assert covered.released(1) == ["null", "y", None]
    assert len(set(covered.codes(1).tolist())) == 3


@pytest.mark.parametrize("label", ["a", "x", "*"])
def test_a_null_label_is_not_a_label_of_the_hierarchy(label: str) -> None:
    hierarchy = Hierarchy.from_rows(ROWS, null_label=label)
    assert hierarchy.cover(["a"]).null_code is None
    with pytest.raises(HierarchyError, match=f"already has a label '{re.escape(label)}', which is how") as caught:
        hierarchy.cover(["a", None])
    assert caught.value.kind == "label_collision"


def test_how_nulls_are_released_is_part_of_the_digest() -> None:
    """A plan made before `null_label` knows the hierarchy that labels them `null`, and no other."""
    digests = {
        Hierarchy.from_rows(ROWS, null_label=label).cover(["a", None]).digest() for label in (None, "null", "missing")
    }
    assert len(digests) == 3
    assert len({Hierarchy.from_rows(ROWS, null_label=label).cover(["a"]).digest() for label in (None, "null")}) == 1


def test_the_raw_text_null_is_another_leaf_than_a_missing_value() -> None:
    covered = Hierarchy.from_rows([["null", "x", "*"], ["a", "y", "*"]]).cover(["null", None])
    assert covered.encode(["null", None, "a"]).tolist() == [0, 2, 1]
    assert covered.released(1) == ["x", "y", None]
    assert len(covered.labels(0)) == covered.domain_size == 3


def test_nulls_need_a_level_to_meet_the_root() -> None:
    single = Hierarchy.from_rows([["a"]])
    with pytest.raises(HierarchyError, match="single level") as caught:
        single.cover(["a", None])
    assert caught.value.kind == "no_root"
    forest = Hierarchy.from_rows([["a", "x"], ["b", "y"]], root="optional").cover(["a", None])
    assert forest.released(1) == ["x", "y", None]


def test_unknown_root_maps_to_the_root_at_every_level_and_leaves_the_domain() -> None:
    covered = Hierarchy.from_rows(ROWS, unknown="root").cover(["a", "q", "r"], [5, 2, 1])
    assert (covered.domain_size, covered.unknown_code) == (3.0, 3)
    assert (covered.unknown_values, covered.unknown_records) == (2, 3)
    assert [covered.texts(level)[3] for level in range(3)] == ["*", "*", "*"]
    assert covered.shares(0).tolist() == [1 / 3] * 3 + [1.0]
    assert covered.shares(1).tolist() == [2 / 3, 2 / 3, 1 / 3, 1.0]
    assert covered.encode(["q", "b", "never seen"]).tolist() == [3, 1, 3]
    assert covered.mapping(2) == {"a": "*", "b": "*", "c": "*"}


def test_unknown_root_joins_a_node_that_already_reads_as_the_root() -> None:
    spec = HierarchySpec.from_mapping({"priority": {"levels": 2, "order": ["a", "b"]}, "unknown": "root"})
    covered = spec.build(["a", "b", "q", None], [1, 1, 1, 1], "text")
    assert covered.released_labels(1) == ("*", "a", None)
    assert all((covered.codes(level)[1:] >= covered.codes(level)[:-1]).all() for level in range(3))


def test_unknown_root_needs_a_root_that_no_other_node_is_called_by() -> None:
    cases = [
        ([["a", "x"], ["b", "y"]], "no_root"),
        ([["*", "x", "*"], ["a", "y", "*"]], "label_collision"),
        ([["a", "*", "y", "*"], ["b", "w", "z", "*"]], "label_collision"),
    ]
    for rows, kind in cases:
        with pytest.raises(HierarchyError) as caught:
            Hierarchy.from_rows(rows, unknown="root", root="optional").cover(["a", "q"])
        assert caught.value.kind == kind


def test_unknown_suppress_marks_the_records() -> None:
    covered = Hierarchy.from_rows(ROWS, unknown="suppress").cover(["a", "q", "r"], [5, 2, 1])
    assert (covered.unknown_values, covered.unknown_records, covered.unknown_code) == (2, 3, None)
    assert covered.encode(["q", "b"]).tolist() == [-1, 1]
    assert len(covered.values) == 3


def test_declared_shares_make_room_for_nulls_and_not_for_unknown_values() -> None:
    mapping = {"intervals": {"widths": [5, 10], "domain": [0, 20]}, "unknown": "root"}
    covered = HierarchySpec.from_mapping(mapping).build(["3", "12", "25", None], None, "integer")
    assert covered.domain_size == 21.0
    by_value = {covered.texts(0)[code]: covered.shares(1)[code] for code in range(4)}
    assert by_value == pytest.approx({"3": 5 / 21, "12": 5 / 21, "null": 1 / 21, "*": 1.0})
    assert covered.shares(3).tolist() == [1.0] * 4


def test_a_column_of_nulls_alone() -> None:
    for mapping in ({"intervals": {"widths": [5]}}, {"redact": {}}, {"dates": {"levels": ["year"]}}):
        covered = HierarchySpec.from_mapping(mapping).build([None], [7], None)
        assert covered.texts(0) == ["null"]
        assert covered.root == "*"
        assert covered.shares(covered.height).tolist() == [1.0]


def test_no_value_at_all() -> None:
    covered = HierarchySpec.from_mapping({"intervals": {"widths": [5]}}).build([], [], "integer")
    assert (len(covered.values), covered.height, covered.domain_size) == (0, 2, 0.0)
    assert covered.shares(1).tolist() == []
