"""Whole households: what is counted beside the original, and that none of it is a pass without one."""

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
