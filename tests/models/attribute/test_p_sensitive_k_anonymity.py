"""p-sensitive k-anonymity."""

from __future__ import annotations

import pytest

from privpipe.errors import UsageError
from privpipe.models import DistinctLDiversity, KAnonymity, PSensitiveKAnonymity
from privpipe.roles import Roles
from privpipe.testing import block_of, judged

BLOCK = block_of(illness=[[2, 1], [0, 4]], income=[[1, 1, 1], [2, 1, 1]])


def test_the_least_of_every_column_and_class() -> None:
    both = ("illness", "income")
    assert judged(PSensitiveKAnonymity(columns=both), BLOCK).observed == {"k": 3, "p": 1}
    assert judged(PSensitiveKAnonymity(columns=("income",)), BLOCK).observed == {"k": 3, "p": 3}


@pytest.mark.parametrize(("k", "p"), [(1, 1), (3, 1), (3, 2), (4, 1), (4, 4)])
def test_the_same_as_its_two_halves(k: int, p: int) -> None:
    halves = [KAnonymity(k=k), *(DistinctLDiversity(column=column, l=p) for column in ("illness", "income"))]
    verdict = judged(PSensitiveKAnonymity(k=k, p=p, columns=("illness", "income")), BLOCK)
    assert verdict.passed == all(judged(half, BLOCK).passed for half in halves)


def test_left_out_columns_are_all_sensitive_ones() -> None:
    filled = PSensitiveKAnonymity(k=2, p=2).with_roles(
        Roles(quasi_identifiers=["zip"], sensitive=["illness", "income"])
    )
    assert filled.columns == ("illness", "income")
    with pytest.raises(UsageError, match="role: sensitive"):
        PSensitiveKAnonymity(k=2, p=2).with_roles(Roles(quasi_identifiers=["zip"]))
    with pytest.raises(UsageError, match="name the sensitive"):
        judged(PSensitiveKAnonymity(k=2, p=2), BLOCK)


def test_the_reason_names_both_figures_and_what_cannot_be() -> None:
    reason = judged(PSensitiveKAnonymity(k=9, p=4, columns=("illness",)), BLOCK).reason
    assert "k = 3 (required at least 9), p = 1 (required at least 4)" in reason
    assert "cannot be met by this table: 'illness' has 2 distinct values" in reason


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"k": 2, "p": 3}, "p must be an integer in"),
        ({"k": 0, "p": 1}, "k must"),
        ({"k": 2}, "go together"),
        ({"k": 2, "p": 1, "columns": "illness"}, "must be a list"),
        ({"k": 2, "p": 1, "columns": ()}, "at least one"),
        ({"k": 2, "p": 1, "columns": ("a",), "quasi_identifiers": ("a",)}, "forms itself"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        PSensitiveKAnonymity(**parameters)
