"""Estimated k-map."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import DataError, UsageError
from privpipe.models import EstimatedKMap
from privpipe.testing import judged

BLOCK = ClassBlock(np.array([95, 5]))
MODEL = EstimatedKMap(k=10, population_size=1000, significance=0.01)


def test_the_threshold_of_the_verdict_is_the_derived_size() -> None:
    """lambda = 1; P(X <= 4) = 0.9963 >= 0.99 first, so k' = 6."""
    verdict = judged(MODEL, BLOCK, Facts(records=100))
    assert (verdict.observed, verdict.threshold, verdict.passed, verdict.failing_records) == (5, 6, False, 5)
    assert "k' = 6 (k = 10, lambda = 1, significance 0.01)" in verdict.reason


def test_the_truncated_form_asks_for_no_more() -> None:
    for k in (1, 2, 5, 50):
        for population in (100, 1000, 10**6, 10**12):
            plain, truncated = (
                EstimatedKMap(k=k, population_size=population, significance=0.05, estimator=estimator).derived(100)
                for estimator in ("poisson", "zero_truncated_poisson")
            )
            assert 1 <= truncated <= plain <= k


def test_a_tiny_sample_needs_few_records() -> None:
    """lambda = 5e-11: 1 - exp(-lambda) must not be lost in rounding."""
    model = EstimatedKMap(k=5, population_size=10**12, significance=0.01, estimator="zero_truncated_poisson")
    assert model.derived(10) == 2


def test_records_are_those_of_the_whole_table() -> None:
    """Suppressed records count: the facts say how many there were."""
    few, many = (judged(MODEL, BLOCK, Facts(records=records)).threshold for records in (100, 900))
    assert few < many


def test_a_population_smaller_than_the_table() -> None:
    with pytest.raises(DataError, match="population_size is 1,000 and the table has 1,001"):
        judged(MODEL, BLOCK, Facts(records=1001))


def test_no_one_counted() -> None:
    with pytest.raises(UsageError, match="number of records"):
        judged(MODEL, BLOCK, Facts())


def test_only_a_table_of_fewer_records_than_a_class_needs_cannot_meet_it() -> None:
    facts = Facts(records=100)
    assert "it has 5 records" in MODEL.unattainable(5, facts)
    assert "it has 0 records" in MODEL.unattainable(0, Facts(records=0))
    assert MODEL.unattainable(6, facts) == MODEL.unattainable(5, Facts()) == ""
    assert EstimatedKMap(population_size=1000, significance=0.01).unattainable(0, facts) == ""


def test_what_asks_for_nothing_needs_no_count() -> None:
    verdict = judged(EstimatedKMap(population_size=10, significance=0.01), BLOCK, Facts())
    assert (verdict.observed, verdict.failing_classes) == (5, 0)
    assert MODEL.passing(ClassBlock(np.zeros(0, np.int64)), Facts()).tolist() == []


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"k": 0}, "k must"),
        ({"population_size": 0}, "population_size must"),
        ({"significance": 0.0}, "significance must"),
        ({"significance": 1.0}, "significance must"),
        ({"significance": math.nan}, "significance must"),
        ({"estimator": "binomial"}, "estimator must"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        EstimatedKMap(**{"k": 5, "population_size": 10, "significance": 0.05, **parameters})
