"""Sampling: a keyed share of the records, or exactly so many, in proportion by stratum."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.transforms import Sample
from privpipe.transforms.exact_quantiles import OrderCuts
from privpipe.transforms.sampling.sample import proportional
from tests.tiers import at_most

N = 4000
ROWS = pa.table({"row": range(N), "town": ["a"] * 2500 + ["b"] * 1400 + [None] * 100})


def test_a_fraction_is_binomial_and_keyed_by_record(run: Any) -> None:
    found = run(Sample(fraction=0.3), ROWS, record_id="row")["row"]
    assert abs(len(found) - 0.3 * N) <= 5 * math.sqrt(N * 0.3 * 0.7)
    half = run(Sample(fraction=0.3), ROWS.slice(0, 2000), record_id="row")["row"]
    assert set(half) == {row for row in found if row < 2000}


def test_exactly_the_records_of_least_keyed_order(embedded: Engine, run: Any) -> None:
    """The oracle: sort all records by (order word, id)."""
    found = run(Sample(records=777), ROWS, record_id="row", seed=11)["row"]
    table = embedded.with_record_ids(embedded.scan(Source(data=ROWS)), "row", Seed.insecure(11))

    class Ids:
        def measure(self, block: Any, facts: Any) -> list[tuple[int, list[int]]]:
            return list(zip(block.column("row").to_pylist(), block.record_ids.tolist(), strict=True))

        def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
            return left + right

    ids = dict(embedded.reduce_rows(table, ["row"], Ids(), None))  # type: ignore[arg-type]
    stream = Draws(Seed.insecure(11), 0, "sample").of("")
    order = stream.order(np.array([ids[row] for row in range(N)])).tolist()
    assert sorted(found) == sorted(sorted(range(N), key=lambda row: (order[row], ids[row]))[:777])
    assert len(run(Sample(records=N), ROWS)["row"]) == N
    assert len(run(Sample(records=1), ROWS)["row"]) == 1


def test_strata_in_proportion_with_weights(run: Any) -> None:
    outcome = run(Sample(records=83, by=["town"], weight="w"), ROWS)
    assert Counter(outcome["town"]) == {"a": 52, "b": 29, None: 2}
    weights = dict(zip(outcome["town"], outcome["w"], strict=True))
    assert weights == {"a": 2500 / 52, "b": 1400 / 29, None: 50.0}
    assert sum(outcome["w"]) == pytest.approx(N)
    drawn = run(Sample(fraction=0.2, by=["town"], weight="w"), ROWS)
    counts = Counter(drawn["town"])
    assert set(zip(drawn["town"], drawn["w"], strict=True)) == {
        (town, size / counts[town]) for town, size in (("a", 2500), ("b", 1400), (None, 100))
    }


@settings(max_examples=at_most(40))
@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.floats(0, 1))
def test_largest_remainders(sizes: list[int], share: float) -> None:
    records = int(share * sum(sizes))
    found = proportional(sizes, records)
    assert sum(found) == records
    assert all(0 <= m <= size for m, size in zip(found, sizes, strict=True))
    assert all(abs(m - records * size / max(sum(sizes), 1)) < 1 for m, size in zip(found, sizes, strict=True))


def test_equal_order_words_go_by_id() -> None:
    cuts = OrderCuts((np.array([[5, 1, 1], [5, 2, 0], [9, 0, 0]]),))
    order, ids = np.array([4, 5, 5, 5, 6, 9]), np.array([[9, 9], [1, 1], [1, 2], [2, 1], [0, 0], [0, 0]])
    assert cuts.of(order, ids, np.zeros(6, np.int64)).tolist() == [0, 0, 1, 2, 2, 2]


def test_what_cannot_be(run: Any) -> None:
    with pytest.raises(DataError, match="records = 4,001 is more than the 4,000 there are"):
        run(Sample(records=N + 1), ROWS)
    with pytest.raises(DataError, match="has a column 'Town' already"):
        run(Sample(fraction=0.5, weight="Town"), ROWS)
    assert run(Sample(fraction=0.5), {"x": pa.array([], pa.int64())})["x"] == []
    for parameters, message in [
        ({}, "one of the two"),
        ({"fraction": 0.5, "records": 3}, "one of the two"),
        ({"fraction": 1}, "fraction must be"),
        ({"records": 0}, "records must be"),
        ({"fraction": 0.5, "weight": ""}, "weight must be"),
    ]:
        with pytest.raises(UsageError, match=message):
            Sample(**parameters)
