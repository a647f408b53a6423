"""Differential privacy by the record of its process."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.engines import Engine, Source
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.kernels.process_proofs import delta_of, safepub_parameters
from privpipe.models import DifferentialPrivacy
from privpipe.roles import Roles
from privpipe.testing import judged
from tests.tiers import deep

RECORD: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-4,
    "beta": safepub_parameters(1.0, 1e-4)[0],
    "k": safepub_parameters(1.0, 1e-4)[1],
    "scheme": "9f86d081884c7d65",
    "data_independent": True,
    "drawn": 1000,
}
MODEL = DifferentialPrivacy(epsilon=1.0, delta=1e-4)
K = RECORD["k"]
TABLE = ClassBlock(np.array([K, K + 5]))


def verdict(record: dict[str, Any] | None, block: ClassBlock = TABLE, model: DifferentialPrivacy = MODEL) -> Any:
    return judged(model, block, Facts(extra={} if record is None else {"process": record}))


def test_a_recorded_process_passes() -> None:
    found = verdict(RECORD)
    assert found.passed
    assert found.observed == {"beta": RECORD["beta"], "k": K}
    assert found.threshold == {"epsilon": 1.0, "delta": 1e-4}


def test_without_a_record_there_is_no_verdict_and_no_pass() -> None:
    found = verdict(None)
    assert (found.outcome, found.observed) == ("error", None)
    assert "no table can prove" in found.reason


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"epsilon": 1.1, "beta": 0.1, "k": 500}, "made for epsilon 1.1, required at most 1"),
        ({"delta": 1e-3}, "made for delta 0.001"),
        ({"beta": 0.7}, "drawn at rate 0.7"),
        ({"beta": 0.0}, "drawn at rate 0"),
        ({"k": K - 1}, "needed is below"),
        ({"data_independent": False}, "independent of the data"),
        ({"drawn": 3}, "3 were drawn"),
        ({"k": "60"}, "no k of its type"),
        ({"k": True}, "no k of its type"),
        ({"epsilon": -1.0}, "out of range"),
        ({"epsilon": 800.0}, "out of range"),
        ({"scheme": None}, "no scheme"),
    ],
)
def test_what_breaks_the_relation_fails(change: dict[str, Any], text: str) -> None:
    found = verdict(RECORD | change)
    assert found.outcome == "fail"
    assert text in found.reason


def test_a_class_below_k_fails() -> None:
    found = verdict(RECORD, ClassBlock(np.array([K, K - 1])))
    assert (found.passed, found.failing_classes, found.failing_records) == (False, 1, K - 1)


def test_a_process_made_for_less_is_good_enough() -> None:
    assert verdict(RECORD, model=DifferentialPrivacy(epsilon=2.0, delta=1e-3)).passed


def test_blocks_merge() -> None:
    facts = Facts(extra={"process": RECORD})
    parts = [MODEL.measure(ClassBlock(np.array(sizes)), facts) for sizes in ([K], [2, K], [])]
    merged = MODEL.merge(MODEL.merge(parts[0], parts[1]), parts[2])
    assert merged == MODEL.measure(ClassBlock(np.array([K, 2, K])), facts)


def test_delta_falls_with_the_class_size() -> None:
    deltas = [delta_of(k, 0.5) for k in range(1, 60)]
    assert deltas == sorted(deltas, reverse=True)
    for epsilon in (0.2, 0.7, 1.3):
        _, k = safepub_parameters(epsilon, 1e-5)
        assert delta_of(k - 1, epsilon) < 1e-5 <= delta_of(k - 2, epsilon)


def test_the_rate_of_a_half_rounds_outward() -> None:
    """epsilon = ln 2: beta = 1/2, gamma = 3/4, and n gamma is an integer for every fourth n: its tail counts."""
    for k in (3, 6, 7, 12, 20):
        tails = [
            Fraction(sum(math.comb(n, drawn) for drawn in range(-(-3 * n // 4), n + 1)), 2**n)
            for n in range(math.ceil(Fraction(4 * k, 3) - 1), 4 * k + 20)
        ]
        assert delta_of(k, math.log(2)) == pytest.approx(float(max(tails)), rel=1e-10)


@pytest.mark.parametrize(
    ("k", "epsilon", "delta"),
    [(20, 1e-5, 0.0034543606357960), (60, 1e-4, 9.25234482828198e-07), deep(8, 1e-6, 0.0511336455629778)],
)
def test_a_tiny_epsilon_keeps_its_digits(k: int, epsilon: float, delta: float) -> None:
    """Tails of a million draws; figures by their sums in forty digits."""
    assert delta_of(k, epsilon) == pytest.approx(delta, rel=1e-12)


def test_a_large_epsilon_takes_no_longer() -> None:
    """Nearly all records are drawn, so the worst case is a class of which all are: beta^n."""
    beta, k = safepub_parameters(8.0, 1e-9)
    assert beta ** (k - 1) < 1e-9 <= beta ** (k - 2)
    with pytest.raises(UsageError, match="epsilon in"):
        safepub_parameters(15.5, 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1), (True, 0.1)]
)
def test_ranges(epsilon: float, delta: float) -> None:
    with pytest.raises(UsageError):
        DifferentialPrivacy(epsilon=epsilon, delta=delta)


def test_every_engine_counts_its_classes(engine: Engine) -> None:
    frame = pa.table({"zip": ["a"] * K + ["b"] * (K - 1)})
    for kept, outcome in ((K, "pass"), (2 * K - 1, "fail")):
        table = engine.scan(Source(data=frame.slice(0, kept)))
        rules = JudgingRules(process=RECORD)
        found = assess(engine, table, guarantees=[MODEL], roles=Roles(quasi_identifiers=["zip"]), rules=rules)
        assert found.verdicts[0].outcome == outcome
    without = assess(engine, table, guarantees=[MODEL], roles=Roles(quasi_identifiers=["zip"]))
    assert without.verdicts[0].outcome == "error"
    assert not without.passed
