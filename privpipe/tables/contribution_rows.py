"""What is made of contributions before they are added up: those of few cells, clipped values, and keys."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.aggregate_query import AggregateMeasure, AggregateQuery
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.hierarchies import canonical_text
from privpipe.kernels.ids.record_ids import content_hash
from privpipe.tables.leaf_totals import Grid

__all__ = [
    "PURPOSE",
    "ContributionRows",
    "KeepCells",
    "bucket_of",
    "cell_key",
    "cell_keys_of",
    "key_of_sums",
    "keyed_contributions",
    "record_keys",
]


PURPOSE = "privpipe/record-key/1"
DIGITS = 16
KEY = "__privpipe_record_key_"
ONE = 1 << 32
Measured = tuple[str, str]
"""Purpose and measure of a key."""


def key_of_sums(seed: Seed, purpose: str, measure: str) -> bytes:
    """What keys the record keys of a measure: counts have the purpose itself, each sum one of its own."""
    return seed.bound(PURPOSE, *([purpose] if measure == "count" else [purpose, measure]))


def record_keys(key: bytes, contributors: Sequence[str]) -> NDArray[np.int64]:
    """A key below 2^32 for each contributor: the first four bytes of the HMAC-SHA256 of its canonical text.

    Examples
    --------
    >>> keys = record_keys(b"key", ["anna", "ben", "anna"])
    >>> bool(keys[0] == keys[2]), bool(0 <= keys.min() and keys.max() < 2**32)
    (True, True)
    """
    starts = b"".join(hmac.digest(key, text.encode(), "sha256")[:4] for text in contributors)
    return np.frombuffer(starts, dtype=">u4").astype(np.int64)


def cell_key(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """The key of each cell from the sum of its contributors' keys, of which 2^31 add up in int64."""
    return np.asarray(sums, dtype=np.int64) & (ONE - 1)


@dataclass(frozen=True, kw_only=True)
class ContributionRows:
    """A function of a block of contributions, one row for each contributor and cell.

    Parameters
    ----------
    person : str or None
        Column of the contributor; None: each row is one, and its record id distinguishes it.
    bounds : mapping of column to (int, int)
        What contributions are clipped to, in units; null stays null.
    keys : mapping of str to (bytes, str or None)
        Columns that are added: record keys under a key, of all rows, or 0 where this column is null or 0.
    """

    person: str | None
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    keys: Mapping[str, tuple[bytes, str | None]] = field(default_factory=dict, repr=False)

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Columns that come out."""
        return pa.schema([*source, *((name, pa.int64()) for name in self.keys)])

    def __call__(self, rows: RowBlock) -> RowBlock:
        columns = {name: rows.column(name) for name in rows.schema.names}
        own, place = self._contributors(rows) if self.keys else ([], np.zeros(0, dtype=np.int64))
        for name, (key, contribution) in self.keys.items():
            drawn = record_keys(key, own)[place]
            if contribution is not None:
                given = pc.fill_null(columns[contribution], 0).to_numpy(zero_copy_only=False)
                drawn = np.where(given != 0, drawn, 0)
            columns[name] = pa.array(drawn, pa.int64())
        for name, (least, most) in self.bounds.items():
            columns[name] = pc.min_element_wise(
                pc.max_element_wise(columns[name], least, skip_nulls=False), most, skip_nulls=False
            )
        return rows.with_batch(pa.record_batch(list(columns.values()), names=list(columns)))

    def _contributors(self, rows: RowBlock) -> tuple[list[str], NDArray[np.int64]]:
        """Texts of the contributors, each once, and which of them each row is of."""
        if self.person is not None:
            coded = canonical_text(rows.column(self.person), None).dictionary_encode()
            place = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            return coded.dictionary.to_pylist(), place
        words = np.ascontiguousarray(rows.record_ids).view(np.uint64).reshape(len(rows), -1)
        return ["".join(f"{word:0{DIGITS}x}" for word in row) for row in words.tolist()], np.arange(len(rows))


def keyed_contributions(
    engine: Engine,
    contributions: Any,
    query: AggregateQuery,
    person: str | None,
    bounds: Mapping[str, tuple[int, int]],
    keys: Mapping[Measured, tuple[bytes, str | None]],
) -> tuple[Any, AggregateQuery]:
    """Contributions that are clipped and have keys of their contributors, and the query that adds the keys up too.

    Parameters
    ----------
    contributions : Table
        Of the engine, one row for each contributor and cell.
    bounds, keys
        As of `ContributionRows`; a key by its purpose and measure.

    Raises
    ------
    UsageError
        Contributors are records without ids.
    """
    if not keys and not bounds:
        return contributions, query
    if person is None and keys and not getattr(contributions, "has_record_ids", False):
        raise UsageError("cell keys belong to contributors: name the column that distinguishes them, `person_id`")
    names = [f"{KEY}{at}" for at in range(len(keys))]
    function = ContributionRows(person=person, bounds=bounds, keys=dict(zip(names, keys.values(), strict=True)))
    made = engine.map_rows(contributions, function, function.schema(contributions.schema))
    more = tuple(AggregateMeasure(column=name, once=True) for name in names)
    return made, replace(query, measures=(*query.measures, *more))


def cell_keys_of(grid: Grid, keys: Mapping[Measured, bytes]) -> dict[Measured, NDArray[np.int64]]:
    """The key of each cell: the sum of its contributors' keys, modulo 2^32."""
    first = len(grid.query.measures) - len(keys)
    return {which: cell_key(grid.figures[f"total_{first + at}"]) for at, which in enumerate(keys)}


BUCKETS = 1024


def _words(rows: RowBlock, columns: tuple[str, ...], secret: bytes, purpose: str) -> NDArray[np.uint64]:
    """Keyed hashes of some columns, 128 bits a row."""
    seed = Seed(Seed(secret).key(f"tables/contribution-bound/{purpose}"))
    found = np.ascontiguousarray(content_hash(rows.batch.select(list(columns)), seed))
    return found.view(np.uint64)


@dataclass(frozen=True)
class bucket_of:  # noqa: N801 - a function of a block that pickles
    """The key of groups that hold all contributions of each of their contributors."""

    person: str
    secret: bytes = field(repr=False)

    def __call__(self, rows: RowBlock) -> Ints:
        return (_words(rows, (self.person,), self.secret, "person")[:, 0] % np.uint64(BUCKETS)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class KeepCells:
    """A function of whole contributors that keeps the first cells of each, in an order keyed to contributor and cell.

    Parameters
    ----------
    person : str
    keys : tuple of str
    bound : int
    secret : bytes
    """

    person: str
    keys: tuple[str, ...]
    bound: int
    secret: bytes = field(repr=False)

    def __call__(self, rows: RowBlock, bucket: int) -> RowBlock:
        if not len(rows):
            return rows
        persons = _words(rows, (self.person,), self.secret, "person")
        order = _words(rows, (self.person, *self.keys), self.secret, "cell")
        placed = np.lexsort((order[:, 1], order[:, 0], persons[:, 1], persons[:, 0]))
        sorted_persons = persons[placed]
        fresh = np.ones(len(placed), dtype=np.bool_)
        fresh[1:] = (sorted_persons[1:] != sorted_persons[:-1]).any(axis=1)
        starts = np.flatnonzero(fresh)
        ranks = np.arange(len(placed)) - np.repeat(starts, np.diff(np.append(starts, len(placed))))
        return rows.take(np.sort(placed[ranks < self.bound]))
