"""What every engine must count alike of two tables taken as one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassQuery, Histogram
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import DataError

SIDE = "__side"
SIDES = Histogram(pa.array([0, 1]), np.array([1, 1]))


def both_sizes(engine: Engine, table: Any, keys: tuple[str, ...]) -> Counter[Any]:
    """(records of the first table, of the second) of each class."""
    found: Counter[Any] = Counter()
    query = ClassQuery(keys=keys, columns=(SIDE,), dictionaries={SIDE: SIDES})
    for block in engine.classes(table, query):
        cells = block.cells[SIDE]
        for c in range(len(block)):
            own = slice(cells.offsets[c], cells.offsets[c + 1])
            counts = dict(zip(cells.codes[own].tolist(), cells.counts[own].tolist(), strict=True))
            found[counts.get(0, 0), counts.get(1, 0)] += 1
    return found


def test_classes_of_two_tables_meet_null_safely(engine: Engine, hostile: Any, scanned: Any) -> None:
    """Every second row against all rows but the first: classes of one table alone are there too."""
    every_second, others = hostile.rows.take(np.arange(0, len(hostile.rows), 2)), hostile.rows.slice(1)
    tables = scanned(every_second, 2, shuffled=True), scanned(others, 3)
    stacked = engine.stack(*tables, hostile.keys, SIDE)
    assert stacked.schema.names == [*hostile.keys, SIDE]
    assert engine.count(stacked) == len(every_second) + len(others)
    plain = hostile.plain
    counts = [Counter(tuple(row[name] for name in hostile.keys) for row in rows) for rows in (plain[::2], plain[1:])]
    wanted = Counter((counts[0][key], counts[1][key]) for key in counts[0] | counts[1])
    assert both_sizes(engine, stacked, hostile.keys) == wanted


def test_ids_stay_behind(engine: Engine, scanned: Any, ordinary: Any) -> None:
    table = engine.with_record_ids(scanned(ordinary(1, 20)), None, Seed.insecure("for a test"))
    assert not engine.stack(table, table, ("zip",), SIDE).has_record_ids


@pytest.mark.parametrize(
    ("other", "says"),
    [({"zip": [4711]}, "'zip' holds string in one table and int64"), ({"zipp": ["a"]}, "did you mean 'zipp'")],
)
def test_columns_that_cannot_match_are_refused(engine: Engine, scanned: Any, other: Any, says: str) -> None:
    first = scanned(pa.table({"zip": ["4711"]}))
    with pytest.raises(DataError, match=says):
        engine.stack(first, scanned(pa.table(other)), ("zip",), SIDE)
