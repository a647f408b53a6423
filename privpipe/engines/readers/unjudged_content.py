"""What readers get with a judged table: metadata, unused values of dictionaries, and files without a judgement."""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyarrow import ipc, orc

from privpipe.engines.lakes import (
    DeltaPiece,
    IcebergName,
    delta_place,
    delta_said,
    delta_table,
    iceberg_files,
    iceberg_said,
)
from privpipe.engines.readers.files import elsewhere, list_files, local_path, names_there
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.unpacking import reading
from privpipe.engines.stores import is_reached, listed_files, opened_store, settled_store, store_faults
from privpipe.errors import EngineError, PrivpipeError

__all__ = ["foreign_metadata", "unjudged_files", "unjudged_note"]


FORMATS: Final = {"parquet": "Parquet", "arrow": "Arrow", "orc": "ORC", "avro": "Avro"}
SPARK_ROW: Final = "org.apache.spark.sql.parquet.row.metadata"
SPARK: Final = frozenset({"org.apache.spark.version", "org.apache.spark.timeZone", "org.apache.spark.legacyDateTime"})
LONGEST_WORD = 40
"""Characters of what a writer states about itself, as a version or a time zone."""
OF_FIELDS: Final = ("PARQUET:field_id", "ARROW:extension:name", "ARROW:extension:metadata")
EXTENSIONS: Final = ("arrow.", "pandas.")
PANDAS: Final = frozenset(
    {"index_columns", "column_indexes", "columns", "attributes", "partition_columns", "creator", "pandas_version"}
)
PANDAS_COLUMN: Final = frozenset(
    {"num_categories", "ordered", "timezone", "precision", "scale", "encoding", "unit", "resolution"}
)
ICEBERG_FIELD: Final = frozenset({"id", "name", "type", "required", "fields", "schema-id", "identifier-field-ids"})
AVRO: Final = frozenset({"avro.schema", "avro.codec"})
Raw = Mapping[bytes, bytes]


def foreign_metadata(source: Source) -> dict[str, tuple[str, ...]]:
    """Keys of metadata that follow neither from the columns nor from the writer, by the kind of file; never values.

    Arrow's own and pandas' own are looked into: attributes of a frame, the name of its columns' axis and columns that
    the file does not hold are none of theirs. Also named are columns whose dictionary has values that no row has.

    Raises
    ------
    DataError, EngineError
        A file cannot be read.
    """
    found: dict[str, set[str]] = {}
    if isinstance(source.data, IcebergName):
        found["Iceberg"] = set(iceberg_said(source.data))
    elif source.is_path and source.resolved_format == "delta":
        place = delta_place(source)
        if "://" not in place:
            found["Delta"] = set(delta_said(place, source.version))
            pieces = delta_table(place, source.version, source.timestamp).pieces
            for path in (Path(piece.path) for piece in pieces if isinstance(piece, DeltaPiece)):
                with reading(str(path), "Parquet"), path.open("rb") as file:
                    found.setdefault("Parquet", set()).update(_of_parquet(file))
    elif source.is_path and (kind := FORMATS.get(source.resolved_format)) is not None:
        look: Callable[[BinaryIO], Iterable[str]] = LOOKS[kind]
        for name, opened in _files(source):
            with reading(name, kind), opened() as file:
                found.setdefault(kind, set()).update(look(file))
    return {kind: tuple(sorted(keys)) for kind, keys in found.items() if keys}


def _files(source: Source) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The files that are judged, each by its name and how it is opened."""
    path = os.fspath(source.data)
    if not elsewhere(path):
        for name in list_files(source):
            yield name, partial(open, name, "rb")
    elif is_reached(path):
        try:
            store = settled_store(path)
        except EngineError:
            return  # which the session of an engine reads
        for name in names_there(source).read:
            place = store.root if name == "." else f"{store.root}/{name}"
            with store_faults(store.url):
                yield name, partial(store.files.open, place, "rb")


def _of_parquet(file: BinaryIO) -> Iterator[str]:
    opened = pq.ParquetFile(file)
    schema, said = opened.schema_arrow, opened.metadata.metadata or {}
    inner = said.get(b"ARROW:schema")
    held = {**said, **((_schema_in(inner).metadata or {}) if inner is not None else {})}
    held.pop(b"ARROW:schema", None)
    yield from _of_file(held, schema)
    yield from _of_fields(schema)
    coded = [field.name for field in schema if pt.is_dictionary(field.type)]
    if coded:
        groups = range(opened.num_row_groups)
        yield from _unused(opened.read_row_group(at, columns=coded).to_batches() for at in groups)


def _of_arrow(file: BinaryIO) -> Iterator[str]:
    data = pa.py_buffer(file.read())
    batches: list[pa.RecordBatch] = []
    try:
        opened = ipc.open_file(pa.BufferReader(data))
        parts = (opened.get_batch_with_custom_metadata(at) for at in range(opened.num_record_batches))
    except pa.ArrowInvalid:
        opened = ipc.open_stream(pa.BufferReader(data))
        parts = opened.iter_batches_with_custom_metadata()
    for batch, said in parts:
        batches.append(batch)
        yield from (key.decode(errors="replace") for key in dict(said or {}))
    yield from _of_file(opened.schema.metadata or {}, opened.schema)
    yield from _of_fields(opened.schema)
    yield from _unused([batches])


def _of_orc(file: BinaryIO) -> Iterator[str]:
    schema = orc.ORCFile(file).schema
    yield from _of_file(schema.metadata or {}, schema)
    yield from _of_fields(schema)


def _of_avro(file: BinaryIO) -> Iterator[str]:
    import fastavro

    said = fastavro.reader(io.BytesIO(file.read())).metadata
    yield from set(said) - AVRO
    if _has_key(json.loads(said.get("avro.schema", "{}")), "doc"):
        yield "avro.schema: doc"


LOOKS: Final[Mapping[str, Callable[[BinaryIO], Iterable[str]]]] = {
    "Parquet": _of_parquet,
    "Arrow": _of_arrow,
    "ORC": _of_orc,
    "Avro": _of_avro,
}


def _schema_in(text: bytes) -> pa.Schema:
    try:
        return ipc.read_schema(pa.BufferReader(base64.b64decode(text, validate=True)))
    except (binascii.Error, pa.ArrowException):
        return pa.schema([], metadata={"ARROW:schema": ""})


def _of_file(said: Raw, schema: pa.Schema) -> Iterator[str]:
    """Keys of a whole file that belong to no record, or reveal more than they should."""
    for raw, text in said.items():
        key = raw.decode(errors="replace")
        if key == "pandas":
            yield from _of_pandas(text, schema)
        elif key == SPARK_ROW:
            if not _is_plain(text, "fields", schema):
                yield key
        elif key == "iceberg.schema":
            if not _has_keys_of(_parsed(text), ICEBERG_FIELD):
                yield key
        elif key == "PANDAS_ATTRS" and _parsed(text) == {}:
            continue
        elif key not in SPARK or len(text) > LONGEST_WORD:
            yield key


def _of_pandas(text: bytes, schema: pa.Schema) -> Iterator[str]:
    """What pandas keeps of a frame and the file does not show."""
    said = _parsed(text)
    if not isinstance(said, dict):
        yield "pandas"
        return
    yield from (f"pandas: {key}" for key in sorted(set(said) - PANDAS))
    if said.get("attributes"):
        yield "pandas: attributes"
    names = set(schema.names)
    columns = [each for each in said.get("columns") or () if isinstance(each, dict)]
    if any((each.get("field_name") or each.get("name")) not in names for each in columns):
        yield "pandas: columns"
    if any(set(each.get("metadata") or ()) - PANDAS_COLUMN for each in columns):
        yield "pandas: columns: metadata"
    of_index = [each for each in said.get("index_columns") or () if isinstance(each, dict)]
    labels = [each.get("name") for each in said.get("column_indexes") or () if isinstance(each, dict)]
    if any(label is not None and label not in names for label in labels):
        yield "pandas: column_indexes"
    if any(each.get("name") is not None and each["name"] not in names for each in of_index):
        yield "pandas: index_columns"


def _of_fields(schema: pa.Schema) -> Iterator[str]:
    """Keys of single columns, of nested ones too, that are not Arrow's own."""
    for field in _fields(schema):
        said = {key.decode(errors="replace"): text for key, text in (field.metadata or {}).items()}
        extension = said.get("ARROW:extension:name", b"").decode(errors="replace")
        for key in said:
            if key not in OF_FIELDS or (key.startswith("ARROW:") and not extension.startswith(EXTENSIONS)):
                yield f"{field.name}: {key}"


def _fields(of: Any) -> Iterator[pa.Field]:
    for at in range(len(of) if isinstance(of, pa.Schema) else of.num_fields):
        field = of.field(at)
        yield field
        yield from _fields(field.type)


def _unused(parts: Iterable[Iterable[pa.RecordBatch]]) -> Iterator[str]:
    """Columns whose dictionary holds values that no row has."""
    for batches in parts:
        for batch in batches:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if not pt.is_dictionary(column.type):
                    continue
                used = pc.count_distinct(column.indices, mode="only_valid").as_py()
                if used < len(column.dictionary):
                    yield f"{name}: values of its dictionary that no row has"


def _is_plain(text: bytes, inner: str, schema: pa.Schema) -> bool:
    """Whether Spark's schema holds the names of the columns and nothing else."""
    said = _parsed(text)
    fields = said.get(inner) if isinstance(said, dict) else None
    if not isinstance(fields, list) or any(not isinstance(each, dict) for each in fields):
        return False
    own = {"name", "type", "nullable", "metadata"}
    named = {each.get("name") for each in fields} <= set(schema.names)
    return named and all(set(each) <= own for each in fields) and not _has_content(said, "metadata")


def _has_content(node: Any, key: str) -> bool:
    if isinstance(node, dict):
        return bool(node.get(key)) or any(_has_content(each, key) for each in node.values())
    return isinstance(node, list) and any(_has_content(each, key) for each in node)


def _has_key(node: Any, key: str) -> bool:
    if isinstance(node, dict):
        return key in node or any(_has_key(each, key) for each in node.values())
    return isinstance(node, list) and any(_has_key(each, key) for each in node)


def _has_keys_of(node: Any, known: frozenset[str]) -> bool:
    """Whether each mapping of a document has no other keys."""
    if isinstance(node, dict):
        more = {"element-id", "element", "element-required", "key-id", "key", "value-id", "value", "value-required"}
        return set(node) <= known | more and all(_has_keys_of(each, known) for each in node.values())
    return all(_has_keys_of(each, known) for each in node) if isinstance(node, list) else node is not None


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


FILE_KINDS: Final = {
    "old": "of other versions of the table",
    "deleted": "with rows that the table has deleted",
    "columns": "with columns that the table does not have",
    "stray": "Parquet that the table does not name",
    "hidden": "hidden",
    "other": "of other formats",
}
"""What a note calls them, in this order."""
DOCUMENTS: Final = frozenset({"verdict.json", "manifest.json", "plan.json", "report.html"})
"""Our own, in a folder of their name."""
OF_DELTA: Final = re.compile(
    r"_delta_log/(?:_last_checkpoint|\d{20}(?:\.[\w-]+)*\.(?:json|parquet|crc)|_sidecars/[\w.-]+\.parquet)"
    r"|(?:.*/)?deletion_vector_[\w-]+\.bin"
)
OF_ICEBERG: Final = re.compile(r"metadata/(?:[\w.-]+\.(?:metadata\.json|avro|puffin|stats)|version-hint\.text)")
CHECKSUM_BLOCK = 512
"""Bytes that each number of a Hadoop checksum file is of."""
Sizes = Mapping[str, int]


def unjudged_files(source: Source) -> dict[str, int]:
    """How many files at the place of a source are not judged with it, by kind; nothing for a frame or a single file.

    Empty files count as nothing, nor do checksums of files next to them, the log of the table itself and the documents
    of a release.

    Raises
    ------
    DataError, EngineError
        The place cannot be listed.
    """
    if isinstance(source.data, IcebergName):
        return _beside_iceberg(source)
    if not source.is_path:
        return {}
    if source.resolved_format == "delta":
        return _beside_delta(source)
    return _beside_files(source)


def unjudged_note(found: Mapping[str, int]) -> str:
    """What a verdict states about them.

    Examples
    --------
    >>> unjudged_note({"hidden": 2, "old": 1})
    'readers get 3 files with the table that were not judged: 1 of other versions of the table, 2 hidden'
    """
    total = sum(found.values())
    told = ", ".join(f"{found[kind]:,} {words}" for kind, words in FILE_KINDS.items() if found.get(kind))
    return f"readers get {total:,} {'files' if total != 1 else 'file'} with the table that were not judged: {told}"


def _beside_files(source: Source) -> dict[str, int]:
    path = os.fspath(source.data)
    if elsewhere(path):
        if not is_reached(path):
            return {}
        sizes = {file.below: file.size for file in listed_files(settled_store(path)) if file.below}
        return _counted(sizes, names_there(source).read if sizes else ())
    folder = local_path(source)
    if not os.path.isdir(folder):
        return {}
    judged = {os.path.realpath(name) for name in list_files(source)}
    sizes, seen = {}, []
    for below, name in _walked(folder):
        sizes[below] = os.path.getsize(name) if os.path.isfile(name) else 1
        if os.path.realpath(name) in judged:
            seen.append(below)
    return _counted(sizes, seen)


def _beside_delta(source: Source) -> dict[str, int]:
    place = delta_place(source)
    try:
        table = delta_table(place, source.version, source.timestamp)
    except PrivpipeError:
        if "://" in place:
            return {}  # which the session of an engine read
        raise
    sizes, read = _there(place)
    log = [name for name in sizes if re.fullmatch(r"_delta_log/\d{20}\.json", name)]
    named = {path for name in log for path in _named_by(read(name))}
    pieces = [piece for piece in table.pieces if isinstance(piece, DeltaPiece)]
    judged = [_below(piece.path, place) for piece in pieces]
    found = _counted(sizes, judged, OF_DELTA, named)
    deleted = sum(piece.deleted is not None and len(piece.deleted) > 0 for piece in pieces)
    more = sum(bool(piece.columns_beyond()) for piece in pieces)
    return found | {kind: count for kind, count in (("deleted", deleted), ("columns", more)) if count}


def _beside_iceberg(source: Source) -> dict[str, int]:
    place, judged, named, deleted = iceberg_files(source.data)
    sizes, _ = _there(place)
    below = [_below(path, place) for path in judged]
    found = _counted(sizes, below, OF_ICEBERG, {_below(path, place) for path in named})
    return found | ({"deleted": deleted} if deleted else {})


def _there(place: str) -> tuple[Sizes, Callable[[str], bytes]]:
    """Sizes of all files below a table's folder, and how one of them is read."""
    folder = urlparse(place).path if place.startswith("file:") else place
    if "://" in folder:
        if not is_reached(folder):
            return {}, lambda name: b""
        store = opened_store(folder)
        return (
            {file.below: file.size for file in listed_files(store)},
            lambda name: bytes(store.files.cat_file(f"{store.root}/{name}")),
        )

    def read(name: str) -> bytes:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    return {below: os.path.getsize(name) for below, name in _walked(folder) if os.path.isfile(name)}, read


def _walked(top: str) -> Iterator[tuple[str, str]]:
    """Each file below a folder, also through links, by its name below and its path; none twice."""
    seen: set[str] = set()

    def look(folder: str) -> Iterator[tuple[str, str]]:
        real = os.path.realpath(folder)
        if real in seen:
            return
        seen.add(real)
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir():
                yield from look(entry.path)
            else:
                yield os.path.relpath(entry.path, top), entry.path

    yield from look(top)


def _counted(
    sizes: Sizes, judged: Collection[str], own: re.Pattern[str] | None = None, named: Collection[str] = ()
) -> dict[str, int]:
    """The files that were not judged by kind; `named` are those that some version of a table names."""
    judged = set(judged)
    found: Counter[str] = Counter()
    for name, size in sizes.items():
        if name in judged or not size or _is_checksum(name, size, sizes) or _is_document(name):
            continue
        if own is not None and own.fullmatch(name):
            continue
        if name in named:
            found["old"] += 1
        elif any(part.startswith((".", "_")) for part in name.split("/")):
            found["hidden"] += 1
        elif own is not None and name.casefold().endswith((".parquet", ".pq")):
            found["stray"] += 1
        else:
            found["other"] += 1
    return {kind: found[kind] for kind in FILE_KINDS if found[kind]}


def _is_checksum(name: str, size: int, sizes: Sizes) -> bool:
    """Whether a file is the checksum that Hadoop writes next to another, to the byte as long as that asks for."""
    folder, _, last = name.rpartition("/")
    of = sizes.get(f"{folder}/{last[1:-4]}" if folder else last[1:-4])
    return last.startswith(".") and last.endswith(".crc") and of is not None and size == 8 - 4 * (-of // CHECKSUM_BLOCK)


def _is_document(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    return folder == "_privpipe" and last in DOCUMENTS


def _named_by(commit: bytes) -> Iterator[str]:
    """Files that a commit of a Delta log adds or removes."""
    for line in commit.splitlines():
        entry: Any = json.loads(line or b"{}")
        for action in ("add", "remove"):
            if isinstance(entry, dict) and isinstance(entry.get(action), dict):
                yield unquote(str(entry[action].get("path", "")))


def _below(path: str, place: str) -> str:
    """The name of a file below the folder of its table; the path itself where it lies elsewhere."""
    path, place = (urlparse(each).path if "://" in each else each for each in (path, place))
    roots = (place, os.path.realpath(place))
    return next((path.removeprefix(f"{root.rstrip('/')}/") for root in roots if path.startswith(root)), path)
