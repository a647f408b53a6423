"""Files of one source that differ: exactly their values, or a DataError; the same on each engine and in each order."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from tests.matrix.file_pairs import ORDERS, PAIRS, problems, written

TEXTS = (["01", "1", "1.0"], ["x", "", "-7"])


@pytest.mark.parametrize(
    "name", ["embedded", "dask_engine", pytest.param("spark_engine", marks=pytest.mark.spark)], ids=str
)
def test_every_pair_in_every_order_keeps_its_values_or_is_refused(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    # On Spark one cell in eight; all of them are printed by `python -m tests.matrix.file_pairs spark`.
    found = problems(request.getfixturevalue(name), tmp_path, every=8 if name == "spark_engine" else 1)
    assert {cell: problem for cell, problem in found if problem} == {}


def test_pairs_among_many_small_files_are_read_alike(engine: Engine, tmp_path: Path) -> None:
    for at in range(40):
        pq.write_table(
            pa.table(
                {
                    "q": pa.array(
                        [at], (pa.int8(), pa.int32(), pa.float32(), pa.null())[at % 4] if at % 4 < 3 else pa.int64()
                    )
                }
            ),
            tmp_path / f"part-{at:02d}.parquet",
        )
    pq.write_table(pa.table({"q": pa.nulls(2)}), tmp_path / "part-99.parquet")
    rows = engine.collect(engine.scan(Source(data=str(tmp_path), format="parquet")))
    assert Counter(rows.column("q").to_pylist()) == Counter([*map(float, range(40)), None, None])


@pytest.mark.parametrize("ending", ["csv", "json", "csv.gz"])
def test_text_files_are_typed_over_all_of_them(engine: Engine, tmp_path: Path, ending: str) -> None:
    for order, years in itertools.product(("there", "back"), (("2020", "unknown"), ("07", "7"))):
        folder = tmp_path / f"{order}-{years[0]}"
        folder.mkdir()
        cells = [[*texts, year] for texts, year in zip(TEXTS, years, strict=True)]
        for at, texts in enumerate(cells if order == "there" else reversed(cells)):
            content = (
                "".join(json.dumps({"q": text}) + "\n" for text in texts)
                if ending == "json"
                else "q,n\n" + "".join(f'"{text}",{at}\n' for text in texts)
            ).encode()
            packed = gzip.compress(content) if ending.endswith("gz") else content
            (folder / f"part-{at}.{ending}").write_bytes(packed)
        kind = "json" if ending == "json" else "csv"
        source = Source(data=str(folder), format=kind, null_values=("NULL",))
        found = engine.collect(engine.scan(source)).column("q").to_pylist()
        assert Counter(found) == Counter(itertools.chain(*cells))


def test_a_column_that_not_all_files_have_is_refused(engine: Engine, tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "column 'b' is missing, which": {"a": [1]},
        "column 'c' is not in": {"a": [1], "b": [1], "c": [1]},
        "its columns are not in the order of": {"b": [1], "a": [1]},
        "column 'a' is missing, which": {"A": [1], "b": [1]},
    }
    for at, (said, columns) in enumerate(tables.items()):
        folder = tmp_path / str(at)
        folder.mkdir()
        pq.write_table(pa.table({"a": [1], "b": [1]}), folder / "0.parquet")
        pq.write_table(pa.table(columns), folder / "1.parquet")
        with pytest.raises(DataError, match=rf"1\.parquet: {said} 0\.parquet"):
            engine.scan(Source(data=str(folder), format="parquet"))


def test_old_timestamps_of_one_file_are_exact_or_refused(engine: Engine, tmp_path: Path) -> None:
    for name, whole in (("int96 of the year 9999, us", True), ("int96 a nanosecond apart, us", False)):
        pair = PAIRS[name]
        folder = tmp_path / str(whole)
        folder.mkdir()
        pq.write_table(pa.table({"q": pair.left}), folder / "part.parquet", **pair.options[0])
        if whole:
            found = engine.collect(engine.scan(Source(data=str(folder)))).column("q").to_pylist()
            assert Counter(found) == Counter(pair.left.to_pylist())
        else:
            with pytest.raises(DataError, match=r"part\.parquet: column 'q': values of timestamp\[ns\]"):
                engine.collect(engine.scan(Source(data=str(folder))))


def test_declared_types_and_classes_hold_over_pairs(engine: Engine, tmp_path: Path) -> None:
    wanted = {"int64, float64": ("text", {"1", "1152921504606847000", "1.5", None}), "date, timestamp": ("text", None)}
    for at, (name, (kind, texts)) in enumerate(wanted.items()):
        for order in ORDERS:
            folder = tmp_path / f"{at}-{order}"
            folder.mkdir()
            source = written(PAIRS[name], order, "folder", folder)
            typed = Source(data=source.data, format="parquet", types={"q": kind})
            found = set(engine.collect(engine.scan(typed)).column("q").to_pylist())
            assert texts is None or found == texts
            assert len(found) == len(set(PAIRS[name].values or ()))


@pytest.mark.parametrize("name", ["q", 'a.b "q"'])
def test_lists_and_nothing_but_lists_join_lists(engine: Engine, tmp_path: Path, name: str) -> None:
    lists = {
        "items": (pa.array([[], None], pa.list_(pa.null())), pa.array([["a"]], pa.list_(pa.string()))),
        "widths": (pa.array([["b"], None]), pa.array([["a"]], pa.large_list(pa.large_string()))),
        "struct": (pa.array([None], pa.struct([("x", pa.int8())])), pa.array([["a"]])),
        "text": (pa.array(['["a"]']), pa.array([["a"]])),
    }
    for (case, columns), order in itertools.product(lists.items(), (1, -1)):
        folder = tmp_path / f"{case}{order}"
        folder.mkdir()
        for at, column in enumerate(columns[::order]):
            pq.write_table(pa.table({name: column}), folder / f"{at}.parquet")
        source = Source(data=str(folder), format="parquet")
        if case == "text":
            with pytest.raises(DataError, match=r"1\.parquet: column .* is .*, and .* in 0\.parquet"):
                engine.scan(source)
            continue
        found = engine.collect(engine.scan(source)).column(name).to_pylist()
        wanted = {"items": [None, '["a"]', "[]"], "widths": [None, '["a"]', '["b"]'], "struct": [None, '["a"]']}
        assert sorted(found, key=str) == wanted[case]
