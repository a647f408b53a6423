"""Class tables from Parquet files, whose texts come as dictionaries, and of columns with many values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.engines.base import Source
from privpipe.engines.dask import DaskEngine
from privpipe.engines.distributed.codes import encode

from .conftest import hostile
from .test_classes import QUERIES, oracle, shapes


def plain_text(frame: pa.Table) -> pa.Table:
    """Without the pay column: a decimal of 38 digits does not concern dictionaries."""
    return frame.drop_columns(["pay"])


@pytest.mark.parametrize("query", [QUERIES[at] for at in (0, 3, 4, 5, 6, 7, 8)], ids=lambda query: "-".join(query.keys))
@pytest.mark.parametrize("written", [{}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 1}], ids=str)
def test_files_are_counted_as_frames_are(threads, tmp_path: Path, query, written) -> None:
    frame = plain_text(hostile())
    for part, start in enumerate((0, 150)):
        rows = frame.slice(start, 150 if part == 0 else None)
        pq.write_table(rows, tmp_path / f"{part}.parquet", row_group_size=37, **written)
    table = threads.scan(Source(data=str(tmp_path)))
    assert shapes(list(threads.classes(table, query)), query) == oracle(frame, query)
    facts = threads.facts(table, FactsRequest(histograms=("ill", "zip"), nulls=("zip",)))
    assert facts.nulls["zip"] == frame.column("zip").null_count
    for name in ("ill", "zip"):
        values = frame.column(name).to_pylist()
        expected = {value: values.count(value) for value in values}
        found = facts.histograms[name]
        assert dict(zip(found.values.to_pylist(), found.counts.tolist(), strict=True)) == expected


def test_codes_of_texts_in_files_are_positions_in_the_dictionary(threads, tmp_path: Path) -> None:
    frame = plain_text(hostile())
    pq.write_table(frame, tmp_path / "a.parquet", row_group_size=50)
    table = threads.scan(Source(data=str(tmp_path)))
    facts = threads.facts(table, FactsRequest(histograms=("ill", "x")))
    query = ClassQuery(keys=("zip", "day"), columns=("ill", "x"), dictionaries=facts.histograms)
    values = {name: facts.histograms[name].values.to_pylist() for name in ("ill", "x")}
    assert shapes(list(threads.classes(table, query)), query) == oracle(frame, query, values)


@pytest.mark.parametrize("npartitions", [1, 5])
def test_a_near_unique_column_travels_by_the_values_met(npartitions: int) -> None:
    rng = np.random.default_rng(4)
    frame = pa.table({"zip": rng.integers(0, 40, 600), "who": [f"p{at}" for at in rng.integers(0, 500, 600)]})
    query = ClassQuery(keys=("zip",), columns=("who", "zip"))
    with DaskEngine.open({"scheduler": "threads", "npartitions": npartitions}) as engine:
        assert shapes(list(engine.classes(engine.scan(Source(data=frame)), query)), query) == oracle(frame, query)


def test_a_dictionary_that_repeats_a_value_or_holds_null_is_put_right() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 3, 1, None, 2, 0]), pa.array(["a", "b", None, "a", "unused"]))
    found = encode(column)
    assert found.values.take(pa.array(found.codes)).to_pylist() == ["a", "a", "b", None, None, "a"]
    assert sorted(map(str, found.values.to_pylist())) == ["None", "a", "b"]
