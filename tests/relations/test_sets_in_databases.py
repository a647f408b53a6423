"""Related tables in databases: one transaction publishes all, and a killed run leaves the old set or the new one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import EngineError, Refused, SinkError
from privpipe.record import verify
from privpipe.running import related_release
from tests.engines.databases.conftest import place, postgres
from tests.engines.databases.sink_places import Place
from tests.relations.test_killed_related_releases import SERVER, Runs
from tests.tiers import deep

__all__ = ["place", "postgres"]

PERSONS = 40
TABLES = ("patients", "visits")
KILLING = """
from privpipe.sinks.databases.duckdb_store import DuckdbStore
from privpipe.sinks.databases.postgresql_store import PostgresqlStore
from privpipe.sinks.databases.sqlite_store import SqliteStore

WITHIN = {
    "one table": {SqliteStore: "_fill_one", DuckdbStore: "_fill_one", PostgresqlStore: "_copy"},
    "all but the end": {SqliteStore: "_fill", DuckdbStore: "_fill", PostgresqlStore: "_write_texts"},
}

def killing(store, name):
    before = getattr(store, name)
    def done(*arguments, **named):
        before(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(store, name, done)
"""
WITHIN = "        for store, name in WITHIN.get(step, {}).items():\n            killing(store, name)\n"
PROGRAM = SERVER.replace("for line in", f"{KILLING}\nfor line in", 1).replace(
    "        pp.release(policy,", f"{WITHIN}\n        pp.release(policy,", 1
)
"""Kills also within the transaction: after one table is written, and before it is committed."""
RARE = ("stage visits", "write", "judge the tables together", "done")
STEPS = [
    "one table",
    *map(deep, ("all but the end", "publish", "judge again")),
    *(pytest.param(step, marks=[pytest.mark.deep, pytest.mark.rare]) for step in RARE),
]


@pytest.fixture
def runs(place: Place) -> Iterator[Runs]:
    """Processes that have the password of the server, if there is one."""
    with Runs(PROGRAM) as runs:
        yield runs


def edition(folder: Path, at: Place, number: int, *, drugs: bool = False, wide: bool = False, k: int = 2) -> Path:
    """A policy in a file over tables that all have the number of their edition."""
    ids = list(range(PERSONS))
    many = {"patients": PERSONS, "visits": PERSONS + number, "drugs": 7}
    names = (*TABLES, "drugs") if drugs else TABLES
    key, free = {"role": "identifier"}, {"role": "insensitive"}
    tables: dict[str, Any] = {}
    for name in names:
        columns: dict[str, Any] = {
            "patient": [ids[row % PERSONS] for row in range(many[name])],
            "edition": [number] * many[name],
            **({"more": [1] * many[name]} if wide else {}),
        }
        roles = {"patient": key, **{column: free for column in columns if column != "patient"}}
        if name == "patients":
            columns["age"] = [30 + 20 * (row % 2) for row in range(PERSONS)]
            roles["age"] = {"role": "quasi_identifier"}
        pq.write_table(pa.table(columns), folder / f"{name}-{number}.parquet")
        tables[name] = {"source": {"path": f"{name}-{number}.parquet"}, "columns": roles}
    tables["patients"]["key"] = "patient"
    document = {
        "version": 1,
        "name": "sets",
        "tables": tables,
        "relations": [{"from": f"{name}.patient", "to": "patients"} for name in names[1:]],
        "guarantees": [{"joint_k_anonymity": {"k": k}}],
        "sink": {"database": at.at, "table": "clinic"},
    }
    path = folder / f"policy-{number}.yaml"
    path.write_text(json.dumps(document))
    return path


def seen(at: Place) -> int | None:
    """The edition that readers see, if all tables and documents are of one."""
    tables = at.tables() if at.kind == "postgresql" or Path(at.at).exists() else []
    if not [name for name in tables if name.startswith("clinic")]:
        return None
    documents = at.documents("clinic")
    assert documents["verdict"]["passed"]
    assert documents["verdict"]["run_id"] == documents["manifest"]["run_id"]
    names = set(documents["manifest"]["output"]["tables"])
    assert {name for name in tables if name.startswith("clinic")} == {f"clinic_{name}" for name in names} | {
        "clinic__documents"
    }
    rows = {name: at.ask(f'SELECT edition FROM "clinic_{name}"') for name in names}
    [number] = {row[0] for own in rows.values() for row in own}
    assert {name: len(own) for name, own in rows.items()} == {
        name: documents["manifest"]["output"]["tables"][name]["rows"] for name in names
    }
    return int(number)


def test_a_set_is_published_into_a_database_and_replaced(place: Place, tmp_path: Path) -> None:
    result = pp.release(edition(tmp_path, place, 1))
    assert result.published
    assert seen(place) == 1
    assert sorted(place.ask("SELECT age, edition FROM clinic_patients"))[0] == (30, 1)
    assert verify(str(tmp_path / "policy-1.yaml")).sound
    output = place.documents("clinic")["manifest"]["output"]
    assert output["table"].endswith("clinic")
    assert output["files"] == []
    assert not [name for name in place.tables() if name.startswith("_privpipe")]
    pp.release(edition(tmp_path, place, 2, drugs=True, wide=True))  # another table, other columns
    assert seen(place) == 2
    assert "clinic_drugs" in place.tables()
    pp.release(edition(tmp_path, place, 3))  # and without them
    assert seen(place) == 3
    assert "clinic_drugs" not in place.tables()


def test_a_set_that_fails_leaves_the_one_before(place: Place, tmp_path: Path) -> None:
    pp.release(edition(tmp_path, place, 1))
    with pytest.raises(Refused):
        pp.release(edition(tmp_path, place, 2, k=30))
    assert seen(place) == 1
    assert not [name for name in place.tables() if name.startswith("_privpipe")]


@pytest.mark.parametrize("first", [False, True])
def test_a_set_that_reads_back_otherwise_is_withdrawn(
    place: Place, tmp_path: Path, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables go back: rows, columns, and one that the new set does not have."""
    if not first:
        pp.release(edition(tmp_path, place, 1, drugs=True, wide=True))
    before = place.tables() if not first else []

    def fails(*_: Any) -> Any:
        assert seen(place) == 2
        raise EngineError("it does not read back")

    monkeypatch.setattr(related_release.RelatedRun, "_judged_again", fails)
    with pytest.raises(EngineError, match="does not read back"):
        pp.release(edition(tmp_path, place, 2))
    assert seen(place) == (None if first else 1)
    if not first:
        assert place.tables() == before
        assert len(place.ask("SELECT more FROM clinic_drugs")) == 7


def test_a_table_of_others_under_one_of_the_names_is_refused(place: Place, tmp_path: Path) -> None:
    place.ask("CREATE TABLE clinic_visits AS SELECT 1 AS own")
    with pytest.raises(SinkError, match="privpipe did not publish"):
        pp.release(edition(tmp_path, place, 1))
    assert place.tables() == ["clinic_visits"]
    assert place.ask("SELECT own FROM clinic_visits") == [(1,)]


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at_a_step_leaves_the_old_set_or_the_new_one(
    place: Place, runs: Runs, tmp_path: Path, step: str
) -> None:
    for number, before in ((1, None), (2, 1)):
        policy = edition(tmp_path, place, number, wide=number == 2)
        assert runs.killed(policy, step)
        assert seen(place) == (number if step in ("judge again", "done") else before)
        pp.release(policy)
        assert seen(place) == number
    assert not [name for name in place.tables() if name.startswith("_privpipe")]
