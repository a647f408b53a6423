"""What the order of released rows reveals.

Source: reference/torra.json, two releases of the slides after L. Sweeney, 2002.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

import privpipe as pp
from privpipe.blocks.file_pair import RowPositions
from privpipe.engines import Engine
from privpipe.errors import Refused, UsageError
from privpipe.kernels.synthesis.copula import order_correlation
from privpipe.measures import UnsortedMatching


def roles(names: list[str], at_most: float, **more: Any) -> dict[str, Any]:
    columns = {name: {"role": "quasi_identifier"} for name in names}
    return {"columns": columns, "guarantees": [{"unsorted_matching": {"at_most": at_most}}], **more}


def test_the_worked_releases(torra: dict[str, Any]) -> None:
    worked = torra["worked_examples"]["unsorted_matching"]
    original = pa.table(dict(zip(("race", "zip"), zip(*worked["original"], strict=True), strict=True)))
    shorter = {"02138": "02130", "02139": "02130", "02141": "02140", "02142": "02140"}
    race = original.set_column(0, "race", pa.array(["Person"] * 12))
    code = original.set_column(1, "zip", pa.array([shorter[each] for each in original["zip"].to_pylist()]))
    joined = pa.table({"race": code["race"], "zip": race["zip"]})
    assert joined.group_by(["race", "zip"]).aggregate([([], "count_all")])["count_all"].to_pylist() == [1] * 12
    for released, wanted, k in zip((race, code), worked["within_class_order_correlation"], (3, 2), strict=True):
        policy = roles(["race", "zip"], 0.1)
        policy["guarantees"].append({"k_anonymity": {"k": k}})
        found, anonymity = pp.assess(released, policy, original=original, align="position").verdicts
        assert found.observed["rho"] == wanted
        assert found.outcome == "error"  # too few rows for a test, and no one proves their order
        assert "not proved" in found.reason
        assert anonymity.passed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [4, 25])  # of 25 classes many have two members, and some have one
def test_the_correlation_is_pooled_over_classes(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, most, 50)
    one, other = rng.permutation(50), rng.permutation(50)
    rho, sd, compared = order_correlation(classes, one, other)
    total = scale = variance = 0.0
    alone = 0
    for number in range(most):
        own = np.flatnonzero(classes == number)
        if len(own) < 2:
            alone += len(own)
            continue
        a, b = (np.argsort(np.argsort(order[own])) for order in (one, other))
        f = len(own)
        total += float(((a - a.mean()) * (b - b.mean())).sum())
        scale += f * (f * f - 1) / 12
        variance += (f * (f * f - 1) / 12) ** 2 / (f - 1)
    assert rho == pytest.approx(total / scale)
    assert sd == pytest.approx(variance**0.5 / scale)
    assert compared == 50 - alone
    assert order_correlation(np.zeros(50, dtype=int), one, other)[0] == pytest.approx(spearmanr(one, other).statistic)


def test_what_decides() -> None:
    rows = np.arange(2000)
    shuffled = np.random.default_rng(5).permutation(2000)
    judge = UnsortedMatching(at_most=0.1).judge_positions
    assert judge(RowPositions(classes=rows % 7, released=rows, original=rows[::-1])).outcome == "fail"
    assert judge(RowPositions(classes=rows % 7, released=shuffled, original=rows)).outcome == "pass"
    small: dict[str, Any] = {"classes": rows[:20] % 2, "released": shuffled[:20], "original": rows[:20]}
    assert judge(RowPositions(**small)).outcome == "error"
    assert judge(RowPositions(**small, proved=True)).outcome == "pass"
    alone = RowPositions(classes=rows, released=rows, original=rows)
    assert (judge(alone).outcome, judge(alone).observed["rho"]) == ("fail", 1.0)
    ordered = RowPositions(classes=rows, released=rows, original=rows, ordered=True)
    assert (judge(ordered).outcome, judge(ordered).observed["rho"]) == ("pass", 0.0)
    one = RowPositions(classes=rows[:1], released=rows[:1], original=rows[:1])
    assert judge(one).outcome == "error"
    assert judge("no order.").reason == "no order."
    assert UnsortedMatching().judge_positions(alone).observed["rho"] == 1.0


@pytest.fixture
def people(tmp_path: Path) -> Path:
    ages = np.sort(np.random.default_rng(3).integers(20, 29, 3000))
    table = pa.table({"name": [f"p{at:05}" for at in range(3000)], "age": ages, "town": ["Ashford", "Barrow"] * 1500})
    pq.write_table(table, tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def policy_of(people: Path, form: str, *, keyed: bool) -> dict[str, Any]:
    return {
        "source": {"path": str(people), "format": "parquet"},
        "columns": {
            "name": {"role": "identifier"},
            "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": {"intervals": {"widths": [10]}}},
            "town": {"role": "quasi_identifier"},
        },
        **({"record_id": "name"} if keyed else {}),
        "transform": [{"generalize": {"levels": {"age": 1}}}],
        "guarantees": [{"k_anonymity": {"k": 5}}, {"unsorted_matching": {"at_most": 0.1}}],
        "sink": {"path": str(people.parent / f"published-{form}"), "format": form},
        "seed": {"insecure": "a test's seed"},
        "allow_insecure_seed": True,
    }


def test_a_release_is_in_keyed_order_on_every_engine(engine: Engine, people: Path) -> None:
    forms = [("csv", True)] if engine.name == "spark" else [("csv", True), ("parquet", False)]
    for form, keyed in forms:
        verdict = pp.release(policy_of(people, form, keyed=keyed), engine=engine).assessment.verdicts[1]
        assert verdict.outcome == "pass"
        assert verdict.observed["proved"]
        assert verdict.observed["compared"] == 3000
        assert verdict.observed["rho"] < 0.1


def test_files_in_another_order_are_refused(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privpipe.draws import Stream

    policy = policy_of(people, "parquet", keyed=True)
    policy["columns"]["town"]["role"] = "identifier"
    # A sink that kept the original's order; a keyed order that is the records' own stands in for it.
    table = pq.read_table(people)
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import declared_id

    ids = declared_id(table["name"], Seed.insecure(policy["seed"]["insecure"]))
    places = {tuple(each): at for at, each in enumerate(ids.tolist())}
    words = lambda self, asked: np.array([places[tuple(each)] for each in asked.tolist()], dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(Stream, "order", words)
    with pytest.raises(Refused) as refused:
        pp.release(policy)
    anonymity, order = refused.value.assessment.verdicts
    assert anonymity.passed
    assert (order.outcome, order.observed["rho"]) == ("fail", 1.0)


def test_finished_files_are_judged_by_their_rows(people: Path, tmp_path: Path) -> None:
    original = pq.read_table(people)
    kept = original.set_column(1, "age", pa.array(["20-29"] * 3000))
    pyarrow.csv.write_csv(kept, tmp_path / "kept.csv")
    policy = roles(["age", "town"], 0.1, record_id="name")
    policy["columns"]["name"] = {"role": "insensitive"}
    verdict = pp.assess(str(tmp_path / "kept.csv"), policy, original=str(people)).verdicts[0]
    assert (verdict.outcome, verdict.observed["rho"], verdict.observed["compared"]) == ("fail", 1.0, 3000)
    shuffled = kept.take(np.random.default_rng(1).permutation(3000))
    assert pp.assess(shuffled, policy, original=str(people)).verdicts[0].outcome == "pass"
    assert pp.assess(shuffled, policy).verdicts[0].outcome == "error"


def test_ill_formed_parameters_are_refused() -> None:
    for wrong in (-0.1, 1.1, float("nan"), True):
        with pytest.raises(UsageError):
            UnsortedMatching(at_most=wrong)


@pytest.mark.parametrize(("records", "outcome"), [(800, "error"), (1000, "pass")])
def test_three_deviations_make_a_test(records: int, outcome: str) -> None:
    """Of a class of f records the correlation of a random order deviates by 1 / sqrt(f - 1): 901 of them reach 0.1."""
    rng = np.random.default_rng(1)
    rows = RowPositions(
        classes=np.zeros(records, dtype=np.int64), released=rng.permutation(records), original=np.arange(records)
    )
    verdict = UnsortedMatching(at_most=0.1).judge_positions(rows)
    assert verdict.observed["sd"] == pytest.approx((records - 1) ** -0.5)
    assert (verdict.outcome, verdict.observed["rho"] < 0.1) == (outcome, True)
