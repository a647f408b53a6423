"""Cells that an ordinary table seldom has: few records to a label, other types, nothing at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.hierarchies import HierarchySpec
from privpipe.judging.paired_columns import PairedColumn, coded_column


def paired(before: pa.Array | list[Any], after: pa.Array | list[Any]) -> PairedColumn:
    first, second = (each if isinstance(each, pa.Array) else pa.array(each) for each in (before, after))
    rows = np.arange(len(first))
    return PairedColumn.of(coded_column(first, "*"), coded_column(second, "*"), rows, rows)


def test_names_of_their_own_that_were_shuffled_are_lost() -> None:
    names = [f"n{at}" for at in range(50)]
    column = paired(names, names[1:] + names[:1])
    assert column.loss(None) == (1.0, "cells")
    assert column.changed == 1.0


def test_names_of_their_own_that_stay_are_kept() -> None:
    names = [f"n{at}" for at in range(50)]
    assert paired(names, names).loss(None) == (0.0, "association")


def test_blanks_cost_their_share() -> None:
    values = ["a", "b"] * 500
    column = paired(values, [None if at < 250 else value for at, value in enumerate(values)])
    assert column.blanked == column.changed == 0.25
    loss, by = column.loss(None)
    assert (loss, by) == (pytest.approx(0.25), "association")


def test_numbers_that_became_ranges_keep_their_order() -> None:
    values = list(range(400))
    loss, by = paired(values, [f"[{value // 100}, " for value in values]).loss(None)
    assert by == "rank correlation"
    assert loss is not None
    assert 0 < loss < 0.05


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2020, 1, day) for day in range(1, 9)],
        [dt.datetime(2020, 1, 1, hour) for hour in range(8)],
        [Decimal(f"{at}.50") for at in range(8)],
        [0.0, -0.0, float("nan"), 1e308, 5e-324, None, 2.0, 3.0],
        [2**53, 2**53 + 1, None, -(2**63), 2**63 - 1, 4, 5, 6],
    ],
)
def test_points_in_time_and_numbers_are_ranked(values: list[Any]) -> None:
    assert paired(values, values).loss(None) == (0.0, "rank correlation")
    back = sorted(value for value in values if value is not None and value == value)
    loss, by = paired(back, back[::-1]).loss(None)
    assert (loss, by) == (1.0, "rank correlation")


def test_truth_values_are_labels() -> None:
    values = [True, False, None] * 100
    assert paired(values, values).loss(None) == (0.0, "association")
    assert paired(values, [True] * 300).loss(None) == (1.0, "association")


def test_a_whole_number_that_became_a_float_did_not_change() -> None:
    column = paired([1, 2, None], [1.0, 2.0, None])
    assert (column.changed, column.blanked) == (0.0, 0.0)


def test_a_missing_cell_that_became_the_mark_lost_nothing() -> None:
    column = paired([None, "a", "*", "b"], ["*", "a", None, "*"])
    assert (column.changed, column.blanked) == (0.25, 0.25)


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.date32()])
@pytest.mark.parametrize("length", [0, 3])
def test_nothing_can_be_lost_of_nothing(kind: pa.DataType, length: int) -> None:
    nothing = pa.nulls(length, kind)
    column = paired(nothing, nothing)
    assert column.loss(None) == (None, "")
    assert column.changed == (0.0 if length else None)


def test_labels_of_any_level_cost_by_what_they_represent() -> None:
    spec = HierarchySpec.from_mapping({"tree": {"*": {"n": ["a", "b", "c"], "s": ["d", "e"]}}}, column="town")
    column = paired(["a", "b", "c", "d", None], ["a", "n", "*", "s", None])
    loss, by = column.loss(spec)
    # Shares of six leaves (one for nulls) above 1/6, as parts of 5/6; the missing cell has nothing to lose.
    assert (loss, by) == (pytest.approx((0 + 2 / 5 + 1 + 1 / 5) / 4), "hierarchy")


def test_a_label_over_another_value_is_not_a_generalization() -> None:
    spec = HierarchySpec.from_mapping({"tree": {"*": {"n": ["a", "b"], "s": ["d", "e"]}}}, column="town")
    values = ["a", "b", "d", "e"] * 100
    loss, by = paired(values, ["s" if value in "ab" else "n" for value in values]).loss(spec)
    assert by == "association"
    assert loss == pytest.approx(0.5, abs=0.01)


def test_a_label_of_two_levels_represents_what_the_lower_one_says() -> None:
    """A released `a` shows its original; a `b` leaves open which of two it was."""
    rows = [["a", "a", "*"], ["b", "a", "*"], ["c", "c", "*"], ["d", "c", "*"]]
    spec = HierarchySpec.from_mapping({"rows": rows}, column="town")
    loss, by = paired(["a", "b", "c", "d"], ["a", "a", "c", "d"]).loss(spec)
    # Of four leaves `a` has one at its own level and two above: (2 - 1) / (4 - 1) for the one record, of four.
    assert (loss, by) == (pytest.approx((0 + 1 / 3 + 0 + 0) / 4), "hierarchy")
