"""Each format on each engine: the same rows and record ids as plain CSV, or a typed refusal that says what to do."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from privpipe.engines import Engine, Source
from privpipe.engines.readers.source import Format, format_of
from privpipe.errors import DataError, UsageError
from tests.engines.forms import test_whole_files as whole
from tests.engines.forms.test_whole_files import FORMATS, TABLE, TYPES, read, write_arrow
from tests.tiers import third_on_spark

CSV = "\n".join(
    ["id,name,pay,born", *(",".join("" if cell is None else f'"{cell}"' for cell in row) for row in whole.ROWS)]
)
JSON = pa.table(TABLE).to_pandas().astype({"born": str}).to_json(orient="records", lines=True, force_ascii=False)


def packed(pack: Callable[[bytes], bytes], text: str) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(pack((text + "\n").encode())) and None


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("people.csv", CSV + "\n")


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def write_dictionary(path: Path) -> None:
    """Texts as codes of a dictionary, which is another one in each batch."""
    batches = TABLE.to_batches(max_chunksize=20)
    schema = TABLE.schema.set(1, pa.field("name", pa.dictionary(pa.int8(), pa.string())))
    with ipc.new_stream(str(path), schema) as sink:
        for batch in batches:
            names = batch["name"].dictionary_encode().cast(schema.field("name").type)
            sink.write_batch(pa.record_batch([batch["id"], names, batch["pay"], batch["born"]], schema=schema))


def write_avro(path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    kinds = ["long", "string", "double", {"type": "int", "logicalType": "date"}]
    fields = [{"name": name, "type": ["null", kind]} for name, kind in zip(TABLE.column_names, kinds, strict=True)]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Person", "fields": fields}, TABLE.to_pylist(), "deflate")


READ: dict[str, Callable[[Path], Any]] = {
    "a.parquet": lambda path: pq.write_table(TABLE, path),
    "a.csv": lambda path: path.write_text(CSV + "\n", encoding="utf-8"),
    "a.csv.gz": packed(gzip.compress, CSV),
    "a.csv.bz2": packed(bz2.compress, CSV),
    "a.csv.xz": packed(lzma.compress, CSV),
    "a.csv.zst": packed(zstd, CSV),
    "a.csv.zip": zipped,
    "a.jsonl": packed(bytes, JSON),
    "a.jsonl.zst": packed(zstd, JSON),
    "a.ndjson.gz": packed(gzip.compress, JSON),
    "a.ipc": write_dictionary,
    "a.avro": write_avro,
    **{name: write for name, (write, given) in FORMATS.items() if not given},
}


@pytest.mark.parametrize("name", third_on_spark(READ))
def test_a_format_that_is_read_holds_what_csv_holds(engine: Engine, name: str, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text(CSV + "\n", encoding="utf-8")
    READ[name](tmp_path / name)
    expected = read(engine, Source(data=str(tmp_path / "plain.csv"), types=TYPES))
    assert expected[0] == TABLE.to_pylist()
    assert read(engine, Source(data=str(tmp_path / name), types=TYPES)) == expected


def test_every_format_is_read_by_one_of_these_tests() -> None:
    elsewhere = {"delta"}  # a folder: tests/engines/lakes
    assert {format_of(name) for name in (*READ, *FORMATS, "f.xpt")} | elsewhere == set(get_args(Format))


REFUSED = {
    "a.xls": "save them as .xlsx",
    "a.xlsb": "save them as .xlsx",
    "a.ods": "save them as .xlsx",
    "a.rds": "write them with arrow::write_parquet",
    "a.pkl": "a pickle runs code when it is opened; write them as Parquet",
    "a.h5": "write their tables as Parquet",
    "a.csv.lz4": "pack them as .gz, .bz2, .zst, .xz, .zip, or unpack them",
    "a.tar": "unpack it",
    "a.csv.tgz": "unpack it",
    "a.sqlite": "source: {database: ..., table: ...}",
    "a.xml": "say `format:`, one of parquet, csv, json, delta, arrow, excel, orc, avro, stata, spss, sas",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_format_that_is_not_read_says_what_to_do(engine: Engine, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"Zoe-4711")
    with pytest.raises(UsageError) as caught:
        engine.scan(Source(data=str(tmp_path / name)))
    assert REFUSED[name] in str(caught.value)


@pytest.mark.parametrize("name", ["a.parquet.gz", "a.arrow.zst", "a.avro.bz2", "a.orc.xz", "a.xlsx.zip", "a.dta.gz"])
def test_only_text_is_read_packed(engine: Engine, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"Zoe-4711")
    kind = format_of(name)
    with pytest.raises(DataError, match=f"{kind} files are not read packed, and 1 of 1 are; unpack them"):
        engine.scan(Source(data=str(tmp_path / name)))
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / name).rename(folder / name)
    with pytest.raises(DataError, match="are not read packed"):
        engine.scan(Source(data=str(folder), format=kind))


WRONG = {
    "text as Arrow": ("a.arrow", b"id,name\n1,Zoe-4711\n"),
    "text as ORC": ("a.orc", b"id,name\n1,Zoe-4711\n"),
    "text as Parquet": ("a.parquet", b"id,name\n1,Zoe-4711\n"),
    "text as zst": ("a.csv.zst", b"id,name\n1,Zoe-4711\n"),
    "half a zst": ("a.csv.zst", zstd(CSV.encode())[:-40]),
    "half a bz2": ("a.csv.bz2", bz2.compress(CSV.encode())[:-40]),
    "half a gz": ("a.jsonl.gz", gzip.compress(JSON.encode())[:-40]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_is_not_what_its_name_says(engine: Engine, case: str, tmp_path: Path) -> None:
    name, data = WRONG[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=rf"^{name}: not a readable") as caught:
        engine.count(engine.scan(Source(data=str(tmp_path / name))))
    assert "4711" not in str(caught.value)


def test_an_arrow_file_under_the_name_of_another(engine: Engine, tmp_path: Path) -> None:
    """The content decides nothing; the name or `format:` does."""
    write_arrow(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"^a\.parquet: not a readable Parquet file"):
        engine.scan(Source(data=str(tmp_path / "a.parquet")))
    assert engine.count(engine.scan(Source(data=str(tmp_path / "a.parquet"), format="arrow"))) == TABLE.num_rows


def test_a_zst_that_unpacks_to_more_than_is_allowed(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.csv.zst").write_bytes(zstd(b"id,name\n" + b"1,x\n" * 1_000_000))
    with pytest.raises(DataError, match="unpacks to more than 1,000,000 bytes"):
        engine.count(engine.scan(Source(data=str(tmp_path / "a.csv.zst"), max_bytes=1_000_000)))


NESTED = {
    "a record": pa.array([{"x": "Zoe-4711"}]),
    "a map": pa.array([[("Zoe-4711", 1)]], pa.map_(pa.string(), pa.int64())),
    "numbers": pa.array([[4711]]),
    "a time": pa.array([4711], pa.time32("s")),
    "a duration": pa.array([4711], pa.duration("s")),
}


@pytest.mark.parametrize("case", NESTED)
def test_columns_of_arrow_files_that_no_release_carries(engine: Engine, case: str, tmp_path: Path) -> None:
    table = pa.table({"it": NESTED[case]})
    with ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as sink:
        sink.write_table(table)
    with pytest.raises(DataError, match="column 'it' has the type") as caught:
        engine.scan(Source(data=str(tmp_path / "a.arrow")))
    assert "4711" not in str(caught.value)


def test_feather_of_version_1_says_what_to_write(embedded: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    with pytest.raises(DataError, match="a Feather file of version 1, which is not read; write it as version 2"):
        embedded.scan(Source(data=str(tmp_path / "a.feather")))
