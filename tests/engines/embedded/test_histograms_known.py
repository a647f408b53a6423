"""Counts of a table are not counted again, and never reported for another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from tests.tiers import deep_beyond

ROWS = {"zip": ["10", "11", "20", None, "10"], "age": [1, 2, None, 2, 1]}


def counted(engine: Any, table: Any, *columns: str) -> dict[str, dict[Any, int]]:
    found = engine.facts(table, FactsRequest(histograms=columns)).histograms
    return {name: dict(zip(each.values.to_pylist(), each.counts.tolist(), strict=True)) for name, each in found.items()}


def test_labels_of_a_counted_column_are_known(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = embedded.with_record_ids(embedded.scan(Source(data=pa.table(ROWS))), None, Seed.insecure(1))
    assert counted(embedded, table, "zip", "age")["zip"] == {"10": 2, "11": 1, "20": 1, None: 1}
    books = {"zip": (pa.array(["10", "11", "20", None]), pa.array(["1*", "1*", "2*", None]))}
    uncounted: Any = embedded.recode(embedded.scan(Source(data=pa.table(ROWS))), books)
    recoded: Any = embedded.recode(table, books)
    expected = counted(embedded, uncounted, "zip", "age")
    monkeypatch.setattr("privpipe.engines.embedded.engine._counted", lambda *_: pytest.fail("counted again"))
    assert counted(embedded, recoded, "zip", "age") == expected
    assert expected["zip"] == {"1*": 3, "2*": 1, None: 1}
    assert counted(embedded, embedded.select(table, ["age"]), "age") == {"age": {1: 2, 2: 2, None: 1}}
    assert embedded.estimated_distinct(table, ["age", "zip"]) == {"age": 3, "zip": 4}  # type: ignore[attr-defined]


def test_fewer_records_are_counted_again(embedded: Engine) -> None:
    table: Any = embedded.scan(Source(data=pa.table(ROWS)))
    counted(embedded, table, "age")
    fewer = embedded.map_rows(table, lambda rows: rows.take([0, 1]), table.schema)  # type: ignore[arg-type]
    assert counted(embedded, fewer, "age") == {"age": {1: 1, 2: 1}}


@pytest.mark.parametrize("before", [True, False])
def test_a_value_without_a_label_is_refused(embedded: Engine, before: bool) -> None:
    table: Any = embedded.scan(Source(data=pa.table(ROWS)))
    if before:
        counted(embedded, table, "zip")
    with pytest.raises(DataError, match="2 records hold a value"):
        embedded.recode(table, {"zip": (pa.array(["11", "20", None]), pa.array(["1*", "2*", None]))})


@pytest.mark.parametrize("seed", deep_beyond(2, range(6)))
@pytest.mark.parametrize("columns", [(), ("ill",)], ids=["sizes", "cells"])
def test_what_failing_classes_leave_is_known(
    embedded: Engine, monkeypatch: pytest.MonkeyPatch, seed: int, columns: tuple[str, ...]
) -> None:
    drawn = np.random.default_rng(seed)
    texts, numbers = ["1*", "2*", "*", None], [-0.0, 0.0, 1.5, None]
    rows = {
        "zip": [texts[at] for at in drawn.integers(0, 4, 60)],
        "age": pa.array([numbers[at] for at in drawn.integers(0, 4, 60)], pa.float64()),
        "sex": pa.array(drawn.integers(0, 2, 60), pa.int64()),
        "ill": [str(at) for at in drawn.integers(0, 3, 60)],
    }
    monkeypatch.setattr(embedded.session, "small_rows", 0)  # type: ignore[attr-defined]
    table: Any = embedded.with_record_ids(embedded.scan(Source(data=pa.table(rows))), None, Seed.insecure(1))
    counted(embedded, table, "zip", "age")
    query = ClassQuery(keys=("zip", "age", "sex"), columns=columns)
    left: Any = embedded.keep_classes(table, query, lambda block: block.sizes >= 2 + seed)
    assert 0 < embedded.count(left) < 60
    again = embedded.map_rows(left, lambda block: block, left.schema)  # knows nothing of what was counted
    assert set(left.histograms) == {"zip", "age"}
    assert embedded.count(again) == embedded.count(left)
    expected = counted(embedded, again, "zip", "age", "sex")
    assert counted(embedded, left, "zip", "age", "sex") == expected
    for name in ("zip", "age"):
        assert left.histograms[name].values.equals(again.histograms[name].values)


def test_sizes_of_persons_tell_no_records(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"zip": ["1", "1", "1", "2", "2", "2"], "person": ["a", "a", "b", "c", "c", "c"]}
    monkeypatch.setattr(embedded.session, "small_rows", 0)  # type: ignore[attr-defined]
    table: Any = embedded.scan(Source(data=pa.table(rows)))
    counted(embedded, table, "zip")
    query = ClassQuery(keys=("zip",), person="person")
    left: Any = embedded.keep_classes(table, query, lambda block: block.sizes >= 2)
    assert counted(embedded, left, "zip") == {"zip": {"1": 3}}
    assert embedded.count(left) == 3
