"""Persons counted instead of records, from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Cells, ClassBlock, Facts, Histogram
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging import table_facts
from privpipe.judging.table_facts import ClassCount, count_persons, in_persons, person_histograms, require_persons


def table(seed: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    who = [f"p{each}" for each in rng.integers(0, 12, 50)]
    return who, [None if rng.random() < 0.1 else str(each) for each in rng.choice(["flu", "gout", "ok"], 50)]


@pytest.mark.parametrize("seed", range(2))
def test_a_person_counts_once_for_each_value(engine: Engine, seed: int) -> None:
    who, illness = table(seed)
    scanned = engine.scan(Source(data=pa.table({"who": who, "illness": illness})))
    assert count_persons(engine, scanned, "who") == len(set(who))
    found = person_histograms(engine, scanned, ["illness"], "who")
    histogram = found.histograms["illness"]
    counts = dict(zip(histogram.values.to_pylist(), histogram.counts.tolist(), strict=True))
    pairs = set(zip(who, illness, strict=True))
    assert counts == {value: sum(each == value for _, each in pairs) for value in set(illness)}
    assert found.records == len(set(who))
    records = person_histograms(engine, scanned, ["illness"], None)
    assert records.records == 50
    assert records.histograms["illness"].counts.sum() == 50


def test_no_one_is_in_an_empty_table_nor_has_a_value_that_is_not_there(engine: Engine) -> None:
    people = pa.table({"who": ["a", "a", "b"], "illness": ["flu", "flu", "ok"]})
    assert count_persons(engine, engine.scan(Source(data=people.slice(0, 0))), "who") == 0
    values = Histogram(pa.array(["flu", "gout", "ok"]), np.array([9, 9, 9]))
    found = in_persons(engine, engine.scan(Source(data=people)), {"illness": values}, "who")
    assert found["illness"].counts.tolist() == [1, 0, 1]


def test_counts_of_blocks_are_put_together() -> None:
    blocks = [
        ClassBlock(np.array(sizes), {"x": Cells(np.arange(len(sizes) + 1), np.array(codes), np.array(sizes))})
        for sizes, codes in (([3, 1], [0, 2]), ([4], [1]))
    ]
    by_value = table_facts._ByValue("x")
    assert by_value.merge(*(by_value.measure(block, Facts()) for block in blocks)) == {0: 3, 2: 1, 1: 4}
    assert ClassCount().merge(*(ClassCount().measure(block, Facts()) for block in blocks)) == 3


def test_no_one_is_distinguished_without_a_column() -> None:
    people = pa.table({"who": ["a"], "zip": ["1"]})
    require_persons(people, "who")
    with pytest.raises(DataError, match="person_id column 'whom' is not in the table.*persons cannot be counted"):
        require_persons(people, "whom")
    with pytest.raises(DataError, match="household_id column 'home'.*households cannot be counted"):
        require_persons(people, "home", "household_id")
