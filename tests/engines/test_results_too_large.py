"""What the calling process cannot hold is refused before it is collected, with what to do; what is small comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe import plan
from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, RowBlock
from privpipe.blocks.aggregate_query import AggregateQuery
from privpipe.draws import Seed
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import EngineError, UsageError

LIMIT = 100_000
N = 20_000
ROWS = pa.table(
    {
        "number": np.arange(N),
        "pay": np.random.default_rng(1).normal(size=N),
        "kind": [f"kind {at % 5}" for at in range(N)],
    }
)


@dataclass(frozen=True)
class Gathered:
    """All values of a column, which a reduction should not bring; or, `counted`, their number."""

    counted: bool = False

    def measure(self, block: Any, facts: Facts) -> list[Any]:
        if self.counted:
            return [len(block)]
        if isinstance(block, ClassBlock):
            return [block.sizes]
        return [block.batch if isinstance(block, RowBlock) else block.original.batch]

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return left + right


def total(found: list[int] | None) -> int:
    return sum(found or [])


def one_group(rows: RowBlock) -> Any:
    return np.zeros(len(rows), np.int64)


def unchanged(rows: RowBlock, key: int) -> RowBlock:
    return rows


CLASSES = ClassQuery(keys=("number",))
TOO_LARGE: dict[str, tuple[Callable[[Engine, Any], Any], tuple[str, ...]]] = {
    "histogram": (lambda engine, table: engine.facts(table, FactsRequest(histograms=("pay",))), ("pay",)),
    "combinations": (lambda engine, table: engine.distinct(table, ("number", "kind")), ("number", "kind")),
    "classes": (lambda engine, table: list(engine.classes(table, CLASSES)), ("number",)),
    "rows": (lambda engine, table: engine.reduce_rows(table, ("pay",), Gathered(), Facts()), ("pay",)),
    "pairs": (lambda engine, table: engine.reduce_pairs(table, table, ("pay",), Gathered(), Facts()), ("pay",)),
    "class figures": (
        lambda engine, table: engine.reduce_classes(table, CLASSES, Gathered(), Facts(), where="engine"),
        ("number",),
    ),
    "cells": (lambda engine, table: engine.aggregate(table, AggregateQuery(keys=("number",))), ("number",)),
    "records": (lambda engine, table: engine.collect(table), ("number", "pay", "kind")),
}
SMALL: dict[str, tuple[Callable[[Engine, Any], Any], Any]] = {
    "records": (lambda engine, table: engine.count(table), N),
    "histogram": (
        lambda engine, table: len(engine.facts(table, FactsRequest(histograms=("kind",))).histograms["kind"]),
        5,
    ),
    "combinations": (lambda engine, table: engine.distinct(table, ("kind",)).num_rows, 5),
    "rows": (lambda engine, table: total(engine.reduce_rows(table, ("pay",), Gathered(counted=True), Facts())), N),
    "pairs": (
        lambda engine, table: total(engine.reduce_pairs(table, table, ("pay",), Gathered(counted=True), Facts())),
        N,
    ),
    "classes": (
        lambda engine, table: total(
            engine.reduce_classes(table, CLASSES, Gathered(counted=True), Facts(), where="engine")
        ),
        N,
    ),
    "cells": (lambda engine, table: engine.aggregate(table, AggregateQuery(keys=("kind",))).num_rows, 5),
}


def require_refusals(engine: Engine) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS)), "number", Seed(bytes(16)))
    for name, (ask, columns) in TOO_LARGE.items():
        with pytest.raises(EngineError) as refused:
            ask(engine, table)
        text = str(refused.value)
        named = all(repr(column) in text for column in columns)
        assert named, (name, text)
        assert "takes 98 KiB at a time; raise `" in text, (name, text)
        assert "Nothing was collected" in text, (name, text)
    for name, (ask, wanted) in SMALL.items():
        assert ask(engine, table) == wanted, name


@pytest.fixture(scope="module")
def narrow() -> Iterator[Engine]:
    with open_engine("dask", {"scheduler": "threads", "npartitions": 4, "collected_bytes": LIMIT}) as engine:
        yield engine


@pytest.mark.dask
def test_threads_refuse_what_exceeds_the_limit(narrow: Engine) -> None:
    require_refusals(narrow)


@pytest.mark.dask
@pytest.mark.deep
def test_workers_refuse_what_exceeds_the_limit() -> None:
    options = {"workers": 2, "npartitions": 4, "driver_bytes": 0, "collected_bytes": LIMIT}
    with open_engine("dask", options) as engine:
        require_refusals(engine)


@pytest.mark.dask
@pytest.mark.deep
def test_workers_bring_uneven_results_that_are_within_the_limit_together() -> None:
    options = {"workers": 2, "npartitions": 4, "driver_bytes": 0, "collected_bytes": 4 * LIMIT}
    with open_engine("dask", options) as engine:
        table = engine.scan(Source(data=ROWS))
        found = engine.reduce_rows(table, ("pay", "number"), Skewed(), Facts())
        assert sorted(found or []) == ROWS.column("number").to_pylist()[: 1 << 13]


@dataclass(frozen=True)
class Skewed:
    """Values of the first records, most of which are in the same part."""

    def measure(self, block: RowBlock, facts: Facts) -> list[int]:
        return [each for each in block.column("number").to_pylist() if each < 1 << 13]

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        return left + right


@pytest.mark.dask
def test_a_group_larger_than_a_task_may_take_is_refused(narrow: Engine) -> None:
    table = narrow.scan(Source(data=ROWS))
    with pytest.raises(
        EngineError,
        match=r"in the groups of one task of .number., .* are some 6\d\d KiB",
    ):
        narrow.map_groups(table, one_group, unchanged, table.schema)
    table = narrow.select(table, ["number"])
    parts = narrow.map_groups(table, each_number, unchanged, table.schema)
    assert narrow.count(parts) == N


def each_number(rows: RowBlock) -> Any:
    return rows.column("number").to_numpy() // 5


@pytest.mark.spark
@pytest.mark.deep
def test_spark_refuses_what_exceeds_the_limit(spark_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privpipe.engines.spark.driver_memory.result_limit", lambda session: LIMIT)
    require_refusals(spark_engine)


@pytest.mark.dask
def test_a_refusal_has_the_place_of_its_stage(narrow: Engine) -> None:
    policy = {
        "columns": {"kind": {"role": "quasi_identifier"}, "pay": {"role": "insensitive"}, "number": {"role": "drop"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "transform": [
            {"round": {"columns": ["pay"], "base": 1e-6}},
            {"rank_swap": {"columns": ["pay"], "kind": "buckets", "buckets": 3, "top": 0.1}},
        ],
    }
    with pytest.raises(EngineError, match=r"transform.*rank_swap.*distinct values of 'pay'"):
        plan(ROWS, policy, engine=narrow)


@pytest.mark.dask
@pytest.mark.parametrize("given", [0, -1, "many", True, [1]])
def test_the_limit_is_a_positive_number_of_bytes(given: object) -> None:
    with pytest.raises(UsageError, match="collected_bytes must be"):
        open_engine("dask", {"collected_bytes": given})
