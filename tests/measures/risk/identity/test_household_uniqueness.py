"""Households of a composition of their own; the figures of `household_k_anonymity` on random tables stand with it."""

from __future__ import annotations

import pandas as pd
import pytest

from privpipe.measures import HouseholdUniqueness

ROWS = pd.DataFrame({"home": [1, 1, 2, 2, 3], "age": [30, 40, 40, 30, 30]})


@pytest.mark.parametrize(("at_most", "outcome"), [(0.3, "fail"), (0.34, "pass"), (1.0, "pass")])
def test_one_of_three_households_is_alone(at_most: float, outcome: str) -> None:
    verdict = HouseholdUniqueness(at_most=at_most).assess(ROWS, quasi_identifiers=["age"], household_id="home")
    assert verdict.outcome == outcome
    assert verdict.observed == pytest.approx(1 / 3)
    assert verdict.reason == f"1 of 3 households have a composition of their own, required at most {at_most:g}."


def test_a_measure_judges_nothing() -> None:
    verdict = HouseholdUniqueness().assess(ROWS, quasi_identifiers=["age"], household_id="home")
    assert (verdict.outcome, verdict.reason) == ("pass", "1 of 3 households have a composition of their own.")


def test_no_one_is_unique_in_pairs() -> None:
    twice = pd.concat([ROWS, ROWS.assign(home=ROWS["home"] + 10)])
    found = HouseholdUniqueness(at_most=0).assess(twice, quasi_identifiers=["age"], household_id="home")
    assert (found.outcome, found.observed) == ("pass", 0.0)
