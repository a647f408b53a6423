"""Profitability against a journalist."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.engines import Engine, Source
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import JudgingRules, assess
from privpipe.models import JournalistProfitability, ProsecutorProfitability
from privpipe.roles import Roles
from privpipe.testing import judged


def test_the_crowd_is_the_population() -> None:
    block = ClassBlock(np.array([1, 2, 0]), population=np.array([76, 80, 3]))
    assert judged(JournalistProfitability(no_attack=True), block, Facts()).passed
    assert not judged(ProsecutorProfitability(no_attack=True), block.take(block.sizes > 0), Facts()).passed


def test_payouts_of_the_released_classes(engine: Engine) -> None:
    """IL of a half of twenty ages: 1 + ln(1/2)/ln(20); 300/90 does not pay an attacker, 300/5 does."""
    ages = {name: [str(first + at) for at in range(10)] for name, first in (("twenties", 20), ("thirties", 30))}
    spec = HierarchySpec.from_mapping({"tree": ages}, ".", column="age")
    sample = pa.table({"age": ["twenties"] * 3 + ["thirties"] * 2})
    population = pa.table({"age": ["twenties"] * 90 + ["thirties"] * 5 + ["forties"] * 4})
    found = assess(
        engine,
        engine.scan(Source(data=sample)),
        guarantees=[JournalistProfitability(), JournalistProfitability(publisher_loss=9999.0)],
        roles=Roles(quasi_identifiers=["age"]),
        rules=JudgingRules(hierarchies={"age": spec}),
        population=engine.scan(Source(data=population)),
    ).verdicts
    benefit = 1200 * -math.log(0.5) / math.log(20)
    assert [verdict.observed for verdict in found] == pytest.approx([benefit - 300 / 5, benefit - 9999 / 5])
    assert [verdict.failing_records for verdict in found] == [0, 2]


def test_without_a_population_it_says_so() -> None:
    with pytest.raises(UsageError, match="population"):
        judged(JournalistProfitability(no_attack=True), ClassBlock(np.array([2])), Facts())


def test_amounts_are_checked_under_its_own_name() -> None:
    with pytest.raises(UsageError, match="JournalistProfitability: adversary_gain"):
        JournalistProfitability(adversary_gain=-1.0)


def test_a_crowd_of_the_population_needs_few_records() -> None:
    """A search leaves classes of fewer records than `least_size` out unseen."""
    model = JournalistProfitability(no_attack=True, adversary_gain=3.0, adversary_cost=1.0)
    block = ClassBlock(np.array([1, 5]), population=np.array([4, 3]))
    assert model.passing(block, Facts()).tolist() == [True, False]
    assert (model.least_class(), model.least_size()) == (4, 1)
