"""What a policy says under `hierarchy:`: every problem at once, nearest names, types checked before data."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import HierarchyError, PolicyError, UsageError
from privpipe.hierarchies import BUILDERS, OPTION_KEYS, Hierarchy, HierarchySpec
from privpipe.hierarchies.sources import File

EXAMPLES: dict[str, Any] = {
    "rows": [["1", "low", "*"], ["2", "low", "*"], ["3", "high", "*"]],
    "file": "h.csv",
    "intervals": {"start": 0, "widths": [5, 10]},
    "bands": {"steps": [5, 10]},
    "quantiles": {"counts": [2]},
    "equal_count": {"sizes": [1, 2]},
    "log": {"per_decade": 3},
    "frequency_groups": {"keep": [1]},
    "groups": {"order": ["1", "2", "3"], "sizes": [[2]]},
    "from_columns": {"columns": ["region"]},
    "dates": {"levels": ["month", "year"], "timezone": "UTC"},
    "redact": {"keep": "left", "alphabet": 10},
    "priority": {"levels": 2, "order": ["1", "2", "3"]},
    "tree": {"low": ["1", "2"], "high": ["3"]},
}


def test_every_builder_has_an_example() -> None:
    assert set(EXAMPLES) == set(BUILDERS)
    assert all(set(owners) <= set(BUILDERS) for owners in OPTION_KEYS.values())


@pytest.mark.parametrize("builder", [name for name in BUILDERS if name != "from_columns"])
def test_every_builder_builds_the_same_kind_of_object(tmp_path: Path, builder: str) -> None:
    (tmp_path / "h.csv").write_text("1;low;*\n2;low;*\n3;high;*\n", encoding="utf-8")
    mapping = {builder: EXAMPLES[builder], "min_level": 1, "max_level": 1, "unknown": "root"}
    spec = HierarchySpec.from_mapping(mapping, tmp_path, column="x")
    assert spec.column == "x"
    assert spec.to_dict() == mapping
    values, kind = (["2024-01-01"], "date") if builder == "dates" else (["1", "3"], "integer")
    hierarchy = pickle.loads(pickle.dumps(spec)).build([*values, None], [2, 1, 1][-len(values) - 1 :], kind)
    assert hierarchy == spec.build([*values, None], [2, 1, 1][-len(values) - 1 :], kind)
    assert isinstance(hierarchy, Hierarchy)
    assert (hierarchy.min_level, hierarchy.max_level, hierarchy.unknown, hierarchy.root) == (1, 1, "root", "*")
    assert len(hierarchy.level_names) == hierarchy.height + 1
    hierarchy.to_csv(tmp_path / "written.csv")
    again = Hierarchy.read_csv(tmp_path / "written.csv").cover([*values, None])
    assert [again.texts(level) for level in range(again.height + 1)] == [
        hierarchy.texts(level) for level in range(hierarchy.height + 1)
    ]


def test_every_problem_is_reported_at_once_with_its_path() -> None:
    mapping = {"intervals": {"widht": 5}, "min_levle": 1, "unknown": "rot", "delimiter": ";"}
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping(mapping, column="age")
    problems = {problem.path: problem.message for problem in caught.value.problems}
    assert problems["min_levle"] == "unknown key 'min_levle'; did you mean 'min_level'?"
    assert "did you mean 'root'" in problems["unknown"]
    assert problems["delimiter"] == "'delimiter' belongs to file, not to intervals"
    assert "did you mean 'widths'" in problems["intervals"]
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "a builder is missing: one of file, intervals"),
        ({"min_level": 1}, "a builder is missing"),
        ({"file": "h.csv", "redact": {}}, "give one builder, not file and redact"),
        ("h.csv", "must be a mapping"),
        ({"file": 7}, "must be the path of a hierarchy file"),
        ({"file": "h.csv", "delimiter": ";;"}, "delimiter: must be one character"),
        ({"file": "h.csv", "header": "yes"}, "header: must be true or false"),
        ({"tree": {"a": ["b"]}, "header": True}, "'header' belongs to file, not to tree"),
        ({"redact": {}, "add_root": True}, "'add_root' belongs to file and rows and tree, not to redact"),
        ({"fiel": "h.csv"}, "did you mean 'file'"),
    ],
)
def test_mappings_are_checked(mapping: Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping(mapping)
    assert message in str(caught.value)


def test_a_file_with_header_and_delimiter(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("age,group\n07,x\n8,x\n", encoding="utf-8")
    spec = HierarchySpec.from_mapping({"file": "h.csv", "header": True, "delimiter": ",", "add_root": True}, tmp_path)
    assert HierarchySpec.from_mapping({"file": tmp_path / "h.csv", "delimiter": ","}).check_type("text") is None
    hierarchy = spec.build(["7"], [1], "integer")
    assert hierarchy.level_names == ("age", "group", "*")
    assert (hierarchy.unused, hierarchy.height) == (1, 2)


def test_a_fresh_import_loads_neither_arrow_nor_yaml() -> None:
    code = (
        "import sys, privpipe.hierarchies; "
        "print(sorted({'pyarrow', 'pandas', 'ruamel', 'numba'} & {name.split('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == "[]"


def test_types_are_checked_before_any_data() -> None:
    HierarchySpec.from_mapping({"file": "not there.csv"}).check_type("date")
    HierarchySpec.from_mapping({"intervals": {"widths": [5]}}).check_type("integer")
    with pytest.raises(UsageError, match="column 'age' has type text"):
        HierarchySpec.from_mapping({"intervals": {"widths": [5]}}, column="age").check_type("text")
    with pytest.raises(UsageError, match="text has no natural order"):
        HierarchySpec.from_mapping({"groups": {"sizes": [2]}}).check_type("text")
    with pytest.raises(UsageError, match="unknown column type"):
        HierarchySpec.from_mapping({"redact": {}}).check_type("string")


def test_a_hierarchy_made_in_python_represents_a_mapping() -> None:
    made = Hierarchy.from_rows([["07", "low"], ["8", "high"]], add_root=True, max_level=1)
    spec = HierarchySpec.from_hierarchy(made, column="age")
    built = spec.build(["7", None], [1, 1], "integer")
    assert (built.column, built.values, built.height, built.max_level) == ("age", ("7", "8", "null"), 2, 1)
    assert spec.to_dict() == {}
    with pytest.raises(UsageError, match="already fitted to data"):
        HierarchySpec.from_hierarchy(built)


def test_declared_shares_survive_in_a_hierarchy_made_in_python() -> None:
    mapping = {"redact": {"alphabet": 10}}
    made = HierarchySpec.from_mapping(mapping).build(["47", "48"], None, "text")
    built = HierarchySpec.from_hierarchy(made).build(["47"], None, "text")
    assert (built.domain_size, built.shares(1).tolist()) == (100.0, [0.1, 0.1])


def test_what_a_plan_records_lists_no_value() -> None:
    made = Hierarchy.from_rows([["canary", "*"]], source="made here")
    recorded = [
        HierarchySpec.from_mapping(mapping).recorded()
        for mapping in (
            {"groups": {"order": ["canary", "b"], "sizes": [[2]]}},
            {"tree": {"all": ["canary"]}},
            {"tree": {"file": "tree.yaml"}},
            {"intervals": {"widths": [5, 10]}, "max_level": 2},
        )
    ]
    assert recorded == [
        {"groups": {"order": "2 values", "sizes": [[2]]}},
        {"tree": "in place"},
        {"tree": {"file": "tree.yaml"}},
        {"intervals": {"widths": [5, 10]}, "max_level": 2},
    ]
    assert HierarchySpec.from_hierarchy(made).recorded() == {"prepared": "made here"}


def test_a_hierarchy_is_built_once_for_the_same_values_and_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("Crewe;north;*\nDerby;south;*\n")
    spec = HierarchySpec.from_mapping({"file": "towns.csv"}, tmp_path, column="town")
    first = spec.build(["Crewe", "Derby"], [1, 2], "text")
    assert spec.build(["Crewe", "Derby"], [1, 2], "text") is first
    assert spec.build(["Crewe"], [1], "text") is not first
    stat = file.stat()
    file.write_text("Crewe;south;*\nDerby;north;*\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert spec.build(["Crewe", "Derby"], [1, 2], "text").texts(1) == ["south", "north"]
    assert first.texts(1) == ["north", "south"]
    file.unlink()
    with pytest.raises(HierarchyError, match="cannot be read"):
        spec.build(["Crewe", "Derby"], [1, 2], "text")


def test_what_was_built_is_neither_compared_nor_sent() -> None:
    spec, other = (HierarchySpec.from_mapping({"frequency_groups": {"keep": [1]}}, column="x") for _ in range(2))
    assert spec.build(["a", "b", "c"], [5, 1, 1], "text").digest() != spec.build(["a", "b", "c"], [1, 1, 5]).digest()
    assert spec == other
    assert len(pickle.dumps(spec)) == len(pickle.dumps(other))


def test_values_that_do_not_fit_are_refused_every_time() -> None:
    spec = HierarchySpec.from_mapping({"rows": [["a", "*"]]}, column="x")
    for _ in range(2):
        with pytest.raises(HierarchyError, match="unknown"):
            spec.build(["a", "b"], [1, 1], "text")


def test_declarations_of_one_file_share_what_was_read_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted: list[str] = []
    draft = File.draft

    def counted(self: File, *given: Any) -> Any:
        drafted.append(self.shown)
        return draft(self, *given)

    monkeypatch.setattr(File, "draft", counted)
    path = tmp_path / "towns.csv"
    path.write_text("a;x;*\nb;y;*\n")

    def built(values: list[str | None], **options: Any) -> Hierarchy:
        return HierarchySpec.from_mapping({"file": "towns.csv", **options}, tmp_path, column="town").build(values)

    first, second = built(["a"]), built(["b", "a"])
    assert (first.unused, second.unused, first.digest() == second.digest()) == (1, 0, True)
    assert built(["b", None], null_label="none").released(1) == ["x", "y", "none"]
    assert first.null_code is second.null_code is None
    assert len(drafted) == 2  # one for each set of options
    before = path.stat()
    path.write_text("a;y;*\nb;x;*\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert built(["a"]).labels(1) == ("y", "x")
    path.unlink()
    with pytest.raises(HierarchyError, match="cannot be read"):
        built(["a"])
