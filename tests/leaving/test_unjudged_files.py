"""What readers get with a judged table and no gate looked into is counted, on every face and engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine, Source
from privpipe.engines.readers.unjudged_content import unjudged_files
from tests.engines.lakes import deltas, icebergs
from tests.running.iceberg.tables import read_again

POLICY: dict[str, Any] = {
    "columns": {"n": {"role": "quasi_identifier"}, "sex": {"role": "insensitive"}},
    "guarantees": [{"k_anonymity": {"k": 1}}],
}


def notes(judged: pp.Assessment) -> list[str]:
    return [note for note in judged.notes if "not judged" in note]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One file that is judged, five that are not, and what writers put next to every table."""
    home = tmp_path / "shared"
    for name in ("a", "_old", ".b", "_staging/c"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(deltas.ROWS, home / f"{name}.parquet")
    (home / "raw.csv").write_text("n\n7\n")
    (home / "_metadata").write_bytes(b"PAR1")
    (home / "_SUCCESS").write_bytes(b"")
    return home


EXPECTED = "readers get 5 files with the table that were not judged: 4 hidden, 1 of other formats"


def test_a_folder(engine: Engine, folder: Path) -> None:
    assert notes(pp.validate(folder, POLICY, engine=engine)) == [EXPECTED]
    assert notes(pp.assess(folder, POLICY, engine=engine)) == [EXPECTED]
    for name in ("_old.parquet", ".b.parquet", "_staging/c.parquet", "raw.csv", "_metadata"):
        (folder / name).unlink()
    assert notes(pp.validate(folder, POLICY, engine=engine)) == []


def test_a_checksum_is_one_by_its_length(folder: Path) -> None:
    """A file that is only called so is counted, as are documents that no release has."""
    size = (folder / "a.parquet").stat().st_size
    (folder / ".a.parquet.crc").write_bytes(b"crc\0" + bytes(4 + 4 * -(-size // 512)))
    assert unjudged_files(Source(data=str(folder))) == {"hidden": 4, "other": 1}
    (folder / ".a.parquet.crc").write_bytes(b"Ann;Barrow;HIV")
    (folder / "_privpipe").mkdir()
    for name in ("verdict.json", "persons.json"):
        (folder / "_privpipe" / name).write_text("{}")
    assert unjudged_files(Source(data=str(folder))) == {"hidden": 6, "other": 1}


def test_the_command_line_and_the_document(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(json.dumps({"version": 1, **POLICY}))
    shown = CliRunner().invoke(app, ["validate", str(folder), str(tmp_path / "p.yaml"), "--json"])
    assert EXPECTED in json.loads(shown.stdout)["notes"]
    plain = CliRunner().invoke(app, ["validate", str(folder), str(tmp_path / "p.yaml")])
    assert "5 files with the table that were not judged" in " ".join((plain.stdout + plain.stderr).split())


def test_great_expectations(folder: Path) -> None:
    pytest.importorskip("great_expectations", reason="needs Great Expectations")
    from privpipe.gx.batch import opened

    assert opened(str(folder)).notes == (EXPECTED,)
    assert opened(pq.read_table(folder / "a.parquet")).notes == ()


def test_one_file_has_nothing_next_to_it(folder: Path) -> None:
    assert notes(pp.validate(folder / "a.parquet", POLICY)) == []
    assert notes(pp.validate(pq.read_table(folder / "a.parquet"), POLICY)) == []


def test_an_object_store(folder: Path, engine: Engine) -> None:
    fsspec = pytest.importorskip("fsspec")
    if engine.name == "spark":
        pytest.skip("a session reads no store of this process")
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.put(f"{folder}/", "/lake/shared/", recursive=True)
    assert notes(pp.validate("memory://lake/shared", POLICY, engine=engine)) == [EXPECTED]


def test_a_release_has_nothing_next_to_it(tmp_path: Path) -> None:
    pq.write_table(deltas.ROWS, tmp_path / "in.parquet")
    policy = POLICY | {
        "source": {"path": str(tmp_path / "in.parquet")},
        "sink": {"path": str(tmp_path / "out")},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }
    path = pp.release(policy).path
    assert notes(pp.validate(path, POLICY)) == []


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    pytest.importorskip("deltalake", reason="needs deltalake")
    return deltas.overwritten(tmp_path / "table")


def test_a_delta_table(delta: Path, engine: Engine) -> None:
    """Two versions that still open, a file that the log does not name, a hidden one and one of another format."""
    pq.write_table(deltas.ROWS, delta / "stray.parquet")
    pq.write_table(deltas.ROWS, delta / ".hidden.parquet")
    (delta / "_change_data").mkdir()
    pq.write_table(deltas.ROWS, delta / "_change_data" / "cdc.parquet")
    (delta / "readme.txt").write_text("persons")
    assert notes(pp.validate(delta, POLICY, engine=engine)) == [
        "readers get 6 files with the table that were not judged: 2 of other versions of the table, "
        "1 Parquet that the table does not name, 2 hidden, 1 of other formats"
    ]
    (first,) = notes(pp.validate({"path": str(delta), "version": 0}, POLICY, engine=engine))
    assert "2 of other versions" in first


def test_rows_and_columns_that_a_delta_table_lost_stay_in_its_files(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="needs deltalake")
    folder = deltas.deleted(tmp_path / "deleted")
    assert unjudged_files(Source(data=str(folder))) == {"old": 1}
    marked = deltas.vectors(tmp_path / "marked")
    assert unjudged_files(Source(data=str(marked)))["deleted"] == 1
    wide = tmp_path / "wide"
    deltas.write(wide, deltas.ROWS)
    (part,) = wide.glob("*.parquet")
    pq.write_table(deltas.ROWS.append_column("surname", pa.array(["x"] * 16)), part)
    assert unjudged_files(Source(data=str(wide))) == {"columns": 1}


def test_an_iceberg_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg", reason="needs pyiceberg")
    pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")
    for name, value in icebergs.environment(tmp_path / "lake").items():
        monkeypatch.setenv(name, value)
    read_again(monkeypatch)
    catalogue = icebergs.catalogue(tmp_path / "lake")
    table = catalogue.create_table("db.people", deltas.ROWS.schema)
    table.append(deltas.ROWS)
    named = {"iceberg": "db.people", "catalog": icebergs.CATALOG}
    assert notes(pp.validate(named, POLICY)) == []
    table.overwrite(deltas.ROWS)
    (data,) = {path.parent for path in tmp_path.rglob("*.parquet")}
    pq.write_table(deltas.ROWS, data / "stray.parquet")
    assert notes(pp.validate(named, POLICY)) == [
        "readers get 2 files with the table that were not judged: 1 of other versions of the table, "
        "1 Parquet that the table does not name"
    ]
    catalogue.close()
