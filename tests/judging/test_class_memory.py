"""What a ledger keeps of a release: who was in which class, by keyed hashes alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks.release_history import ReleaseRows
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging.release_memory import LedgerUnit, class_memory, places_of

ROWS = {
    "id": [1, 2, 3, 4, 5, 6],
    "who": ["a", "a", "b", "b", "c", "c"],
    "zip": ["1", "1", "1", "2", "2", "2"],
    "ill": ["f", "f", "g", "f", "g", "h"],
}
LEFT = [1, 2, 3, 4, 5]
"""Of (person, class, value): a1f twice, b1g, b2f, c2g."""


def with_ids(engine: Engine, rows: dict[str, list[Any]]) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=pa.table(rows))), "id", Seed(bytes(16)))


def remembered(engine: Engine, *, persons: bool = True, sensitive: str | None = "ill", **more: Any) -> ReleaseRows:
    rows = {**ROWS, **more}
    released = {name: [values[at] for at, own in enumerate(rows["id"]) if own in LEFT] for name, values in rows.items()}
    unit = LedgerUnit(columns=("who",) if persons else ("zip",), seed=Seed(b"ledger"), persons=persons)
    tables = with_ids(engine, rows), with_ids(engine, released)
    return class_memory(engine, *tables, unit=unit, keys=["zip"], sensitive=sensitive)


def sizes(rows: ReleaseRows, *parts: Any) -> list[int]:
    """Records of each combination of hashes, largest first."""
    counted: Counter[Any] = Counter()
    for at, records in enumerate(rows.records.tolist()):
        counted[tuple(tuple(part[at]) for part in parts)] += records
    return sorted(counted.values(), reverse=True)


def test_records_of_each_person_in_each_class_with_each_value(engine: Engine) -> None:
    rows = remembered(engine)
    assert rows.values is not None
    assert (rows.sensitive, rows.unit) == ("ill", ("who",))
    assert rows.units.shape == rows.classes.shape == rows.values.shape == (4, 2)
    assert sizes(rows, rows.units) == [2, 2, 1]
    assert sizes(rows, rows.classes) == [3, 2]
    assert sizes(rows, rows.values) == [3, 2]
    assert sizes(rows, rows.units, rows.classes) == [2, 1, 1, 1]
    assert sizes(rows, rows.classes, rows.values) == [2, 1, 1, 1]
    assert sizes(rows, rows.units, rows.values) == [2, 1, 1, 1]


def test_without_a_sensitive_column_no_value_is_kept(embedded: Engine) -> None:
    rows = remembered(embedded, sensitive=None)
    assert (rows.values, rows.sensitive) == (None, None)
    assert sizes(rows, rows.units, rows.classes) == [2, 1, 1, 1]


def test_combinations_of_the_original_are_units_where_persons_have_no_key(embedded: Engine) -> None:
    rows = remembered(embedded, persons=False, who=[None] * 6)
    assert rows.unit == ("zip",)
    assert sizes(rows, rows.units) == [3, 2]
    assert not {tuple(each) for each in rows.units.tolist()} & {tuple(each) for each in rows.classes.tolist()}


@pytest.mark.parametrize("nobody", [None, ""])
def test_released_records_of_no_one_are_refused(embedded: Engine, nobody: str | None) -> None:
    with pytest.raises(DataError, match="2 released records have no 'who'"):
        remembered(embedded, who=["a", nobody, "b", nobody, "c", "c"])
    assert len(remembered(embedded, who=["a", "a", "b", "b", "c", nobody])) == 4, "who was not released needs no key"


def test_an_id_stands_where_it_is_and_nowhere_else() -> None:
    ids = np.array([[5, 1], [7, 2], [5, 2]])
    assert places_of(ids, np.array([[5, 2], [7, 1], [5, 1], [5, 2]])).tolist() == [2, -1, 0, 2]
