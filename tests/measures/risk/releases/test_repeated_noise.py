"""Noise that several releases wear off: by the definition on small tables, and by runs on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpipe as pp
from privpipe.blocks.release_history import NoiseRows, ReleaseHistory, ReleaseRows
from privpipe.engines import Engine
from privpipe.errors import PolicyError, Refused, UsageError
from privpipe.measures import RepeatedNoise

KEY = {"from_env": "PRIVPIPE_LEDGER_KEY"}
Look = tuple[int, int, int, int]  # person, plan, draw within the plan and value, value
RATIOS = (0.1, 0.2, 0.4)


def words(numbers: list[int]) -> np.ndarray:
    return np.array([[number, 7 * number + 1] for number in numbers], dtype=np.int64).reshape(-1, 2)


def release(looks: list[Look], column: str = "income", bare: tuple[str, ...] = ()) -> ReleaseRows:
    """One release; the ratio of a plan is that of its number."""
    plans = sorted({plan for _, plan, _, _ in looks})
    draws = [10_000 * person + 1_000 * plan + 100 * draw + value for person, plan, draw, value in looks]
    noise = NoiseRows(
        tuple((column, f"{plan:032x}") for plan in plans),
        words([look[0] for look in looks]),
        np.array([plans.index(look[1]) for look in looks], dtype=np.int64),
        words(draws),
        words([100 * look[0] + look[3] for look in looks]),
        np.array([RATIOS[look[1]] for look in looks]),
        bare=bare,
    )
    people = sorted({look[0] for look in looks})
    ones = np.ones(len(people), dtype=np.int64)
    return ReleaseRows(words(people), words([0] * len(people)), ones, noise=noise)


def entry(**given: Any) -> RepeatedNoise:
    return RepeatedNoise(**{"columns": ("income",), "ledger": "ledger", "key": KEY} | given)


def oracle(releases: list[list[Look]], moving: bool) -> float:
    """By the definition: the newest release comes last."""
    left = []
    for person in {look[0] for look in releases[-1]}:
        seen = {look for looks in releases for look in looks if look[0] == person}
        told = Fraction(0)
        for plan in {look[1] for look in seen}:
            per_value: dict[int, int] = {}
            for look in seen:
                if look[1] == plan:
                    per_value[look[3]] = per_value.get(look[3], 0) + 1
            count = sum(per_value.values()) if moving else max(per_value.values())
            told += count / Fraction(str(RATIOS[plan]))
        left.append(1 / told)
    return float(min(left))


look = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))
histories = st.lists(st.lists(look, min_size=1, max_size=6, unique=True), min_size=1, max_size=4)


def judged(releases: list[list[Look]], **given: Any) -> float:
    *earlier, now = [release(looks) for looks in releases]
    return float(entry(**given).judge_history(ReleaseHistory(current=now, earlier=tuple(earlier))).observed)


@given(histories, st.booleans())
def test_what_is_left_is_what_the_definition_leaves(releases: list[list[Look]], moving: bool) -> None:
    changed = "averaged" if moving else "apart"
    assert math.isclose(judged(releases, changed=changed), oracle(releases, moving), rel_tol=1e-12)


@given(histories, st.randoms(), st.sampled_from(["apart", "averaged"]))
def test_order_changes_nothing_and_more_releases_never_raise_it(
    releases: list[list[Look]], draw: Any, changed: str
) -> None:
    *earlier, now = releases
    mixed = draw.sample(earlier, len(earlier))
    found = judged(releases, changed=changed)
    assert judged([*mixed, now], changed=changed) == found
    for fewer in range(len(earlier)):
        assert judged([*earlier[:fewer], now], changed=changed) >= found * (1 - 1e-12)
    assert judged(releases, changed="averaged") <= judged(releases, changed="apart") * (1 + 1e-12)


def test_worked_figures() -> None:
    """Ratios 0.1 and 0.4 under two plans leave 1 / (10 + 2.5); an unchanged plan leaves what one release does."""
    assert judged([[(0, 0, 0, 0)], [(0, 2, 0, 0)]]) == pytest.approx(0.08)
    assert judged([[(0, 0, 0, 0)]] * 5) == 0.1
    assert judged([[(0, 0, 0, 0)], [(0, 0, 0, 1)]]) == 0.1
    assert judged([[(0, 0, 0, 0)], [(0, 0, 0, 1)]], changed="averaged") == 0.05
    assert judged([[(1, 1, 0, 0)], [(0, 0, 0, 0)]]) == 0.1  # someone else's releases wear nothing off
    assert judged([[(0, 0, 0, 0), (0, 0, 1, 0)]]) == 0.05  # two records of a person with one value


def test_a_number_that_was_released_as_it_is_or_under_another_name() -> None:
    now = release([(person, 0, 0, 0) for person in range(4)])

    def left(*earlier: ReleaseRows) -> Any:
        return entry(at_least=0.06).judge_history(ReleaseHistory(current=now, earlier=earlier))

    bare = left(release([(0, 1, 0, 0)], "age", bare=("income",)))
    assert (bare.outcome, bare.observed) == ("fail", 0.0)
    assert "show it unchanged" in bare.reason
    renamed = left(release([(person, 1, 0, 0) for person in range(4)], "salary"))
    assert renamed.observed == pytest.approx(1 / (10 + 5))
    other = left(release([(person, 1, 0, 0 if person == 0 else 1) for person in range(4)], "children"))
    assert other.observed == 0.1


def test_what_cannot_be_judged_is_an_error() -> None:
    now = release([(0, 0, 0, 0)])
    unknown = ReleaseRows(now.units, now.classes, now.records)
    for history in (
        ReleaseHistory(current=unknown),
        ReleaseHistory(current=release([(0, 0, 0, 0)], "age")),
        ReleaseHistory(current=ReleaseRows(now.units, now.classes, now.records, noise=empty("income"))),
    ):
        assert entry(at_least=0.01).judge_history(history).outcome == "error"
    verdict = entry(at_least=0.1).judge_history(ReleaseHistory(current=now, earlier=(unknown,)))
    assert verdict.outcome == "pass"
    assert "1 earlier releases, of which no noise is known" in verdict.reason


def empty(column: str) -> NoiseRows:
    nothing, pairs = np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    return NoiseRows(((column, "00"),), pairs, nothing, pairs, pairs, np.zeros(0))


def test_ill_formed_parameters_are_refused() -> None:
    for wrong in (
        {"columns": ()}, {"columns": "income"}, {"columns": ("a", "a")}, {"at_least": 0}, {"ledger": None},
        {"key": None}, {"key": {"literal": "x"}}, {"changed": "maybe"}, {"normalise": ("upper",)},
        {"normalise": "trim"}, {"at_least": float("nan")}, {"normalise": ("trim", "trim")},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            entry(**wrong)


Document = Callable[..., dict[str, Any]]


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Document:
    """Forty persons with an income; `raised` persons earn more this month, `scale` changes everyone's."""
    monkeypatch.setenv("PRIVPIPE_LEDGER_KEY", "k" * 40)
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", "9f2c41d7e0b85a6394c1f7d2083be65a")

    def make(
        stage: dict[str, Any] | None = None, *, raised: int = 0, sink: str = "one", income: str = "income", **entry: Any
    ) -> dict[str, Any]:
        values = [1000.0 + 37 * at + (100 if at < raised else 0) for at in range(40)]
        table = {"name": [f"p{at}" for at in range(40)], "town": ["a", "b"] * 20, income: values}
        pq.write_table(pa.table(table), tmp_path / "people.parquet")
        noise = {"variance_ratio": 0.2, "kind": "multiplicative", **(stage or {}), "columns": [income]}
        judged = {"columns": [income], "at_least": 0.12, "ledger": str(tmp_path / "ledger"), "key": KEY, **entry}
        return {
            "source": {"path": str(tmp_path / "people.parquet")},
            "columns": {
                "name": {"role": "identifier"},
                "town": {"role": "quasi_identifier"},
                income: {"role": "insensitive"},
            },
            "record_id": "name",
            "transform": [{"add_noise": noise}],
            "guarantees": [{"k_anonymity": {"k": 5}}, {"repeated_noise": judged}],
            "sink": {"path": str(tmp_path / "published" / sink)},
            "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        }

    return make


def left(policy: dict[str, Any], **given: Any) -> float:
    return float(pp.release(policy, **given).assessment.verdicts[1].observed)


def test_an_unchanged_plan_keeps_its_noise_and_another_wears_it_off(document: Document) -> None:
    assert [left(document()) for _ in range(3)] == [pytest.approx(0.2)] * 3
    plan = pp.plan(None, document())
    assert left(document(raised=5), plan=plan) == pytest.approx(0.2)
    with pytest.raises(Refused) as refused:
        pp.release(document(raised=5))  # another source under no plan draws again
    assert refused.value.assessment.verdicts[1].observed == pytest.approx(0.1)
    with pytest.raises(Refused) as refused:
        pp.release(document({"variance_ratio": 0.25}))
    verdict = refused.value.assessment.verdicts[1]
    assert verdict.observed == pytest.approx(1 / (5 + 4))
    assert verdict.threshold == 0.12
    assert left(document({"variance_ratio": 0.9})) == pytest.approx(1 / (5 + 1 / 0.9))
    with pytest.raises(Refused):  # and from another sink
        pp.release(document({"variance_ratio": 0.4}, sink="two"))


def test_a_number_that_creeps_is_averaged_when_asked(document: Document) -> None:
    assert left(document(changed="averaged")) == pytest.approx(0.2)
    plan = pp.plan(None, document(changed="averaged"))
    with pytest.raises(Refused) as refused:
        pp.release(document(raised=5, changed="averaged"), plan=plan)
    assert refused.value.assessment.verdicts[1].observed == pytest.approx(0.1)
    told = pp.release(document(raised=5), plan=plan).assessment.verdicts[1]
    assert told.observed == pytest.approx(0.2)
    assert "if numbers that changed did so but little" in told.reason


def test_the_ledger_notes_what_averaging_leaves_without_a_guarantee(document: Document) -> None:
    for at, expected in enumerate(("", "0.1 of 0.2", "0.067 of 0.2"), 1):
        policy = document(raised=at, sink=f"s{at}", at_least=None)
        policy["measures"] = [policy["guarantees"].pop()]
        notes = [note for note in pp.release(policy).assessment.source_notes if "was released" in note]
        assert len(notes) == (1 if expected else 0)
        assert all(f"'income' was released {at} times with independent noise" in note for note in notes)
        assert all(f"to an attacker who averages is {expected};" in note for note in notes)


def test_a_column_released_as_it_is_or_renamed_is_remembered(document: Document, tmp_path: Path) -> None:
    assert left(document(income="salary")) == pytest.approx(0.2)
    with pytest.raises(Refused):
        pp.release(document(income="income", sink="two"))  # the same numbers under another name
    bare = document(sink="three")
    bare["transform"] = []
    del bare["guarantees"][1]
    bare["guarantees"].append({"complementary_release": {"ledger": str(tmp_path / "other"), "key": KEY, "k": 2}})
    pp.release(bare)
    with pytest.raises(Refused) as refused:
        pp.release(document(ledger=str(tmp_path / "other"), sink="three"))
    assert refused.value.assessment.verdicts[1].observed == 0


def test_every_kind_of_noise_has_its_ratio_and_constants_have_none(document: Document) -> None:
    for at, (kind, ratio) in enumerate((("uncorrelated", 0.3), ("correlated", 0.4))):
        policy = document({"kind": kind, "variance_ratio": ratio}, sink=f"s{at}")
        policy["guarantees"][1]["repeated_noise"]["ledger"] = policy["sink"]["path"] + "-ledger"
        assert left(policy) == pytest.approx(ratio)
    policy = document({"kind": "uncorrelated"})
    table = pq.read_table(policy["source"]["path"])
    pq.write_table(table.set_column(2, "income", pa.array([5.0] * 40)), policy["source"]["path"])
    with pytest.raises(Refused) as refused:
        pp.release(policy)
    assert refused.value.assessment.verdicts[1].observed == 0


def test_what_a_policy_must_hold(document: Document) -> None:
    def problems(policy: dict[str, Any]) -> str:
        with pytest.raises(PolicyError) as wrong:
            pp.Policy.from_dict(policy)
        return str(wrong.value)

    assert "orthogonal noise" in problems(document({"kind": "orthogonal"}))
    alone = problems(document({"outliers": 0.975}))
    assert "'income' has noise only for outliers, and none for other persons" in alone
    none = document()
    none["transform"] = []
    assert "no add_noise stage masks 'income'" in problems(none)
    twice = document()
    twice["transform"] *= 2
    assert "2 add_noise stages" in problems(twice)
    lacking = document()
    lacking["guarantees"][1]["repeated_noise"]["columns"] = ["incme"]
    assert "incme" in problems(lacking)
    other = document()
    other["guarantees"].append({"complementary_release": {"ledger": "elsewhere", "key": KEY, "k": 2}})
    assert "keeps one ledger" in problems(other)


def test_a_finished_table_cannot_be_judged_by_it(document: Document, tmp_path: Path) -> None:
    policy = document()
    policy["columns"]["name"]["role"] = "insensitive"
    table = pq.read_table(tmp_path / "people.parquet")
    assert pp.assess(table, policy, original=table).verdicts[1].outcome == "error"


def test_every_engine_remembers_the_same_noise(document: Document, engine: Engine, tmp_path: Path) -> None:
    """Two releases on an engine; the ledger then refuses on the embedded one what it would refuse there."""
    for ratio in (0.2, 0.9):
        found = left(document({"variance_ratio": ratio}), engine=engine)
    assert found == pytest.approx(1 / (5 + 1 / 0.9))
    assert left(document({"variance_ratio": 0.2})) == pytest.approx(1 / (5 + 1 / 0.9))
    with pytest.raises(Refused):
        pp.release(document({"variance_ratio": 0.4}), engine=engine)
