"""Errors of workers and of Spark come back as ours, and quote no cell."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import Facts, RowBlock
from privpipe.engines import Source
from privpipe.engines.spark import SparkEngine
from privpipe.engines.spark.failures import reported, sealed, unsealed
from privpipe.errors import DataError, EngineError, HierarchyError, PrivpipeError, UsageError

pytestmark = pytest.mark.spark
CELL = "Zanzibar"


def table_of(engine: SparkEngine) -> Any:
    return engine.scan(Source(data=pa.table({"t": [CELL, "x"]})))


def raised_by(engine: SparkEngine, problem: Callable[[RowBlock], Exception]) -> PrivpipeError:
    table = table_of(engine)

    def fails(rows: RowBlock) -> RowBlock:
        raise problem(rows)

    with pytest.raises(PrivpipeError) as raised:
        engine.collect(engine.map_rows(table, fails, table.schema))
    told = "".join(traceback.format_exception(raised.value))
    assert CELL not in told
    return raised.value


def test_our_errors_come_back_as_they_were(spark_engine: SparkEngine) -> None:
    found = raised_by(spark_engine, lambda rows: DataError("column 't':\n  2 cells"))
    assert type(found) is DataError
    assert str(found) == "column 't':\n  2 cells"
    hierarchy = raised_by(spark_engine, lambda rows: HierarchyError("ragged", kind="width"))
    assert isinstance(hierarchy, HierarchyError)
    assert hierarchy.kind == "width"


def test_other_errors_are_reported_by_kind_and_place(spark_engine: SparkEngine) -> None:
    found = raised_by(spark_engine, lambda rows: KeyError(rows.column("t")[0].as_py()))
    assert type(found) is EngineError
    assert str(found).startswith("spark engine: could not collect the records: KeyError on a worker at ")


def test_a_reduction_that_fails_fails_no_task(spark_engine: SparkEngine) -> None:
    class Fails:
        def measure(self, block: RowBlock, facts: Facts) -> int:
            raise DataError("no measure of this")

        def merge(self, left: int, right: int) -> int:
            return left + right

    tracker = spark_engine.session.sparkContext.statusTracker()
    spark_engine.session.sparkContext.setJobGroup("failing reduction", "")
    with pytest.raises(DataError, match="no measure of this"):
        spark_engine.reduce_rows(table_of(spark_engine), ["t"], Fails(), Facts())
    for job in tracker.getJobIdsForGroup("failing reduction"):
        info = tracker.getJobInfo(job)
        assert info is not None
        assert info.status == "SUCCEEDED"


def test_wrong_columns_of_a_stage_are_named(spark_engine: SparkEngine) -> None:
    table = table_of(spark_engine)
    with pytest.raises(EngineError, match=r"promised the columns \['u'\] and returned \['t'\]"):
        spark_engine.collect(spark_engine.map_rows(table, lambda rows: rows, pa.schema({"u": pa.string()})))


def test_spark_errors_are_reported_by_condition(spark_engine: SparkEngine) -> None:
    with pytest.raises(EngineError) as raised, reported("count"):
        spark_engine.session.sql(f"select cast('{CELL}' as int)").collect()
    assert str(raised.value).startswith("spark engine: could not count: CAST_INVALID_INPUT")
    assert CELL not in "".join(traceback.format_exception(raised.value))


def test_interrupts_are_not_caught() -> None:
    with pytest.raises(KeyboardInterrupt), reported("count"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [UsageError("a"), DataError("ß 'x'"), HierarchyError("h", kind="k"), EngineError("")])
def test_sealing_is_lossless(error: PrivpipeError) -> None:
    found = unsealed(f"before {sealed(error)} after")
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert pickle.dumps(found)
    assert unsealed("nothing of ours") is None
