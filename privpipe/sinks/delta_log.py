"""The log of a Delta table that privpipe publishes into: the content of a commit, and how it enters the log.

A commit is one file of JSON lines, ``_delta_log/00000000000000000007.json``. It is written aside and linked to its
name, which fails where another writer's commit has the name already: nothing is merged with unjudged rows.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from privpipe import __version__
from privpipe.engines.lakes import has_deltalake
from privpipe.errors import PrivpipeError, SinkError, UnsupportedError, UsageError
from privpipe.private_files import sync_folder

__all__ = [
    "COMMIT",
    "LOG",
    "Added",
    "Commit",
    "Snapshot",
    "commit_info",
    "commits",
    "fields_of",
    "link_commit",
    "require_deltalake",
    "snapshot",
    "sum_up",
    "write_aside",
]

LOG = "_delta_log"
MARK = "privpipe.sink"
OURS = "privpipe."
TYPES: Mapping[pa.DataType, str] = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.binary(): "binary",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}
"""The types that a release can have (decimals aside), as Delta calls them; both keep every value."""
NTZ = "timestampNtz"
BETWEEN_CHECKPOINTS = 10
COMMIT = re.compile(r"\d{20}\.json")
FEATURES = frozenset({NTZ, "appendOnly", "invariants"})
"""Features of writers under which adding and removing whole files is all that a commit has to do."""


@dataclass(frozen=True)
class Added:
    """A data file of the table, as its log names it."""

    path: str
    size: int
    modified: int
    records: int | None

    def add(self) -> dict[str, Any]:
        """The action that makes it part of the table: no statistics but the number of rows."""
        stats = {} if self.records is None else {"stats": json.dumps({"numRecords": self.records})}
        return {
            "add": {
                "path": self.path,
                "partitionValues": {},
                "size": self.size,
                "modificationTime": self.modified,
                "dataChange": True,
                **stats,
            }
        }

    def remove(self, now: int) -> dict[str, Any]:
        """The action that takes it out."""
        return {
            "remove": {
                "path": self.path,
                "deletionTimestamp": now,
                "dataChange": True,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": self.size,
            }
        }


@dataclass(frozen=True)
class Snapshot:
    """The table at a version.

    Parameters
    ----------
    version : int
    id : str
        Of the table.
    created : int or None
    fields : tuple of mapping
        Of the schema, as the log has them.
    configuration : mapping of text to text
        Its properties.
    files : tuple of Added
    features : frozenset of str
        That its protocol names.
    fault : str
        Why no release can be published into it; nothing where it can.
    """

    version: int
    id: str
    created: int | None
    fields: tuple[Mapping[str, Any], ...]
    configuration: Mapping[str, str]
    files: tuple[Added, ...]
    features: frozenset[str]
    fault: str

    @property
    def run_id(self) -> str | None:
        """The run whose release was published last."""
        return self.configuration.get(f"{OURS}run_id")


def require_deltalake() -> None:
    """Refuse a sink of the format where nothing reads it.

    Raises
    ------
    UsageError
    """
    if not has_deltalake():
        raise UsageError("a sink of `format: delta` needs deltalake: pip install 'privpipe[delta]'")


def snapshot(path: Path | str) -> Snapshot:
    """A table by its log.

    Raises
    ------
    UsageError
        deltalake is not installed.
    SinkError
        The log cannot be read.
    """
    with _read(path) as deltalake:
        table = deltalake.DeltaTable(str(path))
        metadata, protocol = table.metadata(), table.protocol()
        files = pa.table(table.get_add_actions(flatten=True))
        records = files["num_records"] if "num_records" in files.column_names else pa.nulls(files.num_rows)
        columns = (files["path"], files["size_bytes"], files["modification_time"], records)
        return Snapshot(
            version=int(table.version()),
            id=str(metadata.id),
            created=metadata.created_time,
            fields=tuple(json.loads(table.schema().to_json())["fields"]),
            configuration=dict(metadata.configuration),
            files=tuple(
                Added(path.as_py(), size.as_py(), _milliseconds(modified.as_py()), rows.as_py())
                for path, size, modified, rows in zip(*columns, strict=True)
            ),
            features=frozenset({*(protocol.reader_features or ()), *(protocol.writer_features or ())}),
            fault=_fault(metadata, protocol, table.schema().fields),
        )


def _milliseconds(found: Any) -> int:
    return int(found) if isinstance(found, int) else int(found.timestamp() * 1000)


def _fault(metadata: Any, protocol: Any, fields: Sequence[Any]) -> str:
    """Why a table takes no release: it is not one of ours, or requires more of a commit than ours does."""
    configuration: Mapping[str, str] = metadata.configuration
    if MARK not in configuration:
        return "is a Delta table that privpipe did not make"
    unknown = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())} - FEATURES)
    if protocol.min_reader_version not in (1, 3) or protocol.min_writer_version not in (1, 2, 7):
        unknown = [f"writer version {protocol.min_writer_version}"]
    unknown += sorted(name for name in configuration if name.startswith(("delta.constraints.", "delta.columnMapping.")))
    if unknown:
        return f"was given {', '.join(unknown)} by another writer"
    if metadata.partition_columns:
        return "was partitioned by another writer"
    if configuration.get("delta.appendOnly", "false").lower() == "true":
        return "was given delta.appendOnly by another writer"
    changed = [each.name for each in fields if not each.nullable or any("delta." in key for key in each.metadata)]
    if changed:
        return f"was given rules for columns ({', '.join(map(repr, changed))}) by another writer"
    return ""


def fields_of(schema: pa.Schema) -> tuple[dict[str, Any], ...]:
    """The columns of a release, as the log names them.

    Raises
    ------
    UnsupportedError
        Delta has no such type.

    Examples
    --------
    >>> [field["type"] for field in fields_of(pa.schema([("age", pa.string()), ("paid", pa.decimal128(38, 2))]))]
    ['string', 'decimal(38,2)']
    """
    found = []
    for field in schema:
        kind = TYPES.get(field.type)
        if pa.types.is_decimal128(field.type):
            kind = f"decimal({field.type.precision},{field.type.scale})"
        if kind is None:
            raise UnsupportedError(f"column {field.name!r} has the type {field.type}, which a Delta table cannot hold")
        found.append({"name": field.name, "type": kind, "nullable": True, "metadata": {}})
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One change of the table.

    Parameters
    ----------
    before : Snapshot or None
        The table that it changes; None: there is none.
    fields : tuple of mapping
        Columns of the table after it.
    said : mapping of text to text
        Properties of ours: they are in the commit, and those of a release in the table's properties too.
    added, removed : tuple of Added
    mode : {"Append", "Overwrite"}
    """

    before: Snapshot | None
    fields: tuple[Mapping[str, Any], ...]
    said: Mapping[str, str]
    added: tuple[Added, ...] = ()
    removed: tuple[Added, ...] = ()
    mode: str = "Overwrite"

    @property
    def version(self) -> int:
        """The version that it makes."""
        return 0 if self.before is None else self.before.version + 1

    def text(self) -> str:
        """The file of the log."""
        now, before = int(time.time() * 1000), self.before
        said = {f"{OURS}{name}": value for name, value in self.said.items()}
        info = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": self.mode, "partitionBy": "[]"},
            "isBlindAppend": False,
            "engineInfo": f"privpipe/{__version__}",
            **({} if before is None else {"readVersion": before.version}),
            **said,
            "userMetadata": json.dumps(said, sort_keys=True),
        }
        kept = {} if before is None else {k: v for k, v in before.configuration.items() if not k.startswith(OURS)}
        metadata: dict[str, Any] = {
            "id": str(uuid.uuid4()) if before is None else before.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(self.fields)}, ensure_ascii=False),
            "partitionColumns": [],
            "createdTime": now if before is None else before.created,
            "configuration": {**kept, **said, MARK: "1"},
        }
        actions = [
            {"commitInfo": info},
            *self._protocol(),
            {"metaData": metadata},
            *(file.remove(now) for file in self.removed),
            *(file.add() for file in self.added),
        ]
        return "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)

    def _protocol(self) -> Iterator[dict[str, Any]]:
        """Timestamps without a zone are a separate feature; everything else is as old as the format."""
        needed = any(field["type"] == "timestamp_ntz" for field in self.fields)
        if needed and (self.before is None or NTZ not in self.before.features):
            writer = sorted({NTZ, "appendOnly", "invariants"})
            yield {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": [NTZ],
                    "writerFeatures": writer,
                }
            }
        elif self.before is None:
            yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


@contextmanager
def _read(path: Path | str) -> Iterator[Any]:
    """deltalake, whose messages may quote data."""
    require_deltalake()
    try:
        yield importlib.import_module("deltalake")
    except PrivpipeError:
        raise
    except Exception as error:  # noqa: BLE001 the reader fails in its own ways
        raise SinkError(
            f"the log of the Delta table {str(path)!r} cannot be read ({type(error).__name__}); nothing was published"
        ) from None


def sum_up(path: Path, version: int) -> None:
    """Write a checkpoint of a table now and then, so that readers open it and not the commit of each release.

    Readers do without one where it cannot be written.
    """
    if not version or version % BETWEEN_CHECKPOINTS:
        return
    with suppress(SinkError), _read(path) as deltalake:
        deltalake.DeltaTable(str(path)).create_checkpoint()
        mode = stat.S_IMODE((path / LOG / f"{version:020}.json").stat().st_mode)
        for file in (*(path / LOG).glob("*.checkpoint.parquet"), path / LOG / "_last_checkpoint"):
            file.chmod(mode)


def commits(path: Path) -> Iterator[Mapping[str, Any]]:
    """What the commits that are in the log say of themselves, the newest first."""
    for file in sorted((path / LOG).iterdir(), reverse=True) if (path / LOG).is_dir() else ():
        if not COMMIT.fullmatch(file.name):
            continue
        yield commit_info(file.read_bytes(), str(path))


def commit_info(content: bytes, name: str) -> Mapping[str, Any]:
    """What a commit states about itself.

    Parameters
    ----------
    content : bytes
        The file of the log.
    name : str
        Of the table, for errors.

    Raises
    ------
    SinkError
        It cannot be read.

    Examples
    --------
    >>> commit_info(b'{"commitInfo": {"operation": "WRITE"}}', "lake/visits")
    {'operation': 'WRITE'}
    """
    try:
        lines = [json.loads(line) for line in content.decode("utf-8").splitlines() if '"commitInfo"' in line]
        return next((dict(line["commitInfo"]) for line in lines if "commitInfo" in line), {})
    except (ValueError, TypeError, RecursionError):
        raise SinkError(f"the log of the Delta table {name!r} cannot be read; nothing was published") from None


def write_aside(aside: Path, text: str, mode: int) -> None:
    """Write a file that may become a commit, synced to disk and with its final mode."""
    aside.unlink(missing_ok=True)
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(aside, mode)


def link_commit(path: Path, version: int, aside: Path) -> bool:
    """Make a file the commit of a version, whole or not at all; False where another commit is that version."""
    try:
        os.link(aside, path / LOG / f"{version:020d}.json")
    except FileExistsError:
        return False
    sync_folder(path / LOG)
    return True
