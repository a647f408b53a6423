"""Learned linkage finds the best distance of a kind: against plain enumeration and the reference.

Source: reference/torra.json, learned_weighted_mean (census, M4-33 and M4-82) and the slides' numbers of constraints.
The whole files take the solver 15 s and more: `tests/benchmarks/linkage_tables.py` runs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.draws import Stream
from privpipe.engines import Engine
from privpipe.errors import Refused, UsageError
from privpipe.kernels.linkage import learned_distances
from privpipe.kernels.linkage.learned_distances import EPSILON, LearnedDistance, Rivals, heuristic_hits, subset_sums
from privpipe.kernels.microaggregation.mdav import mdav_groups
from privpipe.measures import LearnedLinkage
from privpipe.measures.risk.linkage.learned_linkage import worst_case

KINDS = [
    LearnedDistance("weighted_mean", 3),
    LearnedDistance("owa", 3),
    LearnedDistance("choquet", 3),
    LearnedDistance("choquet", 3, submodular=True),
    LearnedDistance("bilinear", 3, form="semidefinite"),
    LearnedDistance("bilinear", 3, form="nonnegative"),
    LearnedDistance("bilinear", 3),
]


def pairs(n: int, s: int, seed: int, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, s))
    return x + rng.normal(size=(n, s)) * noise * np.arange(1, s + 1), x


def rivals_of(distance: LearnedDistance, n: int, seed: int, noise: float = 0.5) -> Rivals:
    y, x = pairs(n, distance.columns, seed, noise)
    return Rivals(y, x, np.arange(n), distance)


def learned(rivals: Rivals, incumbent: int = 0) -> Any:
    places = list(rivals.minimal()) if rivals.distance.monotone else None
    return worst_case(rivals, places, incumbent, 60)


def masked(x: np.ndarray, groups: list[tuple[int, int]]) -> np.ndarray:
    """Columns microaggregated group by group, (columns, k)."""
    y, at = x.copy(), 0
    for width, k in groups:
        part = x[:, at : at + width]
        labels = mdav_groups((part - part.mean(axis=0)) / part.std(axis=0, ddof=1), k)
        for j in range(width):
            y[:, at + j] = (np.bincount(labels, weights=part[:, j]) / np.bincount(labels))[labels]
        at += width
    return y


def test_counts_of_constraints(torra: dict[str, Any]) -> None:
    wanted = torra["worked_examples"]["constraint_counts"]
    assert LearnedDistance("weighted_mean", 4).constraints(400) == wanted["WM_m_N400_n4"]
    assert LearnedDistance("owa", 4).constraints(400) == wanted["WM_m_N400_n4"]
    assert LearnedDistance("choquet", 4, submodular=True).constraints(400) == wanted["CI_m_N400_n4"]


def test_coefficients_are_those_of_the_definitions() -> None:
    rng = np.random.default_rng(0)
    signed, s = rng.normal(size=(20, 3)), 3
    squares = signed**2
    mu = {mask: rng.random() for mask in range(1, 8)}
    choquet = LearnedDistance("choquet", s)
    found = choquet.coefficients(signed) @ [mu[mask] for mask in range(1, 8)]
    for row, value in zip(squares, found, strict=True):
        order = np.argsort(row)
        rising = np.append(0.0, row[order])
        sets = [sum(1 << int(k) for k in order[at:]) for at in range(s)]
        assert value == pytest.approx(sum((rising[at + 1] - rising[at]) * mu[sets[at]] for at in range(s)))
    p = np.array([0.2, 0.5, 0.3])
    additive = [sum(p[k] for k in range(s) if mask >> k & 1) for mask in range(1, 8)]
    assert choquet.coefficients(signed) @ additive == pytest.approx(squares @ p)
    by_size = [p[: bin(mask).count("1")].sum() for mask in range(1, 8)]
    assert choquet.coefficients(signed) @ by_size == pytest.approx(LearnedDistance("owa", s).coefficients(signed) @ p)
    matrix = rng.normal(size=(3, 3))
    matrix += matrix.T
    first, second = np.triu_indices(3)
    entries = np.where(first == second, 1, 2) * matrix[first, second]
    bilinear = LearnedDistance("bilinear", s)
    assert bilinear.coefficients(signed) @ entries == pytest.approx(np.einsum("ik,kl,il->i", signed, matrix, signed))
    assert bilinear.matrices(entries[None, :], halved=False)[0] == pytest.approx(matrix)
    assert len(subset_sums(4)) == 28


def test_the_nearest_rivals_are_those_of_the_definition() -> None:
    rivals, weights = rivals_of(KINDS[0], 12, 4), np.array([0.5, 0.2, 0.3])
    for record in range(12):
        apart = ((rivals.attacked[record] - rivals.candidates) ** 2) @ weights
        others = sorted((at for at in range(12) if at != record), key=lambda at: apart[at])
        for count in (0, 1, 5, 11, 30):
            assert sorted(rivals.nearest(record, weights, count).tolist()) == sorted(others[:count])


@pytest.mark.deep
def test_a_guess_of_the_parameter_needs_no_more_rivals_than_there_are() -> None:
    """Noise in two columns of three: only who leaves them out links everyone."""
    for records in (2, 9, 16, 40):
        y, x = pairs(records, 3, 6, noise=0.0)
        y[:, 1:] += np.random.default_rng(8).normal(0, 5, (records, 2))
        rivals = Rivals(y, x, np.arange(records), KINDS[0])
        for places in (None, list(rivals.minimal())):
            assert heuristic_hits(rivals, Stream(bytes(16)), places=places) == records


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_descent_ends_at_the_least_loss_of_two_weights(seed: int) -> None:
    rng, t = np.random.default_rng(seed), 0.3
    table, starts = rng.normal([0.6, 0.1], 1.0, (60, 2)), np.arange(0, 60, 3)

    def loss(weight: float) -> float:
        leads = (table @ [weight, 1 - weight]).reshape(-1, 3)
        return float((1 / (1 + np.exp(-np.log(np.exp(-leads / t).sum(axis=1))))).sum())

    found = learned_distances._descend(table, starts, np.array([0.5, 0.5]), t)
    assert found.sum() == pytest.approx(1.0)
    assert loss(found[0]) <= min(map(loss, np.linspace(0, 1, 401))) + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_a_change_of_one_weight_at_a_time_loses_nothing_and_gains_something(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, starts = rng.normal([0.8, 0.0, 0.0, -0.8], 1.0, (60, 4)), np.arange(0, 60, 2)

    def hits(weights: np.ndarray) -> int:
        return int((np.minimum.reduceat(table @ weights, starts) >= EPSILON).sum())

    even = np.full(4, 0.25)
    found = learned_distances._search(table, starts, even, Stream(bytes([seed] * 16)))
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= 0.0
    assert hits(found) >= hits(even) + 5


@pytest.mark.parametrize("distance", KINDS[:4], ids=str)
def test_rivals_left_out_are_implied(distance: LearnedDistance) -> None:
    rivals = rivals_of(distance, 60, 3)
    rng = np.random.default_rng(1)
    kept = list(rivals.minimal())
    everybody = np.arange(60)
    assert sum(map(len, kept)) < 60 * 59 / 2
    for _ in range(20):
        weights = rng.dirichlet(np.ones(3))
        if distance.name == "choquet":
            weights = np.array([max(weights[k] for k in range(3) if mask >> k & 1) for mask in range(1, 8)])
            weights[-1] = 1.0
        for record, places in enumerate(kept):
            whole = rivals.gaps(record, everybody[everybody != record])[0] @ weights
            part = rivals.gaps(record, places)[0] @ weights
            assert (whole.min() >= EPSILON) == (part.min(initial=np.inf) >= EPSILON)


def test_two_columns_by_enumeration() -> None:
    for name, seed in (("weighted_mean", 0), ("weighted_mean", 1), ("owa", 2)):
        rivals = rivals_of(LearnedDistance(name, 2), 40, seed, noise=0.2)  # type: ignore[arg-type]
        gaps = np.stack([rivals.gaps(i, np.delete(np.arange(40), i))[0] for i in range(40)])
        # Each row is linear in one weight: between its zeros nothing changes.
        slope, base = gaps[..., 0] - gaps[..., 1], gaps[..., 1]
        zeros = np.unique(np.clip((EPSILON - base) / np.where(slope == 0, 1, slope), 0, 1))
        tried = np.concatenate([zeros, (zeros[1:] + zeros[:-1]) / 2, [0.0, 1.0]])
        best = max(int((gaps @ [p, 1 - p] >= EPSILON).all(axis=1).sum()) for p in tried)
        found = learned(rivals)
        assert (found.linked, found.bound) == (best, best)
        assert best > 10


def test_richer_distances_link_no_less() -> None:
    found = {}
    for distance in KINDS:
        rivals = rivals_of(distance, 16, 5, noise=0.3)
        found[distance] = learned(rivals)
        assert found[distance].proved, distance
        if distance in KINDS[:5:4]:
            places = list(rivals.minimal()) if distance.monotone else None
            assert heuristic_hits(rivals, Stream(bytes(16)), places=places) <= found[distance].linked
    linked = {distance: each.linked for distance, each in found.items()}
    mean, owa, choquet, submodular, definite, positive, free = (linked[distance] for distance in KINDS)
    assert max(mean, owa, submodular) <= choquet
    assert mean <= definite <= positive <= free


def test_the_reference_reduced(embedded: Engine, casc: Any, judged_pair: Any) -> None:
    table = casc("census.csv")
    columns = table.column_names[:4]
    x = np.column_stack([table[name].to_numpy() for name in columns])[:150].astype(float)
    tables = [
        pa.table({name: side[:, at] for at, name in enumerate(columns)}) for side in (x, masked(x, [(2, 3), (2, 3)]))
    ]
    found = judged_pair(embedded, LearnedLinkage(sample=None, at_most=0.9), *tables)
    # Made once with HiGHS and with CBC over all 2,415 rows that are not implied.
    assert found.observed["share"] == pytest.approx(136 / 150, abs=1e-9)
    assert found.observed["proved"]
    assert found.outcome == "fail"
    assert found.reason.startswith("at least")
    quick = judged_pair(embedded, LearnedLinkage(sample=None, time_limit_s=1e-3, at_most=0.95), *tables)
    assert quick.observed["share"] == quick.observed["bound"] > quick.observed["incumbent"]
    assert not quick.observed["proved"]
    assert quick.outcome == "fail"
    assert "proved bound, which is compared" in quick.reason
    guessed = judged_pair(embedded, LearnedLinkage(sample=None, method="heuristic"), *tables)
    assert 0.88 <= guessed.observed["share"] <= 136 / 150
    assert "lower bound" in guessed.reason
    part = judged_pair(embedded, LearnedLinkage(sample=40), *tables)
    assert part.observed["share"] > part.observed["bound"]
    assert "upper 0.95 limit" in part.reason


def test_every_engine_gives_one_figure(engine: Engine, judged_pair: Any) -> None:
    y, x = pairs(30, 2, 1, noise=0.1)
    x[3, 1] = y[3, 1] = np.nan
    original, released = (pa.table({"a": side[:, 0], "b": pa.array(side[:, 1], from_pandas=True)}) for side in (x, y))
    order = np.random.default_rng(2).permutation(30).tolist()
    verdict = judged_pair(engine, LearnedLinkage(at_most=1.0, sample=20), original, released, order=order)
    assert verdict.observed["proved"]
    assert verdict.observed["incumbent"] == pytest.approx(0.85)
    assert verdict.outcome == "pass"


def test_what_cannot_be_learned(embedded: Engine, judged_pair: Any) -> None:
    constant = pa.table({"a": [1.0, 1.0, 1.0]})
    assert judged_pair(embedded, LearnedLinkage(at_most=1.0), constant, constant).outcome == "error"
    rng = np.random.default_rng(1)
    wide = pa.table({f"c{at}": rng.normal(size=5) for at in range(9)})
    verdict = judged_pair(embedded, LearnedLinkage(distance="choquet", at_most=1.0), wide, wide)
    assert "at most 8 columns" in verdict.reason
    twins = pa.table({"a": [1.0, 1.0, 2.0, 3.0]})
    assert judged_pair(embedded, LearnedLinkage(), twins, twins).observed["share"] == pytest.approx(0.5)
    wrongs: list[dict[str, Any]] = [
        {"at_most": -1},
        {"distance": "median"},
        {"method": "fast"},
        {"form": "nonnegative"},
        {"submodular": True},
        {"sample": 0},
        {"time_limit_s": 0},
        {"confidence": 1},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            LearnedLinkage(**wrong)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_release_is_refused_with_the_attacks_figure(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    table = {"name": [f"p{at}" for at in range(60)], "town": ["north", "south"] * 30}
    table |= {"income": rng.lognormal(10, 1, 60), "wealth": rng.lognormal(9, 1, 60)}
    pq.write_table(pa.table(table), tmp_path / "people.parquet")
    policy = {
        "version": 1,
        "name": "learned",
        "source": {"path": str(tmp_path / "people.parquet"), "format": "parquet"},
        "columns": {
            "name": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            **{name: {"role": "quasi_identifier", "type": "number"} for name in ("income", "wealth")},
        },
        "record_id": "name",
        "transform": [
            {"add_noise": {"columns": ["income"], "relative_sd": 0.01}},
            {"rank_swap": {"columns": ["wealth"], "p": 0.5}},
        ],
        "guarantees": [
            {"k_anonymity": {"k": 5, "quasi_identifiers": ["town"]}},
            {"learned_linkage": {"columns": ["income", "wealth"], "at_most": 0.5}},
        ],
        "sink": {"path": str(tmp_path / "published"), "format": "parquet"},
        "seed": {"insecure": "a test's seed"},
        "allow_insecure_seed": True,
    }
    with pytest.raises(Refused) as refused:
        pp.release(policy)
    kept, linked = refused.value.assessment.verdicts
    assert (kept.outcome, linked.outcome) == ("pass", "fail")
    assert linked.observed["share"] > 0.5
    assert not (tmp_path / "published").exists()
