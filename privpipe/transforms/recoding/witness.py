"""Witnesses: records whose class is known at every vector of levels at once.

A vector of levels at which a record's class fails loses that record. One pass over the table shows so for the whole
lattice, for any rule that each class must meet by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock
from privpipe.kernels.lattice.vectors import class_everywhere
from privpipe.kernels.lattice.witnesses import added_up, chosen_witnesses
from privpipe.models import KAnonymity
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck, Round

__all__ = ["Witnesses"]

Keys = tuple[str, ...]
LARGEST = 1 << 24
"""Entries of a class's profile over the lattice; beyond it no witness is called."""


class Witnesses:
    """Records called so far, and what each vector of levels loses of them.

    Parameters
    ----------
    check : NodeCheck
    shape : tuple of int
        Levels of each column: nodes are in lexicographic order.
    """

    def __init__(self, check: NodeCheck, shape: tuple[int, ...]) -> None:
        self._check = check
        self._shape = shape
        strides = np.concatenate([np.cumprod(np.array(shape[::-1], dtype=np.int64))[::-1][1:], [1]])
        self._strides: list[int] = [int(stride) for stride in strides]
        self._nodes = int(np.prod(shape, dtype=np.int64))
        self._lost = np.full(self._nodes, check.table.unknown, dtype=np.int64)
        self._called: set[int] = set()
        self._rarity = _rarity(check)

    @property
    def called(self) -> int:
        """Combinations called."""
        return len(self._called)

    def serves(self) -> bool:
        """Whether there are rules a witness can speak to, and memory to hear it."""
        check = self._check
        widths = [check._values[column] for column in check.sets.sensitive] or [1]
        return check.counts_records and bool(check.sets.class_models) and self._nodes * max(widths) <= LARGEST

    def lost(self, node: CheckedNode, alive: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Call up to `most` records of failing classes of a node; records lost at least at each node of `alive`."""
        for keys, each in node.rounds.items():
            for row in self._chosen(each, most):
                self._call(keys, row, alive)
        found: NDArray[np.int64] = self._lost[alive]
        return found

    def _chosen(self, each: Round, most: int) -> list[int]:
        """Rows of failing classes: of the smallest the rarest, then those that differ most from all before."""
        asked = each.classes.spread(each.failing)
        asked[list(self._called)] = False
        codes = self._check.table.codes
        rows: list[int] = chosen_witnesses(asked, each.numbers, each.sizes, self._rarity, codes, most).tolist()
        return rows

    def _call(self, keys: Keys, row: int, alive: NDArray[np.int64]) -> None:
        check = self._check
        self._called.add(row)
        models = check.sets.class_models[keys]
        tables = check.packed.meetings(row, keys, self._strides)
        nothing = np.zeros(len(check.table), dtype=np.int32)
        columns = tuple(dict.fromkeys(column for model in models for column in model.sensitive_columns()))
        profiles = {}
        for column in columns or ("",):
            profiles[column] = class_everywhere(
                check.packed.codes,
                tables,
                check._codes[column] if column else nothing,
                check.table.rows.counts,
                self._shape,
                check._values[column] if column else 1,
            )[alive]
        sizes = next(iter(profiles.values())).sum(axis=1)
        fails = sizes < max(model.least_size() for model in models)
        others = [model for model in models if type(model) is not KAnonymity]
        if others and not fails.all():
            large = np.flatnonzero(~fails)
            cells = {column: _cells(profiles[column][large]) for column in columns}
            block = ClassBlock(sizes[large], cells)
            for model in others:
                fails[large] |= ~model.passing(block, check.context.base)
        self._lost[alive[fails]] += check.table.rows.counts[row]


def _cells(profile: NDArray[np.int64]) -> Cells:
    """Cells of classes given by their whole histograms, shape (n, values)."""
    places, codes = np.nonzero(profile)
    lengths = np.bincount(places, minlength=len(profile))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Cells(offsets, codes.astype(np.int64), profile[places, codes])


def _rarity(check: NodeCheck) -> NDArray[np.float64]:
    """How common each combination's values are: the sum of the logarithms of their records."""
    table = check.table
    totals = table.packed.totals(table.rows.counts).astype(np.float64)
    ends = np.cumsum([len(own[0][1]) for own in table.lookups])
    starts = np.concatenate([[0], ends[:-1]])
    return np.round(added_up(table.codes, np.log(np.maximum(totals, 1.0)), starts), 9)
