"""Avro files: what each type becomes, and files that are not what they say."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.engines.readers.whole_files import read_avro
from privpipe.errors import DataError, UsageError

fastavro = pytest.importorskip("fastavro")
SECRET = "Zoë-4711"
AT = datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)
FIELDS: dict[str, tuple[Any, list[Any], pa.DataType]] = {
    "name": (["null", "string"], [SECRET, None, ""], pa.string()),
    "whole": ("int", [-(2**31), 0, 2**31 - 1], pa.int32()),
    "long": (["long", "null"], [-(2**63), None, 2**63 - 1], pa.int64()),
    "share": ("double", [0.1, -0.0, 1e300], pa.float64()),
    "single": ("float", [0.5, 1.5, -2.0], pa.float32()),
    "flag": ("boolean", [True, False, True], pa.bool_()),
    "raw": ("bytes", [b"\x00", b"", b"ab"], pa.binary()),
    "sex": ({"type": "enum", "name": "Sex", "symbols": ["f", "m"]}, ["f", "m", "f"], pa.string()),
    "other": (["null", "Sex"], ["m", None, "f"], pa.string()),
    "born": (
        {"type": "int", "logicalType": "date"},
        [date(1960, 2, 29), date(1, 1, 1), date(9999, 12, 31)],
        pa.date32(),
    ),
    "seen": ({"type": "long", "logicalType": "timestamp-micros"}, [AT] * 3, pa.timestamp("us", "UTC")),
    "pay": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
        [Decimal("-999999999999999999999999999999999999.99"), Decimal("0.01"), Decimal(0)],
        pa.decimal128(38, 2),
    ),
    "fee": (
        {"type": "fixed", "name": "Fee", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 1},
        [Decimal("-0.1"), Decimal("9999.9"), Decimal(7)],
        pa.decimal128(5, 1),
    ),
    "key": ({"type": "string", "logicalType": "uuid"}, [str(uuid.UUID(int=n)) for n in range(3)], pa.string()),
    "items": ({"type": "array", "items": "string"}, [["a", "b"], [], ["c"]], pa.list_(pa.string())),
    "nothing": ("null", [None, None, None], pa.null()),
}
SCHEMA = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": key, "type": said} for key, (said, _, _) in FIELDS.items()],
}
ROWS = [
    dict(zip(FIELDS, cells, strict=True)) for cells in zip(*(cells for _, cells, _ in FIELDS.values()), strict=True)
]


def written(rows: list[dict[str, Any]], schema: Any = SCHEMA, codec: str = "null", **given: Any) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec=codec, **given)
    return file.getvalue()


def one(said: Any, cells: list[Any], **given: Any) -> bytes:
    """A file of one column."""
    schema = {"type": "record", "name": "One", "fields": [{"name": "it", "type": said}]}
    return written([{"it": cell} for cell in cells], schema, **given)


def read(data: bytes, tmp_path: Path, most: int = 10**6) -> pa.Table:
    path = tmp_path / "a.avro"
    path.write_bytes(data)
    return read_avro(str(path), fastavro, most)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("interval", [1, 16000])
def test_each_type_has_its_own_in_arrow(codec: str, interval: int, tmp_path: Path) -> None:
    found = read(written(ROWS, codec=codec, sync_interval=interval), tmp_path)
    assert {field.name: field.type for field in found.schema} == {key: kind for key, (_, _, kind) in FIELDS.items()}
    assert found.to_pylist() == ROWS


def varint(number: int) -> bytes:
    """A long of Avro that is not negative."""
    return _seven_bits(number << 1)


def _seven_bits(number: int) -> bytes:
    said = bytearray()
    while number > 0x7F:
        said.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*said, number])


def packed_by_hand(codec: str, data: bytes, count: int = 1, packed: bytes | None = None) -> bytes:
    """A file of one block of one text column, written from the specification."""
    schema = b'{"type":"record","name":"O","fields":[{"name":"it","type":"string"}]}'
    head = varint(2) + b"".join(
        varint(len(part)) + part for part in (b"avro.schema", schema, b"avro.codec", codec.encode())
    )
    body = data if packed is None else packed
    return b"Obj\x01" + head + b"\0" + b"m" * 16 + varint(count) + varint(len(body)) + body + b"m" * 16


def snappy(data: bytes) -> bytes:
    import zlib

    return bytes(pa.compress(data, "snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


def zstandard(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_codecs_that_need_a_library_elsewhere(codec: str, tmp_path: Path) -> None:
    data = (varint(len(SECRET.encode())) + SECRET.encode()) * 50
    pack = {"snappy": snappy, "zstandard": zstandard}[codec]
    assert read(packed_by_hand(codec, data, 50, pack(data)), tmp_path)["it"].to_pylist() == [SECRET] * 50


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_what_unpacks_to_more_than_is_allowed_is_refused(codec: str, tmp_path: Path) -> None:
    data = varint(3_000_000) + b"x" * 3_000_000
    hand = {"snappy": snappy, "zstandard": zstandard}
    bomb = (
        packed_by_hand(codec, data, 1, hand[codec](data))
        if codec in hand
        else one("string", ["x" * 3_000_000], codec=codec)
    )
    with pytest.raises(DataError, match=r"^a\.avro: unpacks to more than 1,000,000 bytes"):
        read(bomb, tmp_path)
    assert read(bomb, tmp_path, 4_000_000).num_rows == 1


HOSTILE = {
    "empty": b"",
    "text": f"id,name\n1,{SECRET}\n".encode(),
    "half": written(ROWS)[: len(written(ROWS)) // 2],
    "a byte short": written(ROWS)[:-1],
    "another mark": written(ROWS)[:-16] + b"x" * 16,
    "records without a byte": one("null", [None] * 5),
    "more records than bytes": packed_by_hand("null", varint(1) + b"a", 2**40),
    "fewer records than bytes": packed_by_hand("null", (varint(1) + b"a") * 3, 2),
    "a text beyond the end": packed_by_hand("null", varint(2**40) + b"a"),
    "no text": packed_by_hand("null", varint(1) + b"\xff"),
    "a wrong sum": packed_by_hand("snappy", b"", 1, snappy(varint(1) + b"a")[:-1] + b"\0"),
    "half a deflated block": packed_by_hand("deflate", b"", 1, b"\x03"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_is_damaged_is_named_and_not_quoted(case: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^a\.avro: not a readable Avro file") as caught:
        read(HOSTILE[case], tmp_path)
    assert "4711" not in str(caught.value)


REFUSED: dict[str, tuple[Any, list[Any], str]] = {
    "a map": ({"type": "map", "values": "string"}, [{"a": SECRET}], "column 'it' has the Avro type map"),
    "a record": (
        {"type": "record", "name": "In", "fields": [{"name": "x", "type": "string"}]},
        [{"x": SECRET}],
        "column 'it' has the Avro type record",
    ),
    "numbers": ({"type": "array", "items": "long"}, [[1]], "column 'it' has the Avro type array"),
    "a union": (["string", "long"], [SECRET, 1], "column 'it' has the Avro type union"),
    "a time": ({"type": "int", "logicalType": "time-millis"}, [], "column 'it' has the Avro type time-millis"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_columns_that_no_release_carries_are_refused_by_name(engine: Engine, case: str, tmp_path: Path) -> None:
    said, cells, told = REFUSED[case]
    path = tmp_path / "a.avro"
    path.write_bytes(one(said, cells))
    with pytest.raises(DataError, match=told) as caught:
        engine.scan(Source(data=str(path)))
    assert "4711" not in str(caught.value)


def test_values_that_are_not_records_and_unknown_codecs(tmp_path: Path) -> None:
    file = io.BytesIO()
    fastavro.writer(file, "string", ["a"])
    with pytest.raises(DataError, match="its values are not records"):
        read(file.getvalue(), tmp_path)
    with pytest.raises(DataError, match="packed by the codec 'brotli', which is not read; write it with one of null,"):
        read(packed_by_hand("brotli", b""), tmp_path)


def test_without_the_library_the_extra_is_named(
    embedded: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.avro").write_bytes(written(ROWS))
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(UsageError, match=r"format avro needs fastavro: pip install 'privpipe\[formats\]'"):
        embedded.scan(Source(data=str(tmp_path / "a.avro")))
