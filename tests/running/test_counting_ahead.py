"""What is counted of the original meanwhile changes no document, whatever becomes of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine
from privpipe.engines.embedded.engine import BESIDE_BYTES, EmbeddedKnown
from privpipe.errors import EngineError
from privpipe.judging.column_loss import LossTable
from privpipe.running import report_figures

THREADS = {"threads": 2, "memory_limit": "1GB"}


@pytest.fixture
def many(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A release of a table that is large, of which records are looked at that are a sample."""
    monkeypatch.setattr("privpipe.engines.embedded.session.CODED_ROWS", 0)
    monkeypatch.setattr("privpipe.engines.embedded.session.SMALL_ROWS", 0)
    monkeypatch.setattr("privpipe.judging.paired_columns.LARGEST_SAMPLE", 10)
    monkeypatch.setattr("privpipe.judging.loss_counts.LARGEST_HISTOGRAM", 1)
    document["engines"] = {"embedded": THREADS}
    return document


@pytest.fixture
def where_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The threads that counted labels of the original."""
    threads: list[str] = []
    counted = report_figures.count_original_labels

    def noted(*given: Any) -> None:
        threads.append(threading.current_thread().name)
        counted(*given)

    monkeypatch.setattr(report_figures, "count_original_labels", noted)
    return threads


def figures(document: dict[str, Any]) -> tuple[Any, Any]:
    """What the verdict and the report say, without their times and the names of runs."""
    result = pp.release(document)
    kept = json.loads((Path(result.record) / "report.json").read_text("utf-8"))
    return tuple(
        {name: told for name, told in each.items() if name not in ("run_id", "created", "earlier", "at")}
        for each in (result.verdict_document, kept)
    )


def test_documents_are_those_of_counts_made_when_asked_for(
    many: dict[str, Any], where_counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = figures(many)
    assert [name.rsplit("_", 1)[0] for name in where_counted] == ["privpipe-ahead"]
    monkeypatch.setattr(EmbeddedKnown, "has_room", False)
    assert figures(many) == beside
    assert len(where_counted) == 1


def test_a_count_that_fails_meanwhile_is_made_again(many: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected, failed = figures(many), []

    def failing(*given: Any) -> None:
        failed.append(1)
        raise EngineError("too little memory for two counts")

    monkeypatch.setattr(report_figures, "count_original_labels", failing)
    assert figures(many) == expected
    assert failed == [1]


def test_a_run_that_ends_early_waits_for_the_count(
    many: dict[str, Any], where_counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that reads tables of a database which is closed would crash."""
    monkeypatch.setattr("privpipe.running.run.recoveries_of_source", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        pp.release(many)
    assert len(where_counted) == 1
    assert not [each.name for each in threading.enumerate() if each.name.startswith("privpipe-ahead")]


def _interrupted(*given: Any) -> None:
    raise KeyboardInterrupt


def test_no_count_is_made_that_a_policy_forbids(
    many: dict[str, Any], where_counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privpipe.running.report_figures.withholds_counts", lambda policy: True)
    monkeypatch.setattr("privpipe.running.report_figures.withholds_counts", lambda policy: True)
    monkeypatch.setattr("privpipe.running.report_figures.labels_of", lambda *_: pytest.fail("counted"))
    monkeypatch.setattr(
        "privpipe.running.report_figures.loss_table", lambda *_: LossTable(columns=(), records=None, whole=True)
    )
    pp.release(many)
    assert len(where_counted) == 1


@pytest.mark.parametrize(("threads", "rows", "room"), [(2, 100, True), (1, 100, False), (2, 99, False)])
def test_there_is_room_for_large_tables_and_two_threads(
    threads: int, rows: int, room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedEngine.open({"threads": threads, "memory_limit": "1GB"}) as engine:
        engine.session.coded_rows = 100
        table = engine.scan(Source(data=pa.table({"age": range(rows)})))
        assert engine.known(table).has_room is room
        monkeypatch.setattr(engine.session, "room", lambda: BESIDE_BYTES * rows - 1)
        assert not engine.known(table).has_room
