"""Lines of a column for people: every record is in one, and none rests on fewer records than may be shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.judging.paired_columns import ColumnValues
from privpipe.judging.report_counts import _of_column

LEAST = 5
Lines = list[dict[str, Any]]


def column(counts: dict[Any, int]) -> ColumnValues:
    """Whole numbers and how often each stands there, null last."""
    order = sorted(value for value in counts if value is not None) + [None] * (None in counts)
    blank = np.array([value is None for value in order])
    return ColumnValues(pa.array(order, pa.int64()), np.array([counts[each] for each in order]), blank)


def of_one(counts: dict[Any, int]) -> Lines:
    found = _of_column([column(counts)], LEAST)
    assert found["form"] == "intervals"
    return list(found["lines"])


def within(line: dict[str, Any], counts: dict[Any, int]) -> int:
    """Records of an interval, which holds its lower end and not its upper one."""
    low, high = (float(end) if end else None for end in line["label"].split(":"))
    values = [value for value in counts if value is not None]
    return sum(
        counts[value]
        for value in values
        if (-math.inf if low is None else low) <= value < (math.inf if high is None else high)
    )


@pytest.mark.parametrize("thin", [10, 2, 1])
def test_an_interval_counts_the_records_between_its_ends(thin: int) -> None:
    counts: dict[Any, int] = {value: 10 if value < 60 else thin * (value % 7 == 0) + 1 for value in range(100)}
    lines = of_one(counts)
    assert len(lines) > 3
    assert [line["counts"] for line in lines] == [[within(line, counts)] for line in lines]
    assert sum(line["counts"][0] for line in lines) == sum(counts.values())
    assert lines[0]["label"].startswith(":"), "no end is the smallest value"
    assert lines[-1]["label"].endswith(":"), "no end is the largest value"


def test_no_end_is_in_the_tails() -> None:
    counts: dict[Any, int] = {**dict.fromkeys(range(100, 200), 20), -5_000: 3, 9_000: 3}
    ends = [float(end) for line in of_one(counts) for end in line["label"].split(":") if end]
    assert (min(ends), max(ends)) == (110.0, 190.0)


def test_many_missing_values_have_a_line_of_their_own() -> None:
    counts: dict[Any, int] = dict.fromkeys(range(100), 20)
    assert of_one({**counts, None: LEAST}) == [
        *of_one(counts),
        {"kind": "missing", "label": "", "counts": [LEAST], "labels": 1},
    ]


def test_few_missing_values_are_hidden_in_the_smallest_interval() -> None:
    counts: dict[Any, int] = {value: 7 if 40 <= value < 50 else 20 for value in range(100)}
    whole, found = of_one(counts), of_one({**counts, None: LEAST - 1})
    smallest = min(whole, key=lambda line: int(line["counts"][0]))
    assert smallest["label"] == "40.0:50.0"
    hidden = {"kind": "others", "label": "", "counts": [70 + LEAST - 1], "labels": 2}
    assert found == [*(line for line in whole if line is not smallest), hidden]


def test_few_missing_values_of_one_table_take_its_small_intervals_along() -> None:
    before: dict[Any, int] = dict.fromkeys(range(100), 20)
    after: dict[Any, int] = {**dict.fromkeys(range(50, 100), 20), None: 2}
    found = _of_column([column(before), column(after)], LEAST)["lines"]
    assert all(not count or count >= LEAST for line in found for count in line["counts"])
    assert [sum(line["counts"][side] for line in found) for side in (0, 1)] == [2000, 1002]
    hidden = next(line for line in found if line["kind"] == "others")
    assert hidden["labels"] == 1 + 10 - (len(found) - 1)
