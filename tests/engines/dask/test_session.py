"""Options and schedulers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from privpipe.engines import Source, open_engine
from privpipe.engines.dask import DaskEngine
from privpipe.errors import EngineError, UsageError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"worker": 2}, "unknown option 'worker' of the dask engine; did you mean 'workers'"),
        ({"scheduler": "processes"}, "scheduler must be one of threads, synchronous, distributed"),
        ({"driver_bytes": -1}, "driver_bytes must be a whole number of at least 0"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"npartitions": True}, "npartitions must be a whole number"),
        ({"address": 8786}, "address must be a text"),
        ({"address": "tcp://127.0.0.1:8786", "workers": 2}, "leave workers out"),
        ({"scheduler": "threads", "address": "tcp://127.0.0.1:8786"}, "need scheduler: distributed"),
        ({"partition_size": "many"}, "partition_size must be a number of bytes"),
        ({"partition_size": 0}, "partition_size must be positive"),
        ({"cache": "yes"}, "cache must be true or false"),
    ],
)
def test_options_are_checked_before_anything_starts(options, said):
    with pytest.raises(UsageError, match=said):
        DaskEngine.open(options)


def test_the_current_client_is_used_and_left_alone(cluster):
    client = cluster._runtime.client
    with client.as_current():
        engine = open_engine("dask", {"driver_bytes": 0})
    try:
        assert engine._runtime.client is client
        assert engine.resources.processes == len(client.scheduler_info()["workers"]) >= 1
        assert engine.count(engine.scan(Source(data=pa.table({"a": [1, 2]})))) == 2
        assert {"dask", "distributed", "numpy", "pyarrow"} <= set(engine.resources.versions)
    finally:
        engine.close()
    assert client.status == "running"


def test_a_scheduler_at_an_address_serves(cluster):
    with DaskEngine.open({"address": cluster._runtime.client.scheduler.address, "driver_bytes": 0}) as engine:
        assert engine.count(engine.scan(Source(data=pa.table({"a": [1, 2, 3]})))) == 3
    assert cluster._runtime.client.status == "running"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_no_one_at_the_address_is_an_engine_error():
    with pytest.raises(EngineError, match="could not reach the scheduler"):
        DaskEngine.open({"address": "tcp://127.0.0.1:9", "patience": 2})
