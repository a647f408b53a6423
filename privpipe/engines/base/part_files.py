"""Part files of a release, the same bytes on every engine, and those that hold rows of one partition each.

How many there are is a function of the released records and columns alone. Each holds the records whose order words
are in one of as many equal ranges, in keyed order, in row groups of one size. The name of a file of one partition has
a digest of the partition columns and one of their values: values may hold signs that no file name has, and two of them
never share a name.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privpipe.engines.base.batches import joined
from privpipe.engines.base.contract import NO_TYPES, Written
from privpipe.engines.base.return_forms import in_type
from privpipe.engines.readers.files import partition_in
from privpipe.engines.readers.source import Format
from privpipe.engines.readers.text_forms import escaped_cells
from privpipe.errors import DataError, SinkError, UnsupportedError
from privpipe.hierarchies import canonical_text
from privpipe.private_files import create_private
from privpipe.roles import column_type_of

__all__ = [
    "csv_bytes",
    "csv_header",
    "files_of",
    "in_groups",
    "json_bytes",
    "part_name",
    "partitions_among",
    "partitions_of",
    "replaced_among",
    "split_parts",
    "write_part",
]


ROWS_PER_FILE = 1_000_000
LEAST_ROWS_PER_FILE = 100_000
CELLS_PER_FILE = 32_000_000
"""Of wide tables, whose files have fewer rows: one task sorts and writes a file."""
ROWS_PER_GROUP = 122_880
"""Of a row group of Parquet: as many as of one of DuckDB's."""
LARGE_BATCH = 20_000
"""Rows that are encoded while the next ones are made."""
LARGEST_DICTIONARY = 1 << 30
"""Bytes; beyond them the writer goes on without, at another cell for texts that come as numbers of a dictionary."""


def part_name(number: int, format: Format) -> str:
    """Name of a part file.

    Examples
    --------
    >>> part_name(3, "parquet")
    'part-00003.parquet'
    """
    return f"part-{number:05d}.{format}"


def files_of(records: int, columns: int) -> int:
    """How many files a release has.

    Examples
    --------
    >>> files_of(0, 9), files_of(1_000_000, 9), files_of(1_000_001, 9), files_of(1_000_000, 320)
    (1, 1, 2, 10)
    """
    rows = min(ROWS_PER_FILE, max(LEAST_ROWS_PER_FILE, CELLS_PER_FILE // max(columns, 1)))
    return max(1, -(-records // rows))


def csv_header(names: Iterable[str], escape: bool = False) -> bytes:
    """The header line; `escape` as in `csv_bytes`.

    Examples
    --------
    >>> csv_header(["age", "zip,code"])
    b'age,"zip,code"\\n'
    """
    cells = pa.array(list(names), pa.string())
    return (",".join(_quoted(escaped_cells(cells) if escape else cells).to_pylist()) + "\n").encode()


def csv_bytes(batch: pa.RecordBatch, escape: bool = False) -> bytes:
    r"""Rows as CSV lines: canonical texts, quotes where needed, null an empty field, empty text a quoted one.

    With `escape`, texts that a spreadsheet would run as formulas get a leading apostrophe; numbers never do.

    Examples
    --------
    >>> print(csv_bytes(pa.record_batch({"a": [1.5, None], "b": ["x,y", ""]})).decode(), end="")
    1.5,"x,y"
    ,""
    """
    if not batch.num_rows:
        return b""
    columns = [_field(column, name, escape) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    if len(columns) == 1:  # a line of one null would be no record to most readers
        columns = [pc.fill_null(columns[0], '""')]
    lines = pc.binary_join_element_wise(*columns, ",", null_handling="replace", null_replacement="")
    return _joined(lines)


def json_bytes(batch: pa.RecordBatch) -> bytes:
    r"""Rows as one JSON object a line; numbers, integers and decimals as JSON numbers, the rest as text.

    Examples
    --------
    >>> json_bytes(pa.record_batch({"a": [1.5, None], "b": ["x", 'say "hi"']}))
    b'{"a":1.5,"b":"x"}\n{"a":null,"b":"say \\"hi\\""}\n'
    """
    import json

    names = [json.dumps(name, ensure_ascii=False) for name in batch.schema.names]
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = canonical_text(column, None, column=name).to_pylist()
        bare = pa.types.is_integer(column.type) or pa.types.is_decimal(column.type) or pa.types.is_boolean(column.type)
        if pa.types.is_floating(column.type):
            texts = [text if text is None or text[-1:].isdigit() else json.dumps(text) for text in texts]
            bare = True
        columns.append([_json(text, bare) for text in texts])
    rows = zip(*columns, strict=True)
    lines = ("{" + ",".join(f"{name}:{cell}" for name, cell in zip(names, row, strict=True)) + "}\n" for row in rows)
    return "".join(lines).encode()


def _json(text: str | None, bare: bool) -> str:
    import json

    if text is None:
        return "null"
    return text if bare else json.dumps(text, ensure_ascii=False)


def _field(column: pa.Array, name: str, escape: bool) -> pa.Array:
    text = canonical_text(column, None, column=name)
    if not pa.types.is_string(column.type):
        return text
    return _quoted(escaped_cells(text) if escape else text)


def _quoted(text: pa.Array) -> pa.Array:
    special = pc.or_(pc.match_substring_regex(text, '[",\r\n]'), pc.equal(text, ""))
    if not pc.any(special).as_py():
        return text
    marked = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(special, marked, text)


def _joined(lines: pa.Array) -> bytes:
    ended = pc.binary_join_element_wise(lines, "\n", "").cast(pa.large_string())
    _, offsets, data = ended.buffers()
    starts = memoryview(offsets).cast("q")
    first, last = starts[ended.offset], starts[ended.offset + len(ended)]
    return bytes(memoryview(data)[first:last])


class _Part(Protocol):
    def add(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class _ParquetPart:
    """A Parquet file, the same bytes whichever engine gives the rows.

    Columns whose cells hardly repeat, in the first row group of the file, get no dictionary, which would be as long.
    Texts that do are handed to the writer as numbers of the texts of their row group, in order of appearance: a writer
    that finds the texts itself packs the numbers of early pages into fewer bits. Texts get no bounds in the metadata:
    in keyed order each stretch of rows has nearly all of them, so that bounds let no reader skip any, and to find them
    takes a third of the time of writing.
    """

    def __init__(self, path: Path, schema: pa.Schema, types: Mapping[str, pa.DataType]) -> None:
        self._path, self._types = path, types
        kept = [_stored(types[each.name]) if each.name in types else each.type for each in schema]
        self._schema = pa.schema(list(zip(schema.names, kept, strict=True)))
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        columns = [
            in_type(column, each.type) if each.name in self._types else column
            for column, each in zip(batch.columns, self._schema, strict=True)
        ]
        batch = pa.record_batch(columns, names=batch.schema.names)
        writer = self._begun(batch)
        columns = [
            column.dictionary_encode() if pa.types.is_dictionary(each.type) and each.type != column.type else column
            for column, each in zip(batch.columns, self._schema, strict=True)
        ]
        writer.write_batch(pa.record_batch(columns, schema=self._schema))

    def close(self) -> None:
        self._begun().close()

    def _begun(self, first: pa.RecordBatch | None = None) -> pq.ParquetWriter:
        """What writes the file, opened for its first rows; a file without rows needs none."""
        if self._writer is not None:
            return self._writer
        repeated = [name for name in self._schema.names if first is not None and _repeats(first.column(name))]
        bounded = [each.name for each in self._schema if column_type_of(each.type) != "text"]
        coded = {name for name in repeated if pa.types.is_string(self._schema.field(name).type)}
        as_codes = pa.dictionary(pa.int32(), pa.string())
        self._schema = pa.schema([each.with_type(as_codes) if each.name in coded else each for each in self._schema])
        self._writer = pq.ParquetWriter(
            self._path,
            self._schema,
            compression="zstd",
            store_schema=False,
            dictionary_pagesize_limit=LARGEST_DICTIONARY,
            use_dictionary=repeated or False,
            write_statistics=bounded or False,
        )
        if self._types:
            # Zones, dictionaries and long texts are in no Parquet type; the values of a dictionary are not in this.
            fields = [(each.name, self._types.get(each.name, plain)) for each, plain in self._plain()]
            known = base64.b64encode(pa.schema(fields).serialize().to_pybytes()).decode()
            self._writer.add_key_value_metadata({"ARROW:schema": known})
        return self._writer

    def _plain(self) -> Iterator[tuple[pa.Field, pa.DataType]]:
        for each in self._schema:
            yield each, each.type.value_type if pa.types.is_dictionary(each.type) else each.type


def _stored(kind: pa.DataType) -> pa.DataType:
    """What a file holds of a type: the texts of a dictionary."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _stored(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _repeats(column: pa.Array) -> bool:
    """Whether a dictionary pays: each value occurs twice in the mean."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return True
    cells = column.indices if pa.types.is_dictionary(kind) else column  # the values of a dictionary are distinct
    return bool(2 * pc.count_distinct(cells, mode="all").as_py() <= len(cells))


class _TextPart:
    def __init__(self, path: Path, schema: pa.Schema, format: Format, escape: bool) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._bytes = partial(csv_bytes, escape=escape) if format == "csv" else json_bytes
        if format == "csv":
            self._file.write(csv_header(schema.names, escape))

    def add(self, batch: pa.RecordBatch) -> None:
        self._file.write(self._bytes(batch))

    def close(self) -> None:
        self._file.close()


def _open(path: Path, schema: pa.Schema, format: Format, escape: bool, types: Mapping[str, pa.DataType]) -> _Part:
    create_private(path)  # until it is judged; publishing gives it the modes of a public file
    if format == "parquet":
        return _ParquetPart(path, schema, types)
    if format in {"csv", "json"}:
        return _TextPart(path, schema, format, escape)
    raise UnsupportedError(f"a release is written as parquet, csv or json, not {format}")


def write_part(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    folder: str,
    format: Format,
    *,
    number: int = 0,
    escape: bool = False,
    types: Mapping[str, pa.DataType] = NO_TYPES,
) -> Written:
    """Write batches, in their order, as one part file of an existing folder; without any, so that types survive.

    Parameters
    ----------
    number : int
        Of the file.
    types : mapping of column to pyarrow.DataType
        Types of the source that columns of a Parquet file keep: all their values are values of it.

    Raises
    ------
    SinkError
        The folder cannot be written.
    """
    records, name = 0, part_name(number, format)
    with contextlib.ExitStack() as stack, _Behind() as behind:
        with _refused():
            part = _open(Path(folder, name), schema, format, escape, types)
            stack.callback(part.close)
        for batch in in_groups(batches):
            with _refused():
                behind.run(partial(part.add, batch), batch.num_rows >= LARGE_BATCH)
            records += batch.num_rows
        with _refused():
            behind.wait()
            stack.close()
    return Written(records=records, files=(name,))


def in_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `ROWS_PER_GROUP`, the last one smaller.

    Examples
    --------
    >>> [len(rows) for rows in in_groups(pa.record_batch({"n": range(size)}) for size in (122_000, 1_000, 0, 9))]
    [122880, 129]
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece: Any = batch.slice(start, ROWS_PER_GROUP - size)
            start += piece.num_rows
            size += piece.num_rows
            waiting.append(piece)
            if size == ROWS_PER_GROUP:
                yield joined(waiting)
                waiting, size = [], 0
    if waiting:
        yield joined(waiting)


class _Behind:
    """Runs one task after the other; a large one in its own thread, while the next is made ready."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._task: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()  # no thread may write to a file that is being closed

    def run(self, task: Callable[[], None], large: bool) -> None:
        """Begin a task once the one before is done, and raise what that one raised."""
        self.wait()
        if not large:
            task()
            return
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="privpipe-writing")
        self._task = self._pool.submit(task)

    def wait(self) -> None:
        """Until nothing is running."""
        if self._task is not None:
            task, self._task = self._task, None
            task.result()


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SinkError(f"the part files of the release cannot be written: {reason}") from None


MOST = 10_000
"""Partitions of one batch: each has a file."""


def partitions_among(folder: Path) -> frozenset[str]:
    """The partitions of the files of a folder."""
    return frozenset(found for path in folder.iterdir() if (found := partition_in(path.name)) is not None)


def replaced_among(names: Iterable[str], batch: Collection[str], sink: str) -> frozenset[str]:
    """Which files of a sink hold partitions of a batch.

    Parameters
    ----------
    names : iterable of str
        Of all its files.
    batch : collection of str
        Partitions.

    Raises
    ------
    SinkError
        A file is not of one partition, or of other partition columns, so that its rows would be doubled.

    Examples
    --------
    >>> replaced_among(["part-00000.parquet"], [], "lake/visits")
    Traceback (most recent call last):
    privpipe.errors.SinkError: the sink 'lake/visits' has 1 files that are not of one partition ...
    """
    found = {name: partition_in(name) for name in names}
    columns = {each.partition("-")[0] for each in batch}
    wrong = [each for each in found.values() if each is None or each.partition("-")[0] not in columns | {EMPTY[:8]}]
    if wrong and EMPTY not in batch:
        raise SinkError(
            f"the sink {sink!r} has {len(wrong):,} files that are not of one partition of these columns, so none of it "
            "can be replaced and nothing was published; publish the whole table once with `mode: replace` and the same "
            "`partition:`"
        )
    return frozenset(name for name, each in found.items() if each in batch)


EMPTY = f"{0:08d}-{0:024d}"
"""Of a batch without rows."""


def partitions_of(table: pa.Table, columns: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The partitions of a table, and for each row the number of its partition among them.

    Examples
    --------
    >>> names, rows = partitions_of(pa.table({"day": ["a/b", None, "", "a/b"]}), ["day"])
    >>> len(names), rows.tolist()
    (3, [0, 1, 2, 0])
    """
    codes = np.zeros(table.num_rows, np.int64)
    texts = []
    for name in columns:
        coded = pc.dictionary_encode(canonical_text(table[name], None, column=name).combine_chunks(), "encode")
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        texts.append(coded)
        codes = codes * (len(coded.dictionary) + 1) + coded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    found, first, rows = np.unique(codes, return_index=True, return_inverse=True)
    if len(found) > MOST:
        raise DataError(
            f"the batch has {len(found):,} partitions by {', '.join(map(repr, columns))}, and each has a file: name "
            f"columns with at most {MOST:,} combinations in a batch"
        )
    head = _digest(list(columns))[:8]
    values = [[text.dictionary[text.indices[int(at)].as_py()].as_py() for text in texts] for at in first]
    return [f"{head}-{_digest(each)[:24]}" for each in values], rows


def split_parts(folder: Path, columns: Sequence[str]) -> tuple[str, ...]:
    """Write the part files of a folder so that each holds rows of one partition, in their order; gives their names.

    Raises
    ------
    DataError
        There are too many partitions.
    """
    names: list[str] = []
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        if table.num_rows:
            for partition, rows in _split(table, columns):
                write_part(iter(rows.to_batches()), rows.schema, str(folder), "parquet", number=MOST + len(names))
                names.append(_named(folder, part_name(MOST + len(names), "parquet"), len(names), partition))
        path.unlink()
    if not names:
        write_part(iter(()), table.schema, str(folder), "parquet", number=MOST)
        names.append(_named(folder, part_name(MOST, "parquet"), 0, EMPTY))
    return tuple(names)


def _split(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    partitions, rows = partitions_of(table, columns)
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=len(partitions)))
    for partition, chosen in zip(partitions, np.split(order, ends[:-1]), strict=True):
        yield partition, table.take(chosen) if len(partitions) > 1 else table


def _named(folder: Path, made: str, number: int, partition: str) -> str:
    name = f"{part_name(number, 'parquet').removesuffix('.parquet')}-{partition}.parquet"
    os.replace(folder / made, folder / name)
    return name


def _digest(values: list[str | None]) -> str:
    return hashlib.sha256(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()
