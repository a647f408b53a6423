"""Each way a hierarchy file can be wrong: its own kind of error, naming column, file, line, level and count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from privpipe.errors import DataError, HierarchyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec

SECRET = "canary-7f3a"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "jobs.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(path: Path, **options: object) -> HierarchyError:
    with pytest.raises(HierarchyError) as caught:
        Hierarchy.read_csv(path, column="job", **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert isinstance(caught.value, DataError)
    assert message.startswith("hierarchy of column 'job' (jobs.csv): ")
    assert SECRET not in message
    return caught.value


def test_ragged_lines(tmp_path: Path) -> None:
    error = refused(written(tmp_path, f"a;x;*\n\n{SECRET};*\nb;x;y;*\n"))
    assert error.kind == "ragged"
    assert "line 3 has 2 fields, line 1 has 3 (2 of 3 lines differ)" in str(error)


@pytest.mark.parametrize("text", ["", "\n\n", "   \n\n", "\ufeff"])
def test_an_empty_file_is_ragged(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    if text.isspace() and " " in text:
        assert Hierarchy.read_csv(path).values == ("   ",)  # a file of one field a line may hold blank values
        return
    error = refused(path)
    assert error.kind == "ragged"
    assert "empty" in str(error)


def test_a_header_of_another_width_is_ragged(tmp_path: Path) -> None:
    error = refused(written(tmp_path, "job;group\na;x;*\n"), header=True)
    assert error.kind == "ragged"
    assert "header has 2 fields, line 2 has 3" in str(error)
    assert refused(written(tmp_path, "job;group\n"), header=True).kind == "ragged"


def test_a_value_twice_with_different_labels(tmp_path: Path) -> None:
    error = refused(written(tmp_path, f"a;x;*\n{SECRET};x;*\nb;y;*\n{SECRET};y;*\n"))
    assert error.kind == "duplicate"
    assert "line 4 repeats the raw value of line 2 with other labels (1 such lines)" in str(error)


def test_a_value_twice_in_two_spellings(tmp_path: Path) -> None:
    error = refused(written(tmp_path, "7;x;*\n07;y;*\n"), type="integer")
    assert error.kind == "duplicate"


def test_identical_lines_are_merged_with_a_warning(tmp_path: Path) -> None:
    path = written(tmp_path, f"{SECRET};x;*\nb;x;*\n{SECRET};x;*\n")
    hierarchy = Hierarchy.read_csv(path)
    assert len(hierarchy.values) == hierarchy.domain_size == 2
    assert any("1 identical lines merged, the first is line 3" in text for text in hierarchy.warnings)
    assert SECRET not in "".join(hierarchy.warnings)


def test_not_functional_names_level_and_both_lines(tmp_path: Path) -> None:
    error = refused(written(tmp_path, f"a;x;u;*\nb;y;v;*\n\n{SECRET};x;v;*\n"))
    assert error.kind == "not_functional"
    assert "line 1 and line 4 share their label at level 1 but not at level 2" in str(error)


def test_lines_of_quoted_records_are_those_they_start_on(tmp_path: Path) -> None:
    error = refused(written(tmp_path, '"a\nb";x;u;*\nc;y;v;*\nd;x;v;*\n'))
    assert "line 1 and line 4" in str(error)


def test_no_root_and_its_two_remedies(tmp_path: Path) -> None:
    path = written(tmp_path, "a;x\nb;x\nc;y\n")
    error = refused(path)
    assert error.kind == "no_root"
    assert "level 1, the last, has 2 labels instead of one" in str(error)
    assert "add_root: true" in str(error)
    rooted = Hierarchy.read_csv(path, add_root=True)
    assert (rooted.height, rooted.labels(2), rooted.root) == (2, ("*",), "*")
    optional = Hierarchy.read_csv(path, root="optional")
    assert (optional.height, optional.root) == (1, None)


def test_a_wrong_delimiter_is_hinted_at(tmp_path: Path) -> None:
    error = refused(written(tmp_path, "a:x:*\nb:x:*\n"))
    assert error.kind == "no_root"
    assert "is the delimiter right?" in str(error)


@pytest.mark.parametrize("options", [{}, {"add_root": True}, {"root": "optional"}, {"unknown": "root"}])
@pytest.mark.parametrize("right", [",", ";", "\t", "|"])
@pytest.mark.parametrize("wrong", [",", ";", "\t", "|", ":"])
def test_the_delimiter_under_which_every_line_comes_apart_is_named(
    tmp_path: Path, right: str, wrong: str, options: dict[str, object]
) -> None:
    """Read with the wrong one, a file is a single column, of which no value is in the data."""
    path = written(tmp_path, f"\n{SECRET}{right}x{right}*\nb{right}x{right}*\n")
    if right == wrong:
        assert Hierarchy.read_csv(path, delimiter=right, **options).height >= 2  # type: ignore[arg-type]
        return
    error = refused(path, delimiter=wrong, **options)
    assert error.kind == "delimiter"
    assert f"line 2 does not come apart under the delimiter {wrong!r}, and every line has 3 fields" in str(error)
    assert f"write `delimiter: {json.dumps(right)}`" in str(error)


def test_quoted_fields_under_another_delimiter_are_not_a_fault_of_the_quotes(tmp_path: Path) -> None:
    error = refused(written(tmp_path, '"a, b","x","*"\n"c","x","*"\n'))
    assert (error.kind, "line 1 does not come apart under the delimiter ';'" in str(error)) == ("delimiter", True)
    assert refused(written(tmp_path, 'a;"x;*\n')).kind == "unreadable"


def test_labels_that_hold_another_delimiter_hide_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "15;[10,20);*\n25;[20,30);*\n")
    assert Hierarchy.read_csv(path).labels(1) == ("[10,20)", "[20,30)")
    error = refused(written(tmp_path, "a;x, y;*\nb;z;*\n"), delimiter=",")
    assert (error.kind, "line 2" in str(error), "3 fields under ';'" in str(error)) == ("delimiter", True, True)
    # A line that lacks a label is ragged, whatever its labels hold.
    assert refused(written(tmp_path, "15;[10,20);*\n16;[10,20)\n")).kind == "ragged"
    # A single field a line is a hierarchy without levels, where no other delimiter parts all lines or quotes hold it.
    for text in ("a\nb, c\n", '"a, b"\n"c, d"\n', "a\nb\n"):
        assert Hierarchy.read_csv(written(tmp_path, text), root="optional").height == 0


@pytest.mark.parametrize("text", ["10;20;*\n11;;*\n", "10;20;*\n11; ;*\n", '10;20;*\n11;"";*\n'])
def test_a_label_that_is_missing_is_not_a_label(tmp_path: Path, text: str) -> None:
    error = refused(written(tmp_path, text))
    assert error.kind == "blank"
    assert "blank: line 2 has no label at level 1 (1 in all)" in str(error)


def test_an_empty_raw_value_is_a_text_of_the_data(tmp_path: Path) -> None:
    for kept in ("", "none"):
        assert Hierarchy.read_csv(written(tmp_path, f"a;x;*\n;{kept};*\n")).height == 2


def test_a_label_on_two_branches_is_warned_of_and_counted(tmp_path: Path) -> None:
    hierarchy = Hierarchy.read_csv(written(tmp_path, "10;20;*\n20;30;*\n"))
    assert hierarchy.label_collisions == 1
    assert any(text.startswith("label_collision: 1 labels") for text in hierarchy.warnings)
    repeated = Hierarchy.read_csv(written(tmp_path, "10;20;*\n20;20;*\n"))
    assert repeated.label_collisions == 0


def test_a_level_that_does_not_refine_is_kept_with_a_warning(tmp_path: Path) -> None:
    hierarchy = Hierarchy.read_csv(written(tmp_path, "a;A;*\nb;B;*\n"))
    assert hierarchy.height == 2
    assert any(text.startswith("not_refining: level 1") for text in hierarchy.warnings)


def test_unknown_values_are_counted_and_never_shown(tmp_path: Path) -> None:
    written(tmp_path, "a;*\nb;*\n")
    spec = HierarchySpec.from_mapping({"file": "jobs.csv"}, tmp_path, column="job")
    with pytest.raises(HierarchyError) as caught:
        spec.build(["a", SECRET, "other", None], [10, 3, 4, 9], "text")
    assert caught.value.kind == "unknown"
    assert "column 'job' (jobs.csv): unknown: 2 distinct values of the data (7 records)" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_raw_value_of_another_type(tmp_path: Path) -> None:
    error = refused(written(tmp_path, f"age;group\n7;*\n{SECRET};*\n"), type="integer")
    assert error.kind == "type"
    assert "the raw value of line 1 is not of type integer (2 such lines)" in str(error)
    assert "header: true" in str(error)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    assert refused(tmp_path / "jobs.csv").kind == "unreadable"


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    error = refused(written(tmp_path, b"a;*\n\xe9t\xe9;*\n"))
    assert error.kind == "unreadable"
    assert "line 2 is not UTF-8" in str(error)


def test_a_file_with_broken_quotes(tmp_path: Path) -> None:
    error = refused(written(tmp_path, f'a;*\n"{SECRET};*\n'))
    assert error.kind == "unreadable"
    assert "record at line 2" in str(error)


def test_levels_that_do_not_fit_the_height(tmp_path: Path) -> None:
    path = written(tmp_path, "a;*\nb;*\n")
    with pytest.raises(UsageError, match="max_level is 2, but the last level is 1"):
        Hierarchy.read_csv(path, max_level=2)
    with pytest.raises(UsageError, match="level_names has 1 names for 2 levels"):
        Hierarchy.read_csv(path, level_names=("job",))
