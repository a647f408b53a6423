"""What is judged whatever the entries: how many records there are, and notes where they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from privpipe.blocks import Facts, Guarantee, Tally, Verdict
from privpipe.blocks.way import DISTINCT, Way
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging import JudgingRules, assess
from privpipe.judging.rules import Gate
from privpipe.models import KAnonymity, NoIdentifiers
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("zip",), insensitive=("pay",))
ROWS: dict[str, Any] = {"zip": ["a", "a", "b", "*", "*"], "pay": [1, 2, 3, None, None]}


def judged(engine: Engine, *entries: Guarantee, rows: dict[str, Any] = ROWS, **rules: Any) -> Any:
    table = engine.scan(Source(data=pa.table(rows)))
    return assess(engine, table, guarantees=entries, roles=ROLES, rules=JudgingRules(**rules))


@pytest.mark.parametrize("entry", [NoIdentifiers(), KAnonymity(k=1)], ids=["no count of classes", "classes"])
def test_records_are_those_that_are_not_suppressed(engine: Engine, entry: Guarantee) -> None:
    found = judged(engine, entry)
    assert (found.records, found.suppressed_records) == (3, 2)
    with pytest.raises(DataError, match="the table has no records"):
        judged(engine, entry, rows={"zip": pa.array([], pa.string()), "pay": pa.array([], pa.int64())})


def test_columns_are_looked_at_where_notes_are_asked_for_and_a_record_is_left(embedded: Engine) -> None:
    told = "have a value of `pay` of their own"
    assert told in " ".join(judged(embedded, KAnonymity(k=1), gate=Gate(notes=True)).notes)
    assert told not in " ".join(judged(embedded, KAnonymity(k=1), gate=Gate()).notes)
    nothing = {"zip": ["*", "*"], "pay": pa.array([None, None], pa.int64())}
    assert told not in " ".join(judged(embedded, KAnonymity(k=1), rows=nothing, gate=Gate(notes=True)).notes)


def test_blanks_that_match_anything_are_counted_in_records_alone(embedded: Engine) -> None:
    assert judged(embedded, KAnonymity(k=1), nulls="wildcard").verdicts[-1].outcome == "pass"
    with pytest.raises(UnsupportedError, match="cannot be had over households"):
        judged(embedded, KAnonymity(k=1, over="households"), nulls="wildcard", household="pay")
    with pytest.raises(UnsupportedError, match="cannot be had together with person_id"):
        judged(embedded, KAnonymity(k=1), nulls="wildcard", person="pay")


@dataclass(frozen=True, kw_only=True, repr=False)
class BlanksSeen(Guarantee):
    """Records of combinations with a blank."""

    way: ClassVar[Way] = DISTINCT
    judges_matching: ClassVar[bool] = True

    def measure(self, block: Any, facts: Facts) -> Tally:
        return Tally(observed=0 if block.blanks is None else int(block.counts[block.blanks.any(axis=1)].sum()))

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        return Verdict(self, observed.observed, "pass")


def test_a_text_represents_any_under_wildcard_alone(embedded: Engine) -> None:
    rows: dict[str, Any] = {"zip": ["a", None, "?", "?"], "pay": [1, 2, 3, 4]}
    found = [
        judged(embedded, BlanksSeen(), rows=rows, nulls=nulls, wildcard="?") for nulls in ("own_value", "wildcard")
    ]
    assert [each.verdicts[-1].observed for each in found] == [1, 3]
