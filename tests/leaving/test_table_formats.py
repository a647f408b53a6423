"""A folder of a table format is read as that table or refused by name, never as plain files that count deleted rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, PrivpipeError, UnsupportedError, UsageError
from tests.validated_frames import batch_of

ROWS = pa.table({"n": pa.array(range(16)), "illness": ["flu", "cold"] * 8})
COLUMNS = {"n": {"role": "quasi_identifier"}, "illness": {"role": "sensitive"}}
GUARANTEES = [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}]


def delta(folder: Path) -> Path:
    """16 unique records overwritten three times: read as plain files, every record has three of its kind."""
    (folder / "_delta_log").mkdir(parents=True)
    for version in range(3):
        pq.write_table(ROWS, folder / f"part-{version}.parquet")
        actions: list[dict[str, Any]] = [{"add": {"path": f"part-{version}.parquet", "dataChange": True}}]
        if version:
            actions.append({"remove": {"path": f"part-{version - 1}.parquet", "dataChange": True}})
        text = "\n".join(map(json.dumps, actions))
        (folder / "_delta_log" / f"{version:020d}.json").write_text(text)
    return folder


def iceberg(folder: Path) -> Path:
    (folder / "metadata").mkdir(parents=True)
    (folder / "data").mkdir()
    for version in range(3):
        pq.write_table(ROWS, folder / "data" / f"{version:05d}.parquet")
        (folder / "metadata" / f"{version:05d}-1b.metadata.json").write_text("{}")
    return folder


def hudi(folder: Path) -> Path:
    (folder / ".hoodie").mkdir(parents=True)
    for version in range(3):
        pq.write_table(ROWS, folder / f"{version}.parquet")
    return folder


PLACES: dict[str, tuple[str, Callable[[Path], Path | str]]] = {
    "delta": ("Delta", delta),
    "a file of delta": ("Delta", lambda folder: delta(folder) / "part-0.parquet"),
    "above delta": ("Delta", lambda folder: delta(folder / "tables" / "people").parent),
    "a link to delta": ("Delta", lambda folder: linked(delta(folder))),
    "a link to a file of delta": ("Delta", lambda folder: linked(delta(folder) / "part-0.parquet")),
    "a folder of links into delta": ("Delta", lambda folder: links_into(delta(folder))),
    "a folder with a link into partitions": (
        "Delta",
        lambda folder: links_into(delta(folder / "t"), deep(folder / "t")),
    ),
    "a partition of delta": ("Delta", lambda folder: deep(delta(folder))),
    "a slash behind delta": ("Delta", lambda folder: Path(f"{delta(folder)}/.")),
    "a url of delta": ("Delta", lambda folder: f"file://{delta(folder)}/"),
    "delta in capitals": ("Delta", lambda folder: shouted(delta(folder))),
    "delta without a log": ("Delta", lambda folder: dangling(delta(folder))),
    "iceberg": ("Iceberg", iceberg),
    "data of iceberg": ("Iceberg", lambda folder: iceberg(folder) / "data"),
    "a file of iceberg": ("Iceberg", lambda folder: iceberg(folder) / "data" / "00001.parquet"),
    "hudi": ("Hudi", hudi),
}


def linked(folder: Path) -> Path:
    link = folder.with_name(f"linked{folder.suffix}")
    if link.parent == folder.parent and folder.is_file():
        link = folder.parent.with_name(link.name)
    link.symlink_to(folder)
    return link


def links_into(folder: Path, *below: Path) -> Path:
    """A plain folder outside the table whose entries lead into it."""
    outside = folder.with_name("outside") if not below else folder.parent.with_name("outside")
    outside.mkdir()
    for place in below or sorted(folder.glob("*.parquet")):
        (outside / place.name.replace("=", "")).symlink_to(place)
    return outside


def deep(folder: Path) -> Path:
    """A folder of partitions five levels below a table."""
    place = folder / "a=1" / "b=1" / "c=1" / "d=1" / "e=1"
    place.mkdir(parents=True)
    pq.write_table(ROWS, place / "part-9.parquet")
    return place


def shouted(folder: Path) -> Path:
    (folder / "_delta_log").rename(folder / "_DELTA_LOG")
    return folder


def dangling(folder: Path) -> Path:
    """The log of a table that is on a disk which is not there."""
    (folder / "_delta_log").rename(folder / "_old")
    (folder / "_delta_log").symlink_to(folder / "nowhere")
    return folder


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.replace(" ", "-"))
def test_no_engine_reads_its_files(engine: Engine, tmp_path: Path, place: str) -> None:
    name, make = PLACES[place]
    path = make(tmp_path / "table")
    with pytest.raises(DataError, match=f"{name} table.*deleted or overwritten"):
        engine.scan(Source(data=path, format="parquet"))


def test_a_pattern_over_its_parts_finds_nothing(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no parquet file.*its signs are no pattern"):
        engine.scan(Source(data=f"{delta(tmp_path / 'table')}/*.parquet"))


@pytest.mark.deep
def test_what_only_spark_sees_is_looked_at_too(spark_engine: Any, tmp_path: Path) -> None:
    from privpipe.engines.spark.sources import _refuse_table_format

    for name, make in (("Delta", delta), ("Iceberg", iceberg), ("Hudi", hudi)):
        with pytest.raises(DataError, match=f"{name} table"):
            _refuse_table_format(spark_engine.session, str(make(tmp_path / f"{name} [1]")))
    with pytest.raises(DataError, match="Iceberg table"):
        _refuse_table_format(spark_engine.session, str(tmp_path / "Iceberg [1]" / "data"))
    with pytest.raises(DataError, match="Delta table"):
        _refuse_table_format(spark_engine.session, f"file://{deep(tmp_path / 'Delta [1]')}")
    (tmp_path / "plain").mkdir()
    _refuse_table_format(spark_engine.session, str(tmp_path / "plain"))


def test_format_delta_is_never_read_as_plain_files(engine: Engine, tmp_path: Path) -> None:
    """Where the package is not installed there is an error; where it is, this log without a protocol is one."""
    with pytest.raises((UsageError, DataError), match="(?i)delta"):
        engine.scan(Source(data=delta(tmp_path / "table"), format="delta"))


@pytest.fixture
def plain(tmp_path: Path) -> str:
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.concat_tables([ROWS] * 3), path)
    return str(path)


def policy(plain: str, **sections: Any) -> dict[str, Any]:
    return {
        "columns": COLUMNS,
        "guarantees": GUARANTEES,
        "source": {"path": plain},
        "sink": {"path": str(Path(plain).with_name("out"))},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        **sections,
    }


def runs(table: str, plain: str) -> dict[str, Callable[[], Any]]:
    """Every argument that takes a path, given a table."""
    base = {"t_closeness": {"column": "illness", "t": 0.5, "base": {"file": table}}}
    holdout = {"closest_record": {"columns": ["n"], "holdout": table, "at_least": 0.5}}
    earlier = {"complementary_release": {"earlier": [table], "k": 2}}
    key = {"record_id": "n", "columns": COLUMNS}
    return {
        "source": lambda: pp.release(policy(plain, source={"path": table})),
        "plan": lambda: pp.plan(table, policy(plain)),
        "assess": lambda: pp.assess(table, policy(plain)),
        "validate": lambda: pp.assess(Path(table), policy(plain)),
        "original": lambda: pp.assess(plain, policy(plain), original=table),
        "population": lambda: pp.assess(
            None, policy(plain, population={"path": table}, guarantees=[{"k_map": {"k": 2}}, *GUARANTEES])
        ),
        "base": lambda: pp.assess(None, policy(plain, guarantees=[*GUARANTEES, base])),
        "holdout": lambda: pp.assess(
            plain, policy(plain, guarantees=[*GUARANTEES, holdout], **key), original=plain, align="position"
        ),
        "earlier": lambda: pp.assess(plain, policy(plain, guarantees=[*GUARANTEES, earlier])),
        "positions": lambda: pp.assess(
            plain,
            policy(plain, guarantees=[*GUARANTEES, {"unsorted_matching": {"at_most": 0.5}}]),
            original=table,
            align="position",
        ),
    }


@pytest.mark.parametrize("argument", sorted(runs("", "")))
def test_every_argument_that_takes_a_path_refuses_a_table(argument: str, tmp_path: Path, plain: str) -> None:
    with pytest.raises((DataError, UnsupportedError), match="Delta table"):
        runs(str(delta(tmp_path / "table")), plain)[argument]()


@pytest.mark.gx
@pytest.mark.parametrize("part", ["batch", "original"])
def test_great_expectations_refuses_a_table(part: str, tmp_path: Path, plain: str) -> None:
    pytest.importorskip("great_expectations")
    import privpipe.gx as ppgx

    table = str(delta(tmp_path / "table"))
    frame = ppgx.handle(table if part == "batch" else plain)
    expected = ppgx.EXPECTATIONS["t_closeness"](
        column="illness",
        t=0.9,
        quasi_identifiers=["n"],
        sensitive=["illness"],
        **({"original_source": table} if part == "original" else {}),
    )
    found = batch_of(frame).validate(expected)
    assert not found.success
    assert "Delta table" in json.dumps(found.to_json_dict())


@pytest.mark.gx
@pytest.mark.parametrize("part", ["batch", "population"])
def test_great_expectations_reads_the_live_rows(part: str, tmp_path: Path, plain: str) -> None:
    pytest.importorskip("great_expectations")
    deltalake = pytest.importorskip("deltalake")
    import privpipe.gx as ppgx

    table = str(tmp_path / "live")
    for _ in range(3):
        deltalake.write_deltalake(table, ROWS, mode="overwrite")
    pq.write_table(ROWS, plain)
    frame = ppgx.handle(table if part == "batch" else plain)
    name, population = ("k_anonymity", {}) if part == "batch" else ("k_map", {"population_source": table})
    expected = ppgx.EXPECTATIONS[name](k=3, quasi_identifiers=["n"], sensitive=["illness"], **population)
    found = batch_of(frame).validate(expected)
    assert (found.success, found.result["observed_value"]) == (False, 1)


def test_a_frame_of_the_live_rows_is_judged_unchanged(tmp_path: Path) -> None:
    live = pd.read_parquet(delta(tmp_path / "table") / "part-2.parquet")
    judged = pp.assess(live, {"columns": COLUMNS, "guarantees": GUARANTEES})
    assert judged.verdicts[0].observed == 1
    assert not judged.passed
    assert issubclass(DataError, PrivpipeError)
