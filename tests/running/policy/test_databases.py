"""`database:` under `source:`: the reader, the schema, YAML; a password never comes back in an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.engines.databases import Database
from privpipe.errors import PolicyError

DOCUMENT: dict[str, Any] = {
    "source": {"database": "visits.duckdb", "table": "main.visits"},
    "columns": {"zip": {"role": "quasi_identifier"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
}
SECRET = "canarysecret"
TEXT = """\
version: 1
source:
  table: visits
  database: postgresql://me:canarysecret@db.example/visits
columns: {zip: {role: quasi_identifier}}
guarantees: [{k_anonymity: {k: 2}}]
"""


def problems(source: Any) -> list[str]:
    with pytest.raises(PolicyError) as raised:
        pp.Policy.from_dict({**DOCUMENT, "source": source})
    assert SECRET not in str(raised.value)
    return [f"{found.path}: {found.message}" for found in raised.value.problems]


@pytest.mark.parametrize("section", ["source", "original", "population"])
def test_each_source_may_be_of_a_database(section: str) -> None:
    policy = pp.Policy.from_dict({**DOCUMENT, section: {"database": "visits.sqlite", "query": "SELECT 1"}})
    spec = getattr(policy, section)
    assert spec.to_source({"zip": "text"}, Path("/policies")).data == Database(
        at="/policies/visits.sqlite", query="SELECT 1"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"database": "a.db"}, "source.database: needs `table:` or `query:`, one of the two"),
        ({"database": "a.db", "table": "x", "query": "SELECT 1"}, "source.database: needs `table:` or `query:`"),
        ({"query": "SELECT 1"}, "source.query: is for a database: write `database:`"),
        ({"query": "SELECT 1", "path": "a.csv"}, "source.query: is for a database"),
        ({"database": "a.db", "table": "x", "path": "a.csv"}, "source.database: is given in addition to `path:`"),
        ({"database": "a.db", "table": "x", "delimiter": ";"}, "source.delimiter: is for files; a database declares"),
        ({"database": "a.db", "table": "x; y"}, "source.table: 'x; y' is not the name of a table"),
        ({"database": {"env": ""}, "table": "x"}, "source.database: env names an environment variable"),
        ({"database": {"url": SECRET}, "table": "x"}, "source.database: must be a text, or {env: NAME}"),
        ({"database": {"env": f"postgresql://a:{SECRET}@b"}, "table": "x"}, "source.database: env names"),
        ({"database": [SECRET], "table": "x"}, "source.database: must be a file, a URL without a password"),
        ({"database": f"postgresql://me:{SECRET}@db/x", "table": "x"}, "source.database: holds a password"),
        ({"database": f"postgresql://:{SECRET}@db/x", "table": "x"}, "source.database: holds a password"),
        ({"database": f"postgresql://db/x?password={SECRET}", "table": "x"}, "source.database: holds a password"),
        ({"database": f"mysql+pymysql://me:{SECRET}@db/x", "table": "x"}, "source.database: holds a password"),
        (
            {"database": f"postgresql://me:{SECRET}@[db/x", "table": "x"},
            "source.database: is not a URL that can be read",
        ),
        ({"databse": "a.db", "table": "x"}, "source.databse: unknown key; did you mean 'database'?"),
    ],
)
def test_the_reader_says_what_is_wrong(source: dict[str, Any], message: str) -> None:
    assert problems(source)[0].startswith(message)


def test_a_password_is_reported_by_its_line_and_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(TEXT)
    with pytest.raises(PolicyError) as raised:
        pp.Policy.load(tmp_path / "release.yaml")
    assert "release.yaml:4: source.database: holds a password" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_the_schema_says_the_same() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(pp.policy.json_schema())
    for source, sound in (
        ({"database": "a.db", "table": "x"}, 1),
        ({"database": {"env": "URL"}, "query": "SELECT 1"}, 1),
        ({"database": "a.db"}, 0),
        ({"database": "a.db", "table": "x", "query": "SELECT 1"}, 0),
        ({"database": {"url": "x"}, "table": "x"}, 0),
        ({"database": "a.db", "path": "x"}, 0),
        ({"query": "SELECT 1"}, 0),
        ({"table": "x"}, 1),
        ({"path": "x"}, 1),
    ):
        assert validator.is_valid({**DOCUMENT, "source": source}) is bool(sound), source


def test_a_release_never_lands_on_its_database() -> None:
    with pytest.raises(PolicyError, match="overlaps with the path of `source:`"):
        pp.Policy.from_dict({**DOCUMENT, "sink": {"path": "visits.duckdb"}})
    pp.Policy.from_dict({**DOCUMENT, "sink": {"path": "published"}})
    pp.Policy.from_dict({**DOCUMENT, "source": {"database": "postgresql", "table": "x"}, "sink": {"path": "published"}})
