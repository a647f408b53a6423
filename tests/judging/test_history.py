"""Earlier releases are read without declared types; what they suppressed is left out all the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules
from privpipe.judging.judged_table import JudgedTable
from privpipe.judging.ways.history import _unsuppressed

NOW = {"zip": ["a", "*"], "age": [30, None], "town": ["x", "*"]}
ROWS = [("*", None, "*"), ("*", None, None), (None, None, "*"), ("*", 30, "*"), ("a", None, "*")]
"""Only the first has nothing left: a missing text may say something, a missing number does not."""


@pytest.mark.parametrize("as_text", [False, True], ids=["typed", "all text"])
def test_records_of_which_nothing_is_left_are_left_out(engine: Engine, as_text: bool) -> None:
    ages = [age for _, age, _ in ROWS]
    earlier = {
        "zip": [zip_ for zip_, _, _ in ROWS],
        "age": pa.array([None if age is None else str(age) for age in ages]) if as_text else pa.array(ages),
        "town": [town for _, _, town in ROWS],
    }
    assert left(engine, earlier) == sorted(ROWS[1:], key=str)


def test_a_column_that_only_the_earlier_release_had_is_looked_at_unchanged(embedded: Engine) -> None:
    earlier = {"zip": ["*", "*", "*"], "pet": ["*", None, "cat"], "age": pa.array([None] * 3, pa.string())}
    assert [pet for _, pet in left(embedded, earlier, "zip", "pet")] == ["cat", None]


def left(engine: Engine, earlier: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    now = JudgedTable.of(engine, engine.scan(Source(data=pa.table(NOW))), JudgingRules())
    found = _unsuppressed(engine, engine.scan(Source(data=pa.table(earlier))), now)
    rows = engine.collect(found).to_pylist()
    told = [tuple(row[name] for name in names or ("zip", "age", "town")) for row in rows]
    return sorted([tuple(int(each) if str(each).isdigit() else each for each in row) for row in told], key=str)
