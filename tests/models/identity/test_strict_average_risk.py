"""Strict average risk."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import UsageError
from privpipe.models import StrictAverageRisk
from privpipe.testing import judged

BLOCK = ClassBlock(np.array([10, 5, 4, 1]))


@pytest.mark.parametrize(
    ("highest", "least"),
    [(0.3333, 3), (0.3, 4), (0.334, 3), (0.33, 4), (0.2, 5), (0.05, 20), (1.0, 1), (0.5, 2), (0.999, 1), (0.98, 2)],
)
def test_a_risk_is_a_class_size(highest: float, least: int) -> None:
    """Source: worked values of the specification, met up to 1 % relative."""
    assert StrictAverageRisk(highest=highest).least_class() == least


def test_the_three_figures() -> None:
    verdict = judged(StrictAverageRisk(at_most=0.2, highest=0.2, records_at_risk=0.25), BLOCK, Facts())
    assert verdict.observed == {"average": 0.2, "highest": 1.0, "records_at_risk": 0.25}
    assert verdict.threshold == {"average": 0.2, "highest": 0.2, "records_at_risk": 0.25}
    assert verdict.passed


@pytest.mark.parametrize(
    "parameters", [{"at_most": 0.19}, {"records_at_risk": 0.24}, {"highest": 0.1}, {"records_at_risk": 0.0}]
)
def test_any_of_them_may_fail(parameters: dict[str, float]) -> None:
    asked = {"at_most": 0.2, "highest": 0.2, "records_at_risk": 0.25} | parameters
    assert not judged(StrictAverageRisk(**asked), BLOCK, Facts()).passed


def test_left_out_no_one_may_be_at_risk() -> None:
    assert StrictAverageRisk(at_most=0.5, highest=0.2).records_at_risk == 0.0


def test_what_no_table_of_these_records_could_meet() -> None:
    assert (
        "cannot be met by this table: it has 20 records"
        in judged(StrictAverageRisk(at_most=0.01, highest=0.2), BLOCK, Facts()).reason
    )


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"at_most": 0.0, "highest": 0.2}, "at_most must"),
        ({"highest": 0.0}, "highest must"),
        ({"highest": 0.2, "records_at_risk": 1.5}, "records_at_risk must"),
    ],
)
def test_ranges(parameters: dict[str, float], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        StrictAverageRisk(**parameters)
