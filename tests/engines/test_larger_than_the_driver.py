"""A class table that the driver may not hold is judged on the workers, with the figures of the embedded engine."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, Facts, FactsRequest
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.dask.runtime import Runtime
from privpipe.models import KAnonymity

from .spark.larger_than_the_driver import CLASSES, ROWS, figures
from .spark.release_beyond_the_driver import RECORDS

pytestmark = pytest.mark.deep
SCRIPT = Path(__file__).with_name("spark") / "larger_than_the_driver.py"
RELEASE = SCRIPT.with_name("release_beyond_the_driver.py")
LIMIT = 1 << 20


@pytest.fixture(scope="module")
def wanted(embedded: Engine) -> dict[str, str]:
    found = figures(embedded)
    assert [found.pop(name) for name in ("collected", "distinct")] == ["yes", "yes"]
    return found


def told(script: Path, *given: str) -> dict[str, Any]:
    """What a script prints in a process, and a session, of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, str(script), *given],
        env={**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(SCRIPT.parents[3])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.spark
def test_spark_judges_in_place_what_it_may_not_collect(spark_engine: Engine, wanted: dict[str, str]) -> None:
    found = told(SCRIPT)
    assert found.pop("collected") == "EngineError"  # the limit is real: collecting the cells goes beyond it
    assert re.search(
        r"about 1\d\d,\d{3} distinct combinations .* some \d MiB, and the driver takes 1 MiB", found.pop("distinct")
    )
    assert found == wanted


@pytest.mark.spark
def test_spark_releases_what_it_may_not_collect(spark_engine: Engine, tmp_path: Path) -> None:
    found = told(RELEASE, str(tmp_path))
    assert (int(found["embedded collected"]) > 40_000, found["spark collected"]) == (True, "EngineError")
    assert found["spark"] == found["embedded"]
    assert 0 < found["spark"]["suppressed_records"] == RECORDS - found["spark"]["records"]
    whole = [
        pq.read_table(tmp_path / name).sort_by([(key, "ascending") for key in ("street", "born", "ill")])
        for name in ("spark", "embedded")
    ]
    assert whole[0].equals(whole[1])


def test_dask_sends_figures_to_the_driver_and_no_classes(
    wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    compute = Runtime.compute

    def weighted(self: Runtime, step: str, tasks: Any, what: str = "") -> list[Any]:
        results = compute(self, step, tasks, what)
        if step != "scan":
            received.append(len(pickle.dumps(results)))
        return results

    with open_engine("dask", {"workers": 2, "driver_bytes": 0}) as engine:
        table = engine.scan(Source(data=ROWS))
        facts = engine.facts(table, FactsRequest(histograms=("v",)))
        query = ClassQuery(keys=("k",), columns=("v",), dictionaries=facts.histograms)
        monkeypatch.setattr(Runtime, "compute", weighted)
        engine.reduce_classes(table, query, KAnonymity(k=2), Facts())
        assert received
        assert sum(received) < LIMIT
        received.clear()
        blocks = list(engine.classes(table, query))
        assert sum(len(block) for block in blocks) == CLASSES
        assert sum(received) > LIMIT
        monkeypatch.undo()
        found = figures(engine)
    assert {name: found[name] for name in wanted} == wanted
