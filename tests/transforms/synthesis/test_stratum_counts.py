"""Records by stratum: values that are there, and how many a plan draws."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, RowBlock
from privpipe.engines import Engine, Source
from privpipe.errors import UnsupportedError, UsageError
from privpipe.transforms.strata import Strata, stratum_keys
from privpipe.transforms.synthesis import stratum_counts
from privpipe.transforms.synthesis.stratum_counts import planned_records, with_known

CONTEXT: Any = SimpleNamespace(place="transform[0]")


class InBlocks:
    """Reduces rows block by block, as an engine does whose tables are in parts."""

    def reduce_rows(self, table: pa.Table, columns: tuple[str, ...], reduction: Any, facts: Facts) -> Any:
        blocks = [RowBlock(batch) for batch in table.select(columns).combine_chunks().to_batches(max_chunksize=7)]
        return functools.reduce(reduction.merge, [reduction.measure(block, facts) for block in blocks])


def test_values_that_are_there_are_counted_by_stratum_in_any_blocks() -> None:
    rng = np.random.default_rng(1)
    town = [["a", "b", None, "gone"][code] for code in rng.integers(0, 4, 60)]
    x = [[1.5, None, math.nan][code] for code in rng.choice(3, 60, p=[0.7, 0.2, 0.1])]
    y = [[None, 7][code] for code in rng.integers(0, 2, 60)]
    frame = pa.table({"town": town, "x": pa.array(x, from_pandas=False), "y": pa.array(y, pa.int64())})
    numbers = dict(
        zip(stratum_keys(pa.record_batch({"town": ["a", "b", None, "gone"]})).tolist(), [0, 1, 1, -1], strict=True)
    )
    strata = Strata(
        by=("town",),
        keys=tuple(sorted(numbers)),
        numbers=tuple(numbers[key] for key in sorted(numbers)),
        records=(town.count("a"), town.count("b") + town.count(None)),
    )
    engine: Any = InBlocks()
    found = with_known(engine, frame, strata, ["x", "y"])
    for name, values in (("x", x), ("y", y)):
        there = [t for t, value in zip(town, values, strict=True) if value is not None and value == value]
        assert found.known[name] == (there.count("a"), there.count("b") + there.count(None))


def test_without_strata_the_whole_table_is_counted(embedded: Engine) -> None:
    frame = pa.table({"x": pa.array([1.0, None, 3.0, None, None])})
    table = embedded.scan(Source(data=frame))
    assert with_known(embedded, table, Strata(records=(5,)), ["x"]).known == {"x": (2,)}


def test_a_plan_draws_as_many_records_as_its_models_say_and_no_more_than_are_drawn_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stratum_counts, "MOST_DRAWN", 7)
    plan = {"models": [{"records": 4}, {"records": 3}]}
    for here, fewer in ((None, False), (7, False), (7, True), (9, True)):
        assert planned_records(plan, here, fewer, CONTEXT) == 7
    for here, fewer in ((6, False), (6, True), (8, False)):
        with pytest.raises(UsageError, match="another number of records"):
            planned_records(plan, here, fewer, CONTEXT)
    with pytest.raises(UnsupportedError, match="at most 7 records at once"):
        planned_records({"models": [{"records": 8}]}, None, False, CONTEXT)
