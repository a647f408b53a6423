"""Tables in a store are read alike on every engine, a sink there by its pointer, and never while they change."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, EngineError, PolicyError, PrivpipeError, UsageError
from tests.object_store import BUCKET, Fault, FaultyProxy, ObjectStore
from tests.tiers import on_engines

RAW = f"s3://{BUCKET}/raw"


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def csv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out)
    return out.getvalue()


@pytest.fixture
def rules(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("columns", "guarantees")}


@on_engines("embedded")
def test_a_folder_a_file_and_every_format_are_read(
    engine: Engine, store: ObjectStore, people: pa.Table, rules: dict[str, Any]
) -> None:
    files = store.files()
    files.pipe_file(f"{BUCKET}/raw/a.parquet", parquet(people.slice(0, 2)))
    files.pipe_file(f"{BUCKET}/raw/deep/b.parquet", parquet(people.slice(2)))
    files.pipe_file(f"{BUCKET}/raw/_SUCCESS", b"")
    files.pipe_file(f"{BUCKET}/raw/_left.parquet", parquet(people))
    files.pipe_file(f"{BUCKET}/text/a.csv", csv(people))
    for path, records in ((RAW, 4), (f"{RAW}/", 4), (f"{RAW}/a.parquet", 2), (f"s3://{BUCKET}/text/a.csv", 4)):
        judged = pp.assess(path, rules, engine=engine)
        assert (judged.records, judged.passed) == (records, True), path
    noted = pp.assess(RAW, rules, engine=engine).notes
    assert any("1 file with the table that were not judged: 1 hidden" in note for note in noted)


@pytest.mark.deep
@on_engines("embedded")
def test_a_release_of_a_store_is_a_source_by_its_pointer(
    engine: Engine, store: ObjectStore, document: dict[str, Any], rules: dict[str, Any]
) -> None:
    first = pp.release(document, engine=engine)
    sink = document["sink"]["path"]
    assert pp.assess(sink, rules, engine=engine).records == 4
    assert pp.validate(sink, document, engine=engine).passed
    second = {
        **document,
        "source": {"path": sink},
        "sink": {"path": f"s3://{BUCKET}/second"},
        "population": {"path": sink},
    }
    assert pp.release(second, engine=engine).assessment.passed
    inside = f"s3://{BUCKET}/.people.privpipe/releases/{first.run_id}"
    assert pp.assess(inside, rules, engine=engine).records == 4
    assert pp.assess(f"{inside}/part-00000.parquet", rules, engine=engine).records > 0


def test_a_sink_without_a_release_is_not_a_table(store: ObjectStore, rules: dict[str, Any]) -> None:
    files = store.files()
    files.pipe_file(f"{BUCKET}/people/_CURRENT", b'{"release": null, "written_by": "ab"}')
    files.pipe_file(f"{BUCKET}/people/left.parquet", b"")
    with pytest.raises(DataError, match="has no release"):
        pp.assess(f"s3://{BUCKET}/people", rules)
    files.pipe_file(f"{BUCKET}/people/_CURRENT", b"not ours")
    with pytest.raises(DataError, match="not written by privpipe"):
        pp.assess(f"s3://{BUCKET}/people", rules)
    files.pipe_file(f"{BUCKET}/people/_CURRENT", b'{"release": "../../other/secret"}')
    with pytest.raises(DataError, match="leads out of its bucket"):
        pp.assess(f"s3://{BUCKET}/people", rules)


def test_a_run_reads_the_release_that_was_there_when_it_began(
    store: ObjectStore, document: dict[str, Any], people: pa.Table, tmp_path: Path
) -> None:
    pp.release(document)
    sink = document["sink"]["path"]
    second = {**document, "source": {"path": sink}, "sink": {"path": str(tmp_path / "out")}}
    pq.write_table(people.slice(0, 2), tmp_path / "in.parquet")

    def meanwhile(step: str) -> None:
        if step == "scan":
            pp.release(document)

    assert pp.release(second, progress=meanwhile).manifest["output"]["records"] == 4
    assert pp.assess(sink, {name: document[name] for name in ("columns", "guarantees")}).records == 2


@on_engines("embedded")
def test_a_source_that_changes_while_it_is_used_is_found(
    engine: Engine, store: ObjectStore, document: dict[str, Any], people: pa.Table, tmp_path: Path
) -> None:
    files = store.files()
    files.pipe_file(f"{BUCKET}/raw/a.parquet", parquet(people))
    changed = {**document, "source": {"path": RAW}, "sink": {"path": str(tmp_path / "out")}}

    def meanwhile(step: str) -> None:
        if step == "write":
            files.pipe_file(f"{BUCKET}/raw/b.parquet", parquet(people))

    with pytest.raises(EngineError, match="changed while it was read"):
        pp.release(changed, engine=engine, progress=meanwhile)
    assert not (tmp_path / "out").exists()
    assert pp.release(changed, engine=engine).manifest["output"]["records"] == 8


def test_a_source_that_changes_while_it_is_copied_is_found(
    store: ObjectStore, proxy: FaultyProxy, people: pa.Table, rules: dict[str, Any]
) -> None:
    files = store.files()
    files.pipe_file(f"{BUCKET}/raw/a.parquet", parquet(people))

    def watch(asked: Any) -> None:
        if asked.method == "GET" and asked.path.endswith("/raw/a.parquet"):
            files.pipe_file(f"{BUCKET}/raw/a.parquet", parquet(people.slice(0, 2)))

    proxy.watch = watch
    with pytest.raises(EngineError, match="while it was read"):
        pp.assess(RAW, rules)


@pytest.mark.deep
def test_parts_of_table_formats_and_odd_keys_are_refused(
    store: ObjectStore, people: pa.Table, rules: dict[str, Any]
) -> None:
    files = store.files()
    files.pipe_file(f"{BUCKET}/delta/part.parquet", parquet(people))
    files.pipe_file(f"{BUCKET}/delta/_delta_log/0.json", b"{}")
    files.pipe_file(f"{BUCKET}/odd/a/../b.parquet", parquet(people))
    files.pipe_file(f"{BUCKET}/both", parquet(people))
    files.pipe_file(f"{BUCKET}/both/a.parquet", parquet(people))
    with pytest.raises(DataError, match="Delta table"):
        pp.assess(f"s3://{BUCKET}/delta", rules)
    with pytest.raises(DataError, match="Delta table"):
        pp.assess(f"s3://{BUCKET}/delta/part.parquet", rules)
    with pytest.raises(DataError, match="not a name of a file|nothing is at"):
        pp.assess(f"s3://{BUCKET}/odd", rules)
    with pytest.raises(DataError, match="nothing is at"):
        pp.assess(f"s3://{BUCKET}/nowhere", rules)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["cut", "503", "403"])
def test_a_store_that_fails_is_reported_without_its_text(
    store: ObjectStore, proxy: FaultyProxy, people: pa.Table, rules: dict[str, Any], kind: Any
) -> None:
    store.files().pipe_file(f"{BUCKET}/raw/a.parquet", parquet(people))
    for at in range(0, 40, 8):
        proxy.fault = Fault(kind, first=at, times=None)
        error = error_of(lambda: pp.assess(RAW, rules))
        if not proxy.fault.struck:
            break
        if error is not None:
            assert error.exit_code in (3, 4)
            assert "OFTESTS" not in f"{error}{error.__context__}{error.__cause__}"
    assert at > 3
    assert error is None


def error_of(run: Callable[[], Any]) -> PrivpipeError | None:
    try:
        run()
    except PrivpipeError as error:
        return error
    return None


@pytest.mark.parametrize("part", ["source", "sink"])
@pytest.mark.parametrize(
    "url", ["s3://AKID:CANARY@lake/raw", "https://host/raw.csv?sig=CANARY", "s3://lake/a?token=CANARY"]
)
def test_a_url_with_credentials_is_refused_and_never_told(document: dict[str, Any], part: str, url: str) -> None:
    with pytest.raises(PolicyError, match="holds credentials") as caught:
        pp.Policy.from_dict({**document, part: {"path": url}})
    assert "CANARY" not in str(caught.value)
    with pytest.raises(UsageError, match="holds credentials") as told:
        pp.assess(url, {name: document[name] for name in ("columns", "guarantees")})
    assert "CANARY" not in str(told.value)
