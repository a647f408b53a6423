"""What every engine must make alike of released records next to their originals, and of thin samples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import RowBlock
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import DataError

SEED = Seed.of(bytes(range(32)))


def rows_of(engine: Engine, table: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in engine.collect(table).to_pylist())


def keyed(engine: Engine, scanned: Any, rows: pa.Table, parts: int) -> Any:
    return engine.with_record_ids(scanned(rows, parts, shuffled=True), "who", SEED)


def test_released_records_are_next_to_their_originals(engine: Engine, scanned: Any) -> None:
    """Some are in one table alone; missing cells and marks stay unchanged, and ids stay behind."""
    zips = ["a", None, "b", "*", "a", "c", None, "b"]
    original = pa.table({"who": range(8), "zip": zips, "age": [1.5, None, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]})
    released = pa.table({"who": range(2, 10), "zip": ["*", None, "*", "*", "x", "*", None, "z"]})
    sides = keyed(engine, scanned, released, 3), keyed(engine, scanned, original, 2)
    found = engine.beside(*sides, {"zip": "zip before", "age": "age before"})
    assert found.schema.names == ["who", "zip", "zip before", "age before"]
    assert not found.has_record_ids
    assert engine.count(found) == 6
    before = {row["who"]: row for row in original.to_pylist()}
    wanted = [
        (row["who"], row["zip"], before[row["who"]]["zip"], before[row["who"]]["age"])
        for row in released.to_pylist()
        if row["who"] in before
    ]
    assert rows_of(engine, found) == Counter(wanted)


@pytest.mark.parametrize(
    ("columns", "says"),
    [({"zipp": "before"}, "did you mean 'zip'"), ({"zip": "who"}, "has a column 'who' already")],
)
def test_columns_that_are_missing_or_taken_are_refused(
    engine: Engine, scanned: Any, columns: dict[str, str], says: str
) -> None:
    table = keyed(engine, scanned, pa.table({"who": [1, 2], "zip": ["a", "b"]}), 1)
    with pytest.raises(DataError, match=says):
        engine.beside(table, table, columns)


def test_tables_without_ids_cannot_stand_side_by_side(engine: Engine, scanned: Any) -> None:
    table = scanned(pa.table({"zip": ["a", "b"]}))
    with pytest.raises(DataError, match="record ids"):
        engine.beside(table, table, {"zip": "before"})


def test_a_thin_sample_holds_the_same_records_of_every_table(engine: Engine, scanned: Any) -> None:
    whole = pa.table({"who": range(2000), "zip": [f"{row % 7}" for row in range(2000)]})
    tables = [keyed(engine, scanned, rows, parts) for rows, parts in ((whole, 3), (whole.slice(500), 2))]
    first, second = (set(engine.collect(engine.thinned(table, 0.25))["who"].to_pylist()) for table in tables)
    assert second == {who for who in first if who >= 500}
    assert 400 < len(first) < 600
    thin = engine.thinned(tables[0], 0.25)
    assert thin.has_record_ids
    assert engine.count(engine.thinned(tables[0], 1.0)) == 2000
    kept = engine.map_rows(thin, _TopIds(), thin.schema)
    assert engine.count(kept) == 0


class _TopIds:
    """Rows whose id is beyond the first half."""

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.record_ids[:, 0] > 0))


def test_estimates_of_distinct_values_are_near(engine: Engine, scanned: Any) -> None:
    rows = pa.table({"many": range(5000), "few": [row % 3 for row in range(5000)], "none": pa.nulls(5000, pa.string())})
    found = engine.estimated_distinct(scanned(rows, 3), ["many", "few", "none"])
    if found:
        assert 2500 < found["many"] < 10_000
        assert found["few"] < 10
        assert found["none"] < 2
    assert engine.estimated_distinct(scanned(rows), []) == {}
