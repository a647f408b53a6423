"""A folder of Hive partitions is the table that was written, on every engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import Facts
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from tests.engines.forms.test_golden_forms import Ids

TOWNS = ["Köln", "a b", "c/d", "e=f", None]
TABLE = pa.table(
    {
        "id": pa.array(range(60)),
        "pay": [n / 4 if n % 3 else None for n in range(60)],
        "year": [2020 + n % 3 for n in range(60)],
        "town": [TOWNS[n % 5] for n in range(60)],
    }
)
KEYS = pa.schema([("year", pa.int64()), ("town", pa.string())])


def source(folder: Path, *names: str, **types: str) -> Source:
    return Source(data=str(folder), format="parquet", partitions=names, types=types)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "up=1" / "lake"
    ds.write_dataset(TABLE, folder, format="parquet", partitioning=ds.partitioning(KEYS, flavor="hive"))
    return folder


def test_rows_and_ids_are_those_of_one_file(engine: Engine, lake: Path, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "one.parquet")
    found = []
    for each in (Source(data=str(tmp_path / "one.parquet")), source(lake, "year", "town", year="integer")):
        table = engine.with_record_ids(engine.scan(each), None, Seed.insecure(7))
        rows = engine.collect(table).sort_by("id").select(["id", "pay", "year", "town"]).to_pylist()
        found.append((rows, engine.reduce_rows(table, ["id"], Ids(), Facts())))
    assert found[0][0] == TABLE.to_pylist()
    assert found[0] == found[1]


def test_partition_columns_are_text_until_typed(engine: Engine, lake: Path) -> None:
    found = engine.collect(engine.scan(source(lake, "year", "town"))).sort_by("id")
    assert found["year"].to_pylist() == [str(2020 + n % 3) for n in range(60)]
    with pytest.raises(DataError, match="column 'town' is declared integer, and 48 cells are not") as caught:
        engine.count(engine.scan(source(lake, "year", "town", town="integer")))
    assert "Köln" not in str(caught.value)


def test_other_folders_than_those_named_are_refused(engine: Engine, lake: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name them under `partitions:`"):
        engine.scan(source(lake))
    for names in (("year",), ("town", "year"), ("year", "town", "month")):
        with pytest.raises(DataError, match=r"15 of 15 files are not below folders `\w+=\.\.\."):
            engine.scan(source(lake, *names))
    pq.write_table(TABLE.slice(0, 1).select(["id", "pay"]), lake / "astray.parquet")
    with pytest.raises(DataError, match="1 of 16 files are not below"):
        engine.scan(source(lake, "year", "town"))
    twice = tmp_path / "twice" / "year=2020"
    twice.mkdir(parents=True)
    pq.write_table(TABLE, twice / "a.parquet")
    with pytest.raises(DataError, match="'year' is also a column of the files"):
        engine.scan(source(tmp_path / "twice", "year"))
