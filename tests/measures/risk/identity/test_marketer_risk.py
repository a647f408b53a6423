"""Marketer risk is the expected share of right links."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock
from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.measures import MarketerRisk
from privpipe.roles import Roles
from privpipe.testing import judged


def test_with_and_without_a_population() -> None:
    block = ClassBlock(np.array([1, 4]), population=np.array([2, 10]))
    assert judged(MarketerRisk(population=True), block).observed == pytest.approx((0.5 + 0.4) / 5)
    assert judged(MarketerRisk(), ClassBlock(np.array([1, 4]))).observed == pytest.approx(0.4)


def test_a_population_that_is_given_is_used(embedded: Engine) -> None:
    def share(population: Any) -> float:
        table = embedded.scan(Source(data=pa.table({"a": ["x", "x", "y"]})))
        roles = Roles(quasi_identifiers=("a",))
        found = assess(embedded, table, guarantees=[MarketerRisk(at_most=0.5)], roles=roles, population=population)
        assert found.verdicts[0].parameters["population"] == (population is not None)
        return float(found.verdicts[0].observed)

    register = embedded.scan(Source(data=pa.table({"a": ["x"] * 8 + ["y"] * 4 + ["z"]})))
    assert share(register) == pytest.approx((2 / 8 + 1 / 4) / 3)
    assert share(None) == pytest.approx(2 / 3)
