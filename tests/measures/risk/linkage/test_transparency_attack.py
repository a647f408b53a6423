"""The transparency attack gives the worked example, holds the truth inside its candidates, and refuses releases.

Source: reference/torra.json, the ten-record example of the slides (Nin, Herranz, Torra, 2008).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import Refused, UsageError
from privpipe.kernels.linkage.transparency import (
    candidates_left,
    centroid_constraint,
    nearest_constraint,
    window_constraint,
)
from privpipe.measures import TransparencyAttack
from tests.tiers import deep_beyond

from ..attribute.test_rank_interval_disclosure import worked_tables


def test_the_worked_example(engine: Engine, torra: dict[str, Any], judged_pair: Any) -> None:
    original, released = worked_tables(torra)
    worked = torra["worked_examples"]["rank_swap_attack"]
    order = [4, 2, 9, 7, 5, 6, 0, 1, 3, 8]
    measure = TransparencyAttack(method="rank_swap", p=0.2, at_most=0.5)
    verdict = judged_pair(engine, measure, original, released, order=order)
    derived = worked["derived_not_in_seed"]
    assert verdict.observed["share"] == pytest.approx(worked["attack_then_nearest"])
    assert verdict.observed["certain"] == pytest.approx(derived["unique_share"])
    assert verdict.observed["candidates"] == pytest.approx(derived["mean_size"])
    assert verdict.observed["inside"] == 1.0
    assert verdict.outcome == "fail"


def test_set_sizes_of_the_slides(torra: dict[str, Any]) -> None:
    worked = torra["worked_examples"]["rank_swap_attack"]
    x, y = (np.array(worked[side], dtype=float) for side in ("orig", "masked"))
    windows = [window_constraint(x[:, j], y[:, j], worked["p_positions"]) for j in range(4)]
    target = worked["record"]
    fitting = [(each.places >= each.low[target, 0]) & (each.places <= each.high[target, 0]) for each in windows]
    assert [int(each.sum()) for each in fitting] == worked["B_sizes_seed"]
    both = np.logical_and.reduce(fitting)
    assert y[both].tolist() == worked["intersection_seed"]
    found = candidates_left(windows, x, y, np.arange(10))
    assert found.counts.tolist() == worked["derived_not_in_seed"]["intersection_sizes"]


def test_candidates_of_univariate_groups(torra: dict[str, Any]) -> None:
    worked = torra["worked_examples"]["univariate_microaggregation_attack"]
    centroids = np.array(worked["centroids"], dtype=float)
    for value, wanted in worked["candidate_centroids"].items():
        found = centroid_constraint(np.array([float(value)]), centroids)
        assert centroids[found.low[0, 0] : found.high[0, 0] + 1].tolist() == wanted


@pytest.mark.parametrize("seed", deep_beyond(2, range(6)))
def test_candidates_are_those_of_a_plain_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, columns, w = 60, 1 + seed % 4, 1 + seed
    x = rng.integers(0, 25, (n, columns)).astype(float)
    y = np.column_stack([np.sort(x[:, j])[swapped(x[:, j], w, rng)] for j in range(columns)])
    x[rng.random((n, columns)) < 0.05] = np.nan
    y[np.isnan(x)] = np.nan
    windows = [window_constraint(x[:, j], y[:, j], w) for j in range(columns)]
    z = np.nan_to_num(x), np.nan_to_num(y)
    found = candidates_left(windows, *z, np.arange(n))
    for i in range(n):
        fits = [all(fit(x[i, j], y[r, j], y[:, j], w) for j in range(columns)) for r in range(n)]
        assert found.counts[i] == sum(fits)
        assert found.inside[i] == fits[i]
        distances = np.where(fits, np.sqrt(((z[0][i] - z[1]) ** 2).sum(axis=1)), np.inf)
        tied = np.flatnonzero(distances <= distances.min() + 1e-9)
        assert found.scores[i] == pytest.approx(1 / len(tied) if fits[i] and i in tied else 0.0)


def swapped(column: np.ndarray, w: int, rng: np.random.Generator) -> np.ndarray:
    """The rank each record's new value comes from: pairs at most w apart change places."""
    order = np.argsort(column, kind="stable")
    to = np.arange(len(column))
    free = np.ones(len(column), dtype=bool)
    for i in range(len(column)):
        partners = [j for j in range(i + 1, min(i + w, len(column) - 1) + 1) if free[j]]
        if free[i] and partners:
            j = int(rng.choice(partners))
            to[i], to[j], free[i], free[j] = j, i, False, False
    ranks = np.empty(len(column), dtype=int)
    ranks[order] = to
    return ranks


def fit(x: float, value: float, column: np.ndarray, w: int) -> bool:
    if np.isnan(x) or np.isnan(value):
        return bool(np.isnan(x) and np.isnan(value))
    ranked = sorted(v for v in column.tolist() if v == v)
    first = sum(v < x for v in ranked)
    last = max(sum(v <= x for v in ranked) - 1, first)
    n = len(ranked) - 1
    low = ranked[min(max(first - w, 0), n)]
    return bool(low <= value <= ranked[min(last + w, n)])


def test_optimal_univariate_groups_are_always_among_the_candidates() -> None:
    from privpipe.kernels.microaggregation.univariate import univariate_groups

    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 40, 80).astype(float) if seed % 2 else rng.normal(size=80)
        groups = univariate_groups(x, 3)
        means = np.array([x[groups == group].mean() for group in range(groups.max() + 1)])
        y = means[groups]
        found = candidates_left([centroid_constraint(x, y)], x[:, None], y[:, None], np.arange(80))
        assert found.inside.all()


def test_nearest_groups_are_counted_once() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 2))
    y = np.repeat(x[::3], 3, axis=0)
    found = candidates_left([nearest_constraint(x, y, 2)], x, y, np.arange(30))
    assert found.counts.tolist() == [6] * 30


@pytest.mark.parametrize("seed", range(3))
def test_constraints_of_one_interval_and_of_several_are_met_together(seed: int) -> None:
    """Two columns in groups, of which three may hold the record, and two more that were swapped."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, (40, 4)).astype(float)
    y = np.column_stack([np.repeat(x[::4, :2], 4, axis=0), rng.permutation(x[:, 2]), rng.permutation(x[:, 3])])
    places = np.unique(y[:, :2], axis=0, return_inverse=True)
    constraints = [
        window_constraint(x[:, 2], y[:, 2], 9),
        nearest_constraint(x[:, :2], y[:, :2], 3),
        window_constraint(x[:, 3], y[:, 3], 14),
    ]
    found = candidates_left(constraints, x, y, np.arange(40))
    apart = np.sqrt(((x[:, None, :2] - places[0][None]) ** 2).sum(axis=2))
    for i in range(40):
        chosen = constraints[1].low[i]
        assert apart[i, chosen].max() <= np.sort(apart[i])[2] + 1e-9
        fits = [
            bool(places[1].reshape(-1)[r] in chosen)
            and fit(x[i, 2], y[r, 2], y[:, 2], 9)
            and fit(x[i, 3], y[r, 3], y[:, 3], 14)
            for r in range(40)
        ]
        distances = np.where(fits, np.sqrt(((x[i] - y) ** 2).sum(axis=1)), np.inf)
        tied = np.flatnonzero(distances <= distances.min() + 1e-9)
        assert (found.counts[i], found.inside[i]) == (sum(fits), fits[i])
        assert found.scores[i] == pytest.approx(1 / len(tied) if fits[i] and i in tied else 0.0)
    assert found.inside.any()
    assert not found.inside.all()


def policy_of(folder: Path, stage: dict[str, Any], at_most: float) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    a = rng.normal(size=300)
    table = {"name": [f"p{i}" for i in range(300)]}
    table |= {f"c{j}": (a + rng.normal(0, 1 + j, 300)).tolist() for j in range(4)}
    pq.write_table(pa.table(table), folder / "people.parquet")
    return {
        "version": 1,
        "name": "swapped",
        "source": {"path": str(folder / "people.parquet"), "format": "parquet"},
        "columns": {
            "name": {"role": "identifier"},
            **{f"c{j}": {"role": "quasi_identifier", "type": "number"} for j in range(4)},
        },
        "record_id": "name",
        "transform": [stage],
        "guarantees": [{"transparency_attack": {"at_most": at_most, "sample": None}}],
        "sink": {"path": str(folder / "published"), "format": "parquet"},
        "seed": {"insecure": "a test's seed"},
        "allow_insecure_seed": True,
    }


COLUMNS = [f"c{j}" for j in range(4)]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_release_is_refused_with_the_attacks_figure(tmp_path: Path) -> None:
    narrow = {"rank_swap": {"columns": COLUMNS, "p": 0.05}}
    with pytest.raises(Refused) as refused:
        pp.release(policy_of(tmp_path, narrow, 0.3))
    (verdict,) = refused.value.assessment.verdicts
    assert verdict.observed["inside"] == 1.0
    assert verdict.observed["share"] > 0.5
    assert not (tmp_path / "published").exists()
    resistant = {"rank_swap": {"columns": COLUMNS, "kind": "distribution", "p": 0.3}}
    published = pp.release(policy_of(tmp_path, resistant, 0.3))
    assert published.assessment.verdicts[0].observed["candidates"] == 300
    grouped = {"microaggregate": {"columns": [["c0"], ["c1"], ["c2"], ["c3"]], "k": 3, "method": "univariate"}}
    with pytest.raises(Refused) as refused:
        pp.release(policy_of(tmp_path, grouped, 0.3))
    assert refused.value.assessment.verdicts[0].observed["inside"] == 1.0


def test_without_a_plan_or_a_method_nothing_is_judged(embedded: Engine, judged_pair: Any) -> None:
    table = pa.table({"a": [1.0, 2.0, 3.0]})
    assert "set `method:`" in judged_pair(embedded, TransparencyAttack(at_most=1.0), table, table).reason
    swap = TransparencyAttack(at_most=1.0, method="rank_swap")
    verdict = judged_pair(embedded, swap, table, table)
    assert (verdict.outcome, verdict.observed) == ("error", None)
    assert "does not swap 'a'" in verdict.reason
    for wrong in ({"p": 5}, {"method": "noise"}, {"method": "microaggregation", "p": 0.1}, {"nearest": 0}):
        with pytest.raises(UsageError):
            TransparencyAttack(**wrong)  # type: ignore[arg-type]


def test_tails_reach_beyond_the_last_place() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 12, 90).astype(float)
    y = np.where(x >= 10, 10.5, x)
    windows = [window_constraint(np.append(x, 30.0), y, 1, top=int((x >= 10).sum())) for _ in range(2)]
    found = candidates_left(
        windows, np.append(x, 30.0)[:, None].repeat(2, axis=1), y[:, None].repeat(2, axis=1), np.arange(91) % 90
    )
    assert found.counts[90] == (y == 10.5).sum()
    assert found.inside[:90].all()


@pytest.mark.parametrize("value", [0.5, 0.1, 1e-30])
def test_a_constant_original_column_tells_no_groups_apart(embedded: Engine, judged_pair: Any, value: float) -> None:
    """Of 0.1 no sum is a multiple, and the deviation of equal numbers is not 0; their scale is none all the same."""
    a = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
    released = pa.table({"a": [1.0] * 3 + [11.0] * 3, "b": [value, value * 2, value * 3] * 2})
    plan = [{"name": "microaggregate", "parameters": {}, "detail": {"groups": [{"columns": ["a", "b"]}]}}]
    measure = TransparencyAttack(at_most=1.0, nearest=1, sample=None)
    found = judged_pair(embedded, measure, pa.table({"a": a, "b": [value] * 6}), released, stages=plan).observed
    # By `a` alone there are two groups, and of each record the nearer one is its own.
    assert (found["candidates"], found["inside"]) == (3.0, 1.0)


def test_neither_the_origin_nor_the_unit_of_a_masked_column_matters(embedded: Engine, judged_pair: Any) -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(40, 2))
    y = x + rng.normal(0, 0.3, x.shape)
    measure = TransparencyAttack(method="rank_swap", p=1.0, sample=None)
    tables = [pa.table({"a": side[:, 0], "b": side[:, 1]}) for side in (x, y, y * [2.0, 0.5] + [50.0, -9.0])]
    plain, moved = (judged_pair(embedded, measure, tables[0], released).observed for released in tables[1:])
    assert plain["candidates"] == moved["candidates"] == 40
    assert plain["share"] == moved["share"] > 0.2


def test_of_a_sample_the_share_is_of_the_records_that_were_collected(embedded: Engine, judged_pair: Any) -> None:
    """All that are attacked are found; a quarter of the original was suppressed."""
    table = pa.table({"a": [float(value) for value in range(40)]})
    for sample in (None, 20):
        measure = TransparencyAttack(method="rank_swap", p=1.0, sample=sample)
        observed = judged_pair(embedded, measure, table, table, left_out=10).observed
        assert (observed["share"], observed.get("estimate", 0.75)) == (0.75, 0.75)
