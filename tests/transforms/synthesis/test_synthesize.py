"""Synthetic records of a copula: marginals and correlations kept, rare things and extremes left out."""

from __future__ import annotations

import datetime
import functools
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import ks_2samp, norm, spearmanr

import privpipe as pp
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.kernels.synthesis.copula import category_scores, cell_edges, inverse_histogram
from privpipe.kernels.synthesis.normal_scores import ValueRanks
from privpipe.transforms import Synthesize as AnySynthesize

N = 6000
Synthesize = functools.partial(AnySynthesize, method="copula")


def smooth() -> dict[str, Any]:
    rng = np.random.default_rng(21)
    age = rng.uniform(18, 80, N)
    income = np.exp(7 + 0.02 * age + rng.normal(0, 0.5, N))
    town = np.where(income > 3000, "rich", rng.choice(["north", "south"], N))
    return {"age": age, "income": income, "children": rng.poisson(1.5, N), "town": town}


def test_quantiles_shares_and_correlations(run: Any) -> None:
    """KS <= 1.95 sqrt(2/n) plus a cell; rank correlations within 0.05: masking specification, section 13."""
    x = smooth()
    found = run(Synthesize(), x)
    bound = 1.95 * math.sqrt(2 / N) + 1 / 100
    for name in ("age", "income", "children"):
        assert ks_2samp(x[name], found[name]).statistic <= bound
    before, after = Counter(x["town"]), Counter(found["town"])
    for town, count in before.items():
        assert abs(after[town] - count) <= 5 * math.sqrt(count)
    r = spearmanr(x["age"], x["income"])[0]
    assert abs(spearmanr(found["age"], found["income"])[0] - r) <= 0.05
    assert found.rows.schema.field("children").type == pa.int64()
    assert found.plan.detail["confidential"]
    # No real record and no real extreme is published.
    assert not set(zip(x["age"], x["income"], strict=True)) & set(zip(found["age"], found["income"], strict=True))
    assert max(found["income"]) <= np.sort(x["income"])[-5:].mean() < x["income"].max()
    assert min(found["age"]) >= np.sort(x["age"])[:5].mean() - 1e-9
    # Categories that depend on a number still do.
    rich = [i for i, t in zip(found["income"], found["town"], strict=True) if t == "rich"]
    poor = [i for i, t in zip(found["income"], found["town"], strict=True) if t != "rich"]
    assert np.median(rich) > np.median(poor)


def test_the_model_is_what_the_definition_says(run: Any) -> None:
    """Scores by scipy, their correlation, and u = Phi(A z) back through the marginals."""
    x = {"a": [1.0, 2.0, 2.0, 5.0, 9.0] * 12, "b": ["u", "u", "v", "u", "v"] * 12}
    plan = run(Synthesize(bins=3), x).plan.detail["models"][0]
    a = (np.searchsorted(np.sort(x["a"]), x["a"], "left") + np.searchsorted(np.sort(x["a"]), x["a"], "right")) / 2 / 60
    b = np.where(np.array(x["b"]) == "u", norm.ppf(0.3), norm.ppf(0.8))
    factor = np.array(plan["factor"])
    assert (factor @ factor.T)[0, 1] == pytest.approx(np.corrcoef(norm.ppf(a), b)[0, 1], abs=1e-12)
    assert plan["columns"]["b"]["labels"] == ["u", "v"]
    assert plan["columns"]["b"]["shares"] == [0.6, 0.4]
    assert plan["columns"]["a"]["edges"] == [1.0, 2.0, 5.0, 9.0]
    assert category_scores([0.6, 0.4]) == pytest.approx([norm.ppf(0.3), norm.ppf(0.8)])


def test_histograms_keep_ties_and_constants() -> None:
    zeros = ValueRanks.of(np.array([0.0, 1.0, 2.0, 3.0]), np.array([70, 10, 10, 10]))
    edges, shares = cell_edges(zeros, 10)
    u = np.linspace(0.001, 0.999, 999)
    assert (inverse_histogram(u, edges, shares)[u < 0.6] == 0.0).all()
    same, cuts = cell_edges(ValueRanks.of(np.array([7]), np.array([40])), 100)
    assert set(same) == {7.0}
    assert len(cuts) == 9  # five records a cell or more
    few, _ = cell_edges(ValueRanks.of(np.array([1.0, 4.0]), np.array([1, 1])), 100)
    assert few.tolist() == [2.5, 2.5]


def test_rare_categories_are_folded_or_dropped(run: Any) -> None:
    x = {"town": ["a"] * 60 + ["b"] * 30 + ["rare 1"] * 3 + ["rare 2"] * 4, "flag": [True] * 94 + [False] * 3}
    assert set(run(Synthesize(records=2000), x)["town"]) == {"a", "b", "other"}
    dropped = run(Synthesize(records=500, rare="drop"), x)
    assert set(dropped["town"]) == {"a", "b"}
    assert set(dropped["flag"]) == {True}  # a boolean has no `other`
    assert set(run(Synthesize(records=500, max_categories=1), x)["town"]) == {"a", "other"}
    lonely = run(Synthesize(records=20), {"x": [f"only {at}" for at in range(4)]})
    assert lonely["x"] == [None] * 20


def test_nulls_independently_or_modelled(run: Any) -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=N)
    x = {"a": a, "b": pa.array(rng.normal(size=N), mask=a > 0.5)}
    kept, modelled = run(Synthesize(), x), run(Synthesize(nulls="model"), x)
    share = float((a > 0.5).mean())
    for found in (kept, modelled):
        missing = np.array([value is None for value in found["b"]])
        assert abs(missing.mean() - share) <= 5 * math.sqrt(share * (1 - share) / N)
        together = np.corrcoef(missing, found["a"])[0, 1]
        assert abs(together) < 0.05 if found is kept else together > 0.5
    with pytest.raises(DataError, match="missing values"):
        run(Synthesize(nulls="refuse"), x)
    assert run(Synthesize(records=9), {"x": pa.nulls(60, pa.float64())})["x"] == [None] * 9


def test_types_columns_and_numbers_of_records(run: Any) -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=at) for at in range(60)]
    x = {
        "day": days,
        "seen": [datetime.datetime(2020, 1, 1, at % 24) for at in range(60)],
        "pay": pa.array([Decimal(at) / 4 for at in range(60)], pa.decimal128(8, 2)),
        "left": list(range(60)),
    }
    found = run(Synthesize(columns=["pay", "day", "seen"], records=500), {n: v for n, v in x.items() if n != "left"})
    assert found.rows.column_names == ["day", "seen", "pay"]
    assert len(found.rows) == 500
    assert all(days[0] <= day <= days[-1] for day in found["day"])
    assert len(run(Synthesize(), x).rows) == 60
    # A record is drawn by its number: more of them change none of the first.
    few, many = (
        Counter(map(tuple, run(Synthesize(records=n), x).rows.to_pandas().itertuples(index=False))) for n in (40, 90)
    )
    assert few <= many


def test_strata_have_models_of_their_own(run: Any) -> None:
    rng = np.random.default_rng(8)
    x = {"g": ["a"] * 200 + ["b"] * 100, "x": np.concatenate([rng.normal(0, 1, 200), rng.normal(100, 1, 100)])}
    found = run(Synthesize(by=["g"], records=90), x)
    assert Counter(found["g"]) == {"a": 60, "b": 30}
    rare = {"g": ["a"] * 60 + ["b"] * 58 + ["c"] * 2, "x": range(120)}
    assert Counter(run(Synthesize(by=["g"], small_strata="merge"), rare)["g"]) == {"a": 61, "b": 59}
    for g, value in zip(found["g"], found["x"], strict=True):
        assert abs(value - (0 if g == "a" else 100)) < 10
    with pytest.raises(NoSolutionError, match="1 of 2 strata by 'g', 10 records, have fewer than 50"):
        run(Synthesize(by=["g"]), {"g": ["a"] * 90 + ["b"] * 10, "x": range(100)})


def test_collinear_columns(run: Any) -> None:
    a = np.random.default_rng(9).normal(size=500)
    found = run(Synthesize(), {"a": a, "b": 2 * a + 1, "c": -a})
    assert spearmanr(found["a"], found["b"])[0] > 0.999
    assert spearmanr(found["a"], found["c"])[0] < -0.999


def test_what_cannot_be(run: Any) -> None:
    nothing = pa.array([], pa.float64())
    assert run(Synthesize(), {"x": nothing})["x"] == []
    with pytest.raises(DataError, match="no records to learn"):
        run(Synthesize(records=5), {"x": nothing})
    with pytest.raises(DataError, match="'x' holds 1 infinite"):
        run(Synthesize(), {"x": [1.0, math.inf]})
    assert AnySynthesize.build({"columns": "all"}).columns is None
    for parameters, message in [
        ({"records": 0}, "records must be"),
        ({"smoothing": "none"}, "smoothing must be"),
        ({"rare": "keep"}, "rare must be"),
        ({"columns": ["a"], "by": ["a"]}, "masks itself"),
    ]:
        with pytest.raises(UsageError, match=message):
            Synthesize(**parameters)


def test_numbers_that_cannot_be_added_up_are_refused(run: Any) -> None:
    with pytest.raises(DataError, match="holds numbers beyond 1e301"):
        run(Synthesize(), pa.table({"x": [1.7e308, -1.7e308] * 5}))


def test_columns_that_are_not_drawn_stay_with_their_records(run: Any) -> None:
    rng = np.random.default_rng(11)
    a = rng.normal(size=400)
    x = {"a": a, "b": a + rng.normal(size=400) / 10, "sex": ["f", "m"] * 200, "row": list(range(400))}
    found = run(Synthesize(columns=["a", "b"]), x, record_id="row").rows.sort_by("row")
    assert found.column_names == ["a", "b", "sex", "row"]
    assert found["sex"].to_pylist() == x["sex"]
    assert found["row"].to_pylist() == x["row"]
    drawn = found["a"].to_numpy()
    assert not np.isin(drawn, a).any()
    assert spearmanr(drawn, found["b"].to_numpy())[0] > 0.9  # what is drawn is drawn together
    assert abs(spearmanr(drawn, a)[0]) < 0.2  # and independently of whose record it is
    with pytest.raises(UsageError, match=r"transform\[0\]: records: 9 new records have no values of 'sex', 'row'"):
        run(Synthesize(columns=["a", "b"], records=9), x)


def test_columns_beside_strata_are_drawn_by_the_records_own(run: Any) -> None:
    x = {"g": ["a"] * 80 + ["b"] * 80 + ["c"] * 3, "x": [0.0, 1.0] * 40 + [100.0, 101.0] * 40 + [7.0] * 3}
    x["row"] = list(range(163))
    stage = Synthesize(columns=["x"], by=["g"], small_strata="suppress")
    found = run(stage, x, record_id="row").rows.sort_by("row")
    assert found["row"].to_pylist() == x["row"][:160]
    assert [value > 50 for value in found["x"].to_pylist()] == [False] * 80 + [True] * 80
    assert stage.suppresses


def test_a_release_of_some_drawn_columns(tmp_path: Path) -> None:
    """The others are released beside them, which used to end in an error about columns that the table lacks."""
    frame = pa.table({"age": [20 + at % 30 for at in range(90)], "town": ["x", "y", "z"] * 30, "ill": ["a", "b"] * 45})
    policy = {
        "version": 1,
        "columns": {
            "age": {"role": "quasi_identifier", "type": "integer"},
            "town": {"role": "quasi_identifier"},
            "ill": {"role": "insensitive"},
        },
        "transform": [{"synthesize": {"method": "copula", "columns": ["age"]}}],
        "guarantees": [{"k_anonymity": {"k": 30, "quasi_identifiers": ["town"]}}, {"record_linkage": {"at_most": 1.0}}],
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
        "source": {"path": str(tmp_path / "people.parquet")},
        "sink": {"path": str(tmp_path / "out")},
    }
    pq.write_table(frame, tmp_path / "people.parquet")
    result = pp.release(policy)
    assert result.assessment.records == 90
    assert result.manifest["output"]["columns"] == ["age", "town", "ill"]
