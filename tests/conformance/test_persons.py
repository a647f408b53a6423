"""Persons counted on every engine: every class-based entry over hostile tables, against the definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import Guarantee
from privpipe.blocks.oracle_classes import Classes
from privpipe.engines import Engine, Source
from privpipe.errors import PrivpipeError
from privpipe.judging import Assessment, JudgingRules, assess
from privpipe.judging.judging import refused_in_persons
from privpipe.measures import AttributeInference, BackgroundKnowledgeAttack, HomogeneityAttack
from privpipe.models import CATALOGUE
from privpipe.roles import Roles
from privpipe.testing import HOSTILE_TABLES, Case, HostileTable, examples_of, oracle
from privpipe.testing.conformance import Nonconforming, compare
from privpipe.testing.hostile_tables import arrow_table
from privpipe.testing.oracle import count_classes
from tests.gathering import gathered

WHO = "__who"
TABLES = [
    table for table in HOSTILE_TABLES.values() if table.refused is None and table.make is None and 0 < len(table) < 400
]
SOME = ("one_class", "nulls_in_keys", "unicode", "interleaved_classes", "sensitive_nulls", "partly_suppressed")
MODELS: list[Guarantee] = [
    model
    for model in (*examples_of(CATALOGUE), *AttributeInference.examples())
    if not refused_in_persons(model) and model.name() != "km_anonymity"  # it looks at no classes
]
OWNERS: dict[str, Callable[[int, int], str]] = {
    "several records each": lambda row, rows: f"p{row * 5 % (1 + rows // 3)}",
    "two records each": lambda row, rows: f"p{row // 2}",
    "one of all the rest": lambda row, rows: "p0" if row % 3 else f"p{row}",
    "one record each": lambda row, rows: f"p{row}",
}


def persons_of(table: HostileTable, owners: str) -> tuple[str, ...]:
    return tuple(OWNERS[owners](row, len(table)) for row in range(len(table)))


def served(table: HostileTable, persons: tuple[str, ...] | None) -> list[Guarantee]:
    """The entries that the definition has a verdict of."""
    found = []
    for model in MODELS:
        try:
            oracle(model, table, persons=persons)
        except PrivpipeError:
            continue
        found.append(model)
    return found


def judged(
    engine: Engine, table: HostileTable, persons: tuple[str, ...], models: list[Guarantee], *, by: str | None = WHO
) -> Assessment:
    rows = arrow_table(table).append_column(WHO, pa.array(persons, pa.string()))
    return assessed(engine, engine.scan(Source(data=rows)), table, models, by)


def assessed(engine: Engine, handle: Any, table: HostileTable, models: list[Guarantee], by: str | None) -> Assessment:
    roles = Roles(quasi_identifiers=table.roles.quasi_identifiers, sensitive=table.roles.sensitive, insensitive=[WHO])
    rules = JudgingRules(person=by, released=tuple(table.rows))
    return assess(engine, handle, measures=models, guarantees=(), roles=roles, rules=rules)


over_tables = pytest.mark.parametrize(
    ("engine", "table"),
    [
        *(pytest.param("embedded", table, id=f"embedded-{table}") for table in TABLES),
        *(pytest.param("dask", HOSTILE_TABLES[name], id=f"dask-{name}") for name in SOME),
        *(pytest.param("spark", HOSTILE_TABLES[name], id=f"spark-{name}") for name in SOME[-1:]),
        *(
            pytest.param("spark", HOSTILE_TABLES[name], id=f"spark-{name}", marks=pytest.mark.deep)
            for name in SOME[:-1]
        ),
        *(
            pytest.param("dask", table, id=f"dask-{table}", marks=pytest.mark.deep)
            for table in TABLES
            if str(table) not in SOME
        ),
    ],
    indirect=["engine"],
)
"""Each table in turn; on Dask those of different kinds and on Spark one, the others of these in `make test-deep`."""


@over_tables
def test_every_engine_counts_persons_as_defined(engine: Engine, table: HostileTable) -> None:
    wrong = []
    for owners in OWNERS:
        persons = persons_of(table, owners)
        models = served(table, persons)
        found = judged(engine, table, persons, models)
        assert models
        for model, verdict in zip(models, found.measures, strict=True):
            try:
                compare(Case(model, table, persons), verdict, found)
            except Nonconforming as error:
                wrong.append(f"{owners}: {error}")
    assert not wrong


ATTACKS: list[Any] = [
    HomogeneityAttack(column="illness"),
    HomogeneityAttack(column="illness", certainty=0.5),
    *(BackgroundKnowledgeAttack(column="illness", exclude_values=b) for b in (0, 1, 2)),
    *(BackgroundKnowledgeAttack(column="illness", insiders=r, certainty=0.7) for r in (0, 1, 2)),
]


def attacked(model: Any, classes: Classes) -> float:
    """Share of the persons who are in classes that give a value away, by those who have it."""
    disclosed = 0
    for size, counts in zip(classes.sizes, classes.counts(model.column), strict=True):
        posteriors = []
        for value, having in counts.items():
            others = sorted((count for other, count in counts.items() if other != value), reverse=True)
            if isinstance(model, HomogeneityAttack):
                known = 0
            elif model.insiders is not None:
                known = model.insiders
            else:
                known = sum(others[: model.exclude_values])
            posteriors.append(having / (size - min(known, size - having)))
        disclosed += size * (max(posteriors) >= model.certainty - 1e-9)
    return disclosed / sum(classes.sizes)


@over_tables
def test_attacks_count_the_persons_who_have_a_value(engine: Engine, table: HostileTable) -> None:
    with gathered() as case:
        for owners in ("several records each", "one of all the rest"):
            with case(owners):
                attacks_count_persons(engine, table, owners)


def attacks_count_persons(engine: Engine, table: HostileTable, owners: str) -> None:
    persons = persons_of(table, owners)
    found = judged(engine, table, persons, ATTACKS)
    for model, verdict in zip(ATTACKS, found.measures, strict=True):
        classes = count_classes(model, table, "*", persons)
        if not classes.members:
            assert verdict.observed is None
            continue
        assert verdict.observed == pytest.approx(attacked(model, classes), abs=1e-12), model
        assert f"of {sum(classes.sizes):,} persons" in verdict.reason


@over_tables
def test_with_one_record_each_persons_are_records(engine: Engine, table: HostileTable) -> None:
    persons = persons_of(table, "one record each")
    models = served(table, None)
    if table.base:
        models = [model for model in models if not model.needs_base]
    verdicts = [
        [(each.outcome, each.observed, each.failing_classes, each.failing_records) for each in found.measures]
        for found in (judged(engine, table, persons, models, by=by) for by in (WHO, None))
    ]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("parts", [1, 7])
def test_figures_of_persons_do_not_depend_on_where_rows_lie(engine: Engine, parts: int, tmp_path: Path) -> None:
    """Bit for bit, in any order and in any files: a person's records meet again."""
    table = HOSTILE_TABLES["interleaved_classes"]
    persons = persons_of(table, "several records each")
    models = served(table, persons)
    rows = arrow_table(table).append_column(WHO, pa.array(persons, pa.string()))
    order = np.random.default_rng(parts).permutation(len(rows))
    for part in range(parts):
        pq.write_table(rows.take(order[part::parts]), tmp_path / f"{part}.parquet")
    handle = engine.scan(Source(data=str(tmp_path), format="parquet"))
    found = assessed(engine, handle, table, models, WHO)
    wanted = judged(engine, table, persons, models)
    assert [each.to_dict() for each in found.measures] == [each.to_dict() for each in wanted.measures]


def test_households_are_counted_by_the_same_definition(engine: Engine) -> None:
    """`over: households` without a `person_id`: three homes in all of which someone has one illness."""
    rows = {
        "home": ["a", "a", "b", "b", "c", "c"],
        "zip": ["1"] * 6,
        "illness": ["hiv", "flu", "hiv", "ok", "hiv", "x"],
    }
    models = [
        replace(model, over="households")  # type: ignore[call-arg]
        for name in ("distinct_l_diversity", "entropy_l_diversity", "alpha_k_anonymity")
        for model in CATALOGUE[name].examples()
        if getattr(model, "column", None) == "illness" and not getattr(model, "values", None)
    ]
    found = assess(
        engine,
        engine.scan(Source(data=pa.table(rows))),
        guarantees=(),
        measures=models,
        roles=Roles(quasi_identifiers=["zip"], sensitive=["illness"], insensitive=["home"]),
        rules=JudgingRules(household="home"),
    )
    figures = {verdict.name: verdict.observed for verdict in found.measures}
    assert figures == {
        "distinct_l_diversity": 1,
        "entropy_l_diversity": 1.0,
        "alpha_k_anonymity": {"k": 3, "alpha": 1.0},
    }


def test_hostile_names_of_columns(engine: Engine) -> None:
    """Names that SQL and column paths would read otherwise."""
    for who, column in itertools.permutations(('a"b', "select", "x.y", "`q`"), 2):
        rows = {who: ["p", "p", "q", "q"], "zip": ["1"] * 4, column: ["hiv", "flu", "hiv", "ok"]}
        found = assess(
            engine,
            engine.scan(Source(data=pa.table(rows))),
            guarantees=(),
            measures=[CATALOGUE["distinct_l_diversity"](column=column)],
            roles=Roles(quasi_identifiers=["zip"], sensitive=[column], insensitive=[who]),
            rules=JudgingRules(person=who),
        )
        assert found.measures[0].observed == 1
