"""What judged files hold besides rows is refused by its keys, or noted if the policy says so; values never leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc, orc

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.engines.readers.unjudged_content import foreign_metadata
from privpipe.errors import DataError, PolicyError
from tests.engines.lakes import deltas, icebergs
from tests.running.iceberg.tables import read_again

POLICY: dict[str, Any] = {
    "columns": {"n": {"role": "quasi_identifier"}, "sex": {"role": "insensitive"}},
    "guarantees": [{"k_anonymity": {"k": 1}}],
}
ROWS = pa.table({"n": ["a", "b"], "sex": ["f", "m"]})
SECRET = "Ann Barrow, HIV"


def with_fields() -> pa.Table:
    fields = [pa.field("n", pa.string(), metadata={"seen": SECRET}), pa.field("sex", pa.string())]
    return ROWS.cast(pa.schema(fields, metadata={"note": SECRET}))


def refused(path: Any, engine: Engine | None = None, policy: dict[str, Any] | None = None) -> str:
    with pytest.raises(DataError) as caught:
        pp.validate(path, policy or POLICY, engine=engine)
    assert SECRET not in str(caught.value)
    assert "Ann" not in str(caught.value)
    return str(caught.value)


def test_metadata_of_parquet_files(engine: Engine, tmp_path: Path) -> None:
    pq.write_table(with_fields(), tmp_path / "p.parquet")
    said = refused(tmp_path / "p.parquet", engine)
    assert "Parquet files hold metadata that is neither rows nor their writers' own: 'n: seen', 'note'" in said
    assert "write `metadata: note`" in said
    noted = pp.validate(tmp_path / "p.parquet", {**POLICY, "metadata": "note"}, engine=engine)
    assert noted.passed
    assert [note for note in noted.notes if "'n: seen', 'note'" in note]
    assert SECRET not in json.dumps(noted.to_dict())
    refused(tmp_path, engine)  # in a folder as well
    pq.write_table(ROWS, tmp_path / "p.parquet")
    assert pp.validate(tmp_path / "p.parquet", POLICY, engine=engine).passed


def test_metadata_that_only_the_written_schema_holds(tmp_path: Path) -> None:
    """Arrow keeps the schema once more, as text: what is only there is found too."""
    pq.write_table(with_fields().replace_schema_metadata({"deep": SECRET}), tmp_path / "p.parquet")
    assert foreign_metadata(Source(data=str(tmp_path / "p.parquet"))) == {"Parquet": ("deep", "n: seen")}
    nested = pa.field("n", pa.struct([pa.field("x", pa.int64(), metadata={"of": SECRET})]))
    rows = pa.table([pa.array([{"x": 1}], nested.type)], schema=pa.schema([nested]))
    pq.write_table(rows, tmp_path / "p.parquet")
    assert foreign_metadata(Source(data=str(tmp_path / "p.parquet"))) == {"Parquet": ("x: of",)}


def frame() -> pd.DataFrame:
    return pd.DataFrame({"n": ["a", "b"], "sex": ["f", "m"]})


def attributes(data: pd.DataFrame) -> pd.DataFrame:
    data.attrs["who"] = SECRET
    return data


def axis(data: pd.DataFrame) -> pd.DataFrame:
    return data.rename_axis(columns=SECRET)


def index(data: pd.DataFrame) -> pd.DataFrame:
    return data.rename_axis(index=SECRET)


def unused(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(sex=pd.Categorical(data["sex"], categories=["f", "m", SECRET]))


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        (attributes, ("pandas: attributes",)),
        (axis, ("pandas: column_indexes",)),
        (index, ("pandas: index_columns",)),
        (unused, ("sex: values of its dictionary that no row has",)),
    ],
)
def test_what_pandas_writes_of_a_frame(change: Any, keys: tuple[str, ...], tmp_path: Path) -> None:
    for name, write in (("p.parquet", pd.DataFrame.to_parquet), ("p.feather", pd.DataFrame.to_feather)):
        if change is index and name == "p.feather":
            continue  # which takes no named index
        write(change(frame()), tmp_path / name)
        (found,) = foreign_metadata(Source(data=str(tmp_path / name))).values()
        assert set(keys) <= set(found)
        refused(tmp_path / name)


def test_what_is_pandas_own_is_let_pass(tmp_path: Path) -> None:
    data = frame().assign(
        sex=pd.Categorical(["f", "m"]), day=pd.to_datetime(["2026-01-01", "2026-01-02"]).tz_localize("UTC")
    )
    data.to_parquet(tmp_path / "p.parquet")
    data.set_index("n").to_parquet(tmp_path / "q.parquet")
    for name in ("p.parquet", "q.parquet"):
        assert foreign_metadata(Source(data=str(tmp_path / name))) == {}


def test_columns_that_the_file_no_longer_holds(tmp_path: Path) -> None:
    said = pa.Table.from_pandas(frame().assign(surname=["x", "y"])).schema.metadata
    pq.write_table(ROWS.replace_schema_metadata(said), tmp_path / "p.parquet")
    assert foreign_metadata(Source(data=str(tmp_path / "p.parquet"))) == {"Parquet": ("pandas: columns",)}


@pytest.mark.parametrize(
    ("key", "text", "own"),
    [
        ("org.apache.spark.version", "3.5.1", True),
        ("org.apache.spark.version", SECRET * 9, False),
        ("org.apache.spark.sql.parquet.row.metadata", {"metadata": {}}, True),
        ("org.apache.spark.sql.parquet.row.metadata", {"metadata": {"comment": SECRET}}, False),
        ("geo", "{}", False),
        ("r", "A\n3", False),
        ("huggingface", "{}", False),
    ],
)
def test_what_other_writers_say(key: str, text: Any, own: bool, tmp_path: Path) -> None:
    if isinstance(text, dict):
        fields = [{"name": name, "type": "string", "nullable": True, **text} for name in ROWS.column_names]
        text = json.dumps({"type": "struct", "fields": fields})
    pq.write_table(ROWS.replace_schema_metadata({key: text}), tmp_path / "p.parquet")
    assert foreign_metadata(Source(data=str(tmp_path / "p.parquet"))) == ({} if own else {"Parquet": (key,)})


def test_arrow_and_orc_files(tmp_path: Path) -> None:
    feather.write_feather(with_fields(), str(tmp_path / "p.feather"))
    assert "Arrow files hold metadata" in refused(tmp_path / "p.feather")
    with ipc.new_stream(str(tmp_path / "p.arrow"), ROWS.schema) as stream:
        stream.write_batch(ROWS.to_batches()[0], custom_metadata={"batch": SECRET})
    assert "'batch'" in refused(tmp_path / "p.arrow")
    orc.write_table(with_fields(), str(tmp_path / "p.orc"))
    assert "'n: seen'" in refused(tmp_path / "p.orc")
    for path, write in (
        ("q.feather", feather.write_feather),
        ("q.orc", lambda rows, name: orc.write_table(rows, name)),
    ):
        write(ROWS, str(tmp_path / path))
        assert pp.validate(tmp_path / path, POLICY).passed


def test_avro_files(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro", reason="needs fastavro")
    fields = [{"name": name, "type": "string"} for name in ROWS.column_names]
    schema: dict[str, Any] = {"type": "record", "name": "r", "fields": fields}
    for path, more, said in (("a", {}, {}), ("b", {}, {"note": SECRET}), ("c", {"doc": SECRET}, {})):
        with (tmp_path / f"{path}.avro").open("wb") as file:
            fastavro.writer(file, {**schema, **more}, ROWS.to_pylist(), metadata=said)
    assert pp.validate(tmp_path / "a.avro", POLICY).passed
    assert "'note'" in refused(tmp_path / "b.avro")
    assert "'avro.schema: doc'" in refused(tmp_path / "c.avro")


def test_files_in_an_object_store(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.store.clear()
    pq.write_table(with_fields(), tmp_path / "p.parquet")
    store.put(str(tmp_path / "p.parquet"), "/lake/shared/p.parquet")
    for path in ("memory://lake/shared", "memory://lake/shared/p.parquet"):
        assert "'n: seen', 'note'" in refused(path)


def test_what_a_delta_table_says(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="needs deltalake")
    deltas.write(tmp_path / "plain", deltas.ROWS, configuration={"delta.logRetentionDuration": "interval 1 days"})
    assert pp.validate(tmp_path / "plain", POLICY).passed
    deltas.write(tmp_path / "said", deltas.ROWS, description=SECRET)
    (about,) = [each for each in deltas.actions(tmp_path / "said", 0) if "metaData" in each]
    about["metaData"]["configuration"]["our.patients"] = SECRET
    deltas.commit(tmp_path / "said", 1, [about])
    assert "Delta files hold metadata" in (said := refused(tmp_path / "said"))
    assert "'description', 'our.patients'" in said


def test_what_an_iceberg_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg", reason="needs pyiceberg")
    pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")
    for name, value in icebergs.environment(tmp_path / "lake").items():
        monkeypatch.setenv(name, value)
    read_again(monkeypatch)
    catalogue = icebergs.catalogue(tmp_path / "lake")
    for name, properties in (("db.plain", {}), ("db.said", {"patients": SECRET})):
        catalogue.create_table(name, deltas.ROWS.schema, properties=properties).append(deltas.ROWS)
    assert pp.validate({"iceberg": "db.plain", "catalog": icebergs.CATALOG}, POLICY).passed
    assert "'patients'" in refused({"iceberg": "db.said", "catalog": icebergs.CATALOG})
    catalogue.close()


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_our_own_releases_hold_none(engine: Engine, format: str, tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "in.parquet")
    attributes(frame()).to_parquet(tmp_path / "in.parquet")
    policy = POLICY | {
        "source": {"path": str(tmp_path / "in.parquet")},
        "sink": {"path": str(tmp_path / "out"), "format": format},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }
    path = pp.release(policy, engine=engine).path
    assert pp.validate(path, policy, engine=engine).passed


def test_great_expectations(tmp_path: Path) -> None:
    pytest.importorskip("great_expectations", reason="needs Great Expectations")
    from privpipe.gx.batch import Asked, opened
    from privpipe.judging import Gate

    pq.write_table(with_fields(), tmp_path / "p.parquet")
    roles = pp.Roles(quasi_identifiers=["n"], insensitive=["sex"])
    batch = opened(str(tmp_path / "p.parquet"))
    judged = batch.judged(pp.models.KAnonymity(k=1), Asked(roles=roles))
    assert any("'n: seen', 'note'" in note for note in judged.notes)
    with pytest.raises(DataError, match="'n: seen', 'note'"):
        batch.judged(pp.models.KAnonymity(k=1), Asked(roles=roles, gate=Gate(metadata="refuse")))


def test_metadata_has_two_words() -> None:
    with pytest.raises(PolicyError, match="metadata"):
        pp.Policy.from_dict({**POLICY, "metadata": "pass"})
