"""The column that identifies the units of an entry, and the input of the run, counted likewise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, Histogram
from privpipe.judging import JudgingRules
from privpipe.models import KAnonymity

ILLNESS = {"illness": Histogram(pa.array(["flu"]), np.array([9]))}


def test_an_entry_counts_what_it_says_else_what_the_rules_say() -> None:
    rules = JudgingRules(person="who", household="home")
    found = [rules.unit(KAnonymity(k=2, over=over)) for over in (None, "persons", "households")]
    assert found == ["who", "who", "home"]
    assert JudgingRules().unit(KAnonymity(k=2)) is None


@pytest.mark.parametrize(
    ("person", "household", "told"),
    [
        (None, None, "records"),
        (None, "home", "records"),
        ("who", None, "persons"),
        ("who", "home", "persons"),
        ("home", "home", "households"),
    ],
)
def test_sentences_name_what_is_counted(person: str | None, household: str | None, told: str) -> None:
    assert JudgingRules(person=person, household=household).counted == told


def test_what_entered_the_run_is_counted_as_the_entry_counts() -> None:
    entered = {"home": Facts(records=4, histograms=ILLNESS), "who": Facts(records=-1, histograms=ILLNESS)}
    other = {"illness": Histogram(pa.array(["flu"]), np.array([20]))}
    rules = JudgingRules(base=other, records=20, household="home", entered=entered)
    assert rules.counting(None) is rules
    homes, who, nobody = (rules.counting(unit) for unit in ("home", "who", "else"))
    assert (homes.person, homes.records, homes.base) == ("home", 4, ILLNESS)
    assert (who.person, who.records, who.base) == ("who", None, ILLNESS), "how many there were is not known"
    assert (nobody.person, nobody.records, nobody.base) == ("else", None, {}), "records are not taken for persons"
