"""Whole tables as attacks with a control compare them: one scale of distances, one keyed order of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FilePair
from privpipe.blocks.table_files import TableFiles
from privpipe.measures.risk.linkage.linkable_files import coded_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = ["ScaledTables", "column_pair", "keyed_order", "keyed_rows", "plain", "scaled"]

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class ScaledTables:
    """Three tables on the scale of Gower's distances; `holdout` has no rows where none was given.

    `tells` says whether some column puts the rows of the release at different distances of an original.
    """

    original: LinkedFile = field(repr=False)
    released: LinkedFile = field(repr=False)
    holdout: LinkedFile = field(repr=False)
    tells: bool


def column_pair(files: TableFiles) -> FilePair:
    """The original with the holdout behind it on one side, the release on the other; no records are paired."""
    import pyarrow as pa

    holdout = files.original.slice(0, 0) if files.holdout is None else files.holdout.cast(files.original.schema)
    known = pa.concat_tables([files.original, holdout]).combine_chunks()
    return FilePair(
        original=_batch(known),
        released=_batch(files.released.combine_chunks()),
        ids=np.zeros((0, 2), dtype=np.int64),
        records=known.num_rows,
        released_records=files.released.num_rows,
        hierarchies=files.hierarchies,
    )


def scaled(files: TableFiles, pair: FilePair, columns: Sequence[str], owner: str) -> ScaledTables:
    """The tables by some columns: numbers over their range in original and release, texts as codes.

    The holdout moves no range. A number with one value is left out; a missing one is at distance 1 of any other.

    Raises
    ------
    DataError
        An infinite number, which has no distance.
    """
    from privpipe.kernels.linkage.distance import LinkedFile

    n, rows = files.original.num_rows, pair.released.num_rows
    sides: tuple[list[Numbers], list[Numbers]] = ([], [])
    texts: list[Any] = []
    for name in columns:
        found = pair.finite_numbers(name, owner)
        if found is None:
            texts.append(coded_texts(pair, name))
            continue
        both = np.concatenate([found[0][:n], found[1]])
        own = both[~np.isnan(both)]
        span = float(own.max() - own.min()) if len(own) else 0.0
        if span > 0:
            for to, values in zip(sides, found, strict=True):
                # From the least value on: of values far from 0 a quotient has no digits left for what ties them.
                to.append((values - own.min()) / span)
    tables = tuple(table for _, _, table in texts)
    x, y = (
        np.column_stack(side) if side else np.zeros((m, 0)) for side, m in zip(sides, (len(pair), rows), strict=True)
    )
    codes = _columns([own for own, _, _ in texts], len(pair))
    labels = _columns([shown for _, shown, _ in texts], rows)
    return ScaledTables(
        LinkedFile(x[:n], codes[:n], tables),
        LinkedFile(y, labels),
        LinkedFile(x[n:], codes[n:], tables),
        tells=_tells(y, codes[:n], labels, tables),
    )


def plain(file: LinkedFile) -> LinkedFile:
    """Originals as they are compared with originals: no value covers another."""
    from privpipe.kernels.linkage.distance import LinkedFile

    return LinkedFile(file.numbers, file.codes, (None,) * file.codes.shape[1])


def keyed_rows(table: pa.Table, order: Stream | None, owner: str) -> tuple[NDArray[np.int64], Stream]:
    """An id for each record from its content and an ordinal among identical ones, and the stream of an entry.

    Names of columns do not enter, only their order, so that a renamed table is attacked in the same way.
    """
    from privpipe.draws import Seed, Stream
    from privpipe.kernels.ids.record_ids import content_hash, ordinals, record_id

    stream = Stream(bytes(16)) if order is None else order
    seed = Seed(stream.key)
    words = content_hash(table.rename_columns([f"{at:06d}" for at in range(table.num_columns)]), seed)
    return record_id(words, ordinals(words), seed), stream.child(owner)


def keyed_order(table: pa.Table, order: Stream | None, owner: str) -> Places:
    """The places of a table's records in the keyed order of an entry."""
    ids, stream = keyed_rows(table, order, owner)
    return stream.arrange(ids).astype(np.int64)


def _tells(numbers: Numbers, own: Places, labels: Places, tables: tuple[NDArray[np.bool_] | None, ...]) -> bool:
    if not len(numbers) or any(_differ(column) for column in numbers.T):
        return bool(len(numbers))
    for at, table in enumerate(tables):
        shown = np.unique(labels[:, at])
        if len(shown) < 2:
            continue
        if (
            table is None
            or (table[np.unique(own[:, at])][:, shown] != table[np.unique(own[:, at])][:, shown[:1]]).any()
        ):
            return True
    return False


def _differ(column: Numbers) -> bool:
    return bool((column != column[0]).any()) if not np.isnan(column[0]) else not np.isnan(column).all()


def _columns(codes: list[Places], rows: int) -> Places:
    return np.column_stack(codes) if codes else np.zeros((rows, 0), dtype=np.int64)


def _batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
