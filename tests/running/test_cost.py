"""What is predicted of a run is within half as much again of what counters say, and shows no value."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.blocks import RowBlock
from privpipe.blocks.facts import Facts
from privpipe.engines import Source, open_engine
from privpipe.engines.embedded import session
from privpipe.errors import UsageError
from privpipe.running import release_cost
from privpipe.running.release_cost import MEASURED
from privpipe.running.source_facts import KEPT, LookedAt, TableSketch, Work

ROWS = 100_000
FACTOR = 1.5
WRITTEN = ("read", "spilled", "written")
WORK = Work(
    quasi_identifiers=1,
    counts=1,
    entries=1,
    laid=0,
    searches=(),
    unmeasured=(),
    released=("age", "ill"),
    with_hierarchy=("age",),
    text=False,
)


def rows_of(number: int, seed: int = 7) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(20, 95, number),
            "zip": pa.array([f"secret{code:04d}" for code in range(500)]).take(pa.array(rng.integers(0, 500, number))),
            "illness": pa.array([f"illness {code}" for code in range(9)]).take(pa.array(rng.integers(0, 9, number))),
            "income": rng.lognormal(10, 1, number).round(2),
        }
    )


def policy(folder: Path, **engine: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "cost",
        "source": {"path": str(folder / "data.parquet")},
        "engines": {"embedded": {"threads": 2, **engine}},
        "columns": {
            "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [10]}}},
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "illness": {"role": "sensitive"},
            "income": {"role": "insensitive"},
        },
        "transform": [
            {"generalize": {"levels": {"age": 1, "zip": 1}, "suppress_at_most": 0.1}},
            {"add_noise": {"columns": ["income"], "relative_sd": 0.1}},
        ],
        "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}],
        "sink": {"path": str(folder / "released")},
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
    }


RUN = """
import json, sys
from pathlib import Path
import privpipe as pp
from privpipe.engines.embedded import stored_rows
staged, write = [], stored_rows.pq.write_table
def counted(table, path, **more):
    write(table, path, **more)
    staged.append(Path(path).stat().st_size)
def counters():
    return {key: int(value) for key, _, value in (line.partition(":") for line in open("/proc/self/io"))}
stored_rows.pq.write_table, stored_rows.SMALL_BYTES = counted, 0
document = json.loads(sys.argv[1])
before = counters()
pp.release(document)
read = counters()["rchar"] - before["rchar"]
written = sum(path.stat().st_size for path in Path(document["sink"]["path"]).resolve().glob("part-*"))
print(json.dumps({"read": read, "spilled": sum(staged), "written": written}))
"""


@pytest.mark.deep
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count what a process reads")
@pytest.mark.parametrize("memory", ["1GB", "40MB"])
def test_the_prediction_is_near_the_counters(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_cost, "KEPT_BYTES", 0)
    pq.write_table(rows_of(ROWS), tmp_path / "data.parquet")
    document = policy(tmp_path, memory_limit=memory)
    cost = pp.plan_cost(document)
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(document)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    for resource in WRITTEN:
        predicted = cost[resource]
        assert predicted is not None
        assert counted[resource] / FACTOR <= predicted <= counted[resource] * FACTOR, (resource, predicted, counted)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count what a process reads")
@pytest.mark.deep
def test_the_prediction_of_a_table_in_the_database_is_near_the_counters(tmp_path: Path) -> None:
    assert release_cost.STORED_ROWS == session.CODED_ROWS
    pq.write_table(rows_of(2 * ROWS + 1), tmp_path / "data.parquet")
    document = policy(tmp_path, memory_limit="1GB")
    cost = pp.plan_cost(document)
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(document)], capture_output=True, text=True, timeout=240, check=True
    )
    counted = json.loads(done.stdout)
    for resource in ("read", "written"):
        predicted = cost[resource]
        assert predicted is not None
        assert counted[resource] / FACTOR <= predicted <= counted[resource] * FACTOR, (resource, predicted, counted)


@pytest.mark.parametrize("number", [0, 1, 700, 40_000])
def test_distinct_values_are_estimated(number: int) -> None:
    table = rows_of(max(number, 1)).slice(0, number)
    sketch = TableSketch({"both": ("age", "zip")})
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    blocks = [RowBlock(batch) for batch in (table.to_batches(7_001) or [empty])]
    found = sketch.measure(blocks[0], Facts())
    for block in blocks[1:]:
        found = sketch.merge(found, sketch.measure(block, Facts()))
    exact = {name: len(set(table[name].to_pylist())) for name in table.column_names}
    exact["both"] = len(set(zip(table["age"].to_pylist(), table["zip"].to_pylist(), strict=True)))
    assert found.rows == number
    for name, true in exact.items():
        told = found.distinct(name)
        assert told == true if true < KEPT else abs(told / true - 1) < 0.15, name


def test_missing_values_are_one_value() -> None:
    block = RowBlock(pa.record_batch({"a": pa.array([None, "x", None, "y"])}))
    assert TableSketch({}).measure(block, Facts()).distinct("a") == 3


def test_blocks_change_no_estimate() -> None:
    table, sketch = rows_of(5_000), TableSketch({"both": ("zip", "age")})
    whole = sketch.measure(RowBlock(table.combine_chunks().to_batches()[0]), Facts())
    parts = [sketch.measure(RowBlock(batch), Facts()) for batch in table.to_batches(999)]
    merged = parts[-1]
    for part in parts[:-1]:
        merged = sketch.merge(part, merged)
    assert {name: whole.distinct(name) for name in whole.smallest} == {
        name: merged.distinct(name) for name in whole.smallest
    }


def test_more_rows_cost_more_and_nothing_is_shown(tmp_path: Path) -> None:
    pq.write_table(rows_of(2_000), tmp_path / "data.parquet")
    document = policy(tmp_path)
    costs = [pp.plan_cost(document, rows=number) for number in (None, 10**6, 10**9, 10**11)]
    for resource in ("read", "written", "cpu_s"):
        amounts = [cost[resource] for cost in costs]
        assert amounts == sorted(amounts), resource  # type: ignore[type-var]
    shown = json.dumps([cost.to_dict() for cost in costs]) + costs[0]._repr_html_()
    assert "secret" not in shown
    assert not any("extrapolated" in line for line in costs[1].unknown)
    assert any("extrapolated" in line for line in costs[2].unknown)
    assert not (tmp_path / "released").exists()


def test_rows_that_do_not_fit_cost_more_each(tmp_path: Path) -> None:
    pq.write_table(rows_of(2_000), tmp_path / "data.parquet")
    few, many = ({**policy(tmp_path, memory_limit=limit)} for limit in ("4GB", "64GB"))
    told = [pp.plan_cost(document, rows=100_000_000).estimates["cpu_s"] for document in (few, many)]
    assert "rows on disk" in told[0].terms
    assert "rows on disk" not in told[1].terms
    assert told[0].amount == pytest.approx(told[1].amount + told[0].terms["rows on disk"])  # type: ignore[operator]


def test_what_cannot_be_known_is_said(tmp_path: Path) -> None:
    pq.write_table(rows_of(500), tmp_path / "data.parquet")
    document = policy(tmp_path)
    document["transform"] = [{"generalize": {"search": "optimal", "suppress_at_most": 0.1}}, {"mondrian": {}}]
    told = pp.plan_cost(document).unknown
    assert any("search of transform[0]" in line for line in told)
    assert any("transform[1]" in line and "not measured" in line for line in told)


def test_frames_are_predicted_too(tmp_path: Path) -> None:
    document = policy(tmp_path)
    assert pp.plan_cost(document, rows_of(300)).rows == 300
    with pytest.raises(UsageError, match="rows must be a whole number"):
        pp.plan_cost(document, rows_of(300), rows=0)


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_worker_processes_add_their_own_costs_and_no_byte_that_is_shuffled_or_written(engine: str) -> None:
    costs = [
        release_cost.predict(engine, looked_at_people(), WORK, worker_processes=processes) for processes in (0, 1, 4)
    ]
    own = MEASURED[engine]
    for processes, cost in zip((0, 1, 4), costs, strict=True):
        more = {name: (cost[name] or 0.0) - (costs[0][name] or 0.0) for name in release_cost.RESOURCES}
        assert more["cpu_s"] == pytest.approx(processes * own.worker_cpu)
        assert more["read"] == pytest.approx(processes * own.worker_read)
        assert more["shuffled"] == more["spilled"] == more["written"] == 0
        if own.tells_driver:  # the rows lie elsewhere
            assert (cost["driver"] == costs[0]["driver"]) == (processes == 0)
            assert "rows" not in cost.estimates["driver"].terms or not processes


def test_a_table_that_spark_leaves_to_the_driver_costs_what_the_embedded_engine_takes() -> None:
    small = replace(looked_at_people(), rows=100)
    here, embedded = (
        release_cost.predict("spark", small, WORK, here=True),
        release_cost.predict("embedded", small, WORK),
    )
    assert here == replace(embedded, engine="spark")
    assert (here["cpu_s"] or 0.0) < (release_cost.predict("spark", small, WORK)["cpu_s"] or 0.0) / 3


@pytest.mark.spark
def test_where_the_rows_lie_is_reckoned_with(spark_engine: Any, tmp_path: Path) -> None:
    from privpipe.engines.spark import SparkEngine

    document, rows = policy(tmp_path), rows_of(300)
    with SparkEngine(spark_engine.session) as near:
        here = pp.plan_cost(document, rows, engine=near)
        assert here["cpu_s"] == pp.plan_cost(document, rows, engine="embedded")["cpu_s"]
        of_many = pp.plan_cost(document, rows, engine=near, rows=10_000_000)
    there = pp.plan_cost(document, rows, engine=spark_engine)
    assert (there["cpu_s"] or 0.0) > 3 * (here["cpu_s"] or 0.0)
    assert of_many["cpu_s"] == pp.plan_cost(document, rows, engine=spark_engine, rows=10_000_000)["cpu_s"]


def test_rows_next_to_a_cluster_lie_here_while_they_are_few(tmp_path: Path) -> None:
    document, rows = policy(tmp_path), rows_of(300)
    with open_engine("dask", {"workers": 1}) as engine:
        assert engine.known(engine.scan(Source(data=rows))).is_local
        assert pp.plan_cost(document, rows, engine=engine)["cpu_s"] == pytest.approx(
            pp.plan_cost(document, rows, engine="dask")["cpu_s"]
        )
    with open_engine("dask", {"workers": 1, "driver_bytes": 0}) as engine:
        assert not engine.known(engine.scan(Source(data=rows))).is_local


def looked_at_people() -> LookedAt:
    return LookedAt(
        rows=10_000_000,
        source_bytes=1e8,
        row_bytes=40.0,
        combinations=75,
        cells=300,
        distinct={"age": 75, "ill": 4},
        packed_bytes={"age": 1.0, "ill": 0.5},
        text_bytes={"age": 2.0, "ill": 3.0},
    )


def test_every_engine_was_measured() -> None:
    from privpipe.engines import ENGINES

    assert set(MEASURED) == set(ENGINES)
