"""Rules that each file of the package keeps; what breaks one is gathered over all files."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.architecture.sources import read, sources

MOST_LINES = 600
MOST_PARAMETERS = 8
WIDER = {
    "judging/judging.py: assess",
    "running/verbs.py: release",  # the face: its keywords are the options of the command
}
"""Functions that take more: a list that only grows shorter."""


def test_a_file_stays_readable() -> None:
    assert [each.place for each in sources().values() if each.lines > MOST_LINES] == []


def test_a_module_says_in_its_docstring_what_it_defines() -> None:
    assert [each.place for each in sources().values() if not each.documented] == []


def test_nearly_all_functions_are_short() -> None:
    lines = [function.lines for each in sources().values() for function in each.functions]
    assert sum(length <= 40 for length in lines) >= 0.95 * len(lines)


def test_a_function_takes_few_parameters() -> None:
    wide = {
        f"{each.place}: {function.name}"
        for each in sources().values()
        for function in each.functions
        if function.parameters > MOST_PARAMETERS
    }
    assert wide == WIDER


def test_complexity_is_held_by_the_linter(project: Path) -> None:
    lint = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C901" in lint["select"]
    assert lint["mccabe"]["max-complexity"] <= 15


def test_what_a_parameter_is_stands_in_its_annotation_alone() -> None:
    """No mapping of texts next to the fields, and no field of an entry asked for by its name."""
    assert {each.place: each.unmarked for each in sources().values() if each.unmarked} == {}
    found = read("x.py", "about: ClassVar = {}\ngetattr(entry, 'column')\ngetattr(entry, 'other')\n")
    assert found.unmarked == [1, 2]


def test_no_module_decides_by_the_name_of_a_way() -> None:
    """A way of judging is asked what it needs, and not what it is called."""
    assert {each.place: each.deciding for each in sources().values() if each.deciding} == {}
    seen = (
        "if entry.reads: pass",
        "entry.way == 'classes'",
        "entry.way.name == 'classes'",
        "entry.way.name in WORDS",
        "WORDS[entry.way.name]",
        "WORDS.get(way.name)",
        "'pairs' != entry.way.name",
    )
    assert [text for text in seen if not read("x.py", text).deciding] == []
    fine = ("entry.way.aligned", "WAYS[entry.way]", "raise E(f'{entry.way.name}')")
    assert [text for text in fine if read("x.py", text).deciding] == []
