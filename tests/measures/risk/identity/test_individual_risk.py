"""Individual risk: reference figures, households, levels, and invalid weights.

Source: reference/sdcmicro.json, measure_risk (sdcMicro 5.8.1: its risk is the approximate one).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import ClassBlock, Facts, Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.measures import IndividualRisk
from privpipe.roles import Roles
from tests.tiers import at_most

ROLES = Roles(quasi_identifiers=("key",))


def figures(engine: Engine, rows: pa.Table, roles: Roles, *measures: IndividualRisk, **rules: Any) -> list[Verdict]:
    table = engine.scan(Source(data=rows))
    gates = [measure for measure in measures if measure.is_gate()]
    reported = [measure for measure in measures if not measure.is_gate()]
    found = assess(engine, table, guarantees=gates, measures=reported, roles=roles, rules=JudgingRules(**rules))
    return [*found.verdicts, *found.measures]


def test_figures_of_the_reference(embedded: Engine, sdcmicro: Any, casc: Any) -> None:
    cases = [case for case in sdcmicro if case["fn"] == "measure_risk"]
    assert cases
    for case in cases:
        own = {"weight": case["weight"], "method": "approximate"}
        level = 0.001 if case["id"].endswith("0.001") else case["expected"]["max_global_risk"]
        plain, together = figures(
            embedded,
            casc(case["data"]),
            Roles(quasi_identifiers=case["keys"]),
            IndividualRisk(**own, threshold_for=level),
            IndividualRisk(**own, household=case.get("hid", "ori_hid")),
        )
        wanted = case["expected"]
        assert plain.observed["mean"] == pytest.approx(wanted["global_risk"], rel=1e-10)
        found = plain.observed["threshold_for"]
        if wanted["global_threshold"] is None:
            assert found is None
        else:
            assert found == pytest.approx(wanted["global_threshold"], rel=1e-10)
        if "hier_risk" in wanted:
            assert plain.observed["expected_reidentifications"] == pytest.approx(wanted["global_risk_ER"], rel=1e-10)
            assert together.observed["mean"] == pytest.approx(wanted["hier_risk"], rel=1e-10)
            assert together.observed["expected_reidentifications"] == pytest.approx(wanted["hier_risk_ER"], rel=1e-10)


def test_what_is_judged_and_said(embedded: Engine) -> None:
    rows = pa.table({"key": ["a", "a", "b"], "w": [50.0, 60.0, 17.0]})
    mean, most, above = figures(
        embedded,
        rows,
        ROLES,
        IndividualRisk(weight="w", at_most=0.07),
        IndividualRisk(weight="w", at_most=0.2, figure="max"),
        IndividualRisk(weight="w", at_most=0.3, figure="share_above", threshold=0.1),
    )
    # p = 1/17: p/(1-p) ln(1/p); the others of reference freq.franc.
    alone, two = math.log(17) / 16, 0.0171442615962852
    assert mean.observed["max"] == pytest.approx(alone)
    assert mean.observed["mean"] == pytest.approx((alone + 2 * two) / 3)
    assert [each.outcome for each in (mean, most, above)] == ["fail", "pass", "fail"]
    assert (above.failing_records, above.failing_share) == (1, pytest.approx(1 / 3))
    assert all("estimated" in each.reason for each in (mean, most, above))


def test_households_share_their_risk_and_others_stand_alone(embedded: Engine) -> None:
    rows = pa.table({"key": ["a", "b", "c", "d"], "w": [10.0, 10.0, 4.0, 4.0], "home": ["x", "x", None, None]})
    (found,) = figures(embedded, rows, ROLES, IndividualRisk(weight="w", household="home"))
    a, c = math.log(10) / 9, math.log(4) / 3
    assert found.observed["mean"] == pytest.approx((2 * (1 - (1 - a) ** 2) + 2 * c) / 4)
    rows = pa.table({"key": ["a", "b"], "w": [1.0, 10.0], "home": [1, 1]})
    (sure,) = figures(embedded, rows, ROLES, IndividualRisk(weight="w", household="home"))
    assert sure.observed["mean"] == 1.0


def test_wildcards_count_what_matches_by_alpha(embedded: Engine, casc: Any) -> None:
    """Source: reference/sdcmicro.json, freq.franc.na.alpha0.5 and the worked example of section 6."""
    keys = ["Key1", "Key2", "Key3", "Key4"]
    columns = {name: casc("francdat.csv")[name].to_pylist() for name in keys}
    for row, key in ((3, "Key3"), (4, "Key1"), (4, "Key2"), (5, "Key4"), (6, "Key1")):
        columns[key][row - 1] = None
    rows = pa.table(columns | {"w": casc("francdat.csv")["w"], "home": [1, 1, 2, 2, 3, 3, 4, 4]})
    half, whole, homes = figures(
        embedded,
        rows,
        Roles(quasi_identifiers=keys),
        IndividualRisk(weight="w", alpha=0.5),
        IndividualRisk(weight="w"),
        IndividualRisk(weight="w", household="home"),
        nulls="wildcard",
    )
    risks = [0.01250400210457325, 0.03694562071769879, 0.006787182738593812, 0.005618893489791314]
    risks += [0.0035525219416054346, 0.00963697465646485, 0.14119753107911193, 0.01250400210457325]
    assert half.observed["expected_reidentifications"] == pytest.approx(sum(risks), rel=1e-12)
    assert (half.observed["k_wildcard"], whole.observed["k_wildcard"], whole.observed["k_own_value"]) == (1.5, 2.0, 1)
    exact = [0.00988563610924024, 0.0220423261832562, 0.0067871827385938, 0.00265067725046787]
    exact += [0.00263669726614242, 0.00358124319440993, 0.0760210472720163, 0.00988563610924024]
    pairs = zip(exact[::2], exact[1::2], strict=True)
    assert homes.observed["mean"] == pytest.approx(sum(1 - (1 - a) * (1 - b) for a, b in pairs) / 4, rel=1e-12)
    # A text may stand for anything, too; blank in the only key, it counts for no other record, and no other for it.
    texts = pa.table({"key": ["a", "?", "b"], "w": [3.0, 5.0, 7.0]})
    blank, same = (
        figures(embedded, texts.slice(at, 2), ROLES, IndividualRisk(weight="w"), nulls="wildcard", wildcard="?")[0]
        for at in (0, 1)
    )
    alone = IndividualRisk(weight="w").risks(block([1, 1], [3.0, 5.0]))
    assert blank.observed["mean"] == pytest.approx(alone.mean())
    assert same.observed["k_wildcard"] == 1


def block(sizes: list[int], weights: list[float]) -> ClassBlock:
    return ClassBlock(np.array(sizes), weights=np.array(weights))


@settings(max_examples=at_most(25))
@given(st.lists(st.tuples(st.integers(1, 4), st.floats(1, 1e6)), min_size=1, max_size=12), st.integers(0, 12))
def test_any_partition_gives_the_same_bits(classes: list[tuple[int, float]], cut: int) -> None:
    measure = IndividualRisk(weight="w", threshold_for=0.3)
    sizes, weights = [f for f, _ in classes], [f * w for f, w in classes]
    whole = measure.judge(measure.measure(block(sizes, weights), Facts()), Facts())
    halves = [measure.measure(block(sizes[part], weights[part]), Facts()) for part in (slice(cut), slice(cut, None))]
    merged = measure.judge(measure.merge(halves[1], halves[0]), Facts())
    assert merged.observed == whole.observed
    assert whole.observed["mean"] == pytest.approx(
        float(np.average(measure.risks(block(sizes, weights)), weights=sizes)), rel=1e-12
    )


def test_the_level_is_the_largest_that_keeps_the_mean_below(embedded: Engine) -> None:
    # Ten lone records at risk r(w): capped at v they sum to less than t n.
    rows = pa.table({"key": list("abcdefghij"), "w": [2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 16.0, 16.0, 32.0, 32.0]})
    risks = sorted(math.log(w) / (w - 1) for w in rows["w"].to_pylist())
    for asked in (0.05, 0.2, 0.25, 0.3, 0.9):
        (found,) = figures(embedded, rows, ROLES, IndividualRisk(weight="w", threshold_for=asked))
        able = [v for v in risks if sum(min(r, v) for r in risks) < asked * 10]
        wanted = max(able) if able and sum(risks) >= asked * 10 else None
        assert found.observed["threshold_for"] == (None if wanted is None else pytest.approx(wanted))


def test_anything_but_a_weight_blocks(embedded: Engine) -> None:
    low = pa.table({"key": ["a", "a", "b"], "w": [0.5, 1.0, 3.0]})
    (found,) = figures(embedded, low, ROLES, IndividualRisk(weight="w", at_most=1.0))
    assert (found.outcome, found.observed) == ("error", None)
    assert "1 of 3 records have no usable weight in 'w' (1 below 1)" in found.reason
    with pytest.raises(DataError, match="numbers"):
        figures(embedded, low.set_column(1, "w", pa.array(["1", "2", "3"])), ROLES, IndividualRisk(weight="w"))
    with pytest.raises(DataError, match="'weights' is not in the table"):
        figures(embedded, low, ROLES, IndividualRisk(weight="weights"))
    with pytest.raises(UnsupportedError, match="person_id"):
        figures(embedded, low, ROLES, IndividualRisk(weight="w"), person="key")
    wrongs: list[dict[str, Any]] = [
        {"weight": ""},
        {"at_most": 2},
        {"figure": "median"},
        {"method": "quick"},
        {"threshold": 0},
        {"alpha": 1.5},
        {"threshold_for": 0},
        {"quasi_identifiers": ["w"]},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            IndividualRisk(**({"weight": "w"} | wrong))


def test_suppressed_records_need_no_weight(embedded: Engine) -> None:
    rows = pa.table({"key": ["a", "*", "b", "*"], "w": [2.0, None, 4.0, None]})
    for nulls in ("own_value", "wildcard"):
        (found,) = figures(embedded, rows, ROLES, IndividualRisk(weight="w"), nulls=nulls)
        assert found.observed["expected_reidentifications"] == pytest.approx(math.log(2) + math.log(4) / 3)
    (gone,) = figures(embedded, rows.filter(pa.array([False, True, False, True])), ROLES, IndividualRisk(weight="w"))
    assert (gone.outcome, gone.observed) == ("fail", None)
