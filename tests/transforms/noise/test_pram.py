"""Post-randomisation: the matrix keeps the shares, the draws follow it, and nothing impossible arises."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.errors import DataError, UsageError
from privpipe.kernels.noise.pram import diagonal_matrix, draw_categories, invariant_matrix, posterior, transition_matrix
from privpipe.transforms import Pram, Synthesize
from privpipe.transforms.noise.pram import TransitionMatrix
from tests.tiers import at_most

REGIONS = ["n"] * 500 + ["s"] * 300 + ["e"] * 150 + ["w"] * 50


def aligned(run: Any, stage: Pram, columns: dict[str, Any], **options: Any) -> tuple[Any, dict[str, list[Any]]]:
    frame = pa.table({**columns, "row": range(len(next(iter(columns.values()))))})
    outcome = run(stage, frame, record_id="row", **options)
    found = outcome.rows.sort_by("row")
    return outcome.plan, {name: found.column(name).to_pylist() for name in columns}


@settings(max_examples=at_most(40))
@given(
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=7),
    diagonal=st.floats(0.05, 1.0),
    alpha=st.floats(0, 1),
    spread=st.sampled_from(["even", "adjacent"]),
)
def test_the_invariant_matrix_keeps_the_shares(counts: list[int], diagonal: float, alpha: float, spread: Any) -> None:
    """The oracle: Bayes' rule written out cell by cell."""
    t = np.array(counts) / sum(counts)
    m = len(t)
    p = diagonal_matrix(np.full(m, diagonal), spread)
    made = transition_matrix(p, t, invariant=True, alpha=alpha)
    assert np.abs(made.sum(axis=1) - 1).max() <= 1e-12
    assert (made >= 0).all()
    assert np.abs(t @ made - t).sum() <= 1e-12
    for k in range(m):
        for j in range(m):
            r = sum(p[k, s] * t[j] * p[j, s] / sum(t[i] * p[i, s] for i in range(m)) for s in range(m) if p[k, s])
            assert made[k, j] == pytest.approx(alpha * r + (1 - alpha) * (k == j), abs=1e-12)


def test_the_realised_diagonal_is_smaller(run: Any) -> None:
    """P = .8 with t = .5, .3, .15, .05 gives .78, .69, .55, .31: masking specification, section 8."""
    plan, _ = aligned(run, Pram(columns=["region"], diagonal=0.8), {"region": REGIONS})
    (each,) = plan.detail["matrices"][0]["strata"]
    found = dict(zip(each["labels"], each["diagonal"], strict=True))
    assert {label: round(value, 2) for label, value in found.items()} == {"n": 0.78, "s": 0.69, "e": 0.55, "w": 0.31}
    assert each["posterior"] == pytest.approx(max(each["diagonal"]))


def test_counts_stay_in_expectation(run: Any) -> None:
    """|count - expected| <= 5 sd, Var = n sum_k t_k A_kl (1 - A_kl); the same for every row of A."""
    values = REGIONS * 20
    plan, found = aligned(run, Pram(columns=["region"], diagonal=0.6), {"region": values})
    (each,) = plan.detail["matrices"][0]["strata"]
    a, labels = np.array(each["matrix"]), each["labels"]
    before, after = Counter(values), Counter(found["region"])
    pairs = Counter(zip(values, found["region"], strict=True))
    for j, label in enumerate(labels):
        sd = math.sqrt(sum(before[k] * a[i, j] * (1 - a[i, j]) for i, k in enumerate(labels)))
        assert abs(after[label] - before[label]) <= 5 * sd
        for i, k in enumerate(labels):
            n, p = before[k], a[i, j]
            assert abs(pairs[k, label] - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1e-9


def test_draws_are_the_inverse_of_the_cumulative_row() -> None:
    a = np.array([[0.25, 0.75], [0.5, 0.5]])
    uniforms = np.array([0.2499, 0.25, 0.4999, 0.5, 1 - 2**-53])
    assert draw_categories(np.array([0, 0, 1, 1, 1]), uniforms, a).tolist() == [0, 1, 0, 1, 1]
    short = np.array([[1 - 1e-16, 0.0], [0.0, 1.0]])
    assert draw_categories(np.array([0]), np.array([1 - 2**-53]), short).tolist() == [0]
    assert posterior(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([0.5, 0.5])) == pytest.approx(0.5 / 0.6)
    assert invariant_matrix(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([1.0, 0.0]))[0].tolist() == [1.0, 0.0]


def test_nulls_types_and_untouched_columns(run: Any) -> None:
    columns = {
        "smokes": pa.array([True, False, None, True] * 30),
        "code": pa.array([1, 2, None, 30] * 30, pa.int32()),
        "other": list(range(120)),
    }
    plan, found = aligned(run, Pram(columns=["smokes", "code"], diagonal=0.3), columns)
    assert [value is None for value in found["smokes"]] == [value is None for value in columns["smokes"].to_pylist()]
    assert set(found["code"]) == {1, 2, 30, None}
    assert found["other"] == columns["other"]
    assert plan.detail["nulls"] == {"smokes": 30, "code": 30}
    own, released = aligned(run, Pram(columns=["code"], diagonal=0.3, nulls="own_value"), columns)
    assert len(own.detail["matrices"][0]["strata"][0]["labels"]) == 4
    moved = [value is None for value in released["code"]]
    assert moved != [value is None for value in columns["code"].to_pylist()]
    with pytest.raises(DataError, match=r"'code' has 30 missing values"):
        aligned(run, Pram(columns=["code"], nulls="refuse"), columns)
    with pytest.raises(DataError, match="holds numbers, which are not categories"):
        aligned(run, Pram(columns=["x"]), {"x": [1.5, 2.5]})


def test_jointly_no_new_combination_arises(run: Any) -> None:
    sex, state = ["f", "f", "m|", "m|"] * 50, ["pregnant", "not", "not", "not"] * 50
    plan, found = aligned(run, Pram(columns=["sex", "state"], diagonal=0.2, joint=True), {"sex": sex, "state": state})
    pairs = set(zip(found["sex"], found["state"], strict=True))
    assert pairs == set(zip(sex, state, strict=True))
    assert found["sex"] != sex
    assert plan.detail["matrices"][0]["columns"] == ["sex", "state"]
    forbid = Pram(columns=["sex", "state"], joint=True, forbid=[["m|", "not"]])
    with pytest.raises(DataError, match=r"1 forbidden categories .* occur in 100 records"):
        aligned(run, forbid, {"sex": sex, "state": state})
    out = Pram(columns=["sex", "state"], joint=True, forbid=[["m|", "not"]], invariant=False)
    _, found = aligned(run, out, {"sex": sex, "state": state})
    assert ("m|", "not") not in set(zip(found["sex"], found["state"], strict=True))


def test_own_matrices(run: Any) -> None:
    own = TransitionMatrix(labels=("a", "b", "never"), rows=((0.5, 0.25, 0.25), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
    stage = Pram(columns=["x"], matrix=own, invariant=False)
    plan, found = aligned(run, stage, {"x": ["a"] * 200 + ["b"] * 100})
    (each,) = plan.detail["matrices"][0]["strata"]
    assert np.array(each["matrix"]).round(6).tolist() == [[0.666667, 0.333333], [0.0, 1.0]]
    assert found["x"][200:] == ["b"] * 100
    assert set(found["x"]) == {"a", "b"}
    kept, _ = aligned(run, Pram(columns=["x"], matrix=own), {"x": ["a"] * 200 + ["b"] * 100})
    a = np.array(kept.detail["matrices"][0]["strata"][0]["matrix"])
    assert np.abs(np.array([2 / 3, 1 / 3]) @ a - [2 / 3, 1 / 3]).max() <= 1e-12
    with pytest.raises(DataError, match=r"1 categories of 'x' have no row in `matrix`"):
        aligned(run, stage, {"x": ["a", "c"]})
    built = Pram.build({"columns": ["x"], "matrix": {"labels": ["a"], "rows": [[1.0]]}})
    assert built.matrix == TransitionMatrix(labels=("a",), rows=((1.0,),))


def test_strata_have_matrices_of_their_own(run: Any) -> None:
    columns = {"sex": ["f"] * 90 + ["m"] * 60 + [None], "x": ["a", "b"] * 45 + ["b", "c"] * 30 + ["d"]}
    plan, found = aligned(run, Pram(columns=["x"], diagonal=0.3, by=["sex"]), columns)
    assert set(found["x"][:90]) == {"a", "b"}
    assert set(found["x"][90:150]) == {"b", "c"}
    assert found["x"][150] == "d"
    assert "unchanged, in 1 strata" in plan.detail["warnings"][0]
    assert not {"f", "m"} & set(map(str, plan.detail["strata"]["keys"]))


def test_one_category_and_no_records(run: Any) -> None:
    plan, found = aligned(run, Pram(columns=["x"]), {"x": ["a"] * 5})
    assert found["x"] == ["a"] * 5
    assert plan.detail["warnings"]
    _, none = aligned(run, Pram(columns=["x"]), {"x": pa.array([], pa.string())})
    assert none["x"] == []
    _, missing = aligned(run, Pram(columns=["x"]), {"x": pa.nulls(3, pa.string())})
    assert missing["x"] == [None] * 3


def test_a_diagonal_between_two_bounds(run: Any) -> None:
    stage = Pram(columns=["region"], diagonal=[0.4, 0.9], invariant=False)
    plan, _ = aligned(run, stage, {"region": REGIONS})
    diagonal = plan.detail["matrices"][0]["strata"][0]["diagonal"]
    assert all(0.4 <= value <= 0.9 for value in diagonal)
    assert len(set(diagonal)) == 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"diagonal": 0}, "diagonal must be"),
        ({"diagonal": [0.9, 0.1]}, "lo at most hi"),
        ({"diagonal": [0.9]}, r"a number or \[lo, hi\]"),
        ({"alpha": 1.5}, "alpha must be"),
        ({"spread": "evn"}, "did you mean 'even'"),
        ({"nulls": "own"}, "nulls must be"),
        ({"by": ["x"]}, "masks itself"),
        ({"small_strata": "merge"}, "requires by"),
        ({"forbid": [["a", "b"]]}, r"needs 1 label"),
        ({"columns": []}, "at least one column"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Pram(**{"columns": ["x"], **parameters})


def test_wrong_matrices() -> None:
    for labels, rows in [(("a",), ((0.9,),)), (("a", "b"), ((1.0, 0.0),)), (("a", "a"), ((1.0, 0.0), (0.0, 1.0)))]:
        with pytest.raises(UsageError, match="matri"):
            TransitionMatrix(labels=labels, rows=rows)
    with pytest.raises(UsageError, match="one column, or with joint"):
        Pram(columns=["x", "y"], matrix=TransitionMatrix(labels=("a",), rows=((1.0,),)))


def test_timestamps_with_a_zone_are_categories_too(run: Any) -> None:
    """Their labels are UTC and do not say so."""
    moments = [datetime.datetime(2020, 2, 29, hour, tzinfo=datetime.UTC) for hour in (0, 12)] * 30
    seen = pa.array([*moments, None], pa.timestamp("us", "UTC"))
    _, found = aligned(run, Pram(columns=["seen"], diagonal=0.5), {"seen": seen})
    assert set(found["seen"][:-1]) == set(moments)
    assert found["seen"][-1] is None
    drawn = run(Synthesize(by=["seen"], small_strata="merge"), {"seen": seen, "x": list(range(61))})
    assert set(drawn["seen"]) == set(moments)
