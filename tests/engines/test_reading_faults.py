"""Sources that are damaged, packed too tightly, out of reach or not what they were: typed, alike on every engine."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.logical_types import check_names
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.engines.readers.text_records import CsvDialect, csv_blocks, read_csv_block
from privpipe.errors import DataError, EngineError, UsageError

CANARY = "CanaryMarie"
CSV = ("zip,ill\n" + f"4711,{CANARY}\n" * 2000).encode()
JSON = (f'{{"zip":"4711","ill":"{CANARY}"}}\n' * 2000).encode()
Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "cut short": lambda packed: packed[:-30],
    "checksum": lambda packed: packed[:-8] + bytes(8),
    "head alone": lambda packed: packed[:10],
    "not packed": lambda packed: b"zip,ill\n1,x\n",
    "something behind": lambda packed: packed + b"something",
    "another byte": lambda packed: packed[:20] + bytes([packed[20] ^ 255]) + packed[21:],
}


def read(engine: Engine, source: Source) -> pa.Table:
    return engine.collect(engine.with_record_ids(engine.scan(source), None, Seed.insecure("a seed")))


@pytest.mark.parametrize(("ending", "text"), [("csv", CSV), ("json", JSON)])
def test_damaged_packed_files_are_data_errors(engine: Engine, tmp_path: Path, ending: str, text: bytes) -> None:
    for name, damage in DAMAGES.items():
        path = tmp_path / f"rows-{name.replace(' ', '-')}.{ending}.gz"
        path.write_bytes(damage(gzip.compress(text, mtime=0)))
        with pytest.raises(DataError, match="not a readable|not readable") as caught:
            read(engine, Source(data=str(path)))
        assert path.name in str(caught.value), name
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv.gz", "json.gz"])
def test_a_bomb_is_given_up_when_it_passes_its_limit(engine: Engine, tmp_path: Path, ending: str) -> None:
    text = CSV if ending.startswith("csv") else JSON
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(gzip.compress(text) * 2)  # the header of a member shows nothing about later members
    with pytest.raises(DataError, match=rf"rows.{ending}: unpacks to more than {len(text):,} bytes.*max_bytes"):
        read(engine, Source(data=str(path), max_bytes=len(text)))


def test_a_file_of_exactly_the_limit_is_read(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(CSV))
    assert read(engine, Source(data=str(tmp_path / "rows.csv.gz"), max_bytes=len(CSV))).num_rows == 2000


@pytest.mark.parametrize("ending", ["bz2", "zst"])
def test_other_packings_are_read_and_limited_too(engine: Engine, tmp_path: Path, ending: str) -> None:
    packed = bz2.compress(CSV) if ending == "bz2" else pa.compress(CSV, codec="zstd", asbytes=True)
    path = tmp_path / f"rows.csv.{ending}"
    path.write_bytes(packed)
    assert read(engine, Source(data=str(path))).num_rows == 2000
    with pytest.raises(DataError, match="max_bytes"):
        read(engine, Source(data=str(path), max_bytes=100))
    path.write_bytes(packed[:-10])
    with pytest.raises(DataError, match="not a readable"):
        read(engine, Source(data=str(path)))


def test_damaged_pages_of_parquet_are_data_errors(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"ill": [f"{CANARY}-{at}" for at in range(5000)]}), path, compression="snappy")
    content = bytearray(path.read_bytes())
    content[200:600] = bytes(400)
    path.write_bytes(bytes(content))
    with pytest.raises(DataError) as caught:
        read(engine, Source(data=str(path)))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_file_that_cannot_be_opened_is_an_engine_error(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    path = tmp_path / f"rows.{ending}"
    path.mkdir()  # a directory instead of a file, met after the files were listed
    monkeypatch.setattr("os.path.isdir", lambda name: False)
    monkeypatch.setattr("os.path.isfile", lambda name: True)
    with pytest.raises((EngineError, DataError), match="rows"):
        read(engine, Source(data=str(path)))


def test_what_happens_to_a_file_between_scan_and_use_names_it(engine: Engine, tmp_path: Path) -> None:
    def shortened(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:1000])

    def of_other_types(path: Path) -> None:
        pq.write_table(pa.table({"ill": pa.array([True]), "n": [CANARY]}), path)

    faults: dict[str, tuple[Callable[[Path], None], type[Exception] | tuple[type[Exception], ...], str]] = {
        "vanished": (Path.unlink, DataError, r"cannot read part-1\.parquet: No such file"),
        "shortened": (shortened, DataError, r"part-1\.parquet: not a readable Parquet file"),
        "other types": (of_other_types, (DataError, EngineError), r"part-1\.parquet(: column| changed while)"),
    }
    for name, (change, kind, message) in faults.items():
        folder = tmp_path / name
        folder.mkdir()
        for at in range(2):
            rows = pa.table({"ill": [f"{CANARY}-{row}" for row in range(5000)], "n": range(5000)})
            pq.write_table(rows, folder / f"part-{at}.parquet")
        table = engine.scan(Source(data=str(folder), format="parquet"))
        change(folder / "part-1.parquet")
        with pytest.raises(kind, match=message) as caught:
            engine.collect(table)
        assert CANARY not in str(caught.value)


def test_names_that_no_format_carries_are_refused_by_the_data(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"zi\0p,ill\n1,2\n")
    (tmp_path / "a.json").write_bytes(b'{"zi\\u0000p": 1}\n')
    frame = pa.table({"zi\0p": [1]})
    for data in (str(tmp_path / "a.csv"), str(tmp_path / "a.json"), frame):
        with pytest.raises(DataError, match="NUL"):
            read(engine, Source(data=data))
    with pytest.raises(DataError, match="surrogate"):
        check_names(["a\ud800"])
    with pytest.raises(UsageError, match="NUL"):
        Source(data="a\0.csv")


def test_half_a_character_in_json_is_a_data_error(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"zip": "\\ud800"}\n')
    with pytest.raises(DataError, match="column 'zip' holds half of a surrogate pair"):
        read(engine, Source(data=str(tmp_path / "a.json")))


def test_blocks_are_read_from_the_file_they_were_cut_from(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(CSV)
    dialect = CsvDialect(("zip", "ill"), ",", True, ("",))
    (block, *_) = csv_blocks(str(path), dialect, 1000)
    path.write_bytes(CSV.replace(b"4711", b"12"))
    with pytest.raises(EngineError, match=r"rows\.csv changed while it was read"):
        read_csv_block(block, dialect)
    path.unlink()
    with pytest.raises(DataError, match=r"cannot read rows\.csv: No such file"):
        read_csv_block(block, dialect)


def test_stamps_tell_a_file_from_the_one_that_took_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(CSV)
    stamps = stamps_of(Source(data=str(path)))
    require_stamps(stamps)
    (tmp_path / "new").write_bytes(CSV)
    os.replace(tmp_path / "new", path)
    with pytest.raises(EngineError, match="changed while it was read"):
        require_stamps(stamps)
    assert stamps_of(Source(data=pa.table({"a": [1]}))) == {}
