"""The judged table without its suppressed records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import FactsRequest
from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.judging.judged_table import JudgedTable
from privpipe.models import TCloseness
from privpipe.roles import Roles

WITH = {"zip": ["*", "a", "*", "*"], "age": [None, 1, 2, None]}
"""Two suppressed records: the mark in every text and no number."""
WITHOUT = {"zip": ["*", "a", "b"], "age": [4, 1, None]}


def judged(engine: Engine, data: dict[str, list[Any]], **rules: Any) -> JudgedTable:
    return JudgedTable.of(engine, engine.scan(Source(data=pa.table(data))), JudgingRules(**rules))


def test_records_of_nothing_but_marks_are_left_out(engine: Engine) -> None:
    table = judged(engine, WITH)
    assert table.known is None
    assert table.suppressed == table.known == 2
    assert engine.collect(table.left).sort_by("age").to_pydict() == {"zip": ["a", "*"], "age": [1, 2]}
    assert not table.nothing
    none = judged(engine, WITHOUT)
    assert (none.suppressed, none.left is none.table, none.nothing) == (0, True, False)
    whole = judged(engine, {"zip": ["*", "*"], "age": pa.array([None, None], pa.int64())})
    assert whole.suppressed == 2
    assert whole.nothing


def test_without_a_text_no_record_is_suppressed(embedded: Engine) -> None:
    table = judged(embedded, {"age": [None, 1]})
    assert (table.known, table.suppressed) == (0, 0)


def test_what_is_known_is_not_counted_again(embedded: Engine) -> None:
    none, two = judged(embedded, WITHOUT), judged(embedded, WITH)
    none.note_none_suppressed()
    assert none.known == 0
    assert two.suppressed == 2
    two.note_none_suppressed()
    assert two.known == 2, "what was counted is not forgotten"


def hinted(engine: Engine, data: dict[str, list[Any]], *, texts: list[str], nulls: list[str], **rules: Any) -> bool:
    table = judged(engine, data, **rules)
    facts = engine.facts(table.table, FactsRequest(histograms=tuple(texts), nulls=tuple(nulls)))
    return table.hinted(facts.histograms, facts.nulls)


@pytest.mark.parametrize(
    ("texts", "nulls"), [(["zip"], []), ([], ["age"]), (["zip"], ["age"]), (["zip", "age"], ["zip", "age"])]
)
def test_facts_of_a_table_with_suppressed_records_hint_at_them(
    engine: Engine, texts: list[str], nulls: list[str]
) -> None:
    assert hinted(engine, WITH, texts=texts, nulls=nulls)


def test_a_column_without_the_mark_or_without_a_gap_rules_suppressed_records_out(embedded: Engine) -> None:
    assert not hinted(embedded, {"zip": ["a", "b"], "age": [None, 1]}, texts=["zip"], nulls=["age"])
    assert not hinted(embedded, {"zip": ["*", "b"], "age": [2, 1]}, texts=["zip"], nulls=["age"])
    assert not hinted(embedded, {"zip": ["*", "b"], "city": ["a", "c"]}, texts=["zip", "city"], nulls=[])
    assert not hinted(embedded, {"zip": ["*", "b"]}, texts=[], nulls=[]), "nothing was learnt that could differ"


def test_a_count_made_before_says_whether_there_are_any(embedded: Engine) -> None:
    for data, any_ in ((WITH, True), (WITHOUT, False)):
        table = judged(embedded, data)
        assert (table.suppressed > 0) is any_
        assert table.hinted({}, {}) is any_


def test_marks_next_to_a_gap_of_a_file_without_types_say_nothing(embedded: Engine) -> None:
    rows = {"zip": ["*", "a"], "age": pa.array([None, "4"], pa.string())}
    assert judged(embedded, rows).suppressed == 0
    untyped = judged(embedded, rows, untyped=("age",))
    assert untyped.suppressed == 1
    assert not untyped.holds_suppressed(["zip", "age"]), "with a gap in a key it may be in a class without the mark"
    assert untyped.holds_suppressed(["zip"])
    assert not untyped.holds_suppressed([])


def test_all_released_columns_as_keys_are_the_whole_release(embedded: Engine) -> None:
    table = judged(embedded, WITHOUT)
    assert table.is_whole_release(["age", "zip"])
    assert not table.is_whole_release(["zip"])
    assert judged(embedded, WITHOUT, released=("zip",)).is_whole_release(["zip"])


@pytest.mark.parametrize("gone", [0, 3])
def test_the_values_of_persons_are_those_of_who_is_left(engine: Engine, gone: int) -> None:
    """Who is suppressed has no illness, though the release still shows the mark."""
    left = {"who": list("aabcd"), "zip": list("11122"), "illness": ["flu", "flu", "ok", "flu", "flu"]}
    rows = pa.table({name: [*left[name], *(["x", "y", "z"][:gone] if name == "who" else "*" * gone)] for name in left})
    rules = JudgingRules(person="who", released=("zip", "illness"))
    roles = Roles(quasi_identifiers=("zip",), sensitive=("illness",))
    asked = [TCloseness(column="illness", t=1.0)]
    found = assess(engine, engine.scan(Source(data=rows)), guarantees=asked, roles=roles, rules=rules).verdicts[-1]
    # Of all persons 3/4 have the flu; in the class of zip 1 it is 1/2, in the other everyone.
    assert found.observed == pytest.approx(1 / 4)
