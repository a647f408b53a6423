"""Rows of which several are known together: what is left identifies no person, and few go."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.relations import JointAlpha, JointKAnonymity, SuppressRows
from privpipe.relations.disclosive_rows import CopiesGone, Picks
from privpipe.relations.set_stages import RelatedSet
from tests.relations.people_by_definition import People
from tests.relations.related_cases import (
    QUASI_IDENTIFIERS,
    cases,
    people_of,
    random_set,
    rare_beyond,
    related,
    rows_left,
)
from tests.tiers import deep, on_engines

Rows = Sequence[Mapping[str, Any]]
K = 2


def without_them(
    engine: Engine, tables: Mapping[str, Rows], table: str, *asked: Any, names: Any = QUASI_IDENTIFIERS
) -> list[dict[str, Any]]:
    """The rows of a table that `suppress_rows` keeps, in no order."""
    found = related(engine, tables, names)
    ids = {name: engine.with_record_ids(each, None, Seed.insecure(2)) for name, each in found.tables.items()}
    given = RelatedSet(related=found.having(ids), guarantees=asked, seed=Seed.insecure(1))
    after = SuppressRows(table=table, at_most=1.0).run(given).related
    assert all(rows_left(engine, after.tables[name]) == sorted(map(repr, tables[name])) for name in {*tables} - {table})
    kept: list[dict[str, Any]] = engine.collect(after.tables[table]).to_pylist()
    return kept


def excused(tables: Mapping[str, Any], knows: Mapping[str, Any], table: str, k: int, counted: bool = False) -> set[Any]:
    """Persons who fail whatever goes: without any knowledge of the table, or by having no rows where all are known."""
    found = set(people_of(tables, {**knows, table: 0}, counted).failing(k))
    if knows[table] == "all":
        found |= {row["id"] for row in tables["patients"]} - {row["id"] for row in tables[table]}
    return found


def holds(tables: Mapping[str, Any], knows: Mapping[str, Any], table: str, k: int, counted: bool = False) -> bool:
    return set(people_of(tables, knows, counted).failing(k)) <= excused(tables, knows, table, k, counted)


def compare(engine: Engine, seed: int, known: int | str) -> None:
    tables, knows, counted = random_set(seed)
    knows = {**knows, "visits": known}
    model = JointKAnonymity(k=K, knows=knows, row_counts=counted)
    kept = without_them(engine, tables, "visits", model)
    assert Counter(map(repr, kept)) <= Counter(map(repr, tables["visits"])), seed
    assert holds({**tables, "visits": kept}, knows, "visits", K, counted), seed
    if holds(tables, knows, "visits", K, counted):
        assert len(kept) == len(tables["visits"]), seed


@on_engines("embedded", "dask")
@pytest.mark.parametrize("known", [2, "all"])
def test_no_one_is_identified_by_the_rows_that_are_left(engine: Engine, known: int | str) -> None:
    for seed in range(3 if engine.name == "embedded" else 1):
        compare(engine, seed, known)


@pytest.mark.parametrize("known", [deep(2), deep(3), deep("all")])
def test_no_one_is_identified_in_more_sets(embedded: Engine, known: int | str) -> None:
    for seed in range(100, 108):
        compare(embedded, seed, known)


@pytest.mark.parametrize("case", rare_beyond(6, cases()))
def test_reference_sets_lose_rows_until_no_person_fails_by_them(embedded: Engine, case: Any) -> None:
    tables, knows, k = case["tables"], case["knows"], case["k"]
    names = {"patients": case["root_quasi_identifiers"], **case["child_quasi_identifiers"]}
    children = {name: rows for name, rows in tables.items() if name != "patients"}
    for table in (name for name in children if knows.get(name)):
        kept = without_them(embedded, tables, table, JointKAnonymity(k=k, knows=knows), names=names)
        left = People(
            tables["patients"], {**children, table: kept}, "id", {**names, "": names["patients"]}, {**knows, table: 0}
        )
        excused = set(left.failing(k))
        if knows[table] == "all":
            excused |= {row["id"] for row in tables["patients"]} - {row["id"] for row in kept}
        assert set(replace(left, knows=knows).failing(k)) <= excused
        if not case["expected"]["failing_persons"]:
            assert len(kept) == len(tables[table])


def fewest(tables: Mapping[str, Any], knows: Mapping[str, Any]) -> int:
    """The least number of visits without which no one fails by them, of all that may go."""
    rows = tables["visits"]
    for many in range(len(rows) + 1):
        for gone in itertools.combinations(range(len(rows)), many):
            left = [row for at, row in enumerate(rows) if at not in gone]
            if holds({**tables, "visits": left}, knows, "visits", K):
                return many
    raise AssertionError("without any visit no one fails by them")


@pytest.mark.deep
@pytest.mark.parametrize("known", [2, "all"])
def test_few_more_rows_go_than_have_to(embedded: Engine, known: int | str) -> None:
    gone, needed = 0, 0
    for seed in range(25):
        tables, knows, _ = random_set(seed, persons=6)
        knows, tables = {"visits": known, "drugs": 0}, {**tables, "visits": tables["visits"][:9]}
        kept = without_them(embedded, tables, "visits", JointKAnonymity(k=K, knows=knows))
        least = fewest(tables, knows)
        assert len(tables["visits"]) - len(kept) >= least, seed
        gone, needed = gone + len(tables["visits"]) - len(kept), needed + least
    assert needed > 12
    assert gone <= 1.5 * needed


def visits(**wards: str) -> dict[str, Rows]:
    """Patients of one town, with a visit for each letter."""
    rows = [{"id": at, "ward": ward, "day": 1} for at, own in enumerate(wards.values()) for ward in own]
    people = [{"id": at, "town": "a", "sex": "m", "illness": "xy"[at % 2]} for at in range(len(wards))]
    return {"patients": people, "visits": rows}


def wards(kept: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for row in kept:
        found[row["id"]] = "".join(sorted(found.get(row["id"], "") + row["ward"]))
    return found


@on_engines("embedded", "dask")
def test_of_a_pair_the_more_frequent_row_goes(engine: Engine) -> None:
    """Without the rarer one, its other holders would be too few."""
    tables = visits(p="xy", q="x", r="x", s="y")
    kept = wards(without_them(engine, tables, "visits", JointKAnonymity(k=2, knows={"visits": 2})))
    assert kept == {0: "y", 1: "x", 2: "x", 3: "y"}


@on_engines("embedded", "dask")
def test_one_of_two_equal_rows_goes(engine: Engine) -> None:
    tables = visits(p="xxx", q="x", r="x")
    assert wards(without_them(engine, tables, "visits", JointKAnonymity(k=2, knows={"visits": 2}))) == {
        0: "x",
        1: "x",
        2: "x",
    }


@on_engines("embedded", "dask")
def test_where_all_rows_are_known_a_person_comes_to_have_the_rows_of_others(engine: Engine) -> None:
    tables = visits(p="xxyz", q="xxy", r="xxy", s="x", t="")
    kept = wards(without_them(engine, tables, "visits", JointKAnonymity(k=2, knows={"visits": "all"})))
    assert kept == {0: "xxy", 1: "xxy", 2: "xxy"}


@on_engines("embedded", "dask")
def test_a_pair_that_reveals_a_value_goes(engine: Engine) -> None:
    tables = visits(p="xy", q="x", r="xy", s="y", t="y", u="x")
    asked = JointAlpha(column="patients.illness", alpha=0.6, knows={"visits": 2})
    kept = without_them(engine, tables, "visits", asked)
    assert len(kept) < len(tables["visits"])
    assert asked.judge(related(engine, {**tables, "visits": kept})).passed


def test_several_guarantees_are_served_together(embedded: Engine) -> None:
    tables = visits(p="xyz", q="xy", r="xy", s="xx", t="x", u="x")
    tables["drugs"] = []
    asked: list[dict[str, Any]] = [{"visits": 2, "drugs": 0}, {"visits": "all", "drugs": 0}]
    kept = without_them(embedded, tables, "visits", *(JointKAnonymity(k=K, knows=knows) for knows in asked))
    assert wards(kept) == {0: "xy", 1: "xy", 2: "xy", 3: "x", 4: "x", 5: "x"}
    assert all(holds({**tables, "visits": kept}, knows, "visits", K) for knows in asked)


def picks(*rows: tuple[int, tuple[int, ...]], holders: Mapping[int, int]) -> Picks:
    """A person's number and the rows of each pick."""
    most = max(len(each) for _, each in rows)
    filled = [each + (0,) * (most - len(each)) for _, each in rows]
    return Picks(
        np.array([[person, 0] for person, _ in rows]),
        np.array([len(each) for _, each in rows]),
        np.array([[[person, row] for row in each] for (person, _), each in zip(rows, filled, strict=True)]),
        np.array([[holders.get(row, 0) for row in each] for each in filled]),
    )


def gone_of(found: CopiesGone) -> list[tuple[int, int, int]]:
    return [
        (person, row, first) for (person, row), first in zip(found.rows.tolist(), found.first.tolist(), strict=True)
    ]


def test_a_row_in_many_picks_goes_first() -> None:
    given = picks((1, (5, 6)), (1, (5, 7)), (1, (5, 8)), (2, (6, 7)), holders={5: 1, 6: 9, 7: 8, 8: 9})
    assert gone_of(given.chosen()) == [(1, 5, 1), (2, 6, 1)]


def test_only_the_smallest_picks_of_a_person_count() -> None:
    given = picks((1, (5,)), (1, (6, 7)), (2, (6, 6)), (2, (6, 6, 7)), holders={6: 3, 7: 9})
    assert gone_of(given.chosen()) == [(1, 5, 1), (2, 6, 2)]


def test_nothing_is_chosen_of_nothing() -> None:
    no_rows = np.empty((0, 2), np.int64)
    empty = Picks(no_rows, np.empty(0, np.int64), np.empty((0, 2, 2), np.int64), no_rows)
    assert gone_of(empty.chosen()) == []
