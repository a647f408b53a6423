"""Spark's counts of a table are reported again, equal a new count, and no value is in a plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.class_blocks import histogram_of
from privpipe.engines.base.contract import KeyedFingerprint, counted_fingerprint
from privpipe.engines.spark import SparkEngine, driver_memory
from privpipe.errors import DataError

pytestmark = pytest.mark.spark
SEED = Seed.insecure(11)
NAME = "odd `na.me`"
ROWS = pa.table(
    {
        NAME: ["secret", None, "b", "b", "*", "b", "secret"] * 3,
        "age": pa.array([1, 2, None, 2, 2, 2, 1] * 3, pa.int64()),
        "pay": [0.0, -0.0, float("nan"), None, 1.5, 1.5, 0.0] * 3,
    }
)
BOOKS = {
    NAME: (pa.array(["secret", None, "b", "*"]), pa.array(["S", None, "B", "*"])),
    "age": (pa.array([1, 2, None], pa.int64()), pa.array(["one", "two", "none"])),
}


def jobs_of(engine: SparkEngine, action: Callable[[], Any]) -> int:
    context = engine.session.sparkContext
    group = f"counted {time.monotonic_ns()}"
    context.setJobGroup(group, "")
    try:
        action()
        return len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


@pytest.fixture
def far(spark_engine: SparkEngine) -> Any:
    """The engine with every table on the executors."""
    with SparkEngine(spark_engine.session, driver_bytes=0) as engine:
        yield engine


@pytest.fixture(params=[10**6, 0], ids=["judged on the driver", "judged in place"])
def either_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of tables of so many records are judged on the driver."""
    monkeypatch.setattr(driver_memory, "RECORDS_HERE", request.param)


def test_the_fingerprint_comes_with_the_ids(far: SparkEngine, embedded: Engine) -> None:
    table = far.with_record_ids(far.scan(Source(data=ROWS)), None, SEED)
    here = embedded.with_record_ids(embedded.scan(Source(data=ROWS)), None, SEED)
    wanted = counted_fingerprint(embedded, here, SEED)
    assert counted_fingerprint(far, table, SEED) == wanted
    assert jobs_of(far, lambda: counted_fingerprint(far, table, SEED)) == 0
    anew = far.reduce_rows(table, table.schema.names, KeyedFingerprint(SEED), Facts())
    assert anew == far.known(table).content(SEED)
    other = Seed.insecure(12)
    assert far.known(table).content(other) is None
    fewer = far.select(table, ["age"])
    assert far.known(fewer).content(SEED) is None
    nulls = far.facts(table, FactsRequest(nulls=tuple(table.schema.names))).nulls
    assert nulls == {name: found.nulls for name, found in histograms(embedded, here).items()}


def histograms(engine: Engine, table: Any) -> Any:
    return engine.facts(table, FactsRequest(histograms=tuple(table.schema.names))).histograms


def test_labels_come_from_a_codebook_that_no_plan_shows(far: SparkEngine, embedded: Engine) -> None:
    found, plans = [], []
    for engine in (far, embedded):
        table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, SEED)
        histograms(engine, table)
        made = engine.recode(table, BOOKS)
        rows = engine.collect(made, like=ROWS)
        told = {
            name: list(zip(h.values.to_pylist(), h.counts.tolist(), strict=True))
            for name, h in histograms(engine, made).items()
        }
        found.append((Counter(map(str, rows.to_pylist())), told))
        plans.append(made)
    assert found[0] == found[1]
    plan = plans[0].frame._jdf.queryExecution().toString()
    assert "secret" not in plan
    assert "BroadcastHashJoin" in plan
    with pytest.raises(DataError, match="6 records hold values that the codebook lacks"):
        far.recode(far.scan(Source(data=ROWS)), {NAME: (pa.array(["b", None, "*"]), pa.array(["b", None, "*"]))})


def test_a_value_that_changes_between_count_and_use_stops_the_run(far: SparkEngine) -> None:
    from privpipe.engines.distributed.row_functions import Codebook
    from privpipe.engines.spark.row_functions import _joined
    from privpipe.errors import EngineError

    table = far.scan(Source(data=ROWS))
    book = Codebook.of(pa.array(["b", None, "*"]), pa.array(["b", None, "*"]), pa.string())
    with pytest.raises(EngineError, match="its values changed during the run"):
        far.collect(_joined(table, {NAME: book}))


class Sizes:
    def measure(self, block: ClassBlock, facts: Facts) -> Counter[tuple[int, bool | None]]:
        marked = [None] * len(block) if block.marked is None else block.marked.tolist()
        return Counter(zip(block.sizes.tolist(), marked, strict=True))

    def merge(self, left: Counter[Any], right: Counter[Any]) -> Counter[Any]:
        return left + right


@pytest.mark.parametrize("mark", [None, "*"])
def test_sizes_of_classes_are_counted_once(far: SparkEngine, embedded: Engine, mark: str | None) -> None:
    query = ClassQuery(keys=(NAME, "pay"), mark=mark)
    table = far.scan(Source(data=ROWS))
    told = [far.reduce_classes(table, query, Sizes(), Facts(), where=where) for where in ("auto", "driver", "engine")]
    told.append(embedded.reduce_classes(embedded.scan(Source(data=ROWS)), query, Sizes(), Facts()))
    assert told == [told[0]] * 4
    assert jobs_of(far, lambda: far.reduce_classes(table, query, Sizes(), Facts())) == 0
    joint = far.scan(Source(data=ROWS))
    far.reduce_classes(joint, ClassQuery(keys=query.keys, columns=("age",), mark=mark), Sizes(), Facts())
    assert jobs_of(far, lambda: far.reduce_classes(joint, query, Sizes(), Facts())) == 0


def test_classes_that_pass_are_the_same_wherever_they_are_judged(
    far: SparkEngine, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpipe.engines.spark import class_table

    query = ClassQuery(keys=(NAME, "age"), columns=("pay",))
    found = []
    for engine, here, sent in ((embedded, 0, 0), (far, 100, 100), (far, 100, 0), (far, 0, 100), (far, 0, 0)):
        monkeypatch.setattr(driver_memory, "RECORDS_HERE", here)
        monkeypatch.setattr(class_table, "MOST_SENT", sent)
        kept = engine.keep_classes(engine.scan(Source(data=ROWS)), query, lambda block: block.sizes > 3)
        rows = engine.collect(kept, like=ROWS)
        assert engine.count(kept) == rows.num_rows
        found.append(Counter(map(str, rows.to_pylist())))
    assert found == [found[0]] * 5
    assert 0 < sum(found[0].values()) < ROWS.num_rows


@pytest.mark.usefixtures("either_place")
def test_what_fewer_rows_leave_out_is_counted_by_them(far: SparkEngine, embedded: Engine) -> None:
    """The columns of a table that lacks some classes of another are reported as in a new count."""
    query, told, lacking = ClassQuery(keys=("age",)), [], []
    for engine in (far, embedded):
        table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, SEED)
        histograms(engine, table)
        kept = engine.keep_classes(table, query, lambda block: block.sizes != 3)
        lacking.append(engine.count(table) - engine.count(kept))
        plain = engine.collect(kept, like=ROWS)
        for each in (kept, engine.scan(Source(data=plain))):
            found = histograms(engine, each)
            told.append(
                {name: list(zip(h.values.to_pylist(), h.counts.tolist(), strict=True)) for name, h in found.items()}
            )
        if engine is far:
            assert kept.left_out is not None
            assert kept.left_out.rows.frame.count() == lacking[0]
    assert lacking[0] == lacking[1] > 0
    assert told == [told[0]] * 4


@pytest.mark.usefixtures("either_place")
def test_where_most_rows_fail_the_others_are_counted(far: SparkEngine) -> None:
    table = far.with_record_ids(far.scan(Source(data=ROWS)), None, SEED)
    histograms(far, table)
    sizes = [size for block in far.classes(table, ClassQuery(keys=("age",))) for size in block.sizes.tolist()]
    least = sorted(sizes)[0]
    kept = far.keep_classes(table, ClassQuery(keys=("age",)), lambda block: block.sizes == least)
    assert 0 < far.count(kept) < ROWS.num_rows / 2
    assert kept.left_out is None
    whole = far.keep_classes(table, ClassQuery(keys=("age",)), lambda block: block.sizes > 0)
    assert far.count(whole) == ROWS.num_rows
    assert histograms(far, whole).keys() == histograms(far, table).keys()


@pytest.mark.usefixtures("either_place")
def test_classes_with_a_value_that_a_dictionary_lacks_are_not_kept(far: SparkEngine) -> None:
    table = far.with_record_ids(far.scan(Source(data=ROWS)), None, SEED)
    known = histogram_of(pa.array([1], ROWS.schema.field("age").type))
    query = ClassQuery(keys=("pay",), columns=("age",), dictionaries={"age": known})
    with pytest.raises(DataError, match="column 'age' holds"):
        far.count(far.keep_classes(table, query, lambda block: block.sizes > 0))


def test_columns_are_looked_at_in_one_pass_and_never_again(far: SparkEngine) -> None:
    table = far.scan(Source(data=ROWS))
    names = tuple(table.schema.names)
    assert jobs_of(far, lambda: far.facts(table, FactsRequest(histograms=names[:2]))) == 1
    assert jobs_of(far, lambda: far.facts(table, FactsRequest(histograms=names[:2], nulls=names[:2]))) == 0
    assert jobs_of(far, lambda: far.estimated_distinct(table, names)) == 1
    assert jobs_of(far, lambda: far.facts(table, FactsRequest(histograms=names, nulls=names))) == 0
    assert far.count(table) == ROWS.num_rows


def test_a_column_of_many_values_is_counted_by_spark(far: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    from privpipe.engines.spark import column_values

    wanted = histograms(far, far.scan(Source(data=ROWS)))
    monkeypatch.setattr(column_values, "FEW_VALUES", 2)
    table = far.scan(Source(data=ROWS))
    found = histograms(far, table)
    assert far.estimated_distinct(table, ["age", "pay", NAME]) == {"age": 2, "pay": 2, NAME: 3}
    for name in wanted:
        assert found[name].values.equals(wanted[name].values)
        assert found[name].counts.tolist() == wanted[name].counts.tolist()
