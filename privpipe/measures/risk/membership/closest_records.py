"""Distances to the closest record of another table, on the scale that linkage uses."""

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

    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = ["Compared", "closest", "compared"]

Numbers = NDArray[np.float64]
TREE_COLUMNS = 10
TILE = 20_000_000


@dataclass(frozen=True)
class Compared:
    """Three tables on one scale; `holdout` has no rows where none was given.

    `metric` is euclidean where every column is a number everywhere (by mean and deviation of the original), else gower.
    """

    original: LinkedFile = field(repr=False)
    released: LinkedFile = field(repr=False)
    holdout: LinkedFile = field(repr=False)
    metric: str


def compared(files: TableFiles, columns: Sequence[str]) -> Compared | None:
    """The tables on the scale they are compared on; None where no column distinguishes records."""
    import pyarrow as pa

    holdout = files.original.slice(0, 0) if files.holdout is None else files.holdout.cast(files.original.schema)
    known = pa.concat_tables([files.original, holdout]).combine_chunks()
    pair = FilePair(
        original=_batch(known),
        released=_batch(files.released.combine_chunks()),
        ids=np.zeros((0, 2), dtype=np.int64),
        records=known.num_rows,
        released_records=files.released.num_rows,
        hierarchies=files.hierarchies,
    )
    n = files.original.num_rows
    numbers = {name: pair.finite_numbers(name, "distance to the closest record") for name in columns}
    texts = [name for name, found in numbers.items() if found is None]
    sides = [found for found in numbers.values() if found is not None]
    return _gower(pair, sides, texts, n) if texts else _euclidean(sides, n)


def closest(asked: LinkedFile, among: LinkedFile, metric: str) -> Numbers:
    """Of each asked record the distance to the closest one among others, shape (n,)."""
    from privpipe.kernels.linkage.distance import pair_distances

    if metric == "euclidean" and asked.numbers.shape[1] <= TREE_COLUMNS:
        from scipy.spatial import cKDTree

        return np.asarray(cKDTree(among.numbers).query(asked.numbers)[0], dtype=np.float64)
    step = max(1, TILE // max(len(among), 1))
    tiles = [
        pair_distances(asked.take(np.arange(at, min(at + step, len(asked)))), among, squared=metric == "euclidean")
        for at in range(0, len(asked), step)
    ]
    return np.concatenate([tile.min(axis=1) for tile in tiles]) if tiles else np.zeros(0)


def _euclidean(sides: list[tuple[Numbers, Numbers]], n: int) -> Compared | None:
    from privpipe.kernels.linkage.distance import LinkedFile

    first: list[Numbers] = []
    second: list[Numbers] = []
    for before, after in sides:
        own = before[:n][~np.isnan(before[:n])]
        if len(own) < 2 or own.min() == own.max():
            continue
        mean, sd = float(np.mean(own)), float(np.std(own, ddof=1))
        for to, values in ((first, before), (second, after)):
            to.append(np.nan_to_num((values - mean) / sd, nan=0.0))
        if np.isnan(before).any() or np.isnan(after).any():
            first.append(np.isnan(before).astype(np.float64))
            second.append(np.isnan(after).astype(np.float64))
    if not first:
        return None
    x, y = np.column_stack(first), np.column_stack(second)
    files = [LinkedFile(np.ascontiguousarray(part), np.zeros((len(part), 0), np.int64)) for part in (x[:n], y, x[n:])]
    return Compared(files[0], files[1], files[2], "euclidean")


def _gower(pair: FilePair, sides: list[tuple[Numbers, Numbers]], texts: list[str], n: int) -> Compared:
    from privpipe.kernels.linkage.distance import LinkedFile

    first: list[Numbers] = []
    second: list[Numbers] = []
    for before, after in sides:
        both = np.concatenate([before[:n], after])
        own = both[~np.isnan(both)]
        least = own.min(initial=np.inf)
        span = float(own.max() - least) if len(own) else 0.0
        for to, values in ((first, before), (second, after)):
            # From the least value on, as `linkable` does.
            to.append((values - least) / span if span > 0 else np.where(np.isnan(values), np.nan, 0.0))
    coded: list[Any] = [coded_texts(pair, name) for name in texts]
    tables = tuple(table for _, _, table in coded)
    rows = len(pair), pair.released.num_rows
    x, y = (np.column_stack(side) if side else np.zeros((m, 0)) for side, m in zip((first, second), rows, strict=True))
    own_codes = np.column_stack([codes for codes, _, _ in coded])
    labels = np.column_stack([codes for _, codes, _ in coded])
    turned = tuple(None if table is None else np.ascontiguousarray(table.T) for table in tables)
    return Compared(
        LinkedFile(x[:n], own_codes[:n], tables),
        LinkedFile(y, labels, turned),
        LinkedFile(x[n:], own_codes[n:], tables),
        "gower",
    )


def _batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
