"""Keys and dates of related tables: one pseudonym for each key in every table, one shift for each person."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, PolicyError, UsageError
from privpipe.relations import Pseudonymise, ShiftDates
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import Tree
from privpipe.relations.set_stages import RelatedSet
from tests.tiers import on_engines

VARIABLE = "PRIVPIPE_KEY_OF_PERSONS"
KEY = {"from_env": VARIABLE}
START = datetime.date(2020, 1, 1)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "5d0c7fd1a0e94f34b5d0c7fd1a0e94f34b5d0c7fd1a0e94f3")


def day(after: int) -> datetime.date:
    return START + datetime.timedelta(days=after)


PERSONS = 12
TABLES = {
    "patients": pa.table({"patient": list(range(PERSONS)), "born": [day(at) for at in range(PERSONS)]}),
    "visits": pa.table(
        {
            "visit": list(range(2 * PERSONS)),
            "who": [at % PERSONS for at in range(2 * PERSONS)],
            "day": [day(100 + 7 * at) for at in range(2 * PERSONS)],
            "at": pa.array([datetime.datetime(2021, 1, 1, 5, 30)] * (2 * PERSONS - 1) + [None], pa.timestamp("us")),
        }
    ),
    "drugs": pa.table({"visit": list(range(PERSONS)), "taken": [day(300 + at) for at in range(PERSONS)]}),
}
RELATIONS = [{"from": "visits.who", "to": "patients"}, {"from": "drugs.visit", "to": "visits"}]


def document(**changes: Any) -> dict[str, Any]:
    """A policy about tables of which one is behind another; dates are released."""
    identifier, free = {"role": "identifier"}, {"role": "insensitive"}
    tables: dict[str, Any] = {
        "patients": {"key": "patient", "columns": {"patient": identifier, "born": free}},
        "visits": {"key": "visit", "columns": {"visit": identifier, "who": identifier, "day": free, "at": free}},
        "drugs": {"columns": {"visit": identifier, "taken": free}},
    }
    found: dict[str, Any] = {
        "version": 1,
        "name": "dates",
        "tables": {name: {"source": {"path": f"{name}.parquet"}, **each} for name, each in tables.items()},
        "relations": RELATIONS,
        "transform": [{"pseudonymise": {"key": KEY}}, {"shift_dates": {"days": 90, "key": KEY}}],
        "guarantees": [{"joint_k_anonymity": {"k": 2}}],
        "sink": {"path": "published"},
    }
    return {**found, **changes}


def published(folder: Path, engine: str = "embedded", **changes: Any) -> dict[str, pa.Table]:
    for name, table in TABLES.items():
        pq.write_table(table, folder / f"{name}.parquet")
    pp.release(pp.Policy.from_dict(document(**changes), folder), engine=engine)
    return {name: pp.read_release(folder / "published", table=name) for name in TABLES}


def joined(tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """Born, visited, time and, of those that have one, taken."""
    people = {row["patient"]: row for row in tables["patients"].to_pylist()}
    taken = {row["visit"]: row["taken"] for row in tables["drugs"].to_pylist()}
    return [
        (people[row["who"]]["born"], row["day"], row["at"], taken.get(row["visit"]))
        for row in tables["visits"].to_pylist()
    ]


def intervals(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            (visited - born).days,
            at and at - datetime.datetime.combine(born, datetime.time()),
            taken and (taken - born).days,
        )
        for born, visited, at, taken in rows
    )


@pytest.mark.parametrize(
    "engine", ["embedded", "dask", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep])]
)
def test_a_release_joins_by_pseudonyms_and_keeps_intervals(tmp_path: Path, engine: str) -> None:
    found = published(tmp_path, engine)
    assert {name: table.column_names for name, table in found.items()} == {
        name: table.column_names for name, table in TABLES.items()
    }
    assert all(len(word) == 26 for word in found["drugs"]["visit"].to_pylist())
    before, after = joined(TABLES), joined(found)
    assert repr(intervals(after)) == repr(intervals(before))
    assert not {row[:2] for row in after} & {row[:2] for row in before}
    own = {row[0] for row in before}
    assert all(abs((row[0] - START).days) <= 90 + PERSONS for row in after)
    assert {row[0] for row in after} != own


def test_two_keys_never_share_a_pseudonym_and_purposes_differ(tmp_path: Path) -> None:
    found = published(tmp_path)
    assert not set(found["patients"]["patient"].to_pylist()) & set(found["visits"]["visit"].to_pylist())
    assert set(found["drugs"]["visit"].to_pylist()) <= set(found["visits"]["visit"].to_pylist())
    again = published(tmp_path)
    assert set(found["patients"]["patient"].to_pylist()) == set(again["patients"]["patient"].to_pylist())
    other = published(tmp_path, transform=[{"pseudonymise": {"key": KEY, "domain": "research"}}])
    assert not set(found["patients"]["patient"].to_pylist()) & set(other["patients"]["patient"].to_pylist())


def test_a_stage_of_the_set_gives_what_stages_of_the_tables_give(tmp_path: Path) -> None:
    """Tables at the person: the same key and domain there, and the person's key as `person_id`."""
    found = published(tmp_path)
    tables = document()["tables"]
    key = {"key": KEY}
    tables["patients"]["transform"] = [{"pseudonymise": {"columns": ["patient"], "domain": "patients", **key}}]
    tables["visits"]["transform"] = [
        {"pseudonymise": {"columns": ["visit"], "domain": "visits", **key}},
        {"pseudonymise": {"columns": ["who"], "domain": "patients", **key}},
    ]
    tables["drugs"]["transform"] = [{"pseudonymise": {"columns": ["visit"], "domain": "visits", **key}}]
    dates = {"patients": "patient", "visits": "who"}
    for name, person in dates.items():
        columns = {"patients": ["born"], "visits": ["day", "at"]}[name]
        tables[name]["transform"].append({"shift_dates": {"columns": columns, "days": 90, **key}})
        tables[name]["person_id"] = person
    apart = published(tmp_path, tables=tables, transform=[])
    for name in dates:
        assert sorted(map(repr, apart[name].to_pylist())) == sorted(map(repr, found[name].to_pylist()))


def test_shifts_are_those_of_the_person_without_pseudonyms(tmp_path: Path) -> None:
    found = published(tmp_path, transform=[{"shift_dates": {"days": 5, "key": KEY, "columns": ["drugs.taken"]}}])
    assert sorted(found["patients"]["born"].to_pylist()) == TABLES["patients"]["born"].to_pylist()
    assert found["drugs"].column_names == ["taken"]
    assert set(found["drugs"]["taken"].to_pylist()) != set(TABLES["drugs"]["taken"].to_pylist())


@on_engines("embedded", "dask")
def test_persons_with_keys_of_several_columns_move_alike(engine: Engine) -> None:
    ids = [("a", 12), ("a1", 2), ("b", 1)]
    people = pa.table(
        {"site": [site for site, _ in ids], "number": [number for _, number in ids], "born": [day(0)] * len(ids)}
    )
    rows = pa.table({"place": people["site"], "number": people["number"], "day": [day(50)] * len(ids)})
    handles = {"patients": engine.scan(Source(data=people)), "visits": engine.scan(Source(data=rows))}
    handles = {name: engine.with_record_ids(each, None, Seed.insecure(3)) for name, each in handles.items()}
    lead = [{"from": "visits.[place, number]", "to": "patients"}]
    tree = Tree.of(handles, lead, {"patients": ["site", "number"]}, {})
    given = RelatedSet(related=RelatedTables(engine, tree, handles), seed=Seed.insecure(1))
    after = ShiftDates(days=1000, key=KEY).run(given)
    born = {
        (row["site"], row["number"]): row["born"]
        for row in engine.collect(after.related.tables["patients"]).to_pylist()
    }
    assert len(set(born.values())) == len(ids)
    for row in engine.collect(after.related.tables["visits"]).to_pylist():
        assert (row["day"] - born[row["place"], row["number"]]).days == 50
    assert after.steps == ({"name": "shift_dates", "columns": ["patients.born", "visits.day"]},)


def test_keys_of_one_domain_are_identifiers_in_every_table(tmp_path: Path) -> None:
    tables = document()["tables"]
    tables["drugs"]["columns"]["visit"] = {"role": "insensitive"}
    with pytest.raises(PolicyError, match=r"tables\.drugs\.columns\.visit.*replaces this key in all tables"):
        pp.Policy.from_dict(document(tables=tables))
    tables = document()["tables"]
    tables["visits"]["transform"] = [{"pseudonymise": {"columns": ["who"], "domain": "patients", "key": KEY}}]
    with pytest.raises(PolicyError, match=r"table 'visits' has a stage pseudonymise for 'who' already"):
        pp.Policy.from_dict(document(tables=tables))


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"pseudonymise": {"key": {"from_nowhere": "x"}}}, "from_env"),
        ({"pseudonymise": {}}, "key"),
        ({"pseudonymise": {"key": KEY, "columns": ["patient"]}}, "unknown parameter"),
        ({"shift_dates": {"key": KEY, "days": 0}}, "days"),
        (
            {"shift_dates": {"key": KEY, "days": 3, "columns": ["visits.dya"]}},
            r"has no column 'dya'; did you mean 'day'",
        ),
        ({"shift_dates": {"key": KEY, "days": 3, "columns": ["vists.day"]}}, "there is no table 'vists'"),
        ({"shift_dates": {"key": KEY, "days": 3, "columns": ["day"]}}, "a table and its column"),
        ({"shift_dates": {"key": KEY, "days": 3, "columns": []}}, "must name a date"),
    ],
)
def test_what_is_refused(stage: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(document(transform=[stage]))


def test_columns_without_dates_are_refused(tmp_path: Path) -> None:
    with pytest.raises((DataError, UsageError), match=r"column 'visit' is|releases no column 'visit'"):
        published(tmp_path, transform=[{"shift_dates": {"key": KEY, "days": 3, "columns": ["visits.visit"]}}])


def test_a_policy_of_objects_has_them_and_gives_frames_back() -> None:
    roles = {
        "patients": pp.Roles(identifiers=["patient"], insensitive=["born"]),
        "visits": pp.Roles(identifiers=["visit", "who"], insensitive=["day", "at"]),
        "drugs": pp.Roles(identifiers=["visit"], insensitive=["taken"]),
    }
    policy = pp.Policy(
        tables={name: {"roles": each} for name, each in roles.items()},
        keys={"patients": "patient", "visits": "visit"},
        relations=RELATIONS,
        transform=[Pseudonymise(key=KEY), ShiftDates(days=20, key=KEY)],
        guarantees=[pp.relations.JointKAnonymity(k=2)],
    )
    found = policy.apply(dict(TABLES))
    assert repr(intervals(joined(found))) == repr(intervals(joined(TABLES)))
