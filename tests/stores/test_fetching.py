"""Releases are read by the pointer, whole, and only where their files are those of the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import DataError, SinkError
from privpipe.running import published_release
from tests.object_store import BUCKET, ObjectStore
from tests.tiers import deep_beyond

SINK = f"s3://{BUCKET}/people"


@pytest.mark.parametrize("format", deep_beyond(1, ("parquet", "csv", "json")))
@pytest.mark.parametrize("place", ["store", "folder"])
def test_a_release_is_read_back(
    store: ObjectStore, document: dict[str, Any], tmp_path: Path, place: str, format: str
) -> None:
    sink = SINK if place == "store" else str(tmp_path / "out")
    pp.release({**document, "sink": {"path": sink, "format": format}})
    table = pp.read_release(sink)
    assert table.column_names == ["zip", "age"]
    assert sorted(table["zip"].to_pylist()) == ["a", "a", "b", "b"]
    assert sorted(map(int, table["age"].to_pylist())) == [31, 32, 33, 34]
    assert pp.read_release(sink, ["age"]).column_names == ["age"]
    assert list(pp.read_release(sink, ["age", "zip"], frame="pandas")) == ["age", "zip"]
    with pytest.raises(DataError, match="no column 'agee'; did you mean 'age'"):
        pp.read_release(sink, ["agee"])
    fetched = pp.fetch(sink, tmp_path / "copy")
    assert fetched.changed
    assert not pp.fetch(sink, tmp_path / "copy").changed
    assert pp.read_release(tmp_path / "copy").equals(table)


def test_a_file_that_was_changed_is_refused(store: ObjectStore, document: dict[str, Any], tmp_path: Path) -> None:
    first = pp.release(document)
    pp.fetch(SINK, tmp_path / "copy")
    second = pp.release(document)
    files = store.files()
    home = f"{BUCKET}/.people.privpipe/releases/{second.run_id}"
    part = f"{home}/part-00000.parquet"
    whole = files.cat_file(part)
    for damage in (lambda: files.pipe_file(part, whole[:-1]), lambda: files.rm_file(part)):
        damage()
        with pytest.raises(DataError, match="not what its manifest states"):
            pp.read_release(SINK)
        with pytest.raises(DataError, match="not what its manifest states"):
            pp.fetch(SINK, tmp_path / "copy")
        files.pipe_file(part, whole)
    files.pipe_file(f"{home}/part-00001.parquet", whole)
    with pytest.raises(DataError, match="not what its manifest states"):
        pp.read_release(SINK)
    files.rm_file(f"{home}/part-00001.parquet")
    manifest = json.loads((tmp_path / "copy" / "_privpipe" / "manifest.json").read_text())
    assert manifest["run_id"] == first.run_id
    assert pp.fetch(SINK, tmp_path / "copy").run_id == second.run_id


@pytest.mark.deep
def test_anything_but_a_release_is_refused(store: ObjectStore, tmp_path: Path) -> None:
    store.files().pipe_file(f"{BUCKET}/raw/a.parquet", b"")
    (tmp_path / "plain").mkdir()
    for path in (f"s3://{BUCKET}/raw", str(tmp_path / "plain")):
        with pytest.raises(DataError, match="is not a release"):
            pp.read_release(path)
    with pytest.raises(DataError, match="nothing is at"):
        pp.read_release(f"s3://{BUCKET}/nowhere")


def test_what_lies_where_it_is_to_be_fetched_is_left_alone(
    store: ObjectStore, document: dict[str, Any], tmp_path: Path
) -> None:
    pp.release(document)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").touch()
    with pytest.raises(SinkError, match="did not publish"):
        pp.fetch(SINK, tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["mine"]


@pytest.mark.deep
def test_a_release_that_is_thrown_away_while_it_is_copied_is_read_again(
    store: ObjectStore, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pp.release(document)
    copy, newest = published_release.whole_copy, []

    def late(*arguments: Any) -> None:
        while len(newest) < 2:  # the first of them keeps what is being read, the second throws it away
            newest.append(pp.release(document).run_id)
        copy(*arguments)

    monkeypatch.setattr(published_release, "whole_copy", late)
    assert pp.read_release(SINK).num_rows == 4
    assert len(newest) == 2


@pytest.mark.deep
def test_the_command(store: ObjectStore, document: dict[str, Any], tmp_path: Path) -> None:
    made = pp.release(document)
    done = CliRunner().invoke(app, ["fetch", SINK, "--to", str(tmp_path / "copy")])
    assert done.exit_code == 0
    assert f"release {made.run_id}, 1 files" in done.stdout
    done = CliRunner().invoke(app, ["fetch", SINK, "--to", str(tmp_path / "copy"), "--json"])
    assert json.loads(done.stdout)["changed"] is False
    assert CliRunner().invoke(app, ["fetch", f"s3://{BUCKET}/no", "--to", str(tmp_path / "no")]).exit_code == 3
