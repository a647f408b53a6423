"""However the rows are cut, and with however many values: the oracle's verdict on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import Guarantee
from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.models import (
    BasicBetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EnhancedBetaLikeness,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privpipe.testing import HOSTILE_TABLES, Case, HostileTable, many_values
from privpipe.testing.conformance import compare
from privpipe.testing.hostile_tables import arrow_table
from tests.tiers import deep

MODELS: list[Guarantee] = [
    KAnonymity(k=2),
    DistinctLDiversity(column="illness", l=3),
    EntropyLDiversity(column="illness", l=2.0),
    RecursiveCLDiversity(column="illness", c=3.0, l=2),
    TCloseness(column="illness", t=0.3),
    TCloseness(column="income", t=0.3, distance="ordered"),
    DeltaDisclosure(column="income", delta=2.0),
    BasicBetaLikeness(column="illness", beta=2.0),
    EnhancedBetaLikeness(column="illness", beta=2.0),
]


def conforms(engine: Engine, table: HostileTable, data: Any) -> None:
    handle = engine.scan(Source(data=data))
    found = assess(engine, handle, guarantees=MODELS, roles=table.roles)
    for model, verdict in zip(MODELS, found.verdicts, strict=True):
        compare(Case(model, table), verdict, found)


def cut(table: HostileTable, parts: int) -> list[pa.Table]:
    """Rows in another order dealt out in turn; parts without a row where there are more parts than rows."""
    frame = arrow_table(table)
    order = np.random.default_rng(3).permutation(len(frame))
    return [frame.take(order[part::parts]) for part in range(parts)]


def as_partitions(engine: Engine, parts: list[pa.Table], folder: Path) -> Any:
    """As many partitions of the engine's own frame; files where it has none."""
    if engine.name == "dask":
        import dask.dataframe as dd
        import pandas as pd

        frames = [part.to_pandas(types_mapper=pd.ArrowDtype) for part in parts]
        return dd.from_map(lambda at: frames[at], range(len(parts)), meta=frames[0].iloc[:0])
    if engine.name == "spark":
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        assert session is not None
        rows = pa.concat_tables(parts)
        return session.createDataFrame(rows.to_pandas()).repartition(len(parts))
    for at, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{at:04d}.parquet")
    return str(folder)


@pytest.mark.parametrize("parts", [1, 7, deep(300)])
def test_partitions_change_nothing(engine: Engine, parts: int, tmp_path: Path) -> None:
    """Of the most at least a third are empty."""
    table = HOSTILE_TABLES["interleaved_classes"]
    conforms(engine, table, as_partitions(engine, cut(table, parts), tmp_path))


def test_files_without_rows_are_not_a_class(engine: Engine, tmp_path: Path) -> None:
    table = HOSTILE_TABLES["sensitive_nulls"]
    for at, part in enumerate(cut(table, 9)):
        pq.write_table(part, tmp_path / f"part-{at}.parquet")
    handle = engine.scan(Source(data=str(tmp_path)))
    found = assess(engine, handle, guarantees=[KAnonymity(k=2)], roles=table.roles)
    compare(Case(KAnonymity(k=2), table), found.verdicts[0], found)


def test_many_sensitive_values(engine: Engine) -> None:
    """Figures from the definitions: 25,000 values once each in four classes, one value thrice in the fifth."""
    table = many_values()
    records, base = 100_003, 4 / 100_003
    found = assess(engine, engine.scan(Source(data=table.frame())), guarantees=MODELS, roles=table.roles)
    shares = np.full(100_000, 1 / records)
    shares[7] = base
    alone = (np.arange(100_000) >= 7).astype(np.float64)
    ordered = float(np.abs(alone - np.cumsum(shares)).sum() / 99_999)
    observed = [verdict.observed for verdict in found.verdicts]
    expected = [3, 1, 1.0, None, 1 - base, ordered, np.log2(1 / base), 1 / base - 1, None]
    assert observed == [None if figure is None else pytest.approx(figure, rel=1e-9) for figure in expected]
    failing = [(verdict.failing_classes, verdict.failing_records) for verdict in found.verdicts]
    one, all_five = (1, 3), (5, records)  # log2(100,003 / 25,000) is just above 2
    assert failing == [(0, 0), one, one, one, all_five, one, all_five, all_five, all_five]


def test_a_thousand_values_conform(engine: Engine) -> None:
    table = many_values(1_000)
    conforms(engine, table, table.frame())
