"""No identifier among the columns of a judged table."""

from __future__ import annotations

import pytest

from privpipe.errors import UsageError
from privpipe.models import NoIdentifiers
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=["zip"], identifiers=["name", "ssn"])


def test_observed_is_the_number_of_identifier_columns_that_are_there() -> None:
    verdict = NoIdentifiers().judge_columns(["ssn", "zip", "name"], ROLES)
    assert (verdict.outcome, verdict.observed, verdict.threshold) == ("fail", 2, 0)
    assert "'ssn', 'name'" in verdict.reason


def test_a_table_without_them_passes() -> None:
    verdict = NoIdentifiers().judge_columns(["zip"], ROLES)
    assert (verdict.outcome, verdict.observed, verdict.threshold) == ("pass", 0, 0)


@pytest.mark.parametrize(
    ("present", "words"),
    [
        (["note"], "1 column is to be dropped, or an identifier: 'note'; take it out."),
        (["note", "name"], "2 columns are to be dropped, or an identifier: 'note', 'name'; take them out."),
        (["name"], "1 column is an identifier: 'name'; take it out, or pseudonymise it."),
    ],
)
def test_a_column_to_be_dropped_is_there_no_more_than_an_identifier(present: list[str], words: str) -> None:
    roles = Roles(quasi_identifiers=["zip"], identifiers=["name"], dropped=["note"])
    verdict = NoIdentifiers().judge_columns(present, roles)
    assert (verdict.outcome, verdict.observed, verdict.reason) == ("fail", len(present), words)


def test_columns_of_other_roles_can_be_forbidden_too() -> None:
    verdict = NoIdentifiers(columns=("zip", "zip", "elsewhere")).judge_columns(["zip"], ROLES)
    assert (verdict.outcome, verdict.observed) == ("fail", 1)


@pytest.mark.parametrize("columns", ["name", [""], [3]])
def test_columns_are_names(columns: object) -> None:
    with pytest.raises(UsageError, match="columns must be a list of column names|column names must be text"):
        NoIdentifiers(columns=columns)  # type: ignore[arg-type]
