"""Every model over every hostile table on the engine of dictionaries."""

from __future__ import annotations

import pytest

from privpipe.engines import Source
from privpipe.judging import JudgingRules, assess
from privpipe.models import CATALOGUE
from privpipe.testing import (
    HOSTILE_TABLES,
    Case,
    Conformance,
    HostileTable,
    PlainEngine,
    examples_of,
    histogram_of,
    oracle,
)
from privpipe.testing.oracle import expected_error
from tests.hostile_kinds import KINDS


@pytest.mark.parametrize("table", HOSTILE_TABLES.values(), ids=str)
def test_every_model_gives_the_oracle_verdict(table: HostileTable) -> None:
    """On the engine of dictionaries, which distinguishes a model's fault from an engine's."""
    checks = Conformance(PlainEngine())  # type: ignore[arg-type]
    found = checks.report(Case(model, table) for model in checks.models)
    assert not found.failures, str(found)


@pytest.mark.parametrize("table", KINDS, ids=str)
def test_judging_together_is_judging_alone(table: HostileTable) -> None:
    """One count serves all models; none may see what another left behind."""
    models = [model for model in examples_of(CATALOGUE) if expected_error(model, table) is None]
    engine = PlainEngine(classes_a_block=2)
    handle = engine.scan(Source(data=table.frame()))
    rules = JudgingRules(base={name: histogram_of(values) for name, values in table.base.items()})

    def verdicts(some: list) -> list:  # type: ignore[type-arg]
        judged = assess(engine, handle, guarantees=some, roles=table.roles, rules=rules)  # type: ignore[arg-type]
        return [verdict.to_dict() | {"reason": ""} for verdict in judged.verdicts]

    assert verdicts(models) == [verdict for model in models for verdict in verdicts([model])]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_the_size_of_blocks_changes_nothing(size: int) -> None:
    table = HOSTILE_TABLES["interleaved_classes"]
    models = [model for model in examples_of(CATALOGUE) if expected_error(model, table) is None]
    engine, usual = PlainEngine(classes_a_block=size), PlainEngine()
    found = [
        assess(one, one.scan(Source(data=table.frame())), guarantees=models, roles=table.roles).to_dict()  # type: ignore[arg-type]
        for one in (engine, usual)
    ]
    assert found[0] == found[1]


def test_one_class_of_all_records() -> None:
    """`quasi_identifiers: []` written out means one class of all that are not suppressed; marks alone mean nothing."""
    table = HOSTILE_TABLES["partly_suppressed"]
    engine = PlainEngine()
    for model in (
        type(example)(**example.parameters() | {"quasi_identifiers": ()}) for example in examples_of(CATALOGUE)
    ):
        if expected_error(model, table) is not None:
            continue
        judged = assess(
            engine,  # type: ignore[arg-type]
            engine.scan(Source(data=table.frame())),
            guarantees=[model],
            roles=table.roles,
        )
        assert (judged.records, judged.suppressed_records, judged.classes) == (9, 2, 1)
        assert judged.verdicts[0].outcome == oracle(model, table).outcome
