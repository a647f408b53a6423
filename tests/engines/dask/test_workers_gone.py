"""A run whose workers are gone, or out of memory, ends in an error that says so; it never waits forever."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.draws import Seed
from privpipe.engines import Source, open_engine
from privpipe.engines.dask.graph import engine_error
from privpipe.errors import EngineError, UsageError
from tests.tiers import deep

ROWS = pa.table({"zip": [str(at % 7) for at in range(1000)], "at": list(range(1000))})


WORKER = ["-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]


@dataclass
class Cluster:
    """A scheduler of this process, and workers that no one starts again."""

    address: str
    workers: list[subprocess.Popen[bytes]]

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    ) as scheduler:
        address = scheduler.scheduler_address
        command = [sys.executable, *WORKER, "--local-directory", str(tmp_path), address]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        found = Cluster(address, [subprocess.Popen(command, **quiet) for _ in range(2)])  # type: ignore[call-overload]
        try:
            with distributed.Client(address, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
            yield found
        finally:
            found.kill()


@pytest.mark.parametrize("held", [deep(False), True])
def test_workers_that_are_all_gone_end_the_run(cluster: Cluster, tmp_path: Path, held: bool) -> None:
    """After the stated time; at once where they took rows with them that no one can make again."""
    pq.write_table(ROWS, tmp_path / "rows.parquet", row_group_size=250)
    source = Source(data=ROWS if held else str(tmp_path / "rows.parquet"))
    words = "is lost, since they died" if held else r"no worker gave a sign of life for 12 s.*`patience`"
    with open_engine(
        "dask", {"address": cluster.address, "patience": 12, "npartitions": 4, "driver_bytes": 0}
    ) as engine:
        table = engine.with_record_ids(engine.scan(source), "at", Seed.insecure("a seed"))
        assert engine.count(table) == 1000
        cluster.kill()
        with pytest.raises(EngineError, match=words):
            engine.count(table)


def test_a_scheduler_that_does_not_answer_is_given_up() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(EngineError, match="could not reach the scheduler"):
        open_engine("dask", {"address": "tcp://127.0.0.1:9", "patience": 1})


@pytest.mark.parametrize("seconds", [0, -1, True, "60", float("nan"), float("inf")])
def test_patience_is_a_number_of_seconds(seconds: object) -> None:
    with pytest.raises(UsageError, match="patience must be a number of seconds above 0"):
        open_engine("dask", {"patience": seconds})


def test_memory_that_ran_out_is_reported_with_the_setting_to_change() -> None:
    killed = type("KilledWorker", (Exception,), {})
    for error in (MemoryError(), pa.ArrowMemoryError("malloc of 10 failed"), killed()):
        assert "lower `partition_size` under `engines.dask`" in str(engine_error("count cells", error))
