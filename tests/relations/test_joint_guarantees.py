"""Joint guarantees: reference figures, the definition on random sets, properties, and tables that must be refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.draws import Seed
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import DataError, NoSolutionError, UnsupportedError, UsageError
from privpipe.relations import JointAlpha, JointKAnonymity, JointLDiversity, JointTCloseness
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import RelatedColumns, Relation, Tree
from privpipe.relations.set_stages import CapRows, RelatedSet, SuppressPersons
from tests.relations.related_cases import cases, people_of, random_set, rare_beyond, related, rows_left
from tests.tiers import at_most, deep_beyond

TABLES: dict[str, list[dict[str, Any]]] = {
    "patients": [{"id": at, "town": "a", "sex": "m", "illness": "x"} for at in range(3)],
    "visits": [
        {"id": 0, "ward": "x", "day": 1},
        {"id": 0, "ward": "x", "day": 1},
        {"id": 1, "ward": "x", "day": 1},
        {"id": 1, "ward": "y", "day": 1},
    ],
}


def compare_with_reference(engine: Engine, case: dict[str, Any]) -> None:
    names = {"patients": case["root_quasi_identifiers"], **case["child_quasi_identifiers"]}
    tables = related(engine, case["tables"], names)
    expected = case["expected"]
    model = JointKAnonymity(k=case["k"], knows=case["knows"])
    verdict = model.judge(tables)
    assert (verdict.observed, verdict.failing_records) == (expected["observed"], expected["failing_persons"])
    for column, share in expected["joint_share"].items():
        table = "patients" if column == "illness" else "drugs"
        judged = JointAlpha(column=f"{table}.{column}", knows=case["knows"]).judge(tables)
        assert judged.observed == pytest.approx(share, abs=1e-12)
    after = (
        SuppressPersons(at_most=1.0).run(RelatedSet(related=tables, guarantees=[model], seed=Seed.insecure(1))).related
    )
    left = expected["released_persons_after_suppression"]
    assert sorted(engine.collect(after.tables["patients"]).column("id").to_pylist()) == left
    for name, rows in case["tables"].items():
        assert rows_left(engine, after.tables[name]) == sorted(repr(row) for row in rows if row["id"] in left)


@pytest.mark.parametrize("case", cases())
def test_reference_figures(embedded: Engine, case: dict[str, Any]) -> None:
    compare_with_reference(embedded, case)


@pytest.mark.dask
@pytest.mark.parametrize("case", rare_beyond(8, cases()))
def test_reference_figures_on_dask(dask_engine: Engine, case: dict[str, Any]) -> None:
    compare_with_reference(dask_engine, case)


@pytest.mark.deep
@pytest.mark.parametrize("case", rare_beyond(2, cases()))
def test_reference_figures_on_spark(spark_engine: Engine, case: dict[str, Any]) -> None:
    compare_with_reference(spark_engine, case)


def compare_with_definition(engine: Engine, seed: int) -> None:
    tables, knows, counted = random_set(seed)
    people, found = people_of(tables, knows, counted), related(engine, tables)
    verdict = JointKAnonymity(k=2, knows=knows, row_counts=counted).judge(found)
    assert (verdict.observed, verdict.failing_records) == (people.k(), len(people.failing(2))), seed
    for table, column in (("", "illness"), ("drugs", "drug")):
        place = f"{table or 'patients'}.{column}"
        given = {"column": place, "knows": knows, "row_counts": counted}
        share = people.alpha(table, column)
        expected = [share, people.distinct(table, column), people.distance(table, column)]
        models = [JointAlpha(**given), JointLDiversity(**given), JointTCloseness(**given)]
        for model, figure in zip(models, expected, strict=True):
            judged = model.judge(found)
            if figure is None:
                assert (judged.outcome, judged.observed) == ("error", None), seed
            else:
                assert judged.observed == pytest.approx(float(figure), abs=1e-12), (seed, place, model.name())


def test_definition(engine: Engine) -> None:
    for seed in range({"embedded": 10, "dask": 4, "spark": 1}[engine.name]):
        compare_with_definition(engine, seed)


@pytest.mark.parametrize("first", deep_beyond(0, range(1000, 1500, 50), then_rare=1))
def test_definition_on_many_sets(first: int) -> None:
    with open_engine("embedded", {}) as engine:
        for seed in range(first, first + 50):
            compare_with_definition(engine, seed)


@settings(max_examples=at_most(50))
@given(st.integers(0, 10**6))
def test_the_greatest_stable_set(seed: int) -> None:
    tables, knows, counted = random_set(seed)
    model = JointKAnonymity(k=2, knows=knows, row_counts=counted)
    with open_engine("embedded", {}) as engine:
        given_set = RelatedSet(related=related(engine, tables), guarantees=[model], seed=Seed.insecure(1))
        left = SuppressPersons(at_most=1.0).run(given_set).related.tables["patients"]
        found = engine.collect(left).column("id").to_pylist()
    assert sorted(found) == sorted(people_of(tables, knows, counted).stable(2))


@settings(max_examples=at_most(50))
@given(st.integers(0, 10**6))
def test_who_knows_more_is_left_with_no_more_persons(seed: int) -> None:
    tables, _, _ = random_set(seed)
    with open_engine("embedded", {}) as engine:
        found = related(engine, tables)
        figures = [JointKAnonymity(knows={"visits": most, "drugs": 1}).judge(found).observed for most in (0, 1, 2, 3)]
        whole = JointKAnonymity(knows={"visits": 0, "drugs": 0}, row_counts=True).judge(found).observed
    assert figures == sorted(figures, reverse=True)
    assert whole <= figures[0] or figures[0] <= whole  # both are counted over every person
    assert whole >= 1


def test_equal_rows_of_a_person_are_one_person_and_a_multiset(engine: Engine) -> None:
    found = related(engine, TABLES)
    assert JointKAnonymity(knows={"visits": 1}).judge(found).observed == 1  # ward y
    assert JointKAnonymity(knows={"visits": 2}).judge(found).failing_records is not None
    verdict = JointKAnonymity(k=2, knows={"visits": 2}).judge(found)
    assert verdict.failing_records == 2  # twice x is of person 0 alone, x and y of person 1; person 2 knows nothing
    assert JointKAnonymity(k=3, knows={"visits": 0}).judge(found).passed


def test_tables_in_a_row(engine: Engine) -> None:
    patients = pa.table({"id": ["p", "q", "r"], "town": ["a", "a", "a"]})
    visits = pa.table({"number": [1, 2, 3], "patient": ["p", "q", "q"], "ward": ["x", "x", "y"]})
    drugs = pa.table({"visit": [1, 2, 3], "shop": ["s", "s", "t"]})
    handles = {
        name: engine.scan(Source(data=table))
        for name, table in (("patients", patients), ("visits", visits), ("drugs", drugs))
    }
    tree = Tree.of(
        handles,
        [{"from": "visits.patient", "to": "patients"}, {"from": "drugs.visit", "to": "visits"}],
        {"patients": "id", "visits": "number"},
        {"patients": ["town"], "drugs": ["shop"]},
    )
    found = RelatedTables(engine, tree, handles)
    assert JointKAnonymity(knows={"drugs": 1}).judge(found).observed == 1
    verdict = JointKAnonymity(k=2, knows={"drugs": 1}).judge(found)
    assert verdict.failing_records == 1  # who was at shop t
    given_set = RelatedSet(related=found, guarantees=[JointKAnonymity(k=2)], seed=Seed.insecure(1))
    after = SuppressPersons(at_most=1.0).run(given_set).related
    assert [engine.count(after.tables[name]) for name in handles] == [0, 0, 0]  # p is alone, and then r


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patients": [*TABLES["patients"], TABLES["patients"][0]]}, "1 value of the key 'id' is in several records"),
        ({"visits": [{"id": 7, "ward": "x", "day": 1}]}, "1 record belongs to no record of 'patients'"),
        ({"visits": [{"id": None, "ward": "x", "day": 1}]}, "1 record has no value in 'id'"),
        ({"patients": []}, "has no records"),
    ],
    ids=["repeated key", "orphan", "missing key", "nobody"],
)
def test_broken_relations(engine: Engine, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        JointKAnonymity(k=2).judge(related(engine, {**TABLES, **change}))


def test_orphans_may_be_dropped(engine: Engine) -> None:
    more = [*TABLES["visits"], {"id": 7, "ward": "z", "day": 1}, {"id": None, "ward": "z", "day": 1}]
    found = related(engine, {**TABLES, "visits": more}, orphans="drop")
    assert JointKAnonymity(k=2, knows={"visits": 2}).judge(found).failing_records == 2
    assert found.census().orphans == {1: 2}


def test_more_picks_than_are_counted(engine: Engine) -> None:
    found = related(engine, TABLES, most_picks=8)
    with pytest.raises(UnsupportedError, match=r"persons have 9 combinations .* 2 persons have more than 1 rows"):
        JointKAnonymity(k=2, knows={"visits": 2}).judge(found)


@pytest.mark.parametrize(
    ("tables", "relations", "message"),
    [
        ({"a": ("id",), "b": ()}, [], "'a' and 'b' lead to no other table"),
        ({"a": ("id",), "b": ("id",)}, [("a", "b"), ("b", "a")], "in a circle"),
        ({"a": ("id",), "b": ("id",), "c": ()}, [("b", "a"), ("c", "a"), ("c", "b")], "by two paths"),
        ({"a": (), "b": ()}, [("b", "a")], "has no `key:`"),
        ({"a": ("id",), "b": ()}, [("b", "x")], "there is no table 'x'"),
    ],
    ids=["two roots", "circle", "two paths", "no key", "no table"],
)
def test_relations_that_are_not_a_tree(tables: Any, relations: Any, message: str) -> None:
    columns = {name: RelatedColumns(key) for name, key in tables.items()}
    with pytest.raises(UsageError, match=message):
        Tree(columns, tuple(Relation(one, ("id",), other) for one, other in relations))


def test_keys_of_different_types(engine: Engine) -> None:
    one = engine.scan(Source(data=pa.table({"id": [7], "town": ["a"]})))
    other = engine.scan(Source(data=pa.table({"id": ["7"], "ward": ["x"]})))
    tree = Tree.of(("a", "b"), [{"from": "b.id", "to": "a"}], {"a": "id"}, {"a": ["town"], "b": ["ward"]})
    with pytest.raises(DataError, match="values of different types are never equal"):
        RelatedTables(engine, tree, {"a": one, "b": other})


@pytest.mark.parametrize("most", [4, -1, True, "some"])
def test_what_can_be_known(most: Any) -> None:
    with pytest.raises(UsageError, match="knows"):
        JointKAnonymity(k=2, knows={"visits": most})


def test_knowing_what_no_column_shows(engine: Engine) -> None:
    found = related(engine, TABLES, {"patients": ["town"]})
    with pytest.raises(UsageError, match="has no quasi-identifier"):
        JointKAnonymity(k=2, knows={"visits": 1}).judge(found)
    assert JointKAnonymity(k=3).judge(found).passed
    assert not JointKAnonymity(k=3, row_counts=True).judge(found).passed


def test_a_budget_of_persons(engine: Engine) -> None:
    given_set = RelatedSet(
        related=related(engine, TABLES), guarantees=[JointKAnonymity(k=2, knows={"visits": 1})], seed=Seed.insecure(1)
    )
    with pytest.raises(NoSolutionError, match="of 3 persons would have to go, and 0 may"):
        SuppressPersons(at_most=0.3).run(given_set)


@pytest.mark.parametrize(("keep", "by"), [("random", None), ("first", "day"), ("last", "day")])
def test_rows_of_a_person_are_capped(engine: Engine, keep: Any, by: str | None) -> None:
    rows = [{"id": at % 3, "ward": f"w{at}", "day": at // 3} for at in range(12)]
    found = related(engine, {**TABLES, "visits": rows})
    numbered = {name: engine.with_record_ids(table, None, Seed.insecure(1)) for name, table in found.tables.items()}
    given_set = RelatedSet(related=found.having(numbered), seed=Seed.insecure(1))
    after = CapRows(table="visits", at_most=2, keep=keep, by=by).run(given_set)
    left = engine.collect(after.related.tables["visits"]).to_pylist()
    assert sorted(row["id"] for row in left) == [0, 0, 1, 1, 2, 2]
    assert (after.steps[0]["persons_capped"], after.steps[0]["rows_removed"]) == (3, 6)
    if by is not None:
        assert {row["day"] for row in left} == ({0, 1} if keep == "first" else {2, 3})
