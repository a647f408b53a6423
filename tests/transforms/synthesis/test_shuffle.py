"""Shuffling: the multiset of each column stays, rank correlations hold, and no value is its record's own."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.kernels.synthesis.copula import ValueRanks, pearson_of_spearman, proper_correlation
from privpipe.transforms import Shuffle
from privpipe.transforms.synthesis.shuffle import regression
from tests.tiers import at_most


def shuffled(run: Any, stage: Shuffle, columns: dict[str, Any], **options: Any) -> tuple[Any, dict[str, list[Any]]]:
    frame = pa.table({**columns, "row": range(len(next(iter(columns.values()))))})
    outcome = run(stage, frame, record_id="row", **options)
    found = outcome.rows.sort_by("row")
    return outcome.plan, {name: found.column(name).to_pylist() for name in columns}


@settings(max_examples=at_most(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.floats(-5, 5)), min_size=1, max_size=40))
def test_each_multiset_stays(run: Any, rows: list[tuple[int | None, float]]) -> None:
    x, s = pa.array([row[0] for row in rows], pa.int64()), [row[1] for row in rows]
    _, found = shuffled(run, Shuffle(columns=["x"], given=["s"]), {"x": x, "s": s})
    assert Counter(found["x"]) == Counter(x.to_pylist())
    assert [value is None for value in found["x"]] == [value is None for value in x.to_pylist()]
    assert found["s"] == s


def smooth(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(12)
    age = rng.uniform(18, 80, n)
    income = np.exp(7 + 0.02 * age + rng.normal(0, 0.5, n))
    savings = income * rng.gamma(2.0, 1.0, n)
    return {"age": age, "income": income, "savings": savings}


def test_rank_correlations_hold_and_no_link_is_left(run: Any) -> None:
    """|difference| <= 4/sqrt(n): masking specification, section 9."""
    n = 8000
    x = smooth(n)
    plan, found = shuffled(run, Shuffle(columns=["income", "savings"], given=["age"]), x)
    before, after = spearmanr(np.array(list(x.values())).T)[0], spearmanr(np.array(list(found.values())).T)[0]
    assert np.abs(before - after).max() <= 4 / math.sqrt(n)
    assert plan.detail["confidential"]
    # Given age, the released income says no more of the true one: partial rank correlation about 0.
    r = spearmanr(np.array([x["income"], found["income"], x["age"]]).T)[0]
    partial = (r[0, 1] - r[0, 2] * r[1, 2]) / math.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    assert abs(partial) <= 4 / math.sqrt(n)


def test_without_given_columns_only_the_joint_ranks_count(run: Any) -> None:
    n = 5000
    x = smooth(n)
    _, found = shuffled(run, Shuffle(columns=["income", "savings"]), x)
    before, after = spearmanr(x["income"], x["savings"])[0], spearmanr(found["income"], found["savings"])[0]
    assert abs(before - after) <= 4 / math.sqrt(n)
    assert abs(spearmanr(x["age"], found["income"])[0]) <= 4 / math.sqrt(n)


def test_the_regression_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    spearman = spearmanr(rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)))[0]
    slopes, factor = regression(spearman, 2)
    r = 2 * np.sin(np.pi / 6 * spearman)
    wanted = r[:2, 2:] @ np.linalg.inv(r[2:, 2:])
    assert slopes == pytest.approx(wanted)
    assert factor @ factor.T == pytest.approx(r[:2, :2] - wanted @ r[2:, :2])


def test_collinear_constant_and_missing_given_columns(run: Any) -> None:
    x = smooth(500)
    columns = {
        **x,
        "twice": x["age"] * 2,
        "same": [1.0] * 500,
        "hole": pa.array(x["age"], mask=np.arange(500) % 3 == 0),
    }
    stage = Shuffle(columns=["income", "same"], given=["age", "twice", "hole"])
    plan, found = shuffled(run, stage, columns)
    assert found["same"] == [1.0] * 500
    assert "'same': only one value" in plan.detail["warnings"][0]
    assert abs(spearmanr(x["age"], found["income"])[0] - spearmanr(x["age"], x["income"])[0]) < 0.15
    ones = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert proper_correlation(pearson_of_spearman(ones)) == pytest.approx(ones)


def test_strata_keep_their_values(run: Any) -> None:
    x = {"g": ["a"] * 60 + ["b"] * 40 + [None] * 5, "x": [*range(60), *range(100, 140), *range(200, 205)]}
    _, found = shuffled(run, Shuffle(columns=["x"], by=["g"]), x)
    assert sorted(found["x"][:60]) == list(range(60))
    assert sorted(found["x"][60:100]) == list(range(100, 140))
    assert found["x"] != x["x"]
    with pytest.raises(NoSolutionError, match="fewer than 2"):
        shuffled(run, Shuffle(columns=["x"], by=["g"]), {"g": ["a", "a", "b"], "x": [1, 2, 3]})


def test_scores_are_normal_quantiles_of_mid_ranks() -> None:
    ranks = ValueRanks.of(np.array([1.0, 2.0, 4.0]), np.array([1, 2, 1]))
    assert ranks.doubled(np.array([1.0, 2.0, 4.0])).tolist() == [0, 3, 6]
    assert ranks.scores(np.array([2.0])).tolist() == [0.0]
    assert ranks.scores(np.array([1.0])) == pytest.approx([-1.1503493803760083])


def test_what_cannot_be(run: Any) -> None:
    with pytest.raises(DataError, match="'x' holds 1 infinite"):
        shuffled(run, Shuffle(columns=["x"]), {"x": [1.0, math.inf]})
    with pytest.raises(DataError, match="1 missing"):
        shuffled(run, Shuffle(columns=["x"], nulls="refuse"), {"x": [1.0, None]})
    for parameters, message in [({"given": ["x"]}, "both shuffled and given"), ({"nulls": "drop"}, "nulls must be")]:
        with pytest.raises(UsageError, match=message):
            Shuffle(**{"columns": ["x"], **parameters})
