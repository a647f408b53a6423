"""The cells of a contributor that are kept where a contributor may be in so many only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.draws import Seed
from privpipe.kernels.ids.record_ids import content_hash

__all__ = ["KeepCells", "bucket_of"]

BUCKETS = 1024
Ints = NDArray[np.int64]


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
