"""Microaggregation and its fuzzy kin: the same plan and the same records on every engine, any parts and row order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.running.plan import canonical_json
from privpipe.transforms import FuzzyMicroaggregate, Microaggregate
from privpipe.transforms.base import Transformer
from tests.tiers import deep_among, on_engines, third_on_spark

STAGES: dict[str, Transformer] = {
    "search in strata with a condition": Microaggregate(
        columns=["age", "rent", "seen"],
        k=4,
        by=["town"],
        sensitive={"column": "illness", "l": 2},
        refine="search",
        iterations=2000,
    ),
    "borders of blocks under a condition": Microaggregate(
        columns=["age", "rent"], k=3, block=30, refine="descent", sensitive={"column": "illness", "t": 0.45}
    ),
    "search, then borders": Microaggregate(
        columns=["income", "admitted"], k=3, block=40, nulls="keep", refine="search", iterations=300, method="v_mdav"
    ),
    "proved in strata": Microaggregate(
        columns=["age", "rent"], k=3, by=["town"], small_strata="merge", nulls="keep", refine="proof", iterations=200
    ),
    "mixed types": Microaggregate(
        columns=["age", "town", "illness"],
        k=3,
        distance="gower",
        nulls="own_group",
        block=60,
        by=["name"],
        small_strata="merge",
    ),
    "medoids of small strata": Microaggregate(
        columns=[["age", "rent"], ["seen"]],
        k=[2, 3],
        by=["illness", "town"],
        small_strata="suppress",
        aggregate="medoid",
    ),
    "drawn groups": FuzzyMicroaggregate(columns=["age", "rent"], k=4, by=["town"], round=True),
}


def multiset(rows: pa.Table) -> Counter[Any]:
    return Counter(tuple(map(repr, row.values())) for row in rows.to_pylist())


@on_engines("dask")
@pytest.mark.parametrize("name", third_on_spark(STAGES))
def test_the_same_records_everywhere(
    engine: Engine, run_on: Any, embedded: Engine, people: pa.Table, name: str
) -> None:
    wanted = run_on(embedded, STAGES[name], people)
    found = run_on(engine, STAGES[name], people, parts=3, shuffled=True)
    assert canonical_json(found.plan.detail) == canonical_json(wanted.plan.detail)
    assert found.rows.schema.equals(wanted.rows.schema)
    assert multiset(found.rows) == multiset(wanted.rows)


@pytest.mark.deep
def test_sampled_trees_are_the_same_everywhere(
    engine: Engine, run_on: Any, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees cut from a sample: the sample goes by record id, whatever the parts."""
    monkeypatch.setattr("privpipe.kernels.microaggregation.blocks.SAMPLED", 500)
    monkeypatch.setattr("privpipe.kernels.microaggregation.blocks.SAMPLED_A_BLOCK", 16)
    values = np.random.default_rng(6).lognormal(size=(1500, 3))
    frame = pa.table({name: values[:, at] for at, name in enumerate("abc")} | {"row": range(1500)})
    stage = Microaggregate(columns=["a", "b", "c"], k=3, block=100)
    wanted = run_on(embedded, stage, frame, record_id="row")
    assert min(Counter(zip(*(wanted[name] for name in "abc"), strict=True)).values()) >= 3
    assert len(wanted.plan.detail["groups"][0]["parts"][0]["trees"][0]["columns"]) > 8
    found = run_on(engine, stage, frame, record_id="row", parts=4, shuffled=True)
    assert canonical_json(found.plan.detail) == canonical_json(wanted.plan.detail)
    assert multiset(found.rows) == multiset(wanted.rows)


@pytest.mark.parametrize("name", deep_among(["medoids of small strata"], STAGES))
def test_a_plan_holds_no_value_of_the_data(run: Any, people: pa.Table, name: str) -> None:
    said = canonical_json(run(STAGES[name], people).plan.detail)
    texts = {cell for column in people.columns for cell in column.to_pylist() if isinstance(cell, str)}
    assert not any(f'"{text}"' in said for text in texts)
