"""Local recoding that visits all vectors of levels in the order of their loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.transforms.local_recoding.cell_loss import cell_loss, column_loss
from privpipe.transforms.local_recoding.rounds import GONE, Tuples
from privpipe.transforms.recoding.encoded import EncodedTable

__all__ = ["MOST_VECTORS", "Sweep", "column_losses", "lattice_size"]

Levels = NDArray[np.int16]
Order = Callable[[NDArray[np.float64]], NDArray[np.float64]]
ORDERS: tuple[Order, ...] = (np.square, np.positive, np.log1p)
"""A vector loses the sum of what its columns lose: squared, as they are, and as the geometric mean has it."""
MOST_IN_SEVERAL_ORDERS = 50_000
"""Combinations; above it the first order alone is walked."""
MOST_VECTORS = 200_000
"""Each costs some ten microseconds at the least."""


def lattice_size(encoded: EncodedTable) -> int:
    """Vectors of levels within the columns' limits."""
    return math.prod(1 + hierarchy.max_level - hierarchy.min_level for hierarchy in encoded.hierarchies)


class Sweep:
    """The vectors that keep something, and what they make of each combination.

    What is left only shrinks, so no vector need be seen twice. Where too much is left, the last vectors are taken back
    until one passes for all that is left. Small tables are walked in several orders, and the best walk counts.
    """

    def __init__(self, encoded: EncodedTable, tuples: Tuples) -> None:
        self.encoded = encoded
        self.tuples = tuples
        self.made: list[dict[str, Any]] = []
        self.levels = tuples.after(())
        self.checked = 0

    def run(self, share: float, allowed: int) -> bool:
        """Walk, and leave no more than so many records; whether the union of all vectors meets the guarantees.

        Parameters
        ----------
        share : float
            Of all records, what a vector must keep.
        allowed : int
            Records with known values that may be left.
        """
        least = math.ceil(share * self.encoded.records)
        orders = ORDERS if len(self.encoded) <= MOST_IN_SEVERAL_ORDERS else ORDERS[:1]
        walks = [self._walked(order, least, allowed) for order in orders]
        sound = [walk for walk in walks if self.tuples.holds(walk.levels)]
        if not sound:
            return False
        # Too much left is worse than any loss.
        best = min(sound, key=lambda walk: (max(0, self._left(walk.levels) - allowed), self._loss(walk.levels)))
        self.made, self.levels = best.made, best.levels
        return True

    @property
    def left(self) -> int:
        """Records with known values that no vector keeps."""
        return self._left(self.levels)

    @property
    def fewest(self) -> int:
        """The fewest that could be left."""
        return self.left

    def _left(self, levels: Levels) -> int:
        return int(self.encoded.rows.counts[levels[:, 0] == GONE].sum())

    def _loss(self, levels: Levels) -> float:
        return cell_loss(list(column_losses(self.encoded, levels, self._left(levels)).values()))

    def _walked(self, order: Order, least: int, allowed: int) -> _Walk:
        vectors = self._vectors(order)
        places = self.tuples.swept(vectors, least)
        self.checked += len(vectors)
        kept = np.unique(places[places >= 0]).tolist()
        levels, counts = self.tuples.levels_of(places, vectors), self.encoded.rows.counts
        if self._left(levels) > allowed:
            return self._taken_back(vectors, places, kept, allowed) or _Walk(
                self._made(vectors, places, kept, counts), levels
            )
        return _Walk(self._made(vectors, places, kept, counts), levels)

    def _vectors(self, order: Order) -> Levels:
        """Every vector of levels, the one that loses least first; ties in lexicographic order."""
        nodes = self.encoded.nodes()
        loss = np.zeros(len(nodes), dtype=np.float64)
        for at in range(len(self.encoded.hierarchies)):
            loss += order(self._losses[at])[nodes[:, at]]
        return np.ascontiguousarray(nodes[np.argsort(loss, kind="stable")])

    @cached_property
    def _losses(self) -> list[NDArray[np.float64]]:
        """Mean loss of each column at each of its levels, in [0, 1]."""
        found, counts = [], self.encoded.rows.counts
        for at, hierarchy in enumerate(self.encoded.hierarchies):
            domain = hierarchy.domain_size
            leaves = np.bincount(self.encoded.codes[:, at], weights=counts, minlength=len(hierarchy.shares(0)))
            lost = [
                math.fsum((leaves * (hierarchy.shares(level) * domain - 1.0)).tolist())
                for level in range(hierarchy.height + 1)
            ]
            found.append(np.array(lost) / (float(counts.sum()) * max(domain - 1.0, 1.0)) * (domain > 1))
        return found

    def _made(
        self, vectors: Levels, places: NDArray[np.int32], kept: list[int], counts: NDArray[np.int64]
    ) -> list[dict[str, Any]]:
        own = places >= 0
        records = np.bincount(places[own], weights=counts[own], minlength=len(vectors))
        return [{"vector": tuple(vectors[at].tolist()), "records": int(records[at])} for at in kept]

    def _taken_back(self, vectors: Levels, places: NDArray[np.int32], kept: list[int], allowed: int) -> _Walk | None:
        """Take the last 0, 1, 2, ... vectors back until one passes for all that is left then, the cheapest one."""
        counts = self.encoded.rows.counts
        for back in range(len(kept) + 1):
            first = kept[len(kept) - back] if back else len(vectors)
            rest = np.flatnonzero((places < 0) | (places >= first))
            if int(counts[rest].sum()) <= allowed:
                continue
            last = self._for_all(vectors, rest)
            if last is not None:
                made = self._made(vectors, places, kept[: len(kept) - back], counts)
                made.append({"vector": last, "records": int(counts[rest].sum())})
                again = places.copy()
                again[rest] = len(vectors)
                return _Walk(made, self.tuples.levels_of(again, np.vstack([vectors, [last]])))
        return None

    def _for_all(self, vectors: Levels, rest: NDArray[np.intp]) -> tuple[int, ...] | None:
        from privpipe.kernels.lattice.sweep import next_vector

        own, at = self.tuples.by_class, -1
        while own is not None:
            at, _ = next_vector(own.coded, vectors, rest, own.k, own.values, first=at + 1, whole=True)
            self.checked += len(vectors) if at < 0 else at + 1
            if at < 0:
                return None
            vector: tuple[int, ...] = tuple(vectors[at].tolist())
            if own.exact or self.tuples.passing(rest, vector):
                return vector
        return None


def column_losses(encoded: EncodedTable, levels: Levels, gone: int) -> dict[str, float]:
    """Loss of each column where each combination has levels of its own, in [0, 1]."""
    kept = np.flatnonzero(levels[:, 0] != GONE)
    found = {}
    for at, (column, hierarchy) in enumerate(zip(encoded.columns, encoded.hierarchies, strict=True)):
        table = np.array([hierarchy.shares(level) for level in range(hierarchy.height + 1)])
        shares = table[levels[kept, at], encoded.codes[kept, at]]
        found[column] = column_loss(encoded.rows.counts[kept], shares, hierarchy.domain_size, gone)
    return found


@dataclass(frozen=True)
class _Walk:
    """What one walk made of the combinations."""

    made: list[dict[str, Any]]
    levels: Levels
