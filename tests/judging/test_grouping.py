"""Which entries share a count of classes."""

from __future__ import annotations

from typing import Any

import pytest

from privpipe.errors import UsageError
from privpipe.judging import JudgingRules
from privpipe.judging.rules import groups_of, keys_of
from privpipe.measures import Separation
from privpipe.models import KAnonymity, KMap, TCloseness
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("zip", "age"), sensitive=("illness",))


def groups(*entries: Any, **rules: Any) -> list[Any]:
    return groups_of(entries, ROLES, JudgingRules(**rules))


def places(*entries: Any, **rules: Any) -> list[tuple[tuple[str, ...], list[int]]]:
    return [(group.keys, [at for at, _ in group.entries]) for group in groups(*entries, **rules)]


def test_entries_over_the_same_columns_share_a_count_and_the_policys_own_stand_first() -> None:
    over_zip, both = KAnonymity(k=2, quasi_identifiers=("zip",)), KAnonymity(k=5)
    assert places(over_zip, both, over_zip, both) == [(("zip", "age"), [1, 3]), (("zip",), [0, 2])]


def test_those_next_to_a_population_have_a_count_of_their_own_after_the_others() -> None:
    found = groups(KMap(k=2), KAnonymity(k=2))
    assert [(group.population, group.entries[0][0]) for group in found] == [(False, 1), (True, 0)]


def test_what_is_compared_with_another_distribution_has_a_count_of_its_own() -> None:
    near = TCloseness(column="illness", t=0.2)
    other = TCloseness(column="illness", t=0.2, base="released")
    assert len(groups(near, KAnonymity(k=2))) == 1
    assert len(groups(near, other)) == 1, "without the original's the judged table's own stands for both"


def test_keys_that_an_entry_names_are_its_own_and_none_is_one_class() -> None:
    assert keys_of(KAnonymity(k=2), ROLES) == ("zip", "age")
    assert keys_of(KAnonymity(k=2, quasi_identifiers=("age",)), ROLES) == ("age",)
    assert keys_of(KAnonymity(k=2, quasi_identifiers=()), Roles()) == ()
    with pytest.raises(UsageError, match="no quasi-identifier is declared"):
        keys_of(KAnonymity(k=2), Roles())


def test_the_classes_of_an_attackers_columns_are_those_of_the_table_and_of_single_columns_are_not() -> None:
    [known] = groups(KAnonymity(k=2, quasi_identifiers=("zip",)))
    [looked_at] = groups(Separation(columns=("zip",)))
    assert known.keys == known.over == ("zip",)
    assert (looked_at.keys, looked_at.over) == (("zip",), ("zip", "age"))
    assert places(Separation(columns=("zip",)), KAnonymity(k=2, quasi_identifiers=("age",))) == [
        (("age",), [1]),
        (("zip",), [0]),
    ]
