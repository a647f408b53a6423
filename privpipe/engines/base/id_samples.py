"""Samples of records by their ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privpipe.blocks import RowBlock

__all__ = ["FirstIds", "last_id_of"]


def last_id_of(share: float) -> int:
    """The largest first word of an id among the first `share` of all ids, which lie evenly over 64 bits.

    Examples
    --------
    >>> last_id_of(1.0) == 2**63 - 1, last_id_of(0.5), last_id_of(0.0) == -(2**63)
    (True, 0, True)
    """
    return min(int(share * 2.0**64 - 2.0**63), 2**63 - 1)


@dataclass(frozen=True)
class FirstIds:
    """The rows whose id has a first word of at most `last`."""

    last: int

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.record_ids[:, 0] <= self.last))
