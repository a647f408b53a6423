"""A file that was written again is read again, also by a session that still holds the rows of before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine, Source


@pytest.mark.spark
def test_an_overwritten_file_is_read_again(spark_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    for first in (1, 1000):
        pq.write_table(pa.table({"a": pa.array(range(first, first + 20))}), path)
        held = spark_engine.with_record_ids(spark_engine.scan(Source(data=str(path))), None, Seed.insecure(1))
        assert sorted(spark_engine.collect(held)["a"].to_pylist()) == list(range(first, first + 20))
