"""A release published into a table of a database (DuckDB, SQLite, a PostgreSQL server), on every engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from privpipe.engines import Engine
from privpipe.errors import Refused, SinkError
from tests.engines.databases.sink_places import CANARY, Place, require_no_bytes, rows

COMMENT = re.compile(r"privpipe: run (\S+), passed, policy [0-9a-f]{64}")


def source(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in pq.read_table(folder / "visits.parquet").to_pylist())


def test_two_releases_in_a_row(place: Place, release: Callable[..., Any], tmp_path: Path, engine: Engine) -> None:
    first = release(engine=engine)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    written = rows(place)
    assert sorted(written) == source(tmp_path)
    assert written != source(tmp_path)
    assert place.documents() == first.public
    assert first.manifest["output"]["table"].endswith("visits_public")
    assert json.loads(Path(first.record, "verdict.json").read_text()) == first.verdict_document

    second = release(records=300, engine=engine)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    assert sorted(rows(place)) == source(tmp_path)
    assert place.documents()["manifest"]["run_id"] == second.run_id
    assert not list(Path(first.record).parent.parent.glob("staging/*"))


def test_every_engine_writes_the_same_rows_in_the_same_order(
    place: Place, release: Callable[..., Any], embedded: Engine, engine: Engine
) -> None:
    release(engine=embedded)
    expected = rows(place)
    release(engine=engine)
    assert rows(place) == expected


def test_the_table_says_its_run(place: Place, release: Callable[..., Any]) -> None:
    result = release()
    for table in ("visits_public", "visits_public__documents"):
        comment = place.comment(table)
        if place.kind == "sqlite":
            assert comment is None
            continue
        found = COMMENT.fullmatch(str(comment))
        assert found is not None
        assert found[1] == result.run_id
        assert str(comment).endswith(result.public["manifest"]["policy_hash"])


def test_a_refused_release_leaves_nothing(place: Place, release: Callable[..., Any]) -> None:
    with pytest.raises(Refused):
        release(k=50, note=CANARY)
    if place.kind != "postgresql":
        assert not Path(place.at).exists()
    else:
        assert place.tables() == []
    release()
    before, documents = rows(place), place.documents()
    with pytest.raises(Refused):
        release(k=50, note=CANARY)
    assert (rows(place), place.documents()) == (before, documents)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    require_no_bytes(place, CANARY)


def test_a_table_of_someone_else_is_refused(place: Place, release: Callable[..., Any]) -> None:
    place.ask("CREATE TABLE visits_public (a INTEGER)")
    with pytest.raises(SinkError, match="did not publish; rename or drop it"):
        release()
    with pytest.raises(SinkError, match="did not publish; rename or drop it"):
        release(dry_run=True)
    assert place.tables() == ["visits_public"]


def test_a_dry_run_leaves_nothing(place: Place, release: Callable[..., Any]) -> None:
    assert not release(dry_run=True).published
    if place.kind == "postgresql":
        assert place.tables() == []
    else:
        assert not Path(place.at).exists()
