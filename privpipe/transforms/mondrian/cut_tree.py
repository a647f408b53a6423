"""A tree of cuts as a plan holds it, in codes, and the labels of its leaves."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Codes, Ints
from privpipe.errors import UsageError
from privpipe.transforms.mondrian.cut_columns import CutColumn, Labels, value_codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CutTree", "Leaves", "order_keys"]

ALL = np.iinfo(np.int64).max


@dataclass(frozen=True)
class CutTree:
    """Nodes in preorder and the values its leaves hold, all in codes of the columns' dictionaries.

    Parameters
    ----------
    columns, cuts : ndarray of int64, shape (nodes,)
        Column that a node cuts, -1 for a leaf; records whose code is at most the cut go to the next node.
    ties : ndarray of int64, shape (nodes,)
        Relaxed: of the records at the cut itself, those whose key is at most this go there; strict: all.
    lows, highs : ndarray of int64, shape (leaves, columns cut for labels)
        Least and greatest code present in each leaf.
    """

    columns: Ints = field(repr=False)
    cuts: Ints = field(repr=False)
    ties: Ints = field(repr=False)
    lows: Ints = field(repr=False)
    highs: Ints = field(repr=False)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return int((self.columns < 0).sum())

    @property
    def is_relaxed(self) -> bool:
        """Whether some cut goes through the records of one value."""
        return bool((self.ties[self.columns >= 0] != ALL).any())

    def depths(self) -> Ints:
        """Cuts above each leaf, shape (leaves,)."""
        return self.walked(())[0]

    def cells(self, sizes: Sequence[int]) -> tuple[Ints, Ints]:
        """Ends of each leaf's cell in each column, as the cuts leave them, shape (leaves, columns)."""
        _, first, last = self.walked(sizes)
        return first, last

    def walked(self, sizes: Sequence[int]) -> tuple[Ints, Ints, Ints]:
        """Depth of each leaf, and the ends of its cell in the columns of these sizes."""
        from privpipe.kernels.mondrian.sides import leaf_cells

        found: tuple[Ints, Ints, Ints] = leaf_cells(self.columns, self.cuts, self.ties, np.array(sizes, np.int64))
        return found

    def pruned(self, leaves: Ints) -> tuple[CutTree, Ints]:
        """The tree in which the parents of these leaves are leaves; and the new number of each old leaf."""
        from privpipe.kernels.mondrian.sides import folded

        kept, numbers = folded(self.columns, np.asarray(leaves, np.int64))
        columns = self.columns.copy()
        columns[kept == 2] = -1
        keep = kept > 0
        many = int(numbers.max(initial=-1)) + 1
        lows = np.full((many, self.lows.shape[1]), ALL)
        highs = np.full((many, self.lows.shape[1]), -1, dtype=np.int64)
        np.minimum.at(lows, numbers, self.lows)
        np.maximum.at(highs, numbers, self.highs)
        return CutTree(columns[keep], self.cuts[keep], self.ties[keep], lows, highs), numbers

    def packed(self) -> dict[str, Any]:
        """As text for a plan: little-endian integers of the least width that serves, in base64."""
        arrays = {"columns": self.columns, "cuts": self.cuts, "lows": self.lows.T, "highs": self.highs.T}
        if self.is_relaxed:
            arrays["ties"] = self.ties
        return {"leaves": self.leaves, **{name: _packed(array) for name, array in arrays.items()}}

    @classmethod
    def unpacked(cls, document: Mapping[str, Any]) -> Self:
        """From `packed`."""
        columns, cuts = _unpacked(document["columns"]), _unpacked(document["cuts"])
        leaves = int(document["leaves"])
        ties = _unpacked(document["ties"]) if "ties" in document else np.full(len(columns), ALL)
        lows, highs = (_unpacked(document[name]).reshape(-1, leaves).T for name in ("lows", "highs"))
        found = cls(columns, cuts, ties, lows, highs)
        if not found._is_whole():
            raise UsageError(f"the plan holds a tree of {len(columns)} nodes that is not valid: make a new plan")
        return found

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether its cuts and the ends of its leaves are codes of columns of these sizes."""
        inner = self.columns >= 0
        if self.lows.shape[1] != len(sizes) or int(self.columns.max(initial=-1)) >= len(sizes):
            return False
        most = np.array(sizes, np.int64)
        cut = (self.cuts >= -1) & (self.cuts < most[np.maximum(self.columns, 0)]) if len(most) else ~inner
        return bool((cut | ~inner).all() and ((self.lows >= 0) & (self.lows <= self.highs) & (self.highs < most)).all())

    def _is_whole(self) -> bool:
        """Whether it is a tree in preorder, with ends for each of its leaves: compiled code does not check."""
        nodes = len(self.columns)
        if not nodes or {len(self.cuts), len(self.ties)} != {nodes} or self.lows.shape != self.highs.shape:
            return False
        # Nodes still to come after each: none only after the last.
        waiting = 1 + np.cumsum(np.where(self.columns >= 0, 1, -1))
        whole = bool((waiting[:-1] > 0).all() and waiting[-1] == 0)
        return whole and self.leaves == int((self.columns < 0).sum())


@dataclass(frozen=True)
class Leaves:
    """A function of one block: each record's cells become the labels of its leaf.

    Parameters
    ----------
    columns : tuple of CutColumn
        Those that the tree cuts, in the order in which it numbers them.
    tree : CutTree
    named : mapping of column to pyarrow.DictionaryArray
        Label of each leaf, of the columns that are recoded.
    """

    columns: tuple[CutColumn, ...]
    tree: CutTree
    named: Mapping[str, pa.Array] = field(repr=False)

    @classmethod
    def of(cls, columns: tuple[CutColumn, ...], tree: CutTree, recoded: Sequence[str], labels: Labels) -> Self:
        """From the document of a plan."""
        import pyarrow as pa

        first, last = tree.cells([column.size for column in columns])
        named = {}
        for at, column in enumerate(columns):
            if column.name in recoded:
                numbers, texts = column.named(first[:, at], last[:, at], tree.lows[:, at], tree.highs[:, at], labels)
                named[column.name] = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(texts, pa.string()))
        return cls(columns, tree, named)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        leaves = pa.array(self.numbers(rows))
        for name, labels in self.named.items():
            rows = rows.replace(name, labels.take(leaves).cast(pa.string()))
        return rows

    def numbers(self, rows: RowBlock) -> Ints:
        """Leaf of each record."""
        return self.numbers_of(self.codes(rows), rows)

    def codes(self, rows: RowBlock) -> Codes:
        """Codes of each record, shape (n, columns)."""
        codes = np.empty((len(rows), len(self.columns)), dtype=np.int32)
        for at, column in enumerate(self.columns):
            codes[:, at] = value_codes(column, rows.column(column.name))
        return codes

    def numbers_of(self, codes: Codes, rows: RowBlock) -> Ints:
        """Leaf of each record, its codes being known."""
        from privpipe.kernels.mondrian.sides import leaf_numbers

        keys = order_keys(rows.record_ids) if self.tree.is_relaxed else np.empty(0, np.int64)
        return leaf_numbers(codes, keys, self.tree.columns, self.tree.cuts, self.tree.ties)


def order_keys(record_ids: Ints) -> Ints:
    """What orders records of one value in a relaxed tree: a mix of their keyed ids, in [0, 2^63), shape (n,).

    Examples
    --------
    >>> order_keys(np.array([[1, 2], [1, 2], [2, 1]])).tolist()[0] == order_keys(np.array([[1, 2]])).tolist()[0]
    True
    """
    mixed = np.zeros(len(record_ids), dtype=np.uint64)
    for word in record_ids.T:
        mixed = mixed ^ np.ascontiguousarray(word).view(np.uint64)
        # splitmix64
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(1)).astype(np.int64)


def _packed(array: Ints) -> dict[str, Any]:
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    kind = next(
        kind for kind in ("<i1", "<i2", "<i4", "<i8") if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    return {"type": kind, "base64": base64.b64encode(np.ascontiguousarray(array).astype(kind).tobytes()).decode()}


def _unpacked(document: Mapping[str, Any]) -> Ints:
    words = np.frombuffer(base64.b64decode(document["base64"]), dtype=np.dtype(str(document["type"])))
    return words.astype(np.int64)
