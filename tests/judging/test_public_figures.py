"""What is shown of a guarantee where no one holds the policy: how far it is on the safe side, and nothing of few."""

from __future__ import annotations

from typing import Any

import pytest

from privpipe.blocks.public_edition import LEAST_REPORTED
from privpipe.judging.assessment import check_metadata, not_judged, public_figures, rules_of_judging
from privpipe.models import KAnonymity, TCloseness


def test_nothing_below_the_largest_k_is_shown_and_never_below_the_least() -> None:
    def least(*asked: int) -> int:
        return rules_of_judging([KAnonymity(k=k) for k in asked], ["zip"]).least

    assert (least(), least(2), least(2, 9, 7)) == (LEAST_REPORTED, LEAST_REPORTED, 9)


def test_the_rules_show_the_columns_of_readers_and_no_counts() -> None:
    rules = rules_of_judging([KAnonymity(k=2)], ["zip", "age"], "who", "home")
    assert (rules.columns, rules.person, rules.household, rules.counts) == ({"zip", "age"}, "who", "home", False)


def margin(entry: Any, asked: Any, reached: Any) -> Any:
    row = {"name": "x", "parameters": {}, "threshold": asked, "observed": reached, "outcome": "pass", "severity": ""}
    shown = dict.fromkeys(("passed", "records", "suppressed_records", "classes", "warnings")) | {"guarantees": [row]}
    [found] = public_figures(shown, [not_judged(entry, "")])["guarantees"]
    return found["margin"]


def test_a_margin_is_above_0_on_the_safe_side_whatever_its_direction() -> None:
    least, most = KAnonymity(k=5), TCloseness(column="illness", t=0.5)
    assert (least.direction, margin(least, 5, 7), margin(least, 5, 3)) == ("at_least", 2.0, -2.0)
    assert most.direction == "at_most"
    assert (margin(most, 0.5, 0.25), margin(most, 0.5, 0.75)) == (0.25, -0.25)


@pytest.mark.parametrize(("asked", "reached"), [(None, 7), (5, None), (5, float("inf")), ({"a": 1}, 7), ("5", 7)])
def test_without_two_numbers_there_is_no_margin(asked: Any, reached: Any) -> None:
    assert margin(KAnonymity(k=5), asked, reached) is None


def test_counts_that_the_public_edition_withholds_are_left_out() -> None:
    row = {"guarantee": "x", "parameters": {"k": 5, "of": "a"}, "asked": 5, "reached": None, "margin": None}
    found = check_metadata({"guarantees": [{**row, "outcome": "pass"}], "records": None, "classes": 0})
    assert found == {
        "guarantees": [
            {"guarantee": "x", "parameters": "k=5, of=a", "asked": "5", "reached": "", "margin": "", "outcome": "pass"}
        ],
        "classes": 0,
    }
    assert check_metadata({"records": 90}) == {}
