"""No public document, log or error shows the query of a source: it may name a person or a folder."""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import PrivpipeError

ROWS = [(f"{n % 3}", f"Person{n}", n % 2) for n in range(60)]
SECRETS = ("Person41", "home/anna", "undisclosed", "4711")
QUERY = (
    "SELECT zip, ill FROM visits WHERE name <> 'Person41' AND 4711 > 0 /* from /home/anna/undisclosed */ "
    "ORDER BY name -- /home/anna/undisclosed"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "duck")) as duck:
        duck.execute("CREATE TABLE visits (zip TEXT, name TEXT, ill INTEGER)")
        duck.executemany("INSERT INTO visits VALUES (?, ?, ?)", ROWS)
    with sqlite3.connect(tmp_path / "lite") as lite:
        lite.execute("CREATE TABLE visits (zip TEXT, name TEXT, ill INTEGER)")
        lite.executemany("INSERT INTO visits VALUES (?, ?, ?)", ROWS)
    lite.close()
    (tmp_path / "seed").write_text("6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f")
    (tmp_path / "seed").chmod(0o600)
    return tmp_path


def written(home: Path, database: str, query: str = QUERY, **changes: Any) -> Path:
    table = {"database": database, "query": query}
    document = {
        "name": "visits",
        "source": table,
        "population": {"database": "lite", "query": query},
        "columns": {"zip": {"role": "quasi_identifier"}, "ill": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 2}}, {"k_map": {"k": 2}}],
        "sink": {"path": "out"},
        "records": "private",
        "seed": {"from_file": "seed"},
        **changes,
    }
    (home / "release.yaml").write_text(json.dumps(document))
    return home / "release.yaml"


@pytest.mark.parametrize("database", ["duck", "lite"])
def test_a_release_shows_that_there_is_a_query_and_no_more(
    home: Path, database: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    policy = written(home, database)
    result = pp.release(policy)
    files = [path for path in (home / "out").rglob("*") if path.is_file()]
    assert {"manifest.json", "verdict.json", "plan.json", "report.html"} < {path.name for path in files}
    said = [caplog.text, *capfd.readouterr(), repr(pp.Policy.load(policy)), pp.Policy.load(policy)._repr_html_()]
    for form in ("openlineage", "markdown", "junit", "prometheus"):
        said.append(CliRunner().invoke(app, ["export", str(home / "out"), "--format", form]).output)
    for secret in SECRETS:
        assert not [path.name for path in files if secret.encode() in path.read_bytes()], secret
        assert not [text for text in said if secret in text], secret
    manifest = json.loads((home / "out" / "_privpipe" / "manifest.json").read_text())
    assert manifest["policy"]["source"] == {"database": database, "query": True}
    private = json.loads((Path(str(result.record)) / "manifest.json").read_text())
    assert private["input"]["queries"] == {"source": QUERY, "population": QUERY}


def test_the_owner_still_finds_another_query(home: Path) -> None:
    policy = written(home, "duck")
    pp.release(policy)
    verify = ["verify", str(home / "out"), "--policy", str(policy)]
    found = CliRunner().invoke(app, [*verify, "--records", str(home / "private")])
    assert found.exit_code == 0, found.output
    assert "the query of the private record" in " ".join(found.output.split())
    alone = CliRunner().invoke(app, [*verify, "--records", str(home)])
    assert alone.exit_code == 0
    assert "compared with a private record" in " ".join(alone.output.split())
    released = pp.Policy.load(policy)
    other = pp.Policy.load(written(home, "duck", QUERY.replace("Person41", "Person42")))
    assert other.digest() == released.digest()
    assert other.run_digest() != released.run_digest()
    found = CliRunner().invoke(app, [*verify, "--records", str(home / "private")])
    assert found.exit_code == 3
    assert "its query is not the one" in " ".join(found.output.split())


def test_a_table_in_place_of_a_query_is_another_policy(home: Path) -> None:
    one = pp.Policy.load(written(home, "duck"))
    other = pp.Policy.load(written(home, "duck", source={"database": "duck", "table": "visits"}))
    assert one.digest() != other.digest()
    assert "query" not in other.public_document()["source"]


@pytest.mark.parametrize("database", ["duck", "lite"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT nothing FROM visits WHERE name <> 'Person41' -- /home/anna/undisclosed",
        "SELECT zip, ill FROM '/home/anna/undisclosed.csv'",
        "SELECT zip, ill FROM visits WHERE name = 'Person41",
        "DELETE FROM visits WHERE name = 'Person41'",
        "SELECT CAST('Person41' AS INTEGER) AS zip, 1 / (4711 - 4711) AS ill FROM nowhere.visits",
    ],
)
def test_a_query_that_fails_is_not_repeated(home: Path, database: str, query: str) -> None:
    policy = written(home, database, query)
    with pytest.raises(PrivpipeError) as caught:
        pp.release(policy)
    shown = CliRunner().invoke(app, ["release", str(policy)])
    assert shown.exit_code in (2, 3)
    for secret in SECRETS:
        assert secret not in f"{caught.value}{shown.output}{shown.stderr}", secret


def test_columns_named_query_stay_as_they_are() -> None:
    document = {
        "columns": {"query": {"role": "quasi_identifier", "type": "date"}, "source": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": ["query"]}}],
        "source": {"path": "query.csv", "date_format": {"query": "%d/%m/%Y"}},
    }
    assert pp.Policy.from_dict(document).public_document() == document
