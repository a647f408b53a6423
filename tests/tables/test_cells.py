"""Relations between cells, with and without all rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from privpipe.errors import DataError
from privpipe.tables.cells import Cells, Dimension, linked

AGE = Dimension.tree("age", {"<20": "All", "20-39": "All", "20-24": "20-39", "25-39": "20-39"})
SEX = Dimension.tree("sex", {"m": "All", "f": "All"})
ILL = Dimension.tree("illness", {"a": "All", "b": "All"}, overlapping=True)


def relations_of(cells: Cells) -> set[frozenset[tuple[int, str]]]:
    """Each relation as signs and names, the sign of its first cell 1."""
    found = set()
    for row in cells.relations.toarray().tolist():
        entries = [(value, cells.name(at)) for at, value in enumerate(row) if value]
        found.add(frozenset(entries))
    return found


def one(total: str, *parts: str) -> frozenset[tuple[int, str]]:
    return frozenset([(1, total), *((-1, part) for part in parts)])


def without(*missing: Sequence[str]) -> Cells:
    rows = [(a, s) for a in AGE.labels for s in SEX.labels if (a, s) not in missing]
    return Cells.labelled([AGE, SEX], rows)


def test_a_complete_table_has_a_relation_for_each_inner_cell_and_dimension() -> None:
    found = relations_of(Cells.complete([AGE, SEX]))
    assert len(found) == 2 * 3 + 5
    assert one("age=20-39, sex=m", "age=20-24, sex=m", "age=25-39, sex=m") in found
    assert one("age=20-24", "age=20-24, sex=m", "age=20-24, sex=f") in found


def test_a_missing_leaf_is_0() -> None:
    found = relations_of(without(("25-39", "f")))
    assert one("age=20-39, sex=f", "age=20-24, sex=f") in found
    assert one("age=25-39", "age=25-39, sex=m") in found


def test_a_missing_inner_cell_represents_the_cells_below_it() -> None:
    found = relations_of(without(("20-39", "All"), ("20-39", "m"), ("20-39", "f")))
    assert one("sex=m", "age=<20, sex=m", "age=20-24, sex=m", "age=25-39, sex=m") in found
    assert not any("age=20-39" in name for relation in found for _, name in relation)


def test_a_missing_margin_of_one_dimension_is_made_of_the_other_one() -> None:
    found = relations_of(without(("<20", "All")))
    assert one("total", "age=<20, sex=m", "age=<20, sex=f", "age=20-39") in found


def test_a_table_without_its_grand_total_has_no_relation_with_it() -> None:
    found = relations_of(Cells.labelled([AGE, SEX], [(a, s) for a in AGE.labels for s in ("m", "f")]))
    assert len(found) == 4
    assert all("sex=m" in name or "sex=f" in name for relation in found for _, name in relation)


def test_along_an_overlapping_dimension_there_is_no_relation() -> None:
    found = relations_of(Cells.complete([SEX, ILL]))
    assert found == {
        one("total", "sex=m", "sex=f"),
        one("illness=a", "illness=a, sex=m", "illness=a, sex=f"),
        one("illness=b", "illness=b, sex=m", "illness=b, sex=f"),
    }


def test_a_missing_total_of_an_overlapping_dimension_is_not_taken_for_0() -> None:
    rows = [(s, i) for s in SEX.labels for i in ILL.labels if (s, i) != ("m", "All")]
    found = relations_of(Cells.labelled([SEX, ILL], rows))
    assert found == {
        one("illness=a", "illness=a, sex=m", "illness=a, sex=f"),
        one("illness=b", "illness=b, sex=m", "illness=b, sex=f"),
    }


def test_unknown_absent_cells_are_variables_after_the_others() -> None:
    table = without(("25-39", "f"), ("25-39", "m"))
    found = linked([table], absent="unknown")
    assert found.variables[0].tolist() == list(range(len(table)))
    assert found.size == len(table) + 2
    assert found.relations.shape == (2 * 3 + 5, found.size)


def test_cells_with_the_same_restriction_are_one_variable() -> None:
    women = Cells.labelled([AGE], [(label,) for label in AGE.labels], {"sex": "f"})
    both = Cells.complete([AGE, SEX])
    found = linked([both, women])
    assert found.size == len(both)
    places = {both.name(at): variable for at, variable in enumerate(found.variables[0].tolist())}
    assert found.variables[1].tolist() == [places["sex=f"], *(places[f"age={a}, sex=f"] for a in AGE.labels[1:])]


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [(a, s) for a in AGE.labels for s in SEX.labels]
    assert relations_of(Cells.labelled([AGE, SEX], rows[::-1])) == relations_of(Cells.complete([AGE, SEX]))


def test_a_cell_that_occurs_twice_is_an_error_without_labels() -> None:
    with pytest.raises(DataError, match=r"cell \(age=\?, sex=\?\) occurs more than once: 1 rows") as error:
        Cells.labelled([AGE, SEX], [("<20", "m"), ("<20", "m")])
    assert "<20" not in str(error.value)


@pytest.mark.parametrize("parents", [{"a": "T", "b": "U"}, {"a": "b", "b": "a"}, {"a": "T", "b": "c", "c": "b"}])
def test_a_tree_has_one_total_and_no_circle(parents: dict[str, str]) -> None:
    with pytest.raises(DataError, match="dimension 'x'"):
        Dimension.tree("x", parents)
