"""A figure of uniqueness states where a stage made up the combinations; both k of wildcards are reported."""

from __future__ import annotations

import pyarrow as pa

from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.measures import IndividualRisk, ProsecutorRisk, SpecialUniques
from privpipe.models import KAnonymity, SampleUniqueness
from privpipe.roles import Roles

ROWS = pa.table({"age": [1, 2, 2], "zip": ["a", "b", "b"], "pay": [1.0, 2.0, 3.0], "w": [9.0, 8.0, 7.0]})
ROLES = Roles(quasi_identifiers=("age", "zip"), insensitive=("pay", "w"))


def notes(engine: Engine, *stages: dict[str, object]) -> tuple[str, ...]:
    measures = [SampleUniqueness(), SpecialUniques(columns=("zip",)), IndividualRisk(weight="w"), ProsecutorRisk()]
    table = engine.scan(Source(data=ROWS))
    rules = JudgingRules(stages=stages)
    return assess(engine, table, guarantees=[], measures=measures, roles=ROLES, rules=rules).notes


def test_perturbed_quasi_identifiers_are_named(embedded: Engine) -> None:
    assert notes(embedded) == ()
    assert notes(embedded, {"name": "generalize", "parameters": {"levels": {"age": 1}}}) == ()
    assert notes(embedded, {"name": "rank_swap", "parameters": {"columns": ["pay"]}}) == ()
    told = notes(embedded, {"name": "rank_swap", "parameters": {"columns": ["age", "pay"]}})
    assert [note.partition(" ")[0] for note in told] == ["sample_uniqueness", "individual_risk"]
    assert all("'age', which rank_swap changed" in note and "record_linkage" in note for note in told)
    grouped = notes(embedded, {"name": "microaggregate", "parameters": {"columns": [["age"], ["pay", "w"]]}})
    assert [note.partition(" ")[0] for note in grouped] == ["sample_uniqueness", "individual_risk"]
    assert len(notes(embedded, {"name": "synthesize", "parameters": {}})) == 3
    assert len(notes(embedded, {"name": "synthesize", "parameters": {"columns": "all"}})) == 3


def test_both_k_of_wildcards_are_reported(embedded: Engine) -> None:
    rows = pa.table({"age": [1, 1, 1, None], "zip": ["a", "a", None, "b"]})
    table = embedded.scan(Source(data=rows))
    roles = Roles(quasi_identifiers=("age", "zip"))
    found = assess(embedded, table, guarantees=[KAnonymity(k=2)], roles=roles, rules=JudgingRules(nulls="wildcard"))
    (verdict,) = found.verdicts
    assert (verdict.outcome, verdict.observed) == ("pass", 2)
    assert "(1 where a blank is a value of its own, and 2 records reach k by these alone)" in verdict.reason
