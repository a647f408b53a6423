"""Every source into every sink: the rows of the source's own reader arrive in the sink's, or a refusal says what to do.

Sources and sinks do not know each other, so that each engine runs each source into Parquet and each sink from Parquet,
and the embedded engine every sixth other pair; `PRIVPIPE_MATRIX=whole` runs every pair on every engine. `make test`
runs what the embedded engine writes from Parquet, `make test-deep` the rest: each reader has tests in its own folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, PrivpipeError, UnsupportedError
from tests.engines.databases.conftest import PASSWORD, Server
from tests.engines.databases.sink_places import Place
from tests.engines.lakes.deltas import ROWS
from tests.matrix.sinks import SINKS, catalogue, environment
from tests.matrix.sources import SOURCES, Home, Made
from tests.object_store import ObjectStore, needs_object_store

ENGINES = ("embedded", "dask", "spark")
FIXTURES = {"embedded": "embedded", "dask": "dask_engine", "spark": "spark_engine"}


def refusal(source: str, sink: str, engine: str) -> tuple[type[PrivpipeError], str] | None:
    """How a pair is refused, and what is said of the way out; None: it works."""
    if source == "catalogue" and engine != "spark":
        return UnsupportedError, "spark|Spark"
    if sink == "catalogue" and engine != "spark":
        return UnsupportedError, "spark|Spark"
    if source == "iceberg, deletes by equality":
        return UnsupportedError, "equality deletes.*compact it"
    return None


def pairs() -> list[Any]:
    whole = os.environ.get("PRIVPIPE_MATRIX") == "whole"
    found = []
    for engine in ENGINES:
        own = [] if engine == "embedded" else [getattr(pytest.mark, engine)]
        for at, source in enumerate(SOURCES):
            for place, sink in enumerate(SINKS):
                marks = own if engine == "embedded" and source == "parquet" else [*own, pytest.mark.deep]
                sixth = engine == "embedded" and ((at + place) % 6 == 0 or source == sink)
                if sixth or whole or "parquet" in (source, sink):
                    found.append(pytest.param(engine, source, sink, id=f"{engine}: {source} -> {sink}", marks=marks))
    return found


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    needs_object_store()
    with ObjectStore() as found:
        yield found


@pytest.fixture
def home(store: ObjectStore, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("deltalake", "pyiceberg"):
        pytest.importorskip(name, reason=f"needs {name}")
    told = {**store.environment(), **environment(tmp_path), "PGPASSWORD": PASSWORD}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    import pyiceberg.catalog

    # pyiceberg reads the environment once, when it is imported.
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", type(pyiceberg.catalog._ENV_CONFIG)())
    place = Place("postgresql", tmp_path, postgres)
    for name in ("people_public__documents", "people_public"):
        place.ask(f"DROP TABLE IF EXISTS {name}")
    for found in store.files().find(store.bucket):
        store.request("DELETE", f"/{found}")
    return Home(tmp_path, store.bucket, store.files(), postgres.url, place.ask)


@pytest.fixture
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Spark's, with a database of its own."""
    found = request.getfixturevalue("spark_engine").session
    found.sql(f"CREATE DATABASE matrix LOCATION '{tmp_path / 'matrix'}'")
    yield found
    found.sql("DROP DATABASE matrix CASCADE")


def policy(source: dict[str, Any], sink: dict[str, Any], folder: Path) -> pp.Policy:
    document = {
        "source": source,
        "columns": {"sex": {"role": "quasi_identifier"}, "n": {"role": "insensitive", "type": "integer"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": sink,
        "records": str(folder / "records"),
    }
    return pp.Policy.from_dict(document, base_dir=folder)


@pytest.mark.parametrize(("name", "source", "sink"), pairs())
def test_the_rows_arrive_or_the_refusal_says_what_to_do(
    name: str, source: str, sink: str, home: Home, store: ObjectStore, request: pytest.FixtureRequest
) -> None:
    engine = request.getfixturevalue(FIXTURES[name])
    if name == "spark" and "catalogue" in (source, sink):
        home = replace(home, session=request.getfixturevalue("session"))
    if name == "spark":  # its workers may have been started before there was a store
        engine.session.sparkContext.environment.update(store.environment())
    elsewhere = source == "catalogue" and name != "spark"
    made = Made({"table": "people"}, []) if elsewhere else SOURCES[source](home)
    if sink == "iceberg":
        catalogue().create_namespace_if_not_exists("db")
    told = refusal(source, sink, name)
    if told is None:
        for _ in range(2 if source == "parquet" else 1):  # the second release replaces the first
            result = pp.release(policy(made.source, SINKS[sink].said(home), home.folder), engine=engine)
            assert result.assessment.passed
            assert SINKS[sink].read(home) == made.rows
    else:
        with pytest.raises(told[0], match=told[1]):
            pp.release(policy(made.source, SINKS[sink].said(home), home.folder), engine=engine)


def test_what_is_hudi_is_refused_on_every_engine(engine: Any, home: Home) -> None:
    (home.folder / "hudi" / ".hoodie").mkdir(parents=True)
    pq.write_table(ROWS, home.folder / "hudi" / "part.parquet")
    with pytest.raises(DataError, match="Hudi"):
        pp.release(policy({"path": str(home.folder / "hudi")}, SINKS["parquet"].said(home), home.folder), engine=engine)
