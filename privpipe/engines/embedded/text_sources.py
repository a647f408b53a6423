"""CSV and JSON files: read as text by the reader all engines share, typed, and stored once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from privpipe.engines.base.csv_blocks import CsvBlock, CsvDialect, csv_blocks, ragged_error, read_csv_block
from privpipe.engines.base.files import csv_columns, wrong_delimiter_hint
from privpipe.engines.base.json_rows import json_batches, json_columns
from privpipe.engines.base.logical import kind_of
from privpipe.engines.base.names import check_declared, check_names
from privpipe.engines.base.parallel import in_order
from privpipe.engines.base.source import Source
from privpipe.engines.base.stamps import stamp_of
from privpipe.engines.base.text import decimal_scale
from privpipe.engines.base.typing import Typing, conversion_error, typing_of
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.storing import store
from privpipe.engines.embedded.table import EmbeddedTable

__all__ = ["converted_rows", "decimal_scales", "scan_text"]

BLOCK_BYTES = 1 << 24
Pieces = Callable[[], Iterable[Any]]
Reader = Callable[[Any], tuple[pa.RecordBatch, int]]
"""From a piece of a source to its text columns and the number of its ragged lines."""


def scan_text(session: Session, source: Source, files: list[str]) -> EmbeddedTable:
    """The table of CSV or JSON files.

    Raises
    ------
    DataError
        Names, headers, ragged lines, unclosed quotes, cells that do not convert; all cells of the source are
        counted before one column is blamed.
    """
    names, pieces, read = (_json if source.resolved_format == "json" else _csv)(session, source, files)
    wanted = [name for name, kind in source.types.items() if kind == "decimal"]
    texts = (batch for batch, _ in in_order(read, pieces(), session.threads)) if wanted else iter(())
    schema = pa.schema([(name, pa.string()) for name in names])
    typing = typing_of(schema, source.types, decimal_scales(texts, wanted))
    ragged: list[int] = []

    def take(piece: Any) -> pa.RecordBatch:
        batch, lines = read(piece)
        ragged.append(lines)
        return batch

    def refuse() -> None:
        if sum(ragged):
            raise ragged_error(sum(ragged), names)

    return converted_rows(session, pieces(), typing, take, refuse)


def converted_rows(
    session: Session,
    pieces: Iterable[Any],
    typing: Typing,
    take: Callable[[Any], pa.RecordBatch] = lambda batch: batch,
    refuse: Callable[[], None] = lambda: None,
) -> EmbeddedTable:
    """Rows converted piece by piece and stored.

    Parameters
    ----------
    take : callable
        Makes a batch of a piece.
    refuse : callable
        Raises what `take` found amiss.

    Raises
    ------
    DataError
        Cells that do not convert.
    """
    failed: list[dict[str, int]] = []  # appended to by several threads, added up by one

    def convert(piece: Any) -> pa.RecordBatch:
        converted, bad = typing.apply(take(piece))
        failed.append(bad)
        return converted

    table = store(session, pieces, typing.schema, convert, ids=False)
    refuse()
    counts: Counter[str] = Counter()
    for bad in failed:
        counts.update(bad)
    for name in typing.schema.names:
        if counts[name]:
            raise conversion_error(name, kind_of(typing.schema.field(name).type), counts[name])
    return table


def decimal_scales(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> dict[str, int]:
    """Digits after the point that text columns need, over all their cells."""
    scales = dict.fromkeys(columns, 0)
    for batch in batches:
        for name in columns:
            scales[name] = max(scales[name], decimal_scale(batch.column(name).cast(pa.string())))
    return scales


def _csv(session: Session, source: Source, files: list[str]) -> tuple[list[str], Pieces, Reader]:
    names = csv_columns(source, files)
    check_names(names)
    check_declared(names, source.types, hint=wrong_delimiter_hint(names, source.delimiter))
    dialect = CsvDialect.of(names, source)
    # Enough blocks for all threads, none so large that a few of them fill the memory.
    size = max(1 << 20, min(BLOCK_BYTES, sum(stamp_of(name)[1] for name in files) // (2 * session.threads)))
    blocks: list[CsvBlock] = []
    for found in in_order(lambda name: csv_blocks(name, dialect, size), files, session.threads):
        blocks += found
    return names, lambda: blocks, lambda block: read_csv_block(block, dialect)


def _json(session: Session, source: Source, files: list[str]) -> tuple[list[str], Pieces, Reader]:
    names = json_columns(files, source.max_bytes)
    check_names(names)
    check_declared(names, source.types)

    def batches() -> Iterator[pa.RecordBatch]:
        return json_batches(files, names, source.max_bytes)

    return names, batches, lambda batch: (batch, 0)
