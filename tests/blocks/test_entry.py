"""Entries: one frozen dataclass is the parameters of policy, Python, CLI and GX."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Annotated, Self

import pytest
from annotated_types import Ge, Gt
from typing_extensions import Doc

from privpipe import measures, models, transforms
from privpipe.blocks import Entry
from privpipe.blocks.entry import snake_case
from privpipe.blocks.parameters import require_choice, require_integer, require_number
from privpipe.errors import UsageError


@dataclass(frozen=True, kw_only=True, repr=False)
class Sieve(Entry):
    """Keep what is large."""

    mesh: Annotated[float, Gt(0), Doc("width of the holes")]
    columns: tuple[str, ...] = ()
    quasi_identifiers: tuple[str, ...] | None = None

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(mesh=1.0)]


@dataclass(frozen=True, kw_only=True, repr=False)
class FineSieve(Sieve):
    """Keep what is small, too."""

    shake: Annotated[int | None, Ge(0), Doc("how often")] = 1


def test_an_entry_is_built_from_a_policy() -> None:
    assert Sieve.build({"mesh": 2, "columns": ["a"]}) == Sieve(mesh=2.0, columns=("a",))


@pytest.mark.parametrize(
    ("parameters", "place", "text"),
    [
        ({"mash": 1.0}, "mash", "did you mean 'mesh'"),
        ({}, "mesh", "is required"),
        ({"mesh": "1"}, "mesh", "must be a number, not a text"),
        ({"mesh": 1.0, "columns": "a"}, "columns", "must be a list, not a text"),
        ({"mesh": -1.0}, "", "> 0"),
        ({"mesh": float("nan")}, "", "> 0"),
    ],
)
def test_what_is_wrong_is_named(parameters: dict[str, object], place: str, text: str) -> None:
    assert text in Sieve.problems(parameters)[place]
    with pytest.raises(UsageError, match="sieve|Sieve"):
        Sieve.build(parameters)


def test_parameters_leave_out_what_was_not_said() -> None:
    assert Sieve(mesh=1.0).parameters() == {"mesh": 1.0}


def test_an_empty_list_that_was_said_is_kept() -> None:
    assert Sieve(mesh=1.0, quasi_identifiers=()).parameters() == {"mesh": 1.0, "quasi_identifiers": ()}


def test_a_none_that_was_said_is_kept() -> None:
    assert FineSieve(mesh=1.0, shake=None).parameters() == {"mesh": 1.0, "shake": None}
    assert FineSieve.build({"mesh": 1.0, "shake": None}).shake is None


def test_descriptions_are_inherited() -> None:
    assert FineSieve.descriptions() == {"mesh": "width of the holes", "shake": "how often"}


def test_the_schema_describes_parameters_and_refuses_others() -> None:
    schema = FineSieve.json_schema()
    assert schema["properties"]["mesh"]["description"] == "width of the holes"
    assert schema["properties"]["mesh"]["exclusiveMinimum"] == 0
    assert schema["properties"]["shake"]["anyOf"][0] == {"minimum": 0, "type": "integer"}
    assert schema["additionalProperties"] is False
    json.dumps(schema)


def test_repr_shows_what_was_said() -> None:
    assert repr(FineSieve(mesh=0.5)) == "FineSieve(mesh=0.5)"


def test_the_name_and_summary_are_the_class() -> None:
    assert (FineSieve.name(), FineSieve.summary()) == ("fine_sieve", "Keep what is small, too.")
    assert snake_case("KMAnonymity") == "km_anonymity"


def test_an_entry_without_examples_says_so() -> None:
    with pytest.raises(LookupError, match="Entry"):
        Entry.examples()


@pytest.mark.parametrize("value", [True, 1.0, "1", 0, None])
def test_no_integer(value: object) -> None:
    with pytest.raises(UsageError, match="Sieve: k must be"):
        require_integer("Sieve", "k", value, least=1)


@pytest.mark.parametrize("value", [True, "1", float("nan"), float("inf"), 0, 2])
def test_no_number(value: object) -> None:
    with pytest.raises(UsageError, match="Sieve: share must be"):
        require_number("Sieve", "share", value, above=0, most=1)


def test_no_choice() -> None:
    with pytest.raises(UsageError, match="did you mean 'equal'"):
        require_choice("Sieve", "distance", "equel", ("equal", "ordered"))
    with pytest.raises(UsageError, match="one of equal"):
        require_choice("Sieve", "distance", 3, ("equal", "ordered"))


def test_the_docstring_of_each_entry_names_its_source_once() -> None:
    entries = [room.CATALOGUE[name] for room in (measures, models, transforms) for name in room.CATALOGUE.built_in]
    counts = {entry.name(): (entry.__doc__ or "").count("Source: ") for entry in entries if entry.source}
    assert len(counts) > 60
    assert [name for name, count in counts.items() if count != 1] == []


def test_a_source_that_a_docstring_does_not_name_ends_its_notes() -> None:
    class Named(Entry):
        """One line.

        Notes
        -----
        A note.

        Examples
        --------
        >>> 1
        1
        """

        source = "A book, 2020"

    notes, examples = inspect.cleandoc(Named.__doc__ or "").split("\n\nExamples\n")
    assert notes.endswith("A note.\n\nSource: A book, 2020.")
    assert examples.endswith("1\n1")
