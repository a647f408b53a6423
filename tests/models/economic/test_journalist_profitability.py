"""Profitability against a journalist."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privpipe.assess import JudgingRules, assess
from privpipe.blocks import ClassBlock, Facts
from privpipe.engines import Engine, Source
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.models import JournalistProfitability, ProsecutorProfitability
from privpipe.roles import Roles
from privpipe.testing import judged


def test_the_crowd_is_the_population() -> None:
    block = ClassBlock(np.array([1, 2, 0]), population=np.array([76, 80, 3]))
    assert judged(JournalistProfitability(no_attack=True), block, Facts()).passed
    assert not judged(ProsecutorProfitability(no_attack=True), block.take(block.sizes > 0), Facts()).passed


def test_payouts_of_the_released_classes(engine: Engine) -> None:
    """IL of a decade of ten years out of forty: 1 + ln(1/4)/ln(40); by hand from the definition."""
    spec = HierarchySpec.from_mapping(
        {"tree": {decade: [str(at) for at in range(int(decade), int(decade) + 10)] for decade in ("20", "30")}},
        ".",
        column="age",
    )
    sample = pa.table({"age": ["20"] * 3 + ["30"] * 2})
    population = pa.table({"age": ["20"] * 90 + ["30"] * 5 + ["40"] * 4})
    model = JournalistProfitability()
    found = assess(
        engine,
        engine.scan(Source(data=sample)),
        guarantees=[model],
        roles=Roles(quasi_identifiers=["age"]),
        rules=JudgingRules(hierarchies={"age": spec}),
        population=engine.scan(Source(data=population)),
    ).verdicts[0]
    shown = {size: 1200 * (1 - found_loss(spec)) - (300 / size if 300 / size > 4 else 0) for size in (90, 5)}
    assert found.observed == pytest.approx(min(shown.values()))


def found_loss(spec: HierarchySpec) -> float:
    hierarchy = spec.build([], [], None)
    texts = hierarchy.texts(1)
    share = float(hierarchy.shares(1)[list(texts).index("20")])
    return max(0.0, min(1.0, 1 + np.log(share) / np.log(hierarchy.domain_size)))


def test_without_a_population_it_says_so() -> None:
    with pytest.raises(UsageError, match="population"):
        judged(JournalistProfitability(no_attack=True), ClassBlock(np.array([2])), Facts())


def test_amounts_are_checked_under_its_own_name() -> None:
    with pytest.raises(UsageError, match="JournalistProfitability: adversary_gain"):
        JournalistProfitability(adversary_gain=-1.0)
