"""A path is a path: no sign of it is a pattern, an escape or a scheme, whatever argument it is, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, EngineError

NAMES = [
    *("rel[1]", "d*", "q?", "{a,b}", "[!x]", "a]b", "sp ace", "qu'ote", 'dou"ble', "tick`", "p%20", "h#1", "e=1"),
    *("größe", "-dash", ".dot", "back\\slash", "both\\*[1]", "co:lon", "$HOME", "~", "**", "a;b&c|d"),
]
DECOYS = ["rel1", "dxyz", "q1", "a", "b", "y", "sp", "p ", "h", "1", "backslash", "both1"]


def table(start: int) -> pa.Table:
    return pa.table({"zip": ["a", "a", "b", "b"], "n": pa.array(range(start, start + 4))})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder in which a pattern would find other files than the one it names."""
    for name in DECOYS:
        pq.write_table(table(100), tmp_path / f"{name}.parquet")
        (tmp_path / name).mkdir()
        pq.write_table(table(100), tmp_path / name / "part-0.parquet")
    return tmp_path


@pytest.fixture(params=["parquet", "csv", "json"])
def written(request: pytest.FixtureRequest) -> Callable[[Path], Source]:
    kind = request.param

    def write(path: Path) -> Source:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "parquet":
            pq.write_table(table(0), path)
        elif kind == "csv":
            path.write_text("zip,n\na,0\na,1\nb,2\nb,3\n")
        else:
            path.write_text('{"zip":"a","n":0}\n{"zip":"a","n":1}\n{"zip":"b","n":2}\n{"zip":"b","n":3}\n')
        return Source(data=str(path), format=kind, types={"n": "integer"})

    return write


def numbers(engine: Engine, source: Source) -> list[int]:
    return sorted(row["n"] for row in engine.collect(engine.scan(source)).to_pylist())


def test_a_file_of_any_name_is_that_file(engine: Engine, place: Path, written: Callable[[Path], Source]) -> None:
    for name in NAMES:
        assert numbers(engine, written(place / f"{name}.{'x' * 3}")) == [0, 1, 2, 3], name


def test_a_folder_of_any_name_is_that_folder(engine: Engine, place: Path, written: Callable[[Path], Source]) -> None:
    for name in NAMES:
        source = written(place / name / "part-0.dat")
        assert numbers(engine, Source(data=place / name, format=source.format, types=source.types)) == [0, 1, 2, 3]


def policy(place: Path, name: str) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "paths",
        "source": {"path": str(place / f"{name}.csv"), "format": "csv"},
        "population": {"path": str(place / f"{name}.parquet"), "format": "parquet"},
        "columns": {
            "zip": {"role": "quasi_identifier", "hierarchy": {"file": str(place / f"{name}.hierarchy")}},
            "illness": {"role": "sensitive"},
        },
        "transform": [{"generalize": {"levels": {"zip": 1}}}],
        "guarantees": [
            {"k_anonymity": {"k": 2}},
            {"k_map": {"k": 2}},
            {"t_closeness": {"column": "illness", "t": 0.9, "base": {"file": str(place / f"{name}.base.csv")}}},
        ],
        "sink": {"path": str(place / "out" / name)},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }


@pytest.mark.parametrize("name", ["rel[1]", "d*", "q?'\"", "co:lon %20#=", "-größe", "back\\slash"])
def test_every_path_of_a_policy_is_that_path(engine: Engine, tmp_path: Path, name: str) -> None:
    """Source, population, hierarchy, base, sink; then table and original of an assessment."""
    (tmp_path / f"{name}.csv").write_text("zip,illness\na,flu\nb,cold\na,flu\nb,cold\n")
    pq.write_table(pa.table({"zip": ["a", "b", "a", "b", "a"]}), tmp_path / f"{name}.parquet")
    (tmp_path / f"{name}.hierarchy").write_text("a;all\nb;all\n")
    (tmp_path / f"{name}.base.csv").write_text("illness,count\nflu,1\ncold,1\n")
    document = policy(tmp_path, name)
    document["columns"]["zip"]["hierarchy"]["delimiter"] = ";"
    result = pp.release(document, engine=engine)
    assert Path(result.path) == tmp_path / "out" / name
    assert result.assessment.records == 4
    finished = {"columns": {n: {"role": c["role"]} for n, c in document["columns"].items()}}
    finished["guarantees"] = [{"k_anonymity": {"k": 4}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}]
    judged = pp.assess(result.path, finished, original=str(tmp_path / f"{name}.csv"), engine=engine)
    assert judged.passed
    assert judged.records == 4


def test_a_pattern_names_nothing_and_is_told_what_to_give(engine: Engine, tmp_path: Path) -> None:
    pq.write_table(table(0), tmp_path / "part-0.parquet")
    for pattern in ("part-*.parquet", "part-?.parquet", "part-[0].parquet", "*"):
        with pytest.raises(DataError, match="no pattern: give the folder"):
            engine.scan(Source(data=tmp_path / pattern, format="parquet"))


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfss", "hdfs"])
def test_a_path_on_another_file_system_says_so(engine: Engine, scheme: str) -> None:
    with pytest.raises(EngineError, match=f"{scheme}://127.0.0.1:1/lake"):
        engine.scan(Source(data=f"{scheme}://127.0.0.1:1/lake/people", format="parquet"))


def test_a_partition_folder_above_a_file_makes_no_column(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "year=2024"
    folder.mkdir()
    pq.write_table(table(0), folder / "a.parquet")
    for data in (folder, folder / "a.parquet"):
        found = engine.scan(Source(data=data, format="parquet"))
        assert list(found.schema.names) == ["zip", "n"]
