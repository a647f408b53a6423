"""Where persons are counted, sentences speak of persons."""

from __future__ import annotations

import re

import pyarrow as pa

from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.models import CATALOGUE
from privpipe.roles import Roles
from privpipe.testing import examples_of


def test_every_model_says_what_it_counts(embedded: Engine) -> None:
    """Two records of one person, one of another, three of a third; every example that judges classes."""
    table = embedded.scan(
        Source(
            data=pa.table(
                {
                    "zip": ["1", "1", "1", "2", "2", "2"],
                    "illness": ["flu", "cold", "flu", "flu", "flu", "gout"],
                    "income": [1, 2, 3, 4, 5, 6],
                    "who": ["p", "p", "q", "r", "r", "r"],
                }
            )
        )
    )
    roles = Roles(quasi_identifiers=["zip"], sensitive=["illness", "income"], identifiers=["who"])
    models = [model for model in examples_of(CATALOGUE) if model.is_gate() and not getattr(model, "hierarchy", None)]
    said = {}
    for rules in (JudgingRules(), JudgingRules(person="who")):
        found = assess(embedded, table, guarantees=models, roles=roles, rules=rules)
        said[rules.person] = [verdict.reason for verdict in found.verdicts]
    counted = [re.search(r"\brecords?\b", reason) is not None for reason in said[None]]
    assert sum(counted) > 10
    assert not [reason for reason in said["who"] if re.search(r"\brecords?\b", reason)]
    assert [re.search(r"\bpersons?\b", reason) is not None for reason in said["who"]].count(True) >= sum(counted) - 5
