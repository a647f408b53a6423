"""The masking stages as the specification writes them in a policy, and an end-to-end release with several of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import PolicyError

FORMS: list[dict[str, Any]] = [
    {"rank_swap": {"columns": ["income", "spent"], "p": 0.05, "partner": "unswapped", "kind": "window", "buckets": 10}},
    {"rank_swap": {"columns": ["income"], "kind": "buckets", "top": 0.01, "bottom": 0.0, "segment": None}},
    {"rank_swap": {"columns": ["income"], "p": 0.05, "kind": "distribution", "by": ["sex"], "small_strata": "merge"}},
    {"add_noise": {"columns": ["income", "spent"], "variance_ratio": 0.1, "keep_zeros": False, "clip": None}},
    {"add_noise": {"columns": ["income"], "kind": "orthogonal", "relative_sd": 0.3, "clip": [0, 10], "by": ["sex"]}},
    {"add_noise": {"columns": ["income", "spent"], "variance_ratio": 0.5, "outliers": 0.975, "by": ["sex"]}},
    {"pram": {"columns": ["region"], "diagonal": 0.8, "alpha": 1.0, "matrix": None, "invariant": True, "by": ["sex"]}},
    {"pram": {"columns": ["region"], "diagonal": [0.5, 0.9], "spread": "adjacent", "nulls": "own_value"}},
    {"pram": {"columns": ["region", "sex"], "joint": True, "forbid": [["x", "m"]], "invariant": False}},
    {"pram": {"columns": ["region"], "matrix": {"labels": ["n", "s"], "rows": [[0.9, 0.1], [0.2, 0.8]]}}},
    {"shuffle": {"columns": ["income", "spent"], "given": ["age"]}},
    {"top_code": {"columns": ["age"], "at": 99, "replace": "label", "label": "100+"}},
    {"bottom_code": {"columns": ["income", "spent"], "distance": 0.975, "by": ["sex"]}},
    {"top_code": {"columns": ["income"], "quantile": 0.99, "replace": "mean", "at_least": 5}},
    {"bottom_code": {"columns": ["age"], "at": 18}},
    {"bottom_code": {"columns": ["born"], "at": "1920-01-01"}},
    {"round": {"columns": ["income"], "base": 10, "mode": "nearest"}},
    {"round": {"columns": ["income"], "base": 0.1, "mode": "random"}},
    {"sample": {"fraction": 0.1}},
    {"sample": {"records": 10, "by": ["sex"], "weight": "weight"}},
    {"shift_dates": {"columns": ["born"], "days": 30, "key": {"from_env": "SHIFT_KEY"}}},
    {"synthesize": {"columns": "all", "records": "same", "max_categories": 200, "smoothing": "histogram", "bins": 100}},
    {"synthesize": {"method": "copula", "records": 500, "by": ["sex"]}},
    {"synthesize": {"order": ["age"], "rules": [{"when": {"sex": ["f"]}, "then": {"region": ["n", None]}}]}},
]
COLUMNS: dict[str, Any] = {
    "age": {"role": "quasi_identifier", "type": "integer"},
    "region": {"role": "quasi_identifier"},
    "sex": {"role": "insensitive"},
    "income": {"role": "insensitive", "type": "number"},
    "spent": {"role": "insensitive", "type": "number"},
    "born": {"role": "insensitive", "type": "date"},
}


def document(stages: list[dict[str, Any]], source: Path | str = "data.parquet") -> dict[str, Any]:
    return {
        "version": 1,
        "name": "masked",
        "source": {"path": str(source), "format": "parquet"},
        "columns": COLUMNS,
        "transform": stages,
        "guarantees": [{"k_anonymity": {"k": 1}}],
        "sink": {"path": "published", "format": "parquet"},
        "seed": {"insecure": 42},
        "allow_insecure_seed": True,
    }


def test_every_form_of_the_specification_reads(tmp_path: Path) -> None:
    policy = pp.Policy.from_dict(document(FORMS), base_dir=tmp_path)
    assert [stage.name() for stage in policy.transform] == [next(iter(form)) for form in FORMS]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"rank_swap": {"columns": ["income"], "p": 5}}], "5 % is p: 0.05"),
        ([{"shuffle": {"columns": ["income"], "given": ["agee"]}}], "did you mean 'age'"),
        ([{"top_code": {"columns": ["age"], "at": 20}}, {"bottom_code": {"columns": ["age"], "at": 20}}], "below top"),
        ([{"sample": {"fraction": 1.5}}], "sample.fraction: must be a number > 0"),
        ([{"sample": {"fraction": 0.5, "columns": ["age"]}}], "sample takes no columns"),
        ([{"pram": {"columns": ["region"], "matrix": {"labels": ["a"], "row": [[1]]}}}], "row"),
    ],
)
def test_what_does_not_read(stages: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(document(stages), base_dir=tmp_path)


def test_a_release_through_most_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFT_KEY", "0123456789abcdef" * 2)
    rng = np.random.default_rng(1)
    n = 400
    table = pa.table(
        {
            "age": pa.array(rng.integers(18, 90, n)),
            "region": rng.choice(["n", "s", "e"], n),
            "sex": rng.choice(["f", "m"], n),
            "income": np.round(rng.lognormal(8, 1, n), 2),
            "spent": rng.gamma(2.0, 100.0, n),
            "born": pa.array(rng.integers(-20_000, 10_000, n).astype(np.int32), pa.int32()).cast(pa.date32()),
        }
    )
    pq.write_table(table, tmp_path / "data.parquet")
    stages = [
        {"shift_dates": {"columns": ["born"], "days": 30, "key": {"from_env": "SHIFT_KEY"}}},
        {"pram": {"columns": ["region"], "by": ["sex"]}},
        {"shuffle": {"columns": ["income"], "given": ["age", "spent"]}},
        {"rank_swap": {"columns": ["spent"], "kind": "buckets", "by": ["sex"]}},
        {"top_code": {"columns": ["age"], "at": 80, "replace": "label", "label": "80+"}},
        {"sample": {"records": 300, "by": ["sex"], "weight": "weight"}},
    ]
    policy = pp.Policy.from_dict(document(stages, tmp_path / "data.parquet"), base_dir=tmp_path)
    result = pp.release(policy)
    found = pq.read_table(result.path)
    assert found.num_rows == 300
    assert sum(found["weight"].to_pylist()) == pytest.approx(n)
    assert result.assessment.suppressed_records == 0
    plan = pp.plan(table, policy)
    assert pp.transform(table, pp.Plan.from_json(plan.to_json(), policy)).num_rows == 300
    synthetic = pp.Policy.from_dict(
        document([{"synthesize": {"records": 50}}], tmp_path / "data.parquet"), base_dir=tmp_path
    )
    assert pq.read_table(pp.release(synthetic, target=str(tmp_path / "drawn")).path).num_rows == 50


@pytest.mark.parametrize("stage", [{"synthesize": {}}, {"synthesize": {"columns": "all"}}])
def test_drawing_every_column_again_after_suppression_needs_the_released_base(stage: dict[str, Any]) -> None:
    asked: dict[str, Any] = {
        "version": 1,
        "columns": {"zip": {"role": "quasi_identifier"}, "illness": {"role": "sensitive"}},
        "transform": [{"suppress_records": {"suppress_at_most": 0.5}}, stage],
        "guarantees": [{"t_closeness": {"column": "illness", "t": 0.2}}],
    }
    with pytest.raises(PolicyError, match="changes 'illness' after .*suppress_records"):
        pp.Policy.from_dict(asked)
    asked["guarantees"][0]["t_closeness"]["base"] = "released"
    assert pp.Policy.from_dict(asked)
