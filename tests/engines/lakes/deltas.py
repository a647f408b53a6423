"""Delta tables that real writers leave behind; what no Python writer writes is put into the log by hand."""

from __future__ import annotations

import datetime
import decimal
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

N = 16
ROWS = pa.table({"n": pa.array(range(N)), "sex": ["f", "m", None, "m"] * 4})
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def write(folder: Path, rows: pa.Table, **options: Any) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(folder), rows, **options)


def opened(folder: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(folder))


def overwritten(folder: Path) -> Path:
    for _ in range(3):
        write(folder, ROWS, mode="overwrite")
    return folder


def deleted(folder: Path) -> Path:
    write(folder, ROWS)
    opened(folder).delete("n % 3 = 0")
    return folder


def updated(folder: Path) -> Path:
    write(folder, ROWS)
    opened(folder).update(predicate="n > 10", updates={"sex": "'x'"})
    return folder


def compacted(folder: Path) -> Path:
    for at in range(4):
        write(folder, ROWS.slice(at * 4, 4), mode="append")
    opened(folder).optimize.compact()
    return folder


def partitioned(folder: Path) -> Path:
    write(folder, typed_rows(), partition_by=["town", "day", "share", "open", "pay", "i"])
    return folder


def typed_rows() -> pa.Table:
    day, pay = datetime.date(2024, 2, 29), decimal.Decimal("1.50")
    towns = ["a=b/ c%20é", "'q'", None, "__null", "x:y", "50%", "a\\b", "#?"]
    return pa.table(
        {
            "n": pa.array(range(8)),
            "town": towns,
            "day": pa.array([day, None] * 4),
            "share": pa.array([0.1, None, -0.0, 2.5] * 2),
            "open": pa.array([True, None] * 4),
            "pay": pa.array([pay, None] * 4, pa.decimal128(10, 2)),
            "i": pa.array([1, None] * 4, pa.int32()),
        }
    )


def partition_deleted(folder: Path) -> Path:
    write(folder, ROWS, partition_by=["sex"])
    opened(folder).delete("sex = 'm'")
    return folder


def evolved(folder: Path) -> Path:
    write(folder, ROWS)
    write(folder, ROWS.append_column("more", pa.array(["z"] * N)), mode="append", schema_mode="merge")
    return folder


def empty(folder: Path) -> Path:
    write(folder, ROWS)
    opened(folder).delete()
    return folder


def checkpointed(folder: Path) -> Path:
    overwritten(folder)
    opened(folder).create_checkpoint()
    for log in (folder / "_delta_log").glob("*.json"):
        log.unlink()
    return folder


def vectors(folder: Path, gone: Sequence[int] = (0, 3, 5), *, inline: bool = True) -> Path:
    """A table with a deletion vector, of which no Python writer writes one."""
    write(folder, ROWS)
    (add,) = (each["add"] for each in actions(folder, 0) if "add" in each)
    raw = bitmap(gone)
    if inline:
        vector = {"storageType": "i", "pathOrInlineDv": z85(raw), "sizeInBytes": len(raw), "cardinality": len(gone)}
    else:
        import uuid
        import zlib

        name = uuid.UUID(int=7)
        file = b"\x01" + struct.pack(">I", len(raw)) + raw + struct.pack(">I", zlib.crc32(raw))
        (folder / f"deletion_vector_{name}.bin").write_bytes(file)
        vector = {
            "storageType": "u",
            "pathOrInlineDv": z85(name.bytes),
            "offset": 1,
            "sizeInBytes": len(raw),
            "cardinality": len(gone),
        }
    commit(
        folder, 1, [protocol("deletionVectors"), {"remove": removed(add)}, {"add": {**add, "deletionVector": vector}}]
    )
    return folder


def actions(folder: Path, version: int) -> list[dict[str, Any]]:
    text = (folder / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def commit(folder: Path, version: int, what: list[dict[str, Any]]) -> None:
    text = "\n".join(map(json.dumps, what))
    (folder / "_delta_log" / f"{version:020d}.json").write_text(text, encoding="utf-8")


def protocol(*features: str, version: int = 3) -> dict[str, Any]:
    named = {"readerFeatures": list(features), "writerFeatures": list(features)} if version == 3 else {}
    return {"protocol": {"minReaderVersion": version, "minWriterVersion": 7 if version == 3 else 5, **named}}


def removed(add: dict[str, Any]) -> dict[str, Any]:
    return {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}


def bitmap(rows: Sequence[int]) -> bytes:
    """A roaring bitmap of numbers below 65,536: one container, in its portable form."""
    body = struct.pack("<II", 12346, 1) + struct.pack("<HH", 0, len(rows) - 1) + struct.pack("<I", 16)
    body += struct.pack(f"<{len(rows)}H", *sorted(rows))
    return struct.pack("<IqI", 1681511377, 1, 0) + body


def z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def mapped(folder: Path, version: int = 2, mode: str = "name") -> Path:
    """A table whose columns have other names in the files, as Spark leaves it after RENAME COLUMN."""
    write(folder, ROWS.rename_columns(["col-1", "col-2"]), partition_by=["col-2"])
    names = {"col-1": "n", "col-2": "sex"}
    found = actions(folder, 0)
    for each in found:
        if "metaData" in each:
            schema = json.loads(each["metaData"]["schemaString"])
            for at, field in enumerate(schema["fields"]):
                field["metadata"] = {
                    "delta.columnMapping.id": at + 1,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = names[field["name"]]
            each["metaData"] |= {
                "schemaString": json.dumps(schema),
                "partitionColumns": ["sex"],
                "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"},
            }
    found = [protocol("columnMapping", version=version) if "protocol" in each else each for each in found]
    commit(folder, 0, found)
    return folder


TABLES: dict[str, Callable[[Path], Path]] = {
    "overwritten": overwritten,
    "deleted": deleted,
    "updated": updated,
    "compacted": compacted,
    "partitioned": partitioned,
    "a partition deleted": partition_deleted,
    "evolved": evolved,
    "empty": empty,
    "checkpointed": checkpointed,
    "deletion vector in the log": vectors,
    "deletion vector in a file": lambda folder: vectors(folder, inline=False),
    "mapped columns, version 2": mapped,
    "mapped columns, version 3": lambda folder: mapped(folder, 3),
}


def truth(folder: Path, version: int | None = None) -> pa.Table:
    """The rows as deltalake's query engine has them: its other reader knows neither vectors nor mapped columns."""
    from deltalake import DeltaTable, QueryBuilder

    found = QueryBuilder().register("t", DeltaTable(str(folder), version=version)).execute("SELECT * FROM t").read_all()
    return pa.table(found)


def stray_file(folder: Path) -> None:
    pq.write_table(ROWS, folder / "stray.parquet")
