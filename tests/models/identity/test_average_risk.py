"""Average re-identification risk."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import UsageError
from privpipe.models import AverageRisk
from privpipe.testing import judged


def test_the_mean_is_over_records_not_classes() -> None:
    verdict = judged(AverageRisk(at_most=0.05), ClassBlock(np.array([99, 1])))
    assert (verdict.outcome, verdict.observed) == ("pass", 0.02)
    assert (verdict.failing_classes, verdict.failing_records) == (None, None)


def test_the_threshold_itself_passes() -> None:
    assert judged(AverageRisk(at_most=0.3), ClassBlock(np.array([4, 3, 3]))).passed
    verdict = judged(AverageRisk(at_most=0.29), ClassBlock(np.array([4, 3, 3])))
    assert verdict.outcome == "fail"
    assert verdict.reason == "observed 0.3, required at most 0.29; over 3 classes of 10 records."


def test_a_table_too_small_for_any_classes() -> None:
    verdict = judged(AverageRisk(at_most=0.1), ClassBlock(np.array([5])))
    assert "cannot be met by this table: it has 5 records" in verdict.reason


def test_blocks_in_any_order() -> None:
    model, facts = AverageRisk(at_most=0.5), Facts()
    parts = [model.measure(ClassBlock(np.array(sizes)), facts) for sizes in ([3, 1], [1], [10, 2, 3])]
    forward = model.merge(model.merge(parts[0], parts[1]), parts[2])
    backward = model.merge(parts[2], model.merge(parts[1], parts[0]))
    assert forward == backward
    assert model.judge(forward, facts).observed == 6 / 20


def test_without_a_threshold_it_is_reported() -> None:
    verdict = judged(AverageRisk(), ClassBlock(np.array([2, 2])))
    assert (verdict.outcome, verdict.observed, verdict.threshold) == ("pass", 0.5, None)


@pytest.mark.parametrize("at_most", [0, -0.1, 1.1, float("nan"), True])
def test_a_risk_is_a_positive_share(at_most: float) -> None:
    with pytest.raises(UsageError, match="AverageRisk: at_most"):
        AverageRisk(at_most=at_most)
