"""Local recoding that visits all vectors of levels in the order of their loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Codes, Ints
from privpipe.progress import within
from privpipe.transforms.local_recoding.rounds import GONE, Tuples
from privpipe.transforms.recoding.encoded_table import EncodedTable
from privpipe.transforms.recoding.labelling import cell_loss, column_loss

__all__ = ["MOST_VECTORS", "Sweep", "column_losses", "lattice_size", "rounds_detail"]

Levels = NDArray[np.int16]
Order = Callable[[Ints], Ints]
UNIT = 1 << 26
"""A loss of 1 as a whole number: no rounding of a processor decides the order of vectors."""
ORDERS: tuple[Order, ...] = (lambda x: x * x // UNIT, lambda x: x, lambda x: x - x * x // (4 * UNIT))
"""The loss of a vector is the sum of its columns' losses: squared, unchanged, or slightly lower for large ones."""
MOST_IN_SEVERAL_ORDERS = 500_000_000
"""Combinations times vectors of a walk; above it only the first order is walked."""
MOST_AGAIN = 20_000_000
"""Combinations times vectors of all the walks that leave a vector out."""
MOST_BACK = 4
"""Ways of taking vectors back that are compared where vectors are left out; elsewhere the first one counts."""
MOST_VECTORS = 200_000
"""Each costs some ten microseconds at least."""


def lattice_size(encoded: EncodedTable | Tuples) -> int:
    """Vectors of levels within the columns' limits."""
    return math.prod(1 + hierarchy.max_level - hierarchy.min_level for hierarchy in encoded.hierarchies)


class Sweep:
    """The vectors that keep something, and the labels that they give each combination.

    What is left only shrinks, so no vector need be seen twice. Where too much is left, the last vectors are taken back
    until one passes for all that is left. Small tables are walked in several orders, and each time again without one
    of the vectors that kept something; the best walk counts.
    """

    def __init__(self, encoded: EncodedTable, tuples: Tuples) -> None:
        self.encoded = encoded
        self.tuples = tuples
        self.made: list[dict[str, Any]] = []
        self.levels = tuples.after(())
        self.checked = 0
        self.backs = 1
        self._free: _Walk | None = None

    def run(self, share: float, allowed: int) -> bool:
        """Walk, and leave at most a number of records; whether the union of all vectors meets the guarantees.

        Parameters
        ----------
        share : float
            Share of all records that a vector must keep.
        allowed : int
            Records with known values that may be left.
        """
        least = math.ceil(share * self.encoded.records)
        size = len(self.encoded) * lattice_size(self.encoded)
        orders = ORDERS if size <= MOST_IN_SEVERAL_ORDERS else ORDERS[:1]
        own = self.tuples.by_class
        again = MOST_AGAIN // max(1, size * len(orders)) if own is not None and own.exact else 0
        self.backs = MOST_BACK if again else 1
        walks = [self._improved(self._vectors(order), least, allowed, again) for order in orders]
        sound = [walk for walk in walks if self.tuples.holds(walk.levels)]
        if not sound:
            return False
        best = min(sound, key=lambda walk: walk.cost)
        self.made, self.levels = best.made(self.encoded.rows.counts), best.levels
        return True

    def unlimited(self) -> Sweep:
        """The walk that loses least, whatever it leaves, with no vector taken back."""
        found = copy(self)
        if self._free is not None:
            found.made, found.levels = self._free.made(self.encoded.rows.counts), self._free.levels
        return found

    def detail(self) -> dict[str, Any]:
        """What a plan states about the vectors."""
        return {"method": "sweep", "rounds": rounds_detail(self.encoded.columns, self.made)}

    @property
    def left(self) -> int:
        """Records with known values that no vector keeps."""
        return self.tuples.left(self.levels)

    @property
    def fewest(self) -> int:
        """The fewest that could be left."""
        return self.left

    def _improved(self, vectors: Levels, least: int, allowed: int, again: int) -> _Walk:
        """A walk, then a limited number of walks without one of its vectors while that costs less."""
        best, at = self._walked(vectors, least, allowed), 0
        while again > 0 and at < len(best.kept):
            own = best.kept[at]
            tried = self._walked(np.delete(best.vectors, own, axis=0), least, allowed)
            again -= 1
            best, at = (tried, 0) if tried.cost < best.cost else (best, at + 1)
        return best

    def _walked(self, vectors: Levels, least: int, allowed: int) -> _Walk:
        places = self.tuples.swept(vectors, least)
        self.checked += len(vectors)
        within("vectors of levels", self.checked)
        walk = self._walk(vectors, places, allowed)
        if self._free is None or walk.cost[1] < self._free.cost[1]:
            self._free = walk
        if not walk.cost[0]:
            return walk
        return min([walk, *self._taken_back(walk, allowed)], key=lambda one: one.cost)

    def _walk(self, vectors: Levels, places: Codes, allowed: int) -> _Walk:
        levels = self.tuples.levels_of(places, vectors)
        left = self.tuples.left(levels)
        loss = cell_loss(list(column_losses(self.encoded, levels, left).values()))
        # Too much left is worse than any loss.
        return _Walk(vectors, places, levels, (max(0, left - allowed), loss))

    def _vectors(self, order: Order) -> Levels:
        """Every vector of levels, the one that loses least first; ties in lexicographic order."""
        nodes = self.encoded.nodes()
        loss = np.zeros(len(nodes), dtype=np.int64)
        for at, own in enumerate(self._losses):
            loss += order(own)[nodes[:, at]]
        return np.ascontiguousarray(nodes[np.argsort(loss, kind="stable")])

    @cached_property
    def _losses(self) -> list[Ints]:
        """Mean loss of each column at each of its levels, in units."""
        found, counts = [], self.encoded.rows.counts
        for at, hierarchy in enumerate(self.encoded.hierarchies):
            domain = hierarchy.domain_size
            leaves = np.bincount(self.encoded.codes[:, at], weights=counts, minlength=len(hierarchy.shares(0)))
            lost = []
            for level in range(hierarchy.height + 1):
                own = (hierarchy.shares(level) * domain - 1.0) / max(domain - 1.0, 1.0) * (domain > 1)
                units = np.rint(own * UNIT).astype(np.int64).tolist()
                total = sum(int(count) * unit for count, unit in zip(leaves.tolist(), units, strict=True))
                lost.append(total // int(counts.sum()))
            found.append(np.array(lost, dtype=np.int64))
        return found

    def _taken_back(self, walk: _Walk, allowed: int) -> list[_Walk]:
        """The last 0, 1, 2, ... vectors taken back, with the cheapest one at which all that is left then passes."""
        counts, found = self.encoded.rows.counts, list[_Walk]()
        for back in range(len(walk.kept) + 1):
            first = walk.kept[len(walk.kept) - back] if back else len(walk.vectors)
            rest = np.flatnonzero((walk.places < 0) | (walk.places >= first))
            last = None if counts[rest].sum() <= allowed else self._for_all(walk.vectors, rest)
            if last is None:
                continue
            places = walk.places.copy()
            places[rest] = len(walk.vectors)
            found.append(self._walk(np.vstack([walk.vectors, [last]]).astype(np.int16), places, allowed))
            if len(found) == self.backs:
                break
        return found

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


def rounds_detail(columns: Sequence[str], made: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Vectors of levels as a plan holds them, with the records that each keeps."""
    return [
        {
            "levels": dict(zip(columns, one["vector"], strict=True)),
            **{name: figure for name, figure in one.items() if name != "vector"},
        }
        for one in made
    ]


def column_losses(encoded: EncodedTable | Tuples, levels: Levels, gone: int) -> dict[str, float]:
    """Loss of each column where each combination has its own levels, in [0, 1]."""
    kept = np.flatnonzero(levels[:, 0] != GONE)
    found = {}
    for at, (column, hierarchy) in enumerate(zip(encoded.columns, encoded.hierarchies, strict=True)):
        table = np.array([hierarchy.shares(level) for level in range(hierarchy.height + 1)])
        shares = table[levels[kept, at], encoded.codes[kept, at]]
        found[column] = column_loss(encoded.rows.counts[kept], shares, hierarchy.domain_size, gone)
    return found


@dataclass(frozen=True)
class _Walk:
    """What one walk made of the combinations: the vector that keeps each, and its levels.

    Its cost is the records left beyond those allowed, then the loss.
    """

    vectors: Levels = field(repr=False)
    places: Codes = field(repr=False)
    levels: Levels = field(repr=False)
    cost: tuple[int, float]

    @cached_property
    def kept(self) -> list[int]:
        """Places of the vectors that keep something."""
        return [int(at) for at in np.unique(self.places[self.places >= 0])]

    def made(self, counts: Ints) -> list[dict[str, Any]]:
        """The rounds of a plan, with the records that each keeps."""
        own = self.places >= 0
        records = np.bincount(self.places[own], weights=counts[own], minlength=len(self.vectors))
        return [{"vector": tuple(self.vectors[at].tolist()), "records": int(records[at])} for at in self.kept]
