"""Rows of related tables that single persons out: the definition on random sets, budgets, a release without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import NoSolutionError, PolicyError, UsageError
from privpipe.relations import JointAlpha, JointKAnonymity, SuppressPersons, SuppressRows
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import Tree
from privpipe.relations.set_stages import RelatedSet
from tests.relations.related_cases import QUASI_IDENTIFIERS, people_of, random_set, related, rows_left
from tests.relations.test_related_release import document, tables_of
from tests.tiers import at_most

Rows = Sequence[Mapping[str, Any]]
RARE = {
    "patients": [{"id": at, "town": "a", "sex": "m", "illness": "x"} for at in range(3)],
    "visits": [{"id": at, "ward": "x", "day": 1} for at in range(3)] + [{"id": 0, "ward": "y", "day": 1}] * 2,
}


def left_by_definition(
    tables: Mapping[str, Any], knows: Mapping[str, int | str], table: str, k: int, counted: bool = False
) -> Rows:
    """Rows go while a person is in a group below k with them, and in none without them."""
    names = QUASI_IDENTIFIERS[table]
    left = dict(tables)
    while True:
        people = people_of(left, knows, counted)
        lost = set(people_of(left, {**knows, table: 0}, counted).failing(k))
        gone = set()
        for person in people.root:
            if person["id"] in lost:
                continue
            root = people.root_of(person)
            for known in people.knowledge(person):
                group = [each for each in people.root if people.root_of(each) == root and people.is_true(known, each)]
                if len(group) < k:
                    gone |= {(person["id"], row) for row in known[table]}
        if not gone:
            return list(left[table])
        kept = [row for row in left[table] if (row["id"], tuple(row[name] for name in names)) not in gone]
        left = {**left, table: kept}


def suppressed(engine: Engine, tables: Mapping[str, Rows], stage: SuppressRows, *asked: Any) -> RelatedSet:
    return stage.run(RelatedSet(related=related(engine, tables), guarantees=asked, seed=Seed.insecure(1)))


def compare(engine: Engine, seed: int) -> None:
    tables, knows, counted = random_set(seed)
    knows = {**knows, "visits": 1}
    model = JointKAnonymity(k=2, knows=knows, row_counts=counted)
    after = suppressed(engine, tables, SuppressRows(table="visits", at_most=1.0), model).related
    expected = left_by_definition(tables, knows, "visits", 2, counted)
    assert rows_left(engine, after.tables["visits"]) == sorted(map(repr, expected)), seed
    assert rows_left(engine, after.tables["drugs"]) == sorted(map(repr, tables["drugs"])), seed


def test_what_goes_by_the_definition(engine: Engine) -> None:
    for seed in range({"embedded": 12, "dask": 5, "spark": 1}[engine.name]):
        compare(engine, seed)


@settings(max_examples=at_most(50))
@given(st.integers(0, 10**6))
def test_what_goes_on_any_set(seed: int) -> None:
    with open_engine("embedded", {}) as engine:
        compare(engine, seed)


@pytest.mark.deep
@settings(max_examples=at_most(40))
@given(st.integers(0, 10**6))
def test_no_person_of_a_common_row_has_to_go_any_more(seed: int) -> None:
    tables, _, _ = random_set(seed)
    model = JointKAnonymity(k=2, knows={"visits": 1, "drugs": 0})
    with open_engine("embedded", {}) as engine:
        after = suppressed(engine, tables, SuppressRows(table="visits", at_most=1.0), model)
        by_root = JointKAnonymity(k=2, knows={"visits": 0, "drugs": 0}).judge(related(engine, tables)).failing_records
        assert model.judge(after.related).failing_records == by_root
        stable = SuppressPersons(at_most=1.0).run(after)
        assert stable.steps[-1]["suppressed_persons"] == by_root


def test_all_equal_rows_of_a_person_go_and_only_within_the_budget(engine: Engine) -> None:
    asked = JointKAnonymity(k=2, knows={"visits": 1})
    after = suppressed(engine, RARE, SuppressRows(table="visits", at_most=0.4), asked)
    assert Counter(row["ward"] for row in engine.collect(after.related.tables["visits"]).to_pylist()) == {"x": 3}
    assert after.steps == ({"name": "suppress_rows", "rows": 5, "rows_removed": 2},)
    assert asked.judge(after.related).passed
    with pytest.raises(NoSolutionError, match="2 of 5 rows of 'visits' would have to go, and 1 may"):
        suppressed(engine, RARE, SuppressRows(table="visits", at_most=0.3), asked)


def test_a_row_that_shows_a_sensitive_value_goes(engine: Engine) -> None:
    tables = {**RARE, "patients": [{**row, "illness": "xyz"[at]} for at, row in enumerate(RARE["patients"])]}
    asked = JointAlpha(column="patients.illness", alpha=0.5, knows={"visits": 1})
    after = suppressed(engine, tables, SuppressRows(table="visits", at_most=1.0), asked)
    assert engine.count(after.related.tables["visits"]) == 3
    assert asked.judge(after.related).passed


def test_rows_are_known_again_whatever_their_type(engine: Engine) -> None:
    """A key of another width, zeros with a sign, missing cells."""
    tables = {
        "patients": pa.table({"id": pa.array([1, 2, 3], pa.int64()), "town": ["a"] * 3}),
        "visits": pa.table({"id": pa.array([1, 2, 3, 3], pa.int32()), "dose": pa.array([-0.0, 0.0, None, 0.0])}),
    }
    handles = {name: engine.scan(Source(data=table)) for name, table in tables.items()}
    names = {"patients": ["town"], "visits": ["dose"]}
    tree = Tree.of(handles, [{"from": "visits.id", "to": "patients"}], {"patients": "id"}, names)
    found = RelatedTables(engine, tree, handles)
    for k, left in ((2, 3), (3, 3), (1, 4)):
        given_set = RelatedSet(related=found, guarantees=[JointKAnonymity(k=k)], seed=Seed.insecure(1))
        after = SuppressRows(table="visits", at_most=1.0).run(given_set)
        assert engine.count(after.related.tables["visits"]) == left
    rare = found.having({"visits": engine.scan(Source(data=tables["visits"].slice(0, 1)))})
    given_set = RelatedSet(related=rare, guarantees=[JointKAnonymity(k=2)], seed=Seed.insecure(1))
    assert engine.count(SuppressRows(table="visits", at_most=1.0).run(given_set).related.tables["visits"]) == 0


def test_rows_go_from_a_table_behind_another(engine: Engine) -> None:
    tables = {
        "patients": pa.table({"id": ["p", "q", "r"], "town": ["a"] * 3}),
        "visits": pa.table({"number": [1, 2, 3, 4], "patient": ["p", "q", "r", "r"]}),
        "drugs": pa.table({"visit": [1, 2, 3, 4], "shop": ["s", "s", "t", "s"]}),
    }
    handles = {name: engine.scan(Source(data=table)) for name, table in tables.items()}
    steps = [{"from": "visits.patient", "to": "patients"}, {"from": "drugs.visit", "to": "visits"}]
    names = {"patients": ["town"], "drugs": ["shop"]}
    tree = Tree.of(handles, steps, {"patients": "id", "visits": "number"}, names)
    found = RelatedTables(engine, tree, handles)
    given_set = RelatedSet(related=found, guarantees=[JointKAnonymity(k=2)], seed=Seed.insecure(1))
    after = SuppressRows(table="drugs", at_most=0.25).run(given_set).related
    assert sorted(row["visit"] for row in engine.collect(after.tables["drugs"]).to_pylist()) == [1, 2, 4]
    assert engine.count(after.tables["visits"]) == 4


def test_rows_that_no_one_knows_are_not_a_reason(engine: Engine) -> None:
    with pytest.raises(UsageError, match="no joint guarantee requires that a row of 'visits' is known"):
        suppressed(engine, RARE, SuppressRows(table="visits", at_most=1.0), JointKAnonymity(k=2, knows={"visits": 0}))
    with pytest.raises(UsageError, match="is not a table that leads to 'patients'"):
        suppressed(engine, RARE, SuppressRows(table="vists", at_most=1.0), JointKAnonymity(k=2))


@pytest.mark.parametrize("engine", ["embedded", "dask", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_release_without_them(tmp_path: Path, engine: str) -> None:
    for name, table in tables_of().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    asked = [{"joint_k_anonymity": {"k": 20}}, *document()["guarantees"][1:]]
    stages = [{"suppress_rows": {"table": "visits", "at_most": 1.0}}]
    policy = pp.Policy.from_dict(document(guarantees=asked, transform=stages), tmp_path)
    pp.release(policy, engine=engine)
    visits, patients = (pp.read_release(tmp_path / "published", table=name) for name in ("visits", "patients"))
    assert patients.num_rows == 120
    assert 0 < visits.num_rows < 240


def test_a_table_that_is_not_there_is_said_with_its_line() -> None:
    with pytest.raises(PolicyError, match="is not a table that leads to 'patients'"):
        pp.Policy.from_dict(document(transform=[{"suppress_rows": {"table": "vists", "at_most": 0.1}}]))
