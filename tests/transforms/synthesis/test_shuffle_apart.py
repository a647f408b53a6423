"""Shuffling where the driver must not hold a column's values: the same rows, and nothing collected."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.running.plan import canonical_json
from privpipe.transforms import Shuffle
from privpipe.transforms.synthesis import ranked_values
from privpipe.transforms.synthesis.ranked_values import few_values, mid_name, with_mid_ranks
from tests.tiers import at_most

STAGES = [
    Shuffle(columns=["income", "rent"], given=["age", "admitted"]),
    Shuffle(columns=["seen", "same", "single"]),
    Shuffle(columns=["income", "age"], given=["rent"], by=["town"], small_strata="merge"),
]
ON_SPARK = [Shuffle(columns=["income"], given=["admitted"]), STAGES[2]]


@pytest.fixture
def everybody(people: pa.Table) -> pa.Table:
    n = len(people)
    single = pa.array(np.random.default_rng(8).normal(size=n), pa.float32())
    return people.append_column("same", pa.array([2.5] * n)).append_column("single", single)


def many(patched: Any, engine: Engine) -> None:
    """As if more values were there than the driver may hold, and of many more ranks than a group has."""
    patched.setattr(engine, "values_held", 5)
    patched.setattr(ranked_values, "ROWS_PER_GROUP", 50)


def refused(*_: object) -> None:
    raise AssertionError("values of a column were collected")


def test_the_same_rows_as_with_the_values_at_hand(
    engine: Engine, embedded: Engine, run_on: Any, everybody: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in ON_SPARK if engine.name == "spark" else STAGES:
        wanted = run_on(embedded, stage, everybody)
        with monkeypatch.context() as patched:
            many(patched, engine)
            if not stage.by:  # whose combinations are counted
                patched.setattr(engine, "distinct", refused)
            found = run_on(engine, stage, everybody, parts=3, shuffled=True)
        assert canonical_json(found.plan.detail) == canonical_json(wanted.plan.detail), stage
        assert found.rows.schema.equals(wanted.rows.schema)
        assert Counter(map(repr, found.rows.to_pylist())) == Counter(map(repr, wanted.rows.to_pylist())), stage


cells = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, math.nan]), st.floats(-9, 9))


@settings(max_examples=at_most(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(cells, min_size=1, max_size=30))
def test_mid_ranks_by_the_definition(embedded: Engine, x: list[float | None]) -> None:
    frame = pa.table({"x": pa.array(x, pa.float64()), "row": range(len(x))})
    table = embedded.with_record_ids(embedded.scan(Source(data=frame)), "row", Seed.insecure(3))
    made = embedded.collect(embedded.select(with_mid_ranks(embedded, table, ["x"]), ["row", mid_name(0)]))
    found = pa.table(made).sort_by("row").column(mid_name(0)).to_pylist()
    known = np.array([each is not None and each == each for each in x])
    assert [each is not None for each in found] == known.tolist()
    middles = rankdata(np.array([each for each, so in zip(x, known, strict=True) if so], float)) - 1
    assert [each / 2 for each in found if each is not None] == middles.tolist()


@pytest.mark.parametrize("x", [[3.0], [None, None], [1.0, None], [2.0] * 7, []])
def test_edges(run: Any, embedded: Engine, x: list[float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    frame = {"x": pa.array(x, pa.float64()), "s": pa.array(range(len(x)), pa.int64())}
    wanted = run(Shuffle(columns=["x"], given=["s"]), pa.table(frame))
    many(monkeypatch, embedded)
    monkeypatch.setattr(embedded, "values_held", -1)
    found = run(Shuffle(columns=["x"], given=["s"]), pa.table(frame))
    assert found.plan.detail == wanted.plan.detail
    assert found.rows.sort_by("s").equals(wanted.rows.sort_by("s"))


def test_what_cannot_be(run: Any, embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    many(monkeypatch, embedded)
    x = [1.0, math.inf, *range(8)]
    with pytest.raises(DataError, match="'x' holds 1 infinite values; code them first"):
        run(Shuffle(columns=["x"]), {"x": x})
    with pytest.raises(DataError, match="'s' holds 1 infinite values; code them first"):
        run(Shuffle(columns=["x"], given=["s"], by=["g"]), {"x": range(10), "s": x, "g": ["a"] * 10})


def test_estimates_and_records_decide(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table({"x": range(3000), "few": [1, 2, 3] * 1000})
    table = embedded.scan(Source(data=frame))
    assert few_values(embedded, table, ["x", "few"])
    monkeypatch.setattr(embedded, "values_held", 1000)
    assert few_values(embedded, table, ["few"])
    assert not few_values(embedded, table, ["few", "x"])
    monkeypatch.setattr(embedded, "estimated_distinct", lambda *_: {})
    assert not few_values(embedded, table, ["few"])
