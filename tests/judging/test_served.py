"""The units that an entry counts must be identified by a column of the policy."""

from __future__ import annotations

from privpipe.judging.judging import refused_without_wildcard, uncountable
from privpipe.models import HouseholdKAnonymity, KAnonymity


def test_the_key_that_is_missing_is_named() -> None:
    persons, homes = KAnonymity(k=2, over="persons"), KAnonymity(k=2, over="households")
    assert "counts over persons, and nothing distinguishes them" in uncountable(persons, None, "home")
    assert uncountable(persons, None, "home").endswith("name their column as `person_id`")
    assert uncountable(homes, "who", None).endswith("name their column as `household_id`")
    assert uncountable(HouseholdKAnonymity(k=2), "who", None)
    for entry in (persons, homes, KAnonymity(k=2), HouseholdKAnonymity(k=2)):
        assert uncountable(entry, "who", "home") == ""
    assert uncountable(KAnonymity(k=2), None, None) == ""


def test_what_needs_no_matching_is_served_without_it() -> None:
    assert refused_without_wildcard(KAnonymity(k=2)) == ""
