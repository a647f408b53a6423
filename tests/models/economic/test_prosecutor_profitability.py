"""Profitability against a prosecutor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import JudgingRules, assess
from privpipe.models import ProsecutorProfitability
from privpipe.roles import Roles
from privpipe.testing import judged

TREES = {
    "age": {"*": {"young": ["7", "8"], "old": ["30", "40", "50", "60"]}},
    "zip": {"*": {"47**": ["4711", "4712"], "48**": ["4811", "4812"]}},
}
HIERARCHIES = {name: HierarchySpec.from_mapping({"tree": tree}, column=name) for name, tree in TREES.items()}
ROLES = Roles(quasi_identifiers=["age", "zip"])


def verdict(engine: Engine, ages: list[str | None], zips: list[str], model: ProsecutorProfitability) -> Verdict:
    table = engine.scan(Source(data=pa.table({"age": ages, "zip": zips})))
    rules = JudgingRules(hierarchies=HIERARCHIES)
    return assess(engine, table, guarantees=[model], roles=ROLES, rules=rules).verdicts[0]


def loss(*shares: float) -> float:
    return 1 + sum(math.log(share) for share in shares) / (math.log(6) + math.log(4))


def test_the_payout_by_hand_on_every_engine(engine: Engine) -> None:
    """Classes of 2 (young, 47**) and 3 (old, 47**); an attack pays below 75 records."""
    found = verdict(engine, ["young"] * 2 + ["old"] * 3, ["47**"] * 5, ProsecutorProfitability())
    payouts = [1200 * (1 - loss(2 / 6, 2 / 4)) - 300 / 2, 1200 * (1 - loss(4 / 6, 2 / 4)) - 300 / 3]
    assert found.observed == pytest.approx(min(payouts))
    assert found.passed


def test_raw_values_lose_nothing_and_roots_everything(engine: Engine) -> None:
    raw = verdict(engine, ["7"] * 2, ["4711"] * 2, ProsecutorProfitability())
    assert raw.observed == pytest.approx(1200 - 150)
    roots = verdict(engine, ["*"] * 100 + ["7"], ["*"] * 100 + ["*"], ProsecutorProfitability(adversary_gain=0.0))
    assert roots.observed == pytest.approx(1200 * (1 - loss(1 / 6, 1)))


def test_suppressed_records_are_not_a_class(engine: Engine) -> None:
    found = verdict(engine, ["7", "7", "*"], ["4711", "4711", "*"], ProsecutorProfitability())
    assert found.observed == pytest.approx(1200 - 150)


def test_a_payout_of_nothing_fails(embedded: Engine) -> None:
    found = verdict(embedded, ["7"] * 2, ["4711"] * 2, ProsecutorProfitability(publisher_benefit=150.0))
    assert (found.observed, found.passed, found.failing_records) == (pytest.approx(0), False, 2)
    assert "do not pay" in found.reason


def test_a_missing_value_is_raw(embedded: Engine) -> None:
    found = verdict(embedded, [None, None], ["4711"] * 2, ProsecutorProfitability())
    assert found.observed == pytest.approx(1200 - 150)


def test_labels_of_no_hierarchy_are_counted_not_shown(embedded: Engine) -> None:
    with pytest.raises(DataError, match="labels that its hierarchy does not have") as raised:
        verdict(embedded, ["secret"] * 2, ["4711"] * 2, ProsecutorProfitability())
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("gain", "cost", "least"), [(300.0, 4.0, 76), (301.0, 4.0, 76), (0.3, 0.1, 4), (0.0, 0.0, 1), (0.0, 5.0, 1)]
)
def test_the_least_class_that_no_one_attacks(gain: float, cost: float, least: int) -> None:
    """0.3 / 0.1 is 2.9999999999999996 in floats; in decimals it is 3, and a gain equal to the cost is not a gain."""
    model = ProsecutorProfitability(no_attack=True, adversary_gain=gain, adversary_cost=cost)
    assert model.least_class() == least
    for size in (least - 1, least):
        assert judged(model, ClassBlock(np.array([max(size, 1)]))).passed == (max(size, 1) >= least)


@pytest.mark.parametrize("size", [74, 75, 76])
@pytest.mark.parametrize("gain", [299.0, 300.0, 301.0])
def test_an_attack_costs_the_publisher_where_it_pays_the_attacker(embedded: Engine, gain: float, size: int) -> None:
    found = verdict(embedded, ["7"] * size, ["4711"] * size, ProsecutorProfitability(adversary_gain=gain))
    assert found.observed == pytest.approx(1200 - (300 / size if gain > 4 * size else 0))


def test_only_a_rule_on_sizes_asks_for_a_size(embedded: Engine) -> None:
    model = ProsecutorProfitability()
    assert (model.least_size(), ProsecutorProfitability(no_attack=True).least_size()) == (1, 76)
    assert verdict(embedded, ["7"], ["4711"], model).passed


def test_the_payout_needs_to_know_the_labels() -> None:
    with pytest.raises(UnsupportedError, match="take no_attack"):
        judged(ProsecutorProfitability(), ClassBlock(np.array([3])))


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"publisher_benefit": -1}, "publisher_benefit must"),
        ({"adversary_cost": math.nan}, "adversary_cost must"),
        ({"no_attack": 1}, "true or false"),
        ({"no_attack": True, "adversary_cost": 0}, "every attack pay"),
    ],
)
def test_ranges(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        ProsecutorProfitability(**parameters)


def test_a_column_of_numbers_is_raw(embedded: Engine) -> None:
    """The rows of a file count, seen or not; a builder's domain is what is seen."""
    table = embedded.scan(Source(data=pa.table({"age": [7, 8, 7, 8], "zip": ["4711"] * 4})))
    for spec in ({"tree": {"*": {"young": [7, 8], "old": [30, 40]}}}, {"intervals": {"widths": [10]}}):
        declared = HIERARCHIES | {"age": HierarchySpec.from_mapping(spec, column="age")}
        rules = JudgingRules(hierarchies=declared)
        found = assess(embedded, table, guarantees=[ProsecutorProfitability()], roles=ROLES, rules=rules).verdicts[0]
        assert found.observed == pytest.approx(1200 - 150)


def test_labels_of_several_levels_count_each_by_its_own(embedded: Engine) -> None:
    found = verdict(embedded, ["7"] * 2 + ["young"] * 2, ["4711"] * 4, ProsecutorProfitability())
    assert found.observed == pytest.approx(1200 * (1 - loss(2 / 6, 1 / 4)) - 300 / 2)


@pytest.mark.parametrize(("ages", "share"), [(["young"] * 2, 2 / 6), (["young"] * 2 + ["*"] * 2, 1)])
def test_a_masked_cell_represents_any_value_whatever_the_root_is_called(
    embedded: Engine, ages: list[str], share: float
) -> None:
    tree = HierarchySpec.from_mapping({"tree": {"anybody": TREES["age"]["*"]}}, column="age")
    table = embedded.scan(Source(data=pa.table({"age": ages, "zip": ["47**"] * len(ages)})))
    rules = JudgingRules(hierarchies=HIERARCHIES | {"age": tree})
    found = assess(embedded, table, guarantees=[ProsecutorProfitability()], roles=ROLES, rules=rules).verdicts[0]
    assert found.observed == pytest.approx(1200 * (1 - loss(share, 2 / 4)) - 300 / 2)


def test_a_column_of_one_value_carries_no_information(embedded: Engine) -> None:
    one = HierarchySpec.from_mapping({"tree": {"*": ["7"]}}, column="age")
    table = embedded.scan(Source(data=pa.table({"age": ["7"] * 2, "zip": ["47**"] * 2})))
    rules = JudgingRules(hierarchies=HIERARCHIES | {"age": one})
    found = assess(embedded, table, guarantees=[ProsecutorProfitability()], roles=ROLES, rules=rules).verdicts[0]
    assert found.observed == pytest.approx(1200 * math.log(2) / math.log(4) - 300 / 2)
