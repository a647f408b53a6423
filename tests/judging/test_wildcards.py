"""Limits of matching by wildcards, checked before anything travels."""

from __future__ import annotations

import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.errors import UnsupportedError
from privpipe.judging import JudgingRules, assess, counted_classes
from privpipe.models import KAnonymity
from privpipe.roles import Roles


def test_too_many_patterns_are_refused_where_they_lie(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = engine.scan(Source(data=pa.table({"zip": ["1", "2", "3", None, "1"]})))
    roles, rules = Roles(quasi_identifiers=["zip"]), JudgingRules(nulls="wildcard")
    monkeypatch.setattr(counted_classes, "MOST_PATTERNS", 4)
    found = assess(engine, table, guarantees=[KAnonymity(k=1)], roles=roles, rules=rules)
    assert found.verdicts[0].observed == 1
    monkeypatch.setattr(counted_classes, "MOST_PATTERNS", 3)
    monkeypatch.setattr(type(engine), "distinct", lambda *_: pytest.fail("the patterns were collected"))
    with pytest.raises(UnsupportedError, match="serves 3 distinct combinations .* this table has 4 combinations; "):
        assess(engine, table, guarantees=[KAnonymity(k=1)], roles=roles, rules=rules)


def test_a_pattern_is_complete_without_a_blank_in_any_column() -> None:
    found = pa.table({"zip": ["1", "1", None, "2"], "sex": ["f", None, None, "?"], "__count": [1, 2, 4, 8]})
    block, _ = counted_classes.matching_block(found, ["zip", "sex"], "?", None)
    assert block.complete is not None
    assert block.sizes[block.complete].tolist() == [1]
    assert block.alone == 1
