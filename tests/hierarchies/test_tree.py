"""Trees: nested mappings in place or in a file, padded leaves, lines in errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import HierarchyError, PolicyError
from privpipe.hierarchies import Hierarchy, HierarchySpec

PLACES = {"Europe": {"France": ["Paris", "Lyon"], "Malta": None}, "Asia": ["Tokyo"], "Atlantis": []}


def refused(folder: Path, text: str | None, kind: str | None = "text") -> HierarchyError:
    if text is not None:
        (folder / "places.yaml").write_text(text, encoding="utf-8")
    spec = HierarchySpec.from_mapping({"tree": {"file": "places.yaml"}}, folder, column="place")
    with pytest.raises(HierarchyError, match=r"^hierarchy of column 'place' \(places.yaml\): ") as caught:
        spec.build([], [], kind)
    return caught.value


def test_leaves_of_less_depth_repeat_upwards() -> None:
    hierarchy = Hierarchy.from_tree(PLACES)
    assert hierarchy.values == ("Paris", "Lyon", "Malta", "Tokyo", "Atlantis")
    assert hierarchy.texts(1) == ["France", "France", "Malta", "Tokyo", "Atlantis"]
    assert hierarchy.texts(2) == ["Europe", "Europe", "Europe", "Asia", "Atlantis"]
    assert hierarchy.labels(3) == ("*",)
    assert hierarchy.label_collisions == 0


def test_a_single_outermost_key_is_the_root() -> None:
    hierarchy = Hierarchy.from_tree({"anywhere": PLACES})
    assert (hierarchy.height, hierarchy.root) == (3, "anywhere")
    assert Hierarchy.from_tree({"alone": None}).labels(1) == ("*",)
    assert Hierarchy.from_tree({"anywhere": "here"}).texts(1) == ["anywhere"]


def test_the_same_tree_in_yaml_and_json(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(PLACES), encoding="utf-8")
    (tmp_path / "t.yaml").write_text(
        "Europe:\n  France: [Paris, Lyon]\n  Malta:\nAsia:\n- Tokyo\nAtlantis: []\n", encoding="utf-8"
    )
    digests = {
        HierarchySpec.from_mapping({"tree": tree}, tmp_path).build(["Paris"], [1], "text").digest()
        for tree in ({"file": "t.json"}, {"file": "t.yaml"}, PLACES)
    }
    assert len(digests) == 1


def test_scalars_are_read_under_the_type_of_the_column(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("young: [007, 8]\nold: [90.0]\n", encoding="utf-8")
    hierarchy = HierarchySpec.from_mapping({"tree": {"file": "t.yaml"}}, tmp_path).build(["7", "90"], None, "integer")
    assert hierarchy.values == ("7", "8", "90")
    (tmp_path / "d.yaml").write_text("old: [2001-02-03]\nno: [no, true]\n", encoding="utf-8")
    words = HierarchySpec.from_mapping({"tree": {"file": "d.yaml"}}, tmp_path).build(["no", "true"], None, "text")
    assert words.values == ("2001-02-03", "no", "true")


def test_errors_name_lines(tmp_path: Path) -> None:
    twice = refused(tmp_path, "A:\n- x\nB:\n- y\n- x\n")
    assert twice.kind == "duplicate"
    assert "line 5 repeats the raw value of line 2" in str(twice)
    split = refused(tmp_path, "A:\n  North: [x]\nB:\n  North: [y]\n")
    assert split.kind == "not_functional"
    assert "line 2 and line 4 share their label at level 1" in str(split)


@pytest.mark.parametrize("text", [None, "A: [x\n", "- x\n", "A: [x]\nA: [y]\n", "A: \x00"])
def test_files_that_are_not_a_tree(tmp_path: Path, text: str | None) -> None:
    error = refused(tmp_path, text)
    assert error.kind == "unreadable"
    assert "[x" not in str(error)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "places.yaml").write_bytes(b"A: [\xe9]\n")
    assert "not UTF-8" in str(refused(tmp_path, None))


def test_keys_that_are_not_scalars(tmp_path: Path) -> None:
    assert refused(tmp_path, "? [a, b]\n: [x]\n").kind == "type"


@pytest.mark.parametrize("tree", [{}, [], "places.yaml"])
def test_parameters_are_checked(tree: Any) -> None:
    with pytest.raises(PolicyError, match="must be {file: PATH} or nested mappings"):
        HierarchySpec.from_mapping({"tree": tree})
