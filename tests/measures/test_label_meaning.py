"""Which labels mean something, by each of the things that can explain them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.hierarchies import HierarchySpec
from privpipe.measures.label_meaning import explained, labels_compared, values_compared

TOWNS = {"tree": {"*": {"north": ["Bonn", "Gera"], "south": ["Ulm"]}}}


@pytest.mark.parametrize(
    ("labels", "values", "kind", "wanted"),
    [
        (["20-39", "[20, 40[", ">=60", "31", "31.5", "middle", "19*"], ["31"], "integer", [1, 1, 1, 1, 0, 0, 0]),
        (["31.5", "1e3"], ["31"], "number", [1, 1]),
        (["2024-05-01", "[2024-05-01, 2024-06-01[", "May"], ["2024-05-03"], "date", [1, 1, 0]),
        (["20-39", "31", "{31, 32}", "{40}", "*", None, ""], ["31"], "text", [0, 1, 1, 0, 1, 1, 0]),
        (["true", "yes"], ["true", "false"], "boolean", [1, 0]),
    ],
)  # fmt: skip
def test_what_explains_a_label(labels: list[Any], values: list[str], kind: str, wanted: list[int]) -> None:
    assert explained(labels, values, kind).tolist() == [bool(flag) for flag in wanted]


def test_a_hierarchy_explains_its_labels_of_every_level() -> None:
    spec = HierarchySpec.from_mapping(TOWNS, column="town")
    hierarchy: Any = spec.build(["Bonn"], [1], "text")
    assert explained(["Bonn", "Gera", "north", "south", "west"], ["Bonn"], "text", hierarchy).tolist() == [True] * 4 + [
        False
    ]


def test_the_columns_that_are_laid_next_to_one_another() -> None:
    original = pa.table(
        {"town": ["Bonn", "Gera", "Ulm"], "age": [31, 32, 33], "born": pa.array([1, 2, 3], pa.date32())}
    )
    released = pa.table({"town": ["north", "west", None], "age": [30.0, None, 35.0], "born": original["born"]})
    (found,) = labels_compared(original, released, {})
    assert (found.compared, found.of) == (1, 3)  # the missing one; a number says by itself how far it is
    (found,) = labels_compared(original, released, {"town": HierarchySpec.from_mapping(TOWNS, column="town")})
    assert (found.compared, found.of) == (2, 3)
    (found,) = labels_compared(original, released.set_column(0, "town", pa.array(["gone"] * 3)), {}, mark="gone")
    assert found.compared == 3


def test_records_with_a_value_on_both_sides() -> None:
    original = pa.table({"a": [1.0, np.nan, None, 4.0], "b": ["x", None, None, "y"]})
    released = pa.table({"a": [None, 2.0, 3.0, np.nan], "b": ["x", "x", "x", None]})
    found = values_compared(original, released)
    assert (found.compared, found.of) == (1, 2)
