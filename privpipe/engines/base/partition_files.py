"""Part files that hold rows of one partition each, named by a digest of it.

A name has a digest of the partition columns and one of their values: values may hold signs that no file name has, and
two of them never share a name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privpipe.engines.base.part_files import part_name, write_part
from privpipe.engines.readers.files import partition_in
from privpipe.errors import DataError, SinkError
from privpipe.hierarchies import canonical_text

__all__ = ["partitions_among", "partitions_of", "replaced_among", "split_parts"]

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
