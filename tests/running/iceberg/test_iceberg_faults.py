"""What is in the way of a release into an Iceberg table: other writers, failing steps, a locked catalogue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.utils.concurrent import ExecutorFactory

import privpipe as pp
from privpipe.errors import NotWithdrawn, Refused, SinkError
from privpipe.sinks.iceberg_files import Leftovers
from tests.engines.lakes import icebergs
from tests.running.iceberg.tables import NAMES, TABLE, content, foreign_write, read_again, rows, standing
from tests.tiers import deep_beyond


def test_what_another_writer_commits_during_a_run_is_never_overwritten(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path, tmp_path: Path
) -> None:
    release()

    def meanwhile(step: str) -> None:
        if step == "publish":
            foreign_write(table)
            seen.append(standing(lake, table))

    for mode in ("replace", "append"):
        seen: list[Any] = []
        with pytest.raises(SinkError, match="another writer changed the Iceberg table"):
            release(rows(300), sink={"mode": mode}, progress=meanwhile)
        assert standing(lake, table) == seen[0]
    assert table().scan().to_arrow().num_rows == 224
    after = release(rows(300))
    assert any("another writer" in note for note in after.assessment.notes)
    assert content(table().scan().to_arrow()) == content(rows(300))


def test_a_table_that_another_writer_creates_during_the_first_release_stays(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path
) -> None:
    seen: list[Any] = []

    def meanwhile(step: str) -> None:
        if step == "publish":
            catalogue = icebergs.catalogue(lake)
            catalogue.create_table(TABLE, schema=rows().schema).append(rows(3, kinds=1))
            catalogue.close()
            seen.append(standing(lake, table))

    with pytest.raises(SinkError, match="another writer changed"):
        release(progress=meanwhile)
    assert standing(lake, table) == seen[0]
    with pytest.raises(SinkError, match="that privpipe did not publish"):
        release()
    with pytest.raises(SinkError, match="that privpipe did not publish"):
        release(dry_run=True)
    assert standing(lake, table) == seen[0]


def test_a_run_that_another_run_keeps_out_does_nothing(release: Callable[..., Any], table: Callable[[], Any]) -> None:
    def meanwhile(step: str) -> None:
        if step == "write":
            with pytest.raises(SinkError, match="another run is writing"):
                release()

    assert release(progress=meanwhile).published
    assert len(table().snapshots()) == 1


def test_a_release_that_reads_back_differently_is_taken_back(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpipe.running import run

    judge = run.judge_written
    calls: list[int] = []

    def altered(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        judged = judge(*arguments, **named)
        return judged if len(calls) % 2 else judged.within(altered=True)

    empty = standing(lake, table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "judge_written", altered)
        with pytest.raises(pp.errors.EngineError, match="withdrawn"):
            release()
    assert standing(lake, table) == empty
    first = release()
    before = standing(lake, table)
    monkeypatch.setattr(run, "judge_written", altered)
    more = rows(300).append_column("shop", pa.array(["x"] * 300))
    for mode in ("replace", "append"):
        with pytest.raises(pp.errors.EngineError, match="withdrawn"):
            release(more, sink={"mode": mode, "schema": "evolve"})
        after = standing(lake, table)
        assert after[1:3] == before[1:3]
        assert after[4] == before[4]
        assert table().properties["privpipe.run_id"] == first.run_id
        assert [field.name for field in table().schema().fields] == NAMES
        # Metadata files of the two commits stay, which the table's own log names; they hold no row.
        assert {path for path in after[0] if path not in before[0] and not path.endswith(".metadata.json")} == set()
    assert content(table().scan().to_arrow()) == content(rows())


def test_a_release_under_what_others_wrote_is_taken_out_alone(
    release: Callable[..., Any], table: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpipe.running import run

    judge = run.judge_written
    calls: list[int] = []

    def altered(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        judged = judge(*arguments, **named)
        if len(calls) % 2:
            return judged
        foreign_write(table)
        return judged.within(altered=True)

    first = release()
    monkeypatch.setattr(run, "judge_written", altered)
    for mode, foreign in (("replace", 12), ("append", 24)):
        with pytest.raises(pp.errors.EngineError, match="withdrawn"):
            release(rows(300), sink={"mode": mode})
        found = table().scan().to_arrow()
        assert found.num_rows == 200 + foreign
        assert sum(age >= 90 for age in found["age"].to_pylist()) == foreign
        assert table().properties["privpipe.run_id"] == first.run_id
        assert all(
            s.summary.additional_properties.get("privpipe.run_id") in (None, first.run_id) for s in table().snapshots()
        )


FAULTS = {
    "a part file is copied": ("privpipe.sinks.iceberg.copied", 0),
    "a document is copied": ("privpipe.sinks.iceberg.copied", 2),
    "a manifest is written": ("pyiceberg.manifest.ManifestWriter.__exit__", 0),
    "a manifest list is written": ("pyiceberg.manifest.ManifestListWriter.__exit__", 0),
    "metadata is written": ("pyiceberg.serializers.ToOutputFile.table_metadata", 0),
    "the catalogue commits": ("pyiceberg.catalog.sql.SqlCatalog.commit_table", 0),
}


@pytest.mark.parametrize("after", deep_beyond(1, (False, True)), ids=["before", "after"])
@pytest.mark.parametrize("fault", deep_beyond(2, FAULTS))
def test_a_step_that_fails_leaves_what_was_there(
    fault: str,
    after: bool,
    release: Callable[..., Any],
    table: Callable[[], Any],
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, passing = FAULTS[fault]
    release(sink={"iceberg": "db.other"})
    empty = standing(lake, table)
    whole = pytest.MonkeyPatch.context

    def failing() -> Any:
        owner, _, name = place.rpartition(".")
        target = _resolved(owner)
        step, calls = getattr(target, name), []

        def once(*arguments: Any, **named: Any) -> Any:
            calls.append(1)
            if len(calls) != passing + 1:
                return step(*arguments, **named)
            if after:
                step(*arguments, **named)
            raise PermissionError(13, "Permission denied")

        return target, name, once

    with whole() as patch:
        patch.setattr(*failing())
        with pytest.raises(SinkError, match="Permission denied"):
            release()
    assert standing(lake, table)[0] == empty[0]
    release()
    before = standing(lake, table)
    for mode in ("replace", "append"):
        with whole() as patch:
            patch.setattr(*failing())
            with pytest.raises(SinkError, match="Permission denied"):
                release(rows(300), sink={"mode": mode})
        now = standing(lake, table)
        assert now[1:3] == before[1:3]
        assert {path for path in now[0] if path not in before[0] and not path.endswith(".metadata.json")} == set()
    assert content(table().scan().to_arrow()) == content(rows())


def _resolved(name: str) -> Any:
    import importlib

    module, _, rest = name, "", ""
    while True:
        try:
            found: Any = importlib.import_module(module)
            break
        except ImportError:
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
    for each in rest.split(".") if rest else ():
        found = getattr(found, each)
    return found


def test_a_locked_catalogue_is_an_error_and_the_next_run_cleans_up(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import sqlite3

    uri = f"sqlite:///{lake}/catalogue.db?timeout=0.1"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    read_again(monkeypatch)
    release()
    before = standing(lake, table)
    other = sqlite3.connect(lake / "catalogue.db", isolation_level=None)

    def meanwhile(step: str) -> None:
        if step == "publish":
            other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(NotWithdrawn, match="does not show whether readers see it"):
        release(rows(300), progress=meanwhile)
    other.execute("ROLLBACK")
    other.close()
    assert table().properties == before[4]
    assert list(tmp_path.rglob("*pending-*"))
    with pytest.raises(Refused):
        release(k=50)
    assert standing(lake, table) == before
    assert not list(tmp_path.rglob("*pending-*"))


def test_files_that_cannot_be_removed_now_are_removed_by_the_next_run(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    release()
    before = standing(lake, table)

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyiceberg.catalog.sql.SqlCatalog.commit_table", denied)
        patch.setattr(PyArrowFileIO, "delete", denied)
        with pytest.raises(SinkError, match="Permission denied"):
            release(rows(300))
    assert len(standing(lake, table)[0]) > len(before[0])
    with pytest.raises(Refused):
        release(k=50)
    assert standing(lake, table) == before


def test_a_withdrawal_that_loses_against_another_writer_tries_again(
    release: Callable[..., Any], table: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    from privpipe.running import run

    first = release()
    judge, commit, calls = run.judge_written, SqlCatalog.commit_table, [0, 0]

    def altered(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        judged = judge(*arguments, **named)
        return judged if calls[0] == 1 else judged.within(altered=True)

    def busy(*arguments: Any, **named: Any) -> Any:
        calls[1] += 1
        if calls[1] == 2:
            raise CommitFailedException
        return commit(*arguments, **named)

    monkeypatch.setattr(run, "judge_written", altered)
    monkeypatch.setattr(SqlCatalog, "commit_table", busy)
    with pytest.raises(pp.errors.EngineError, match="withdrawn"):
        release(rows(300))
    assert calls[1] == 3
    assert table().properties["privpipe.run_id"] == first.run_id
    assert content(table().scan().to_arrow()) == content(rows())


def test_what_a_thread_of_pyiceberg_still_writes_is_removed_too(tmp_path: Path) -> None:
    """Manifests are written side by side: where one fails, another may come after the first look."""
    folder = tmp_path / "table" / "metadata"
    folder.mkdir(parents=True)
    began = Event()

    def late() -> None:
        began.set()
        time.sleep(0.3)
        (folder / "c1-m1.avro").write_bytes(b"manifest")

    ExecutorFactory.get_or_create().submit(late)
    assert began.wait(10)
    Leftovers(PyArrowFileIO(), str(tmp_path / "table"), "run", "c1").remove([], [])
    assert list(folder.iterdir()) == []
