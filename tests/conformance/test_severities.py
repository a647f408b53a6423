"""A guarantee that only warns is judged as any other: the same figures on every engine, for every entry."""

from __future__ import annotations

from dataclasses import replace

from privpipe.blocks import Guarantee
from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.testing import HOSTILE_TABLES
from privpipe.testing.hostile_tables import arrow_table

TABLE = next(each for each in HOSTILE_TABLES.values() if each.refused is None and each.make is None and len(each) > 8)


def entries() -> list[Guarantee]:
    """Those of the catalogues that judge by classes of this table alone."""
    found: list[Guarantee] = []
    for catalogue in (MODELS, MEASURES):
        for name in catalogue.built_in:
            kind = catalogue[name]
            if not issubclass(kind, Guarantee):
                continue
            for example in kind.examples():
                own = {*example.sensitive_columns(), *example.record_columns(), *(example.own_columns() or ())}
                beside = example.needs_population or example.needs_base or not example.way.over_classes
                if example.is_gate() and own <= set(TABLE.roles.sensitive) and not beside:
                    found.append(example)
    return found


def test_figures_are_those_of_the_same_guarantee_that_binds(engine: Engine) -> None:
    asked = entries()
    assert len(asked) > 8
    roles = Roles(quasi_identifiers=TABLE.roles.quasi_identifiers, sensitive=TABLE.roles.sensitive)
    table = engine.scan(Source(data=arrow_table(TABLE)))
    bound = assess(engine, table, guarantees=asked, roles=roles)
    warned = [replace(each, severity="warn") for each in asked]
    loose = assess(engine, table, guarantees=[KAnonymity(k=1), *warned], roles=roles)
    assert {verdict.severity for verdict in loose.verdicts[1:]} == {"warn"}
    told = [
        (each.observed, each.outcome, each.failing_classes, each.failing_records, each.reason)
        for each in bound.verdicts
    ]
    assert told == [
        (each.observed, each.outcome, each.failing_classes, each.failing_records, each.reason)
        for each in loose.verdicts[1:]
    ]
    assert bound.failed
    assert not bound.passed
    assert loose.passed
    assert len(loose.warned) == len(bound.failed)
