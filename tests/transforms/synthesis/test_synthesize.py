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
from privpipe.draws import Draws, Seed
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.kernels.synthesis.copula import category_scores
from privpipe.transforms import Synthesize as AnySynthesize
from privpipe.transforms.synthesis.drawn_records import CopulaModel

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
    assert max(found["income"]) < x["income"].max()
    assert min(found["age"]) > x["age"].min()
    assert not np.isin(found["income"], x["income"]).any()
    # Categories that depend on a number still do.
    rich = [i for i, t in zip(found["income"], found["town"], strict=True) if t == "rich"]
    poor = [i for i, t in zip(found["income"], found["town"], strict=True) if t != "rich"]
    assert np.median(rich) > np.median(poor)


def test_the_model_is_what_the_definition_says(run: Any) -> None:
    """Scores by scipy; under the correlation of the model, by quadrature, they correlate as they do in the table."""
    x = {"a": [1.0, 2.0, 2.0, 5.0, 9.0] * 12, "b": ["u", "u", "v", "u", "v"] * 12}
    plan = run(Synthesize(bins=3), x).plan.detail["models"][0]
    a = (np.searchsorted(np.sort(x["a"]), x["a"], "left") + np.searchsorted(np.sort(x["a"]), x["a"], "right")) / 2 / 60
    b = np.where(np.array(x["b"]) == "u", norm.ppf(0.3), norm.ppf(0.8))
    factor = np.array(plan["factor"])
    rho = (factor @ factor.T)[0, 1]
    values, cuts_a, cuts_b = np.unique(norm.ppf(a)), [0.2, 0.6, 0.8], [0.6]
    steps = np.linspace(-8, 8, 20001)
    upper = norm.sf((norm.ppf(cuts_b[0]) - rho * steps) / math.sqrt(1 - rho * rho))  # chance of "v" next to each z
    mean_a = norm.ppf(a).mean()
    score = values[np.searchsorted(norm.ppf(cuts_a), steps)] - mean_a
    gap = np.ptp(np.unique(b))
    covariance = np.trapezoid(score * (upper - 0.4) * norm.pdf(steps), steps) * gap
    observed = np.corrcoef(norm.ppf(a), b)[0, 1]
    assert covariance / norm.ppf(a).std() / b.std() == pytest.approx(observed, abs=1e-3)
    assert plan["columns"]["b"] == {"labels": ["u", "v"], "shares": [0.6, 0.4], "missing": 0.0}
    assert plan["columns"]["a"]["shares"] == pytest.approx([0.2, 0.4, 0.2, 0.2])
    assert plan["columns"]["a"]["cells"]["atoms"] == [1.0, 2.0, 5.0, 9.0]
    assert category_scores([0.6, 0.4]) == pytest.approx([norm.ppf(0.3), norm.ppf(0.8)])


def test_tails_keep_mean_and_deviation_and_no_rare_value(run: Any) -> None:
    """Capital gains: mostly zeros, a long tail and a few of its largest."""
    rng = np.random.default_rng(33)
    n = 20_000
    gain = np.where(rng.random(n) < 0.92, 0, np.rint(np.exp(rng.normal(8.5, 1.2, n)))).astype(np.int64)
    gain[rng.choice(n, 3, replace=False)] = [900_000, 950_000, 999_999]
    found = np.array(run(Synthesize(records=200_000), {"gain": gain, "x": rng.normal(size=n)})["gain"])
    values, counts = np.unique(gain, return_counts=True)
    assert not np.isin(found, values[counts < 5]).any()
    assert values[0] <= found.min() < found.max() < values[-1]
    assert abs(found.mean() - gain.mean()) <= 5 * gain.std() / math.sqrt(200_000)
    assert 0.9 < found.std() / gain.std() < 1.1
    tail, other = np.sort(found)[-10_000:], np.repeat(np.sort(gain)[-1000:], 10)  # the twentieth of the largest
    assert tail.mean() == pytest.approx(other.mean(), rel=0.05)
    assert abs((found == 0).mean() - (gain == 0).mean()) < 0.01


def test_no_number_of_fewer_than_five_records_whatever_is_asked(run: Any) -> None:
    x = np.concatenate([np.repeat(np.arange(20), 5), np.repeat([1000, 1001, 2000], 4)])
    found = set(run(Synthesize(records=3000, min_count=1), {"x": x})["x"])
    assert not found & {1000, 1001, 2000}
    assert max(found) > 1000


def test_categories_are_in_the_order_of_what_they_tell(run: Any) -> None:
    """A number decides the grade, and its order is not that of its frequency."""
    rng = np.random.default_rng(4)
    score = rng.normal(size=N)
    grade = np.array(["low", "mid", "high", "top"])[np.searchsorted([-1.2, 0.9, 1.6], score + rng.normal(size=N) / 4)]
    x = {"score": score, "grade": grade}
    by_frequency = [label for label, _ in Counter(grade.tolist()).most_common()]
    kept = {}
    for scores, order in {"optimal": ["low", "mid", "high", "top"], "frequency": by_frequency}.items():
        found = run(Synthesize(scores=scores), x)
        labels = found.plan.detail["models"][0]["columns"]["grade"]["labels"]
        assert labels in (order, order[::-1])
        here = np.array(found["grade"])
        kept[scores] = [np.mean(np.array(found["score"])[here == each]) for each in order if (here == each).any()]
    real = [score[grade == each].mean() for each in ("low", "mid", "high", "top")]
    assert kept["optimal"] == pytest.approx(real, abs=0.15)
    declared = run(Synthesize(levels={"grade": ["top", "low", "high", "mid"]}), x)
    assert declared.plan.detail["models"][0]["columns"]["grade"]["labels"] == ["top", "low", "high", "mid"]
    with pytest.raises(DataError, match="levels: 2 categories of column 'grade' are not among the 2 levels") as said:
        run(Synthesize(levels={"grade": ["low", "mid"]}), x)
    assert "top" not in str(said.value)
    with pytest.raises(UsageError, match="'score' is not a category drawn"):
        run(Synthesize(levels={"score": ["a"]}), x)
    with pytest.raises(UsageError, match="'grade' has a level twice"):
        Synthesize(levels={"grade": ["a", "a"]})
    with pytest.raises(UsageError, match="scores requires `method: copula`"):
        AnySynthesize(scores="frequency")


def test_two_unordered_columns_keep_their_association(run: Any) -> None:
    """Each town has a usual crop, by turns; in order of frequency the two are nearly unrelated."""
    rng = np.random.default_rng(6)
    town = rng.choice(6, N, p=[0.22, 0.2, 0.18, 0.16, 0.13, 0.11])
    crop = np.where(rng.random(N) < 0.8, town % 2, rng.choice(2, N))
    x = {"town": [f"t{each}" for each in town], "crop": [f"c{each}" for each in crop], "rare": ["r"] * 4 + ["s"] * 5996}

    def v(rows: Any) -> float:
        a, b = (np.unique(np.array(rows[name]), return_inverse=True)[1] for name in ("town", "crop"))
        counts = np.zeros((6, 2))
        np.add.at(counts, (a, b), 1)
        expected = counts.sum(1, keepdims=True) * counts.sum(0) / N
        return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / N))

    kept, before = (v(run(Synthesize(scores=each), x)) / v(x) for each in ("optimal", "frequency"))
    assert kept > 0.8 > 0.5 > before


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
    kept, modelled = run(Synthesize(nulls="keep"), x), run(Synthesize(), x)
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
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=at * at % 97) for at in range(60)]
    x = {
        "day": days,
        "seen": [datetime.datetime(2020, 1, 1, at % 12) for at in range(60)],
        "pay": pa.array([Decimal(at * at) / 4 for at in range(60)], pa.decimal128(8, 2)),
        "left": [at * at for at in range(60)],
    }
    found = run(Synthesize(columns=["pay", "day", "seen"], records=500), {n: v for n, v in x.items() if n != "left"})
    assert found.rows.column_names == ["day", "seen", "pay"]
    assert len(found.rows) == 500
    assert all(min(days) <= day <= max(days) for day in found["day"])
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


def test_columns_next_to_strata_are_drawn_by_the_records_own(run: Any) -> None:
    x = {"g": ["a"] * 80 + ["b"] * 80 + ["c"] * 3, "x": [0.0, 1.0] * 40 + [100.0, 101.0] * 40 + [7.0] * 3}
    x["row"] = list(range(163))
    stage = Synthesize(columns=["x"], by=["g"], small_strata="suppress")
    found = run(stage, x, record_id="row").rows.sort_by("row")
    assert found["row"].to_pylist() == x["row"][:160]
    assert [value > 50 for value in found["x"].to_pylist()] == [False] * 80 + [True] * 80
    assert stage.suppresses


def test_a_release_of_some_drawn_columns(tmp_path: Path) -> None:
    """The others are released next to them, which used to end in an error about columns that the table lacks."""
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


def test_a_record_is_drawn_from_the_words_of_its_own_id() -> None:
    """A kept plan draws the same records in every version: values by word 0 of their column, gaps by word 1 or 2."""
    ids = np.column_stack([np.arange(300), -np.arange(300)])
    draws = Draws(Seed.insecure(3), stage=0, transformer="synthesize")
    marginal = {"labels": ["a", "b"], "shares": [0.3, 0.7], "missing": 0.25}
    stream = draws.of("x")
    z, apart = stream.normal(ids), stream.normal(ids, word=1)
    together = {"latent": [["x", "present"], ["x", "missing"]], "factor": [[1.0, 0.0], [0.6, 0.8]]}
    alone = {"latent": [["x", "present"]], "factor": [[1.0]]}
    for model, gaps in ((together, norm.cdf(0.6 * z + 0.8 * apart)), (alone, stream.uniform(ids, word=2))):
        detail = {"columns": ["x"], "models": [{**model, "columns": {"x": marginal}}]}
        found = CopulaModel(detail, pa.schema({"x": pa.string()}), draws).drawn(ids, np.zeros(300, np.int64))
        wanted = ["a" if u < 0.3 else "b" for u in norm.cdf(z)]
        assert found["x"].to_pylist() == [
            None if gap < 0.25 else label for gap, label in zip(gaps, wanted, strict=True)
        ]
