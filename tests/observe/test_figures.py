"""Every entry without a threshold is a function that gives what it observes."""

from __future__ import annotations

import inspect
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import UsageError
from tests.gathering import gathered

FRAME = pd.DataFrame(
    {
        "zip": ["081", "081", "081", "082", "082", "083"],
        "illness": ["flu", "flu", "cold", "flu", "flu", "cold"],
    }
)


def test_the_five_that_everybody_knows() -> None:
    assert pp.k_anonymity(FRAME, ["zip"]) == pp.k_anonymity(FRAME, quasi_identifiers=["zip"]) == 1
    assert pp.l_diversity(FRAME, ["zip"], "illness") == 1
    assert pp.t_closeness(FRAME, ["zip"], "illness") == pytest.approx(2 / 3)
    assert pp.uniqueness(FRAME, ["zip"]) == pytest.approx(1 / 6)
    assert pp.average_risk(FRAME, ["zip"]) == pytest.approx(1 / 2)


def test_every_entry_without_a_threshold_has_its_function() -> None:
    with gathered() as case:
        for name in pp.observe.figures.names():
            with case(name):
                function = getattr(pp.observe, name)
                assert name in dir(pp.observe)
                assert next(iter(inspect.signature(function).parameters)) == "frame"
                assert inspect.getdoc(function)


@pytest.mark.parametrize("name", ["distinct_l_diversity", "entropy_l_diversity", "t_closeness", "delta_disclosure"])
def test_a_figure_is_what_the_measure_of_a_policy_observes(name: str) -> None:
    document: dict[str, Any] = {
        "columns": {"zip": {"role": "quasi_identifier"}, "illness": {"role": "sensitive"}},
        "guarantees": [{"distinct_l_diversity": {"column": "illness", "l": 1}}],
        "measures": [{name: {"column": "illness"}}],
    }
    wanted = pp.assess(FRAME, document).measures[0].observed
    assert getattr(pp.observe, name)(FRAME, ["zip"], "illness") == wanted


def test_a_column_by_place_may_be_one_of_several() -> None:
    assert pp.observe.p_sensitive_k_anonymity(FRAME, ["zip"], "illness") == {"k": 1, "p": 1}


def test_every_entry_says_of_what_type_its_figure_is() -> None:
    with gathered() as case:
        for name in pp.observe.figures.names():
            with case(name):
                assert pp.observe.figures.attribute(name)._kind.observes is not Any


def test_a_wrong_call_is_reported() -> None:
    with pytest.raises(AttributeError, match="did you mean 'k_anonymity'"):
        pp.observe.k_anonimity(FRAME, ["zip"])  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="'column' must be given"):
        pp.observe.distinct_l_diversity(FRAME, ["zip"])
    with pytest.raises(UsageError, match="unknown parameter 'kolumn'"):
        pp.observe.distinct_l_diversity(FRAME, ["zip"], kolumn="illness")
    with pytest.raises(UsageError, match="needs the original"):
        pp.observe.record_linkage(FRAME, ["zip"])
    assert not hasattr(pp.observe, "no_identifiers")
