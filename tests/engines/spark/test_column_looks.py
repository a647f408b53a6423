"""What a look reports about columns: the same for any cut of the rows, and as defined."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import histogram_of
from privpipe.engines.spark.column_values import ColumnLook, Looker, Looks

SEED = Seed.insecure(5)
CELLS = {
    "text": (pa.string(), ["a", "", "*", "é", None, "a b"]),
    "whole": (pa.int64(), [0, -1, 2**63 - 1, -(2**63), None]),
    "number": (pa.float64(), [0.0, -0.0, float("nan"), None, 1.5, float("inf")]),
    "truth": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [date(2020, 1, 1), None, date(1, 1, 1)]),
    "moment": (pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, tzinfo=UTC), None]),
    "price": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-1.50"), None]),
    "bytes": (pa.binary(), [b"", b"\x00", None]),
}


def oracle(values: list[Any]) -> tuple[int, Counter[Any]]:
    """Missing cells and the numbers of the others, one by one."""
    gone = [each is None or (isinstance(each, float) and math.isnan(each)) for each in values]
    return sum(gone), Counter(each for each, out in zip(values, gone, strict=True) if not out)


def told(seen: ColumnLook) -> tuple[int, Counter[Any]]:
    assert seen.values is not None
    pairs = zip(seen.values.values.to_pylist(), seen.values.counts.tolist(), strict=True)
    return seen.nulls, Counter({value: count for value, count in pairs if value is not None})


def looked(looker: Looker, parts: list[list[pa.Array]]) -> Looks:
    found = looker.of_all([looker.look(part) for part in parts])
    assert found is not None
    return found


@given(st.sampled_from(sorted(CELLS)), st.data())
def test_few_values_are_reported_with_their_numbers(kind: str, data: st.DataObject) -> None:
    arrow, some = CELLS[kind]
    values = data.draw(st.lists(st.sampled_from(some), min_size=1, max_size=30))
    cut = data.draw(st.integers(0, len(values)))
    looker, column = Looker(SEED), pa.array(values, arrow)
    parts = [part for part in (column[:cut], column[cut:]) if len(part)]
    found = looked(looker, [[part] for part in parts])
    assert told(found.columns[0]) == oracle(values)
    assert found.records == len(values)
    assert found.columns[0].distinct == len(oracle(values)[1])
    batch_after_batch = None
    for part in parts:
        batch_after_batch = looker.look([part], batch_after_batch)
    assert batch_after_batch is not None
    assert told(batch_after_batch.columns[0]) == oracle(values)
    seen, wanted = found.columns[0].values, histogram_of(column)
    assert seen is not None
    assert seen.values.equals(wanted.values)
    assert seen.counts.tolist() == wanted.counts.tolist()


@given(st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=80), st.integers(1, 8), st.randoms())
def test_what_is_told_is_the_same_for_any_cut(values: list[int | None], few: int, random: Any) -> None:
    looker = Looker(SEED, few)
    whole = looker.look([pa.array(values, pa.int64())]).columns[0]
    shuffled = random.sample(values, len(values))
    cuts = sorted(random.sample(range(len(values) + 1), min(3, len(values))))
    ends = [0, *cuts, len(values)]
    parts = [shuffled[a:b] for a, b in itertools.pairwise(ends) if b > a]
    cut = looked(looker, [[pa.array(part, pa.int64())] for part in parts]).columns[0]
    assert (cut.nulls, cut.distinct) == (whole.nulls, whole.distinct) == (oracle(values)[0], len(oracle(values)[1]))
    assert (cut.values is None) == (whole.values is None) == (len(oracle(values)[1]) > few)
    assert cut.smallest.tolist() == whole.smallest.tolist()


def test_many_values_are_told_as_a_number_within_a_few_percent() -> None:
    rng = np.random.default_rng(2)
    looker = Looker(SEED)
    for distinct in (5_000, 200_000):
        values = pa.array([f"secret {at}" for at in rng.permutation(np.tile(np.arange(distinct), 2))])
        found = looked(looker, [[values[:distinct]], [values[distinct:]]]).columns[0]
        assert found.values is None
        assert abs(found.distinct / distinct - 1) < 0.13
        assert "secret" not in repr(found)


def test_a_column_of_few_values_next_to_parts_with_many_is_none_of_few() -> None:
    looker = Looker(SEED, few=2)
    found = looked(looker, [[pa.array([1, 1, None])], [pa.array([2, 3, 4])], [pa.array([None, 1, 2])]]).columns[0]
    assert (found.values, found.nulls, found.distinct) == (None, 2, 4)
    assert looker.of_all([]) is None
