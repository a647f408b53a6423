"""One count for all guarantees: as many Spark jobs for twenty as for one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassModel, ClassQuery, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.spark import SparkEngine
from privpipe.judging.rules import Composite
from privpipe.models import DistinctLDiversity, EntropyLDiversity, KAnonymity, TCloseness

pytestmark = pytest.mark.spark


def jobs_of(engine: SparkEngine, action: Callable[[], Any]) -> int:
    """Number of jobs an action starts."""
    context = engine.session.sparkContext
    group = f"counted {time.monotonic_ns()}"
    context.setJobGroup(group, "")
    try:
        action()
        return len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_twenty_guarantees_cost_as_many_jobs_as_one(spark_engine: SparkEngine) -> None:
    rng = np.random.default_rng(1)
    names = [f"s{at}" for at in range(5)]
    columns = {name: rng.choice(["a", "b", "c", "d"], 3000) for name in names}
    rows = pa.table({"age": rng.integers(0, 9, 3000), "zip": rng.choice(["x", "y", "z"], 3000), **columns})
    table = spark_engine.scan(Source(data=rows))
    one: list[ClassModel] = [TCloseness(column="s0", t=0.2)]
    twenty: list[ClassModel] = [KAnonymity(k=k) for k in range(2, 7)]
    for name in names:
        twenty += [
            DistinctLDiversity(column=name, l=2),
            EntropyLDiversity(column=name, l=2),
            TCloseness(column=name, t=0.3),
        ]
    assert len(twenty) == 20
    counts = []
    for models, wanted in ((one, names[:1]), (twenty, names)):
        for where in ("driver", "engine"):
            counts.append(jobs_of(spark_engine, partial(judge, spark_engine, table, models, wanted, where)))
    assert counts[0] == counts[2] > 0
    assert counts[1] == counts[3] > 0


def judge(engine: SparkEngine, table: Any, models: list[ClassModel], columns: list[str], where: Any) -> None:
    facts = engine.facts(table, FactsRequest(histograms=tuple(columns)))
    query = ClassQuery(keys=("age", "zip"), columns=tuple(columns), dictionaries=facts.histograms, mark="*")
    judged = engine.reduce_classes(table, query, Composite(tuple(models)), facts, where=where)
    assert judged is not None
    assert judged.classes == 27


def test_facts_of_many_columns_are_one_query(spark_engine: SparkEngine) -> None:
    table = spark_engine.scan(Source(data=pa.table({f"c{at}": [1.0, float(at)] for at in range(70)})))
    names = tuple(table.schema.names)
    few, many = (
        jobs_of(spark_engine, partial(spark_engine.facts, table, FactsRequest(histograms=n, moments=n, nulls=n)))
        for n in (names[:1], names[:50])
    )
    assert few == many > 0
    facts = spark_engine.facts(table, FactsRequest(histograms=names))
    assert facts.histograms["c69"].values.to_pylist() == [1.0, 69.0]
    assert facts.histograms["c1"].counts.tolist() == [2]


def test_a_table_is_counted_once(spark_engine: SparkEngine) -> None:
    table = spark_engine.scan(Source(data=spark_engine.session.range(3)))
    assert jobs_of(spark_engine, lambda: spark_engine.count(table)) > 0
    assert jobs_of(spark_engine, lambda: spark_engine.count(table)) == 0


def test_files_and_local_frames_say_how_many_records_they_hold(spark_engine: SparkEngine, tmp_path: Path) -> None:
    rows = pa.table({"a": ["1", "2", "3"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    for data in (rows, str(tmp_path / "a.parquet")):
        table = spark_engine.scan(Source(data=data, types={"a": "integer"}))
        named = spark_engine.select(spark_engine.with_record_ids(table, None, Seed.insecure(1)), ["a"])
        assert jobs_of(spark_engine, partial(spark_engine.count, named)) == 0
        assert spark_engine.count(named) == named.frame.count() == 3
