"""What entries of one run read: each receives the units that it counts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.models import TCloseness
from privpipe.roles import Roles

ROWS = {
    "who": ["p", "p", "q", "r", "s", "t", "u", "u"],
    "home": ["a", "a", "a", "b", "b", "b", "c", "d"],
    "zip": ["1", "1", "1", "1", "2", "2", "2", "2"],
    "illness": ["flu", "flu", "flu", "cold", "cold", "cold", "flu", "cold"],
}
ROLES = Roles(quasi_identifiers=("zip",), sensitive=("illness",))


def observed(engine: Engine, *over: Any, **rules: Any) -> list[Any]:
    entries = [TCloseness(column="illness", t=0.9, over=each) for each in over]
    table = engine.scan(Source(data=pa.table(ROWS)))
    found = assess(engine, table, guarantees=entries, roles=ROLES, rules=JudgingRules(**rules))
    return [verdict.observed for verdict in found.verdicts[-len(entries) :]]


def test_each_entry_compares_with_the_table_in_what_it_counts(engine: Engine) -> None:
    [persons], [homes] = observed(engine, None, person="who"), observed(engine, None, person="home")
    [records] = observed(engine, None)
    assert len({records, persons, homes}) == 3
    assert observed(engine, "persons", "households", person="who", household="home") == [persons, homes]
    assert observed(engine, "households", "persons", person="who", household="home") == [homes, persons]
    assert observed(engine, "households", None, household="home") == [homes, records]
