"""The hierarchy as an object: leaf order, codes, shares, ancestors, files, pickles."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies import Hierarchy

ROWS = [
    ["d", "x", "left", "*"],
    ["a", "y", "right", "*"],
    ["c", "x", "left", "*"],
    ["b", "z", "left", "*"],
    ["e", "y", "right", "*"],
]


@pytest.fixture
def letters() -> Hierarchy:
    return Hierarchy.from_rows(ROWS, column="letter")


def test_leaves_are_sorted_by_their_path_from_the_root(letters: Hierarchy) -> None:
    assert letters.values == ("d", "c", "b", "a", "e")
    assert letters.leaf_order.tolist() == [0, 2, 3, 1, 4]
    assert [letters.labels(level) for level in (1, 2, 3)] == [("x", "z", "y"), ("left", "right"), ("*",)]
    assert letters.codes(1).tolist() == [0, 0, 1, 2, 2]
    assert letters.codes(1).dtype == np.int32


def test_every_label_covers_a_contiguous_range(letters: Hierarchy) -> None:
    assert letters.span(2, 0) == (0, 3)
    assert letters.span(2, 1) == (3, 5)
    assert letters.span(3, 0) == (0, 5)


def test_the_lowest_common_ancestor_of_a_range(letters: Hierarchy) -> None:
    assert letters.common_level([0, 0, 0, 2, 4], [0, 1, 2, 4, 3]).tolist() == [0, 1, 2, 3, 1]
    assert letters.label(2, 4) == "right"
    forest = Hierarchy.from_rows([["a", "x"], ["b", "y"]], root="optional")
    assert forest.common_level(0, 1).tolist() == 2


def test_shares_are_rows_of_the_label_over_all_rows(letters: Hierarchy) -> None:
    assert letters.shares(0).tolist() == [0.2] * 5
    assert letters.shares(2).tolist() == [0.6, 0.6, 0.6, 0.4, 0.4]
    assert letters.shares(3).tolist() == [1.0] * 5
    assert letters.domain_size == 5


def test_codes_cannot_be_written(letters: Hierarchy) -> None:
    with pytest.raises(ValueError, match="read-only"):
        letters.codes(1)[0] = 9
    with pytest.raises(AttributeError):
        letters.source = "other"  # type: ignore[misc]


def test_encode_looks_values_up(letters: Hierarchy) -> None:
    assert letters.encode(["e", "d"]).tolist() == [4, 0]
    assert letters.encode(pa.array(["e", "d", "e"])).tolist() == [4, 0, 4]
    with pytest.raises(HierarchyError, match=r"1 distinct values of the data \(2 records\)") as unknown:
        letters.encode(["q", "d", "q"])
    assert unknown.value.kind == "unknown"
    with pytest.raises(HierarchyError, match="null") as null:
        letters.encode(["d", None])
    assert null.value.kind == "null"


def test_levels_are_found_by_number_and_name() -> None:
    hierarchy = Hierarchy.from_rows(ROWS, level_names=("letter", "shape", "side", "all"))
    assert (hierarchy.level_of("side"), hierarchy.level_of(3)) == (2, 3)
    with pytest.raises(UsageError, match="did you mean 'shape'"):
        hierarchy.level_of("shpae")
    with pytest.raises(UsageError, match="levels are 0 to 3"):
        hierarchy.level_of(4)


def test_pickles_are_equal_and_leave_the_look_up_behind(letters: Hierarchy) -> None:
    letters.encode(["a"])
    copy = pickle.loads(pickle.dumps(letters))
    assert copy == letters
    assert hash(copy) == hash(letters)
    assert "_index" not in copy.__dict__
    assert copy.encode(["a"]).tolist() == [3]


def test_the_digest_is_of_the_content() -> None:
    one, same = Hierarchy.from_rows(ROWS), Hierarchy.from_rows(ROWS, column="x", source="y", max_level=1)
    assert one.digest() == same.digest()
    assert one != same
    assert one != "hierarchy"
    relabelled = [[*row[:2], row[2].upper(), "*"] for row in ROWS]
    assert Hierarchy.from_rows(relabelled).digest() != one.digest()
    # Stored in plans: must never change by itself.
    assert Hierarchy.from_rows([["a", "*"], ["b", "*"]]).digest() == (
        "f663780f385b02cc89dffd8025234879c5d18e0a608364c35d72467467c1457b"
    )


def test_the_digest_tells_missing_values_that_stay_missing_from_a_label_of_their_own() -> None:
    rows = [["a", "x", "*"], ["b", "x", "*"]]
    stay = Hierarchy.from_rows(rows).cover(["a", "b", None])
    labelled = Hierarchy.from_rows(rows, null_label="null").cover(["a", "b", None])
    assert stay.labels(1) == labelled.labels(1)
    assert None in stay.released_labels(1)
    assert None not in labelled.released_labels(1)
    assert stay.digest() != labelled.digest()


def test_a_file_written_is_the_hierarchy_read(letters: Hierarchy, tmp_path: Path) -> None:
    letters.to_csv(tmp_path / "letters.csv", header=True)
    again = Hierarchy.read_csv(tmp_path / "letters.csv", header=True)
    assert again.digest() == letters.digest()
    assert again.level_names == letters.level_names
    letters.cover(["a", None]).to_csv(tmp_path / "plain.csv", delimiter="\t")
    assert Hierarchy.read_csv(tmp_path / "plain.csv", delimiter="\t").digest() == letters.digest()


@pytest.mark.parametrize(
    "text",
    ["\ufeffa;x;*\r\nb;x;*\r\n", 'a;"x";*\n\n  \n"b";x;*', "a;x;*\nb;x;*\n"],
    ids=["BOM and CRLF", "quotes, blank lines, no last line end", "plain"],
)
def test_spellings_of_one_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "h.csv"
    path.write_bytes(text.encode())
    assert Hierarchy.read_csv(path).digest() == Hierarchy.from_rows([["a", "x", "*"], ["b", "x", "*"]]).digest()


@pytest.mark.parametrize("first", ["\ufeffa", "\ufeff", 'a"\ufeff'])
def test_a_value_that_begins_with_a_byte_order_mark_keeps_it(tmp_path: Path, first: str) -> None:
    """At the start of a file it would be the file's own."""
    written = Hierarchy.from_rows([[first, "x", "*"], ["b", "y", "*"], ["c", "y", "*"]])
    written.to_csv(tmp_path / "h.csv")
    read = Hierarchy.read_csv(tmp_path / "h.csv")
    assert read.values == written.values == (first, "b", "c")
    assert read.digest() == written.digest()


def test_inner_and_outer_blanks_of_text_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_text(' a b ;*\n"c;d";*\n"say ""hi""";*\n', encoding="utf-8")
    assert Hierarchy.read_csv(path).values == (" a b ", "c;d", 'say "hi"')


def test_no_raw_value_is_reported(letters: Hierarchy) -> None:
    told = repr(letters) + repr(letters.describe())
    assert letters.describe()["levels"][1] == {"level": 1, "name": "level 1", "labels": 3}
    assert "values=5, height=3" in repr(letters)
    assert not any(f"'{value}'" in told for value in letters.values)


def test_mapping_leads_from_raw_text_to_label(letters: Hierarchy) -> None:
    assert letters.cover(["a", None]).mapping(2) == {"d": "left", "c": "left", "b": "left", "a": "right", "e": "right"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unknown": "rot"}, "unknown: must be refuse | root | suppress, got 'rot'; did you mean 'root'?"),
        ({"root": "any"}, "root: must be required | optional"),
        ({"add_root": "yes"}, "add_root: must be true or false"),
        ({"min_level": -1}, "min_level: must be an integer >= 0"),
        ({"max_level": 1.5}, "max_level: must be an integer >= 0"),
        ({"min_level": 2, "max_level": 1}, "max_level: 1 is below min_level 2"),
        ({"level_names": "abcd"}, "level_names: must be a list of texts"),
        ({"level_names": ("a", "a", "b", "c")}, "level_names: two levels have the same name"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Hierarchy.from_rows(ROWS, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)
