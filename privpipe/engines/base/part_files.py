"""Part files of a release: the bytes of a row are the same on every engine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privpipe.engines.base.contract import Written
from privpipe.engines.base.formulas import escaped_cells
from privpipe.engines.base.source import Format
from privpipe.errors import SinkError, UnsupportedError
from privpipe.hierarchies import canonical_text
from privpipe.private_files import create_private
from privpipe.progress import within
from privpipe.roles import column_type_of

__all__ = ["ROWS_PER_FILE", "csv_bytes", "csv_header", "json_bytes", "parquet_writer", "part_name", "write_parts"]

ROWS_PER_FILE = 5_000_000
LARGE_BATCH = 20_000
"""Rows that are encoded while the next ones are made."""
MOST_LOOKED_AT = 20_000
"""Rows by which a column's encoding is chosen."""


def part_name(number: int, format: Format) -> str:
    """Name of a part file.

    Examples
    --------
    >>> part_name(3, "parquet")
    'part-00003.parquet'
    """
    return f"part-{number:05d}.{format}"


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

    With `escape`, texts that a spreadsheet would run as formulas stand behind an apostrophe; numbers are none.

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
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = parquet_writer(self._path, self._schema, batch)
        self._writer.write_batch(batch)

    def close(self) -> None:
        writer = parquet_writer(self._path, self._schema) if self._writer is None else self._writer
        writer.close()


def parquet_writer(path: Path, schema: pa.Schema, first: pa.RecordBatch | None = None) -> pq.ParquetWriter:
    """What writes a part file of a release, the same on every engine.

    Columns whose cells hardly repeat, in the first rows of the file, get no dictionary, which would be as long. Texts
    get no bounds in its metadata: in keyed order each stretch of rows has nearly all of them, so that bounds let no
    reader skip any, and to find them takes a third of the time of writing.

    Parameters
    ----------
    first : pyarrow.RecordBatch, optional
        The first rows of the file; a file without rows needs none.
    """
    repeated = [name for name in schema.names if first is not None and _repeats(first.column(name))]
    bounded = [each.name for each in schema if column_type_of(each.type) != "text"]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        store_schema=False,
        use_dictionary=repeated or False,
        write_statistics=bounded or False,
    )


def _repeats(column: pa.Array) -> bool:
    """Whether a dictionary pays: each value occurs twice in the mean."""
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind):
        return True
    first = column.slice(0, MOST_LOOKED_AT)
    return bool(2 * pc.count_distinct(first, mode="all").as_py() <= len(first))


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


def _open(path: Path, schema: pa.Schema, format: Format, escape: bool) -> _Part:
    create_private(path)  # until it is judged; publishing gives it the modes of a public file
    if format == "parquet":
        return _ParquetPart(path, schema)
    if format in {"csv", "json"}:
        return _TextPart(path, schema, format, escape)
    raise UnsupportedError(f"a release is written as parquet, csv or json, not {format}")


def write_parts(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    folder: str,
    format: Format,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    escape: bool = False,
    first: int = 0,
) -> Written:
    """Write batches, in their order, as part files of an existing folder; at least one file, so that types survive.

    Parameters
    ----------
    first : int
        Number of the first file.

    Raises
    ------
    SinkError
        The folder cannot be written.
    """
    records = 0
    files: list[str] = []
    opened = partial(_open, schema=schema, format=format, escape=escape)
    with contextlib.ExitStack() as stack, _Behind() as behind:
        part: _Part | None = None
        for batch in _cut(batches, rows_per_file):
            if part is None or records % rows_per_file == 0:
                with _refused():
                    behind.wait()
                    stack.close()
                    part = _begin(stack, opened, Path(folder), part_name(first + len(files), format), files)
            with _refused():
                behind.run(partial(part.add, batch), batch.num_rows >= LARGE_BATCH)
            records += batch.num_rows
            within("rows", records)
        if part is None:
            with _refused():
                _begin(stack, opened, Path(folder), part_name(first, format), files)
        with _refused():
            behind.wait()
            stack.close()
    return Written(records=records, files=tuple(files))


class _Behind:
    """Runs one task after the other; a large one in a thread of its own, while the next is made ready."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._task: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()  # nobody may write to a file that is being closed

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


def _begin(
    stack: contextlib.ExitStack, opened: Callable[[Path], _Part], folder: Path, name: str, files: list[str]
) -> _Part:
    files.append(name)
    part = opened(folder / name)
    stack.callback(part.close)
    return part


def _cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The batches, cut where a file is full."""
    written = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            room = rows - written % rows
            piece: Any = batch.slice(start, room)
            yield piece
            start += piece.num_rows
            written += piece.num_rows


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SinkError(f"the part files of the release cannot be written: {reason}") from None
