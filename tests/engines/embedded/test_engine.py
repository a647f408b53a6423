"""The embedded engine as a neighbour: options, temporary files, errors that quote nothing, odd names."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, Facts, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.embedded import EmbeddedEngine, stored_rows
from privpipe.errors import DataError, EngineError, UsageError

SECRET = "Zebulon"
ROWS = pa.table({"a": ["x", "y", "x", None], "n": [1, 2, 3, None]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "1GB"}, "memory_limit"),
        ({"threads": 0}, "at least 1"),
        ({"threads": True}, "at least 1"),
        ({"memory_limit": "plenty"}, "such as '4GB'"),
        ({"memory_limit": ["4GB"]}, "such as '4GB', got a value of type list"),
        ({"memory_limit": 4}, "such as '4GB', got a value of type int"),
        ({"temp_directory": {"path": "x"}}, "must be a folder's path, got a value of type dict"),
    ],
    ids=repr,
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_engine("embedded", options)


def test_temporary_files_go_with_their_table_and_with_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_rows, "MEMORY_BYTES", 10)
    with EmbeddedEngine.open({"temp_directory": str(tmp_path / "new" / "place"), "threads": 2}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(1))
        stored = list((tmp_path / "new" / "place").rglob("*.parquet"))
        assert stored
        assert engine.collect(table).num_rows == 4
        assert table.has_record_ids
        del table
        assert not list((tmp_path / "new" / "place").rglob("*.parquet"))
        kept = engine.keep_classes(engine.scan(Source(data=ROWS)), ClassQuery(keys=("a",)), lambda b: b.sizes > 1)
        assert engine.collect(kept).num_rows == 2
    assert not list((tmp_path / "new" / "place").iterdir())


def test_spilled_rows_are_those_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": range(300_000), "s": [f"v{i % 7}" for i in range(300_000)]})

    def halved(block: RowBlock) -> RowBlock:
        return block.take(np.flatnonzero(block.column("n").to_numpy() % 2 == 0))

    found = []
    for limit in (stored_rows.MEMORY_BYTES, 1000):
        monkeypatch.setattr(stored_rows, "MEMORY_BYTES", limit)
        with EmbeddedEngine.open({"threads": 3}) as engine:
            table = engine.map_rows(engine.scan(Source(data=rows)), halved, rows.schema)
            found.append(engine.collect(table))
    assert found[0].equals(found[1])
    assert found[0].num_rows == 150_000


def test_a_function_that_fails_is_heard_unchanged(embedded: Engine) -> None:
    def broken(block: RowBlock) -> RowBlock:
        raise DataError("column 'n': 1 value is out of range")

    with pytest.raises(DataError, match="out of range"):
        embedded.map_rows(embedded.scan(Source(data=ROWS)), broken, ROWS.schema)


def test_a_broken_file_is_reported_without_its_cells(
    embedded: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [SECRET] * 1000, "n": range(1000)}), path, compression="none", use_dictionary=False)
    table = embedded.scan(Source(data=path))
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 2000 + content[2100:])
    with pytest.raises(DataError, match="truncated or damaged") as raised:
        embedded.collect(table)
    assert SECRET not in str(raised.value) + caplog.text
    assert raised.value.__suppress_context__


def test_names_that_are_sql(embedded: Engine, tmp_path: Path) -> None:
    names = ['"; DROP TABLE x; --', "group", "it's", "a b", "ä\n", "value", "code", "n", "cell"]
    rows = pa.table([pa.array(["x", "x", None])] * len(names), names=names)
    (tmp_path / "it's").mkdir()
    pq.write_table(rows, tmp_path / "it's" / "a 'b'.parquet")
    for data in (rows, tmp_path / "it's"):
        table = embedded.with_record_ids(embedded.scan(Source(data=data)), None, Seed.insecure(1))
        query = ClassQuery(keys=tuple(names[:6]), columns=tuple(names[5:]), mark="it's")
        assert sum(block.records for block in embedded.classes(table, query)) == 3
        assert embedded.distinct(table, names).num_rows == 2
        kept = embedded.keep_classes(table, query, lambda block: block.sizes > 1)
        labels = (pa.array(["x", None]), pa.array(["y", "z"]))
        recoded = embedded.recode(kept, dict.fromkeys(names, labels))
        assert embedded.collect(recoded).column(names[0]).to_pylist() == ["y", "y"]
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        for kind in ("csv", "json", "parquet"):
            embedded.write(recoded, str(out), kind, Stream(bytes(16)))  # type: ignore[arg-type]


def test_a_table_outlives_the_frame_it_came_from(embedded: Engine) -> None:
    table = embedded.scan(Source(data=pa.table({"a": ["x"]})))
    assert embedded.collect(embedded.select(table, ["a"])).to_pylist() == [{"a": "x"}]


def test_a_closed_engine_says_so() -> None:
    engine = EmbeddedEngine.open({})
    table = engine.scan(Source(data=ROWS))
    engine.close()
    with pytest.raises(EngineError):
        engine.distinct(table, table.schema.names)


def test_missing_columns_are_data_errors(embedded: Engine) -> None:
    table = embedded.scan(Source(data=ROWS))
    stream = Stream(bytes(16))
    unused = SimpleNamespace(measure=print, merge=print)
    for ask in (
        lambda: embedded.select(table, ["nn"]),
        lambda: embedded.distinct(table, ["nn"]),
        lambda: embedded.reduce_rows(table, ["nn"], unused, Facts()),  # type: ignore[arg-type]
        lambda: embedded.recode(table, {"nn": (pa.array(["x"]), pa.array(["y"]))}),
        lambda: embedded.map_ranked(table, "nn", stream, None, ROWS.schema),  # type: ignore[arg-type]
        lambda: embedded.with_record_ids(table, "nn", Seed.insecure(1)),
    ):
        with pytest.raises(DataError, match="'nn' is not in the table; did you mean 'n'"):
            ask()
    with pytest.raises(DataError, match="no record ids"):
        embedded.reduce_pairs(table, table, ["n"], unused, Facts())  # type: ignore[arg-type]


def test_a_table_may_be_abandoned_in_the_middle_of_anything() -> None:
    """The collector may strike while a query is being started, with the locks of that start held."""
    with EmbeddedEngine.open({"threads": 2}) as engine:
        kept = [engine.session.keep("SELECT 1") for _ in range(3)]
        with engine.session._beside._shutdown_lock:
            kept.clear()
            gc.collect()
        assert engine.session.value("SELECT count(*) FROM duckdb_tables()") == 0


@pytest.mark.parametrize("how", ["value", "stream"])
def test_ctrl_c_ends_a_long_query(how: str) -> None:
    long = "SELECT hash(range) FROM range(30000000000) WHERE hash(range) = 8"
    # A process started in the background of a script ignores Ctrl-C, and so would this one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with EmbeddedEngine.open({"threads": 2}) as engine, contextlib.ExitStack() as after:
        after.callback(signal.signal, signal.SIGINT, before)
        assert engine.session.value("SELECT 1") == 1  # the database is open before the clock runs
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            if how == "value":
                engine.session.value(f"SELECT count(*) FROM ({long})")
            else:
                list(engine.session.stream(long))
        timer.join()
        assert engine.session.value("SELECT 7") == 7
