"""Whole households: what is counted next to the original, and that none of it is a pass without one."""

from __future__ import annotations

import pandas as pd
import pytest

from privpipe.errors import UsageError
from privpipe.models import WholeHouseholds

ROWS = pd.DataFrame({"number": range(6), "home": ["a", "a", "b", "b", None, None], "x": list("pqpqpq")})


@pytest.mark.parametrize(
    ("kept", "outcome", "part"),
    [
        ([0, 1, 2, 3, 4, 5], "pass", 0),
        ([0, 1, 4], "pass", 0),  # b is gone as a whole, and who has no household stands alone
        ([0, 1, 2], "fail", 1),
        ([0, 3], "fail", 2),
    ],
)
def test_households_in_part_are_counted(kept: list[int], outcome: str, part: int) -> None:
    verdict = WholeHouseholds().assess(
        ROWS.iloc[kept].drop(columns="home"), original=ROWS, record_id="number", household_id="home"
    )
    assert (verdict.outcome, verdict.observed) == (outcome, part)


def test_a_row_of_marks_is_not_released() -> None:
    released = ROWS.drop(columns=["home", "number"]).astype(object)
    released.loc[0] = "*"
    verdict = WholeHouseholds().assess(released, original=ROWS, align="position", household_id="home")
    assert (verdict.outcome, verdict.observed) == ("fail", 1)


def test_without_an_original_it_is_an_error() -> None:
    assert WholeHouseholds().assess(ROWS, household_id="home").outcome == "error"


def test_without_a_key_it_is_refused() -> None:
    with pytest.raises(UsageError, match="household_id"):
        WholeHouseholds().assess(ROWS, original=ROWS, record_id="number")


@pytest.mark.parametrize(
    ("whole", "part", "missing", "words"),
    [
        (7, 0, 0, "all 7 released households are whole."),
        (7, 2, 3, "2 of 9 released households lack 3 of their records;"),
    ],
)
def test_the_reason_counts_households_and_what_they_lack(whole: int, part: int, missing: int, words: str) -> None:
    assert WholeHouseholds().judge_kept(whole, part, missing).reason.startswith(words)


@pytest.mark.parametrize(("most", "part", "passed"), [(0, 0, True), (0, 1, False), (2, 2, True), (2, 3, False)])
def test_so_many_may_be_released_in_part(most: int, part: int, passed: bool) -> None:
    assert WholeHouseholds(at_most=most).judge_kept(5, part, part).passed == passed
