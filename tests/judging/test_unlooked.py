"""What a reader of the verdicts must know about what they omit."""

from __future__ import annotations

from privpipe.judging.judging import guarantee_notes
from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("age", "zip"), sensitive=("illness", "income"))
DIVERSE = DistinctLDiversity(column="illness", l=2, quasi_identifiers=("zip",))


def test_columns_that_no_guarantee_looks_at_are_named_where_these_are_all() -> None:
    assert guarantee_notes([DIVERSE], ROLES, whole=True) == [
        "no guarantee looks at the quasi-identifier 'age'",
        "no guarantee looks at the sensitive column 'income'",
    ]
    assert guarantee_notes([DIVERSE], ROLES, whole=False) == []
    assert guarantee_notes([], ROLES, whole=True) == []


def test_guarantees_that_protect_no_one_are_named_wherever_they_stand() -> None:
    for whole in (True, False):
        found = guarantee_notes([KAnonymity(k=1), DIVERSE, KAnonymity(k=3)], ROLES, whole=whole)
        assert [note for note in found if "protects no one" in note] == ["k_anonymity with k = 1 protects no one"]
    assert guarantee_notes([KAnonymity(k=2, quasi_identifiers=())], ROLES, whole=False) == [
        "k_anonymity takes all records as one class, whatever they hold"
    ]


def test_without_a_quasi_identifier_no_one_is_taken_to_know_anything() -> None:
    [first, *_] = guarantee_notes([KAnonymity(k=2, quasi_identifiers=())], Roles(), whole=True)
    assert first == "no column is a quasi-identifier: no attacker is taken to know anything of a person"
