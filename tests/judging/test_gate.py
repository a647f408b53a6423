"""How the columns of a judged table are looked at, whatever the guarantees."""

from __future__ import annotations

import pytest

from privpipe.errors import DataError
from privpipe.judging.rules import Gate, column_verdicts
from privpipe.models import KAnonymity, NoIdentifiers
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("zip",), identifiers=("name",), dropped=("memo",))


def test_an_identifier_among_the_columns_that_readers_see_fails() -> None:
    failed, held, notes = column_verdicts(Gate(), ["zip", "name"], ROLES, [KAnonymity(k=2)])
    assert ([verdict.outcome for verdict in failed], held, notes) == (["fail"], (), [])
    failed, held, notes = column_verdicts(Gate(columns=("zip",)), ["zip", "name"], ROLES, [KAnonymity(k=2)])
    assert (failed, [verdict.outcome for verdict in held], notes) == ((), ["pass"], [])


def test_what_the_guarantees_list_is_not_built_in_again() -> None:
    assert column_verdicts(Gate(), ["zip", "name"], ROLES, [KAnonymity(k=2), NoIdentifiers()]) == ((), (), [])


def test_columns_without_a_role_are_noted_or_refused() -> None:
    *_, notes = column_verdicts(Gate(), ["zip", "pet", "car"], ROLES, [])
    assert notes == ["columns without a role, which were not looked at: 'pet', 'car'"]
    with pytest.raises(DataError, match=r"2 column\(s\) of the table have no role: 'pet', 'car'"):
        column_verdicts(Gate(undeclared="refuse"), ["zip", "pet", "car"], ROLES, [])
    assert column_verdicts(Gate(undeclared="refuse"), ["zip"], ROLES, [])[0] == ()


def test_identifiers_of_a_source_are_noted() -> None:
    failed, held, notes = column_verdicts(Gate(raw=True), ["zip", "name", "memo"], ROLES, [])
    assert (failed, held) == ((), ())
    assert notes == [
        "identifiers of the source, which no release holds: 'name'",
        "dropped columns of the source, which no release holds: 'memo'",
    ]
    assert column_verdicts(Gate(raw=True), ["zip"], ROLES, []) == ((), (), [])
