"""Probabilistic linkage follows Fellegi and Sunter: patterns, weights, classes, and a gate that refuses.

No published figure fits the definition (the slides' table does not say when numbers agree), so oracles are the
definition itself and data made with known m and u.
"""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.blocks import FilePair
from privpipe.engines import Engine
from privpipe.errors import DataError, Refused, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.kernels.linkage.fellegi_sunter import (
    Agreement,
    CodeColumn,
    Mixture,
    NumberColumn,
    expectation_maximisation,
    known_mixture,
    ranking,
)
from privpipe.measures import ProbabilisticLinkage
from privpipe.measures.risk.linkage.probabilistic_linkage import agreement_of


def plain_pattern(columns: list[Any], i: int, j: int) -> int:
    """Of released record i and original j, from the definition."""
    pattern, radix = 0, 1
    for column in columns:
        x, y = column.original[j], column.released[i]
        if isinstance(column, CodeColumn):
            level = int(x == y if column.mismatch is None else not column.mismatch[x, y])
        elif x != x or y != y:
            level = len(column.within) if x != x and y != y else 0
        else:
            level = sum(abs(x - y) <= t * (abs(x) if column.relative else 1) + 1e-12 for t in column.within)
        pattern, radix = pattern + radix * level, radix * (column.levels + 1)
    return pattern


@pytest.mark.parametrize("seed", range(3))
def test_patterns_are_those_of_every_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 150
    x = rng.normal(size=(n, 2)).round(1)
    y = x + rng.normal(0, 0.1, (n, 2)).round(1)
    x[rng.random((n, 2)) < 0.1] = np.nan
    y[rng.random((n, 2)) < 0.1] = np.nan
    codes = rng.integers(0, 4, (2, n))
    columns = [
        NumberColumn(x[:, 0], y[:, 0], (0.1, 0.5)),
        CodeColumn(codes[0], rng.integers(0, 3, n), rng.random((4, 3)) < 0.5),
        NumberColumn(x[:, 1], y[:, 1], (0.2,), relative=True),
        CodeColumn(codes[1], codes[1]),
    ]
    agreement = Agreement(columns)
    attacked, candidates = rng.permutation(n)[:40], np.sort(rng.permutation(n)[:90])
    plain = {(i, j): plain_pattern(columns, i, j) for i, j in product(attacked.tolist(), candidates.tolist())}
    counts = np.bincount(list(plain.values()), minlength=agreement.patterns)
    assert agreement.counts(attacked, candidates).tolist() == counts.tolist()
    assert agreement.of_partners(attacked).tolist() == [plain_pattern(columns, i, i) for i in attacked.tolist()]
    ranks = rng.integers(0, 9, agreement.patterns)
    best, ties = agreement.heaviest(attacked, candidates, ranks)
    for at, i in enumerate(attacked.tolist()):
        found = [int(ranks[plain[i, j]]) for j in candidates.tolist()]
        assert (best[at], ties[at]) == (max(found), found.count(max(found)))
    digits = agreement.levels()
    assert (digits @ agreement.radices[:-1]).tolist() == list(range(agreement.patterns))


def made(seed: int, n: int = 400, keys: int = 5) -> tuple[list[CodeColumn], np.ndarray, np.ndarray]:
    """Keys of several sizes, a twentieth to a fifth of the released ones drawn again; with the m and u of the draw."""
    rng = np.random.default_rng(seed)
    columns, m, u = [], [], []
    for key in range(keys):
        size, wrong = 12 + 8 * key, 0.04 + 0.03 * key
        x = rng.integers(0, size, n)
        y = np.where(rng.random(n) < wrong, rng.integers(0, size, n), x)
        columns.append(CodeColumn(x, y))
        m.append((x == y).mean())
        u.append(((x[:, None] == y).sum() - (x == y).sum()) / (n * (n - 1)))
    return columns, np.array(m), np.array(u)


@pytest.mark.parametrize("seed", range(3))
def test_the_estimate_finds_what_the_data_were_made_with(seed: int) -> None:
    columns, m, u = made(seed)
    agreement, every = Agreement(columns), np.arange(400)
    counts = agreement.counts(every, every)
    found = expectation_maximisation(counts, agreement.levels(), 1 / 400)
    assert found.converged
    assert found.steps < 60
    assert [each[1] for each in found.matched] == pytest.approx(m, abs=0.06)
    assert [each[1] for each in found.unmatched] == pytest.approx(u, abs=0.002)
    assert 400 * found.share == pytest.approx(1, abs=0.15)
    known = known_mixture(agreement.of_partners(every), counts, agreement.levels())
    assert [each[1] for each in known.matched] == pytest.approx(m)
    assert [each[1] for each in known.unmatched] == pytest.approx(u)


@pytest.mark.parametrize("seed", range(12))
def test_classes_keep_the_tolerated_rates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = 2 + seed % 4
    levels = np.array(list(product((0, 1), repeat=s)))
    m, u = rng.uniform(0.6, 0.99, s), rng.uniform(0.005, 0.4, s)
    mixture = Mixture(*(tuple(np.array([1 - p, p]) for p in side) for side in (m, u)), 0.01)
    mu, lam = [(0.01, 0.01), (0.1, 0.05), (0.4, 0.3)][seed % 3]
    found = ranking(mixture, levels, mu, lam)
    p_m = np.prod(np.where(levels, m, 1 - m), axis=1)
    p_u = np.prod(np.where(levels, u, 1 - u), axis=1)
    order = sorted(range(len(levels)), key=lambda at: -np.log2(p_m[at] / p_u[at]))
    assert found.ranks[order].tolist() == sorted(found.ranks.tolist(), reverse=True)
    linked = max(c for c in range(len(order) + 1) if p_u[order[:c]].sum() <= mu)
    unlinked = min(c for c in range(len(order) + 1) if p_m[order[c:]].sum() <= lam)
    if linked < unlinked:
        assert (found.ranks >= found.linked_from).sum() == linked
        assert (found.ranks >= found.unlinked_below).sum() == unlinked
    else:
        assert found.linked_from == found.unlinked_below
        cut = int((found.ranks >= found.linked_from).sum())
        assert unlinked <= cut <= linked
        crossings = [c for c in range(len(order) + 1) if p_u[order[:c]].sum() >= p_m[order[c:]].sum()]
        assert cut == min(max(crossings[0], unlinked), linked)


def tables(n: int = 300) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(4)
    income, town = rng.lognormal(10, 1, n), rng.integers(0, 12, n)
    original = pa.table({"income": income, "town": [f"t{at}" for at in town], "age": rng.integers(18, 80, n)})
    moved = np.where(rng.random(n) < 0.1, rng.integers(0, 12, n), town)
    released = original.set_column(0, "income", pa.array(income * rng.normal(1, 0.01, n)))
    return original, released.set_column(1, "town", pa.array([f"t{at}" for at in moved]))


RULES: dict[str, Any] = {"income": {"relative": 0.02}, "age": {"absolute": 1}}


def test_every_engine_gives_the_plain_figure(engine: Engine, judged_pair: Any) -> None:
    original, released = tables()
    order = np.random.default_rng(1).permutation(300).tolist()
    measure = ProbabilisticLinkage(agreement=RULES, at_most=0.2)
    verdict = judged_pair(engine, measure, original, released, order=order)
    x = [original[name].to_pylist() for name in ("income", "town", "age")]
    y = [released[name].to_pylist() for name in ("income", "town", "age")]
    agree = np.stack(
        [
            np.abs(np.subtract.outer(y[0], x[0])) <= 0.02 * np.abs(x[0]),
            np.array(y[1])[:, None] == np.array(x[1]),
            np.abs(np.subtract.outer(y[2], x[2])) <= 1,
        ]
    ).astype(int)
    patterns = agree[0] + 2 * agree[1] + 4 * agree[2]
    levels = np.array(list(product((0, 1), repeat=3)))[:, ::-1]
    mixture = expectation_maximisation(np.bincount(patterns.ravel(), minlength=8), levels, 1 / 300)
    weights = sum(
        np.where(agree[k], np.log2(mixture.matched[k][1] / mixture.unmatched[k][1]), 0)
        + np.where(agree[k], 0, np.log2(mixture.matched[k][0] / mixture.unmatched[k][0]))
        for k in range(3)
    )
    heaviest = np.isclose(weights, weights.max(axis=1, keepdims=True), rtol=1e-9)
    linked = ranking(mixture, levels, 0.01, 0.01)
    own = linked.ranks[np.diag(patterns)] >= linked.linked_from
    share = float((np.diag(heaviest) * own / heaviest.sum(axis=1)).mean())
    assert verdict.observed["share"] == pytest.approx(share)
    assert verdict.outcome == "fail"
    assert verdict.observed["known"] >= share - 0.02
    assert sum(verdict.observed["pairs"].values()) == pytest.approx(1)
    assert sum(verdict.observed["true_pairs"].values()) == pytest.approx(1)
    assert verdict.reason.startswith("at least")


def test_samples_blocks_labels_and_knowledge(embedded: Engine, judged_pair: Any) -> None:
    original, released = tables()

    def judged(**given: Any) -> Any:
        rules = {name: rule for name, rule in RULES.items() if name in given.get("columns", RULES)}
        return judged_pair(embedded, ProbabilisticLinkage(**{"agreement": rules, **given}), original, released)

    whole = judged(sample=None)
    part = judged(sample=60)
    assert part.observed["share"] > part.observed["estimate"]
    assert part.observed["estimate"] == pytest.approx(whole.observed["share"], abs=0.2)
    assert "upper 0.95 limit from 60 sampled records" in part.reason
    blocked = judged(columns=("income", "age"), block_by=("town",))
    assert blocked.observed["share"] <= 0.95
    assert "only loses links" in blocked.reason
    known = judged(parameters="known")
    assert known.observed["share"] == pytest.approx(whole.observed["known"])
    finer = judged(agreement={**RULES, "income": {"relative": [0.005, 0.02, 0.1]}})
    assert finer.observed["share"] >= whole.observed["share"] - 0.05
    ranked = judged(agreement={**RULES, "income": {"rank": 0.02}})
    assert 0 < ranked.observed["share"] <= 1
    exact = judged(agreement={"income": "equal", "age": "equal"})
    assert exact.observed["share"] <= 1
    tree = {"tree": {"*": {"north": ["a", "b"], "south": ["c", "d"]}}}
    spec = HierarchySpec.from_mapping(tree, column="place")
    towns = pa.table({"place": ["a", "b", "c", "d"] * 10, "number": [str(at) for at in range(40)]})
    general = towns.set_column(0, "place", pa.array(["north", "north", "south", "south"] * 10))
    covered = judged_pair(
        embedded, ProbabilisticLinkage(parameters="known"), towns, general, hierarchies={"place": spec}
    )
    assert covered.observed["true_pairs"]["linked"] == 1.0


def test_what_cannot_be_judged(embedded: Engine, judged_pair: Any) -> None:
    original, released = tables(50)
    with pytest.raises(UsageError, match="column 'income' holds numbers"):
        judged_pair(embedded, ProbabilisticLinkage(agreement={"age": "equal"}), original, released)
    with pytest.raises(DataError, match="let it be equal"):
        judged_pair(embedded, ProbabilisticLinkage(agreement={**RULES, "town": {"rank": 0.1}}), original, released)
    with pytest.raises(UsageError, match="not among the columns"):
        judged_pair(embedded, ProbabilisticLinkage(agreement={**RULES, "pay": "equal"}), original, released)
    apart = released.set_column(1, "town", pa.array(["elsewhere"] * 50))
    lost = ProbabilisticLinkage(columns=("age",), agreement={"age": "equal"}, block_by=("town",), at_most=1.0)
    assert judged_pair(embedded, lost, original, apart).outcome == "error"
    wrongs: list[dict[str, Any]] = [
        {"at_most": 2},
        {"false_match": -1},
        {"agreement": {"age": "near"}},
        {"agreement": {"age": {"absolute": -1}}},
        {"agreement": {"age": {"relative": [0.2, 0.1]}}},
        {"agreement": {"age": {"rank": 2}}},
        {"agreement": ["age"]},
        {"columns": ("age",), "agreement": {"income": "equal"}},
        {"parameters": "true"},
        {"sample": 0},
        {"confidence": 0},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            ProbabilisticLinkage(**wrong)


def test_an_estimate_that_does_not_converge_is_an_error(
    embedded: Engine, judged_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privpipe.kernels.linkage.fellegi_sunter.STEPS", 2)
    original, released = tables(100)
    verdict = judged_pair(embedded, ProbabilisticLinkage(agreement=RULES, at_most=1.0), original, released)
    assert verdict.outcome == "error"
    assert "did not converge in 2 steps" in verdict.reason
    accepted = ProbabilisticLinkage(agreement=RULES, at_most=1.0, accept_unconverged=True)
    assert judged_pair(embedded, accepted, original, released).outcome == "pass"


def test_parameters_are_reported_whatever_they_are_called() -> None:
    rules = {"age": {"relative": [0.01, 0.1]}}
    built = ProbabilisticLinkage.build({"agreement": rules, "parameters": "known"})
    for entry in (built, pickle.loads(pickle.dumps(built))):
        assert entry.parameters()["parameters"] == "known"
        assert ProbabilisticLinkage.build(entry.parameters()) == built


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_release_is_refused_with_the_attacks_figure(tmp_path: Path) -> None:
    original, _ = tables()
    path = tmp_path / "people.parquet"
    pq.write_table(original.append_column("name", pa.array([f"p{at}" for at in range(300)])), path)
    policy = {
        "version": 1,
        "name": "linked",
        "source": {"path": str(path), "format": "parquet"},
        "columns": {
            "name": {"role": "identifier"},
            "income": {"role": "quasi_identifier", "type": "number"},
            "age": {"role": "quasi_identifier", "type": "integer"},
            "town": {"role": "quasi_identifier"},
        },
        "record_id": "name",
        "transform": [{"add_noise": {"columns": ["income"], "relative_sd": 0.001}}],
        "guarantees": [
            {"k_anonymity": {"k": 5, "quasi_identifiers": ["town"]}},
            {"probabilistic_linkage": {"agreement": RULES, "at_most": 0.05}},
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


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.29, 0.3])
def test_ranks_agree_within_a_share_of_the_records_that_have_a_value(share: float) -> None:
    """Of ten numbers next to two gaps a share of 0.2 is two ranks; two gaps agree, a gap and a number do not."""
    x, y = [*map(float, range(10)), None, None], [3.0, 1.0, 2.0, 0.0, 6.0, 5.0, 4.0, 8.0, 7.0, None, 9.0, None]
    files = FilePair(
        original=pa.record_batch({"a": x}),
        released=pa.record_batch({"a": y}),
        ids=np.zeros((12, 2), dtype=np.int64),
        records=12,
        released_records=12,
    )
    found = agreement_of(files, ["a"], {"a": {"rank": share}}).of_partners(np.arange(12))
    within = int(10 * share + 1e-9)
    agree = [
        a == b if None in (a, b) else abs(float(a or 0) - float(b or 0)) <= within for a, b in zip(x, y, strict=True)
    ]
    assert found.tolist() == agree


def test_columns_that_records_are_blocked_by_are_not_compared(embedded: Engine, judged_pair: Any) -> None:
    """So no one has to say when two of their numbers agree."""
    table = pa.table({"ward": [1, 1, 2, 2, 3, 3], "town": ["a", "b"] * 3})
    blocked = judged_pair(embedded, ProbabilisticLinkage(block_by=("ward",), parameters="known"), table, table)
    assert blocked.observed["known"] == 1.0
    with pytest.raises(UsageError, match="column 'ward' holds numbers"):
        judged_pair(embedded, ProbabilisticLinkage(parameters="known"), table, table)
