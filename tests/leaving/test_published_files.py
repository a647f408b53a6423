"""Published files carry their rows and nothing else of the source: no metadata, statistics of written rows alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine, open_engine
from privpipe.engines.base import part_files
from tests.tiers import deep

CANARY = "Zanzibarella"


def source(rows: int = 900) -> pa.Table:
    """Rows with two rare towns, whose ages and incomes are beyond all others; and metadata wherever it can stand."""
    table = pa.table(
        {
            "name": [f"person {at}" for at in range(rows)],
            "town": pa.array(
                [["Ash", "Barrow", "Crewe"][at % 3] for at in range(rows - 2)] + ["aa " + CANARY, "zz " + CANARY]
            ),
            "age": [20 + at % 5 for at in range(rows - 2)] + [1, 99],
            "income": [1000.0 + at for at in range(rows - 2)] + [-5.5, 9e9],
        }
    )
    coded = table["town"].cast(pa.dictionary(pa.int32(), pa.string()))
    table = table.set_column(1, pa.field("town", coded.type, metadata={b"note": CANARY.encode()}), coded)
    return table.replace_schema_metadata({b"pandas": b'{"index_columns": ["' + CANARY.encode() + b'"]}', b"of": b"us"})


def policy(folder: Path, format: str = "parquet") -> dict[str, Any]:
    return {
        "version": 1,
        "source": {"path": str(folder / "rows.parquet")},
        "columns": {
            "name": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            "age": {"role": "sensitive"},
            "income": {"role": "insensitive"},
        },
        "transform": [{"suppress_records": {"suppress_at_most": 0.1}}],
        "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "age", "l": 2}}],
        "sink": {"path": str(folder / "out"), "format": format},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }


def columns_of(file: pq.ParquetFile) -> Iterator[tuple[pa.Array, Any]]:
    """Each column of each row group: its values, and what the footer says of it."""
    for group in range(file.metadata.num_row_groups):
        rows = file.read_row_group(group)
        for at, name in enumerate(rows.schema.names):
            yield rows[name].combine_chunks(), file.metadata.row_group(group).column(at)


def test_a_parquet_footer_reports_the_written_rows_alone(engine: Engine, tmp_path: Path) -> None:
    pq.write_table(source(), tmp_path / "rows.parquet")
    result = pp.release(policy(tmp_path), engine=engine)
    assert result.plan.suppressed_records == 2
    seen = 0
    for path in Path(result.path).glob("*.parquet"):
        file = pq.ParquetFile(path)
        types = file.metadata.metadata or {}
        assert types.keys() <= {b"ARROW:schema"}
        for encoded in types.values():  # types and names alone
            assert CANARY.encode() not in base64.b64decode(encoded)
        assert file.schema_arrow.metadata is None
        assert not any(field.metadata for field in file.schema_arrow)
        assert CANARY.encode() not in path.read_bytes()
        for values, told in columns_of(file):
            seen += 1
            known = values.drop_null().to_pylist()
            assert not told.has_column_index
            assert not told.has_offset_index
            statistics = told.statistics
            if pa.types.is_string(values.type) or pa.types.is_dictionary(values.type):
                assert statistics is None
                continue
            assert (statistics.min, statistics.max) == (min(known), max(known))
            assert statistics.null_count == values.null_count
            assert statistics.num_values == len(known)
            assert statistics.distinct_count is None
    assert seen >= 3


def all_kinds(rows: int) -> pa.Table:
    """Cells of all kinds, some missing; texts that repeat, that are long and many, and that hardly repeat."""
    rng = np.random.default_rng(5)
    at = rng.integers(0, 60, rows)
    missing = rng.random(rows) < 0.1

    def some(values: Any, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind, mask=missing)

    return pa.table(
        {
            "town": [f"town {code}" for code in at % 7],
            "age": at % 3,
            "ward": some([f"ward {code}" for code in at]),
            "note": [f"a note of some length: {code:0100d}" for code in rng.integers(0, 1 + rows // 25, rows)],
            "key": some([f"{code:x}" for code in rng.permutation(rows)]),
            "income": np.where(at == 5, np.nan, rng.lognormal(9, 1, rows)),
            "share": some(at / 7),
            "yes": some(at % 2 == 0),
            "born": some(at.astype("datetime64[D]")),
            "seen": some(rng.integers(0, 10**9, rows).astype("datetime64[us]")),
            "cost": some([Decimal(int(each)) / 100 for each in at], pa.decimal128(9, 2)),
        }
    )


@pytest.mark.parametrize(
    ("rows", "format", "files"),
    [(2000, "parquet", 7), deep(210_000, "parquet", 2), deep(2000, "csv", 7), deep(2000, "json", 7)],
)
@pytest.mark.usual
def test_the_bytes_of_a_release_are_the_same_on_every_engine(
    engine: Engine, rows: int, format: str, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of several files and row groups, in the order of one seed."""
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 110_000 if rows > 100_000 else 300)
    pq.write_table(all_kinds(rows), tmp_path / "rows.parquet", row_group_size=rows // 3)
    found = []
    for place, on in ((tmp_path / "own", engine), (tmp_path / "embedded", "embedded")):
        asked = {**policy(tmp_path, format), "sink": {"path": str(place), "format": format}}
        asked["source"] = {"path": str(tmp_path / "rows.parquet")}
        names = all_kinds(6).schema.names
        asked["columns"] = {name: {"role": "insensitive"} for name in names} | {
            "town": {"role": "quasi_identifier"},
            "age": {"role": "sensitive"},
        }
        asked["name"] = "bytes"
        paths = sorted(Path(pp.release(asked, engine=on).path).glob(f"*.{format}"))
        found.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths])
    assert found[0] == found[1]
    assert len(found[0]) == files


def test_wide_rows_have_smaller_files(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """898 rows of three columns: as many files as their cells fill, whatever the source had in addition."""
    monkeypatch.setattr(part_files, "LEAST_ROWS_PER_FILE", 100)
    monkeypatch.setattr(part_files, "CELLS_PER_FILE", 1500)
    pq.write_table(source(), tmp_path / "rows.parquet")
    result = pp.release(policy(tmp_path), engine=engine)
    paths = sorted(Path(result.path).glob("*.parquet"))
    assert [path.name for path in paths] == ["part-00000.parquet", "part-00001.parquet"]
    assert sum(pq.read_metadata(path).num_rows for path in paths) == result.assessment.records == 898


@pytest.mark.usual
def test_a_parquet_file_does_not_tell_which_engine_wrote_it(engine: Engine, tmp_path: Path) -> None:
    """Encodings are chosen, and bounds kept, by one rule."""
    pq.write_table(source(), tmp_path / "rows.parquet")
    told = []
    for place, on in ((tmp_path / "own", engine), (tmp_path / "embedded", None)):
        asked = {**policy(tmp_path), "sink": {"path": str(place), "format": "parquet"}}
        files = [pq.ParquetFile(path) for path in Path(pp.release(asked, engine=on).path).glob("*.parquet")]
        told.append(
            {
                (file.metadata.created_by, each.path_in_schema, each.compression, each.encodings, each.is_stats_set)
                for file in files
                for _, each in columns_of(file)
            }
        )
    assert told[0] == told[1]


def test_no_dictionary_page_holds_a_value_without_a_row(engine: Engine, tmp_path: Path) -> None:
    pq.write_table(source(), tmp_path / "rows.parquet")
    result = pp.release(policy(tmp_path), engine=engine)
    for path in Path(result.path).glob("*.parquet"):
        coded = pq.read_table(path, read_dictionary=["town"])["town"]
        for chunk in coded.chunks:
            assert set(chunk.dictionary.to_pylist()) == set(chunk.dictionary_decode().to_pylist())


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_text_file_holds_its_rows_alone(engine: Engine, tmp_path: Path, format: str) -> None:
    pq.write_table(source(), tmp_path / "rows.parquet")
    result = pp.release(policy(tmp_path, format), engine=engine)
    files = sorted(path for path in Path(result.path).iterdir() if path.is_file())
    assert [path.name for path in files] == [f"part-00000.{format}"]
    lines = files[0].read_text(encoding="utf-8").splitlines()
    assert len(lines) == result.assessment.records + (format == "csv")
    assert CANARY not in "".join(lines)
    read = pd.read_csv(files[0]) if format == "csv" else pd.read_json(files[0], lines=True)
    assert sorted(read.columns) == ["age", "income", "town"]


def test_the_number_of_files_shows_nothing_of_how_the_source_lay(tmp_path: Path, engine: Engine) -> None:
    """One file, or many of a few rows; read as one partition or as many."""
    whole = source()
    names = []
    for parts in (1, 30):
        folder = tmp_path / str(parts)
        (folder / "rows").mkdir(parents=True)
        for at in range(parts):
            size = -(-len(whole) // parts)
            pq.write_table(whole.slice(at * size, size), folder / "rows" / f"{at:02d}.parquet", row_group_size=10)
        asked = policy(folder)
        asked["source"] = {"path": str(folder / "rows"), "format": "parquet"}
        result = pp.release(asked, engine=engine)
        names.append(sorted(path.name for path in Path(result.path).iterdir()))
    assert names[0] == names[1] == ["_privpipe", "part-00000.parquet"]


def test_dask_writes_as_many_files_as_the_released_rows_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sources with the same released rows, one has ten times as many rows that are suppressed."""
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 300)
    files = []
    for name, rare in (("few", 1), ("many", 2000)):
        whole = source()
        more = pa.table(
            {
                "name": [f"more {at}" for at in range(rare)],
                "town": [f"rare {at}" for at in range(rare)],
                "age": [5] * rare,
                "income": [0.5] * rare,
            }
        )
        (tmp_path / name).mkdir()
        table = pa.concat_tables([whole.set_column(1, "town", whole["town"].cast(pa.string())), more])
        pq.write_table(table.replace_schema_metadata(None), tmp_path / name / "rows.parquet", row_group_size=100)
        asked = policy(tmp_path / name)
        asked["transform"] = [{"suppress_records": {"suppress_at_most": 0.9}}]
        with open_engine("dask", {"scheduler": "threads", "partition_size": "4KB"}) as engine:
            files.append(pp.release(asked, engine=engine).manifest["output"]["files"])
    assert [each["name"] for each in files[0]] == [each["name"] for each in files[1]]
    assert len(files[0]) == 3
