"""Columns as codes for models that count: 0 is missing, then categories or cells of numbers, and back to values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.transforms.categories import labelled
from privpipe.transforms.numeric_columns import whole_numbers

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.value_cells import ValueCells

__all__ = ["FOLDED_AWAY", "Codebook", "is_bare"]

FOLDED_AWAY = -1
"""Code of a rare category that is in no other."""


@dataclass(frozen=True)
class Codebook:
    """Codes of one column in one stratum: those of `labels`, or of `cells` where it is a number."""

    labels: tuple[str, ...] = ()
    cells: ValueCells | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return 1 + (len(self.labels) if self.cells is None else len(self.cells))

    @property
    def is_ordered(self) -> bool:
        """Whether codes ascend with values."""
        return self.cells is not None

    def codes(self, column: Any, name: str) -> Ints:
        """Code of each value; -1 for a rare category that is in no other."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from privpipe.kernels.columns.cell_words import scaled_numbers

        if self.cells is not None:
            values, gaps, _ = scaled_numbers(column, name)
            nothing = np.isnan(values) if gaps is None else gaps | np.isnan(values)
            return np.where(nothing, 0, self.cells.cells(values) + 1)
        words = labelled(column)
        found = pc.fill_null(pc.index_in(words, value_set=pa.array(self.labels, pa.string())), -1)
        codes = np.asarray(found.to_numpy(zero_copy_only=False), np.int64) + 1
        rare = self.labels.index("other") + 1 if "other" in self.labels else FOLDED_AWAY
        return np.where((codes == 0) & words.is_valid().to_numpy(zero_copy_only=False), rare, codes)

    def code(self, label: str | None) -> int | None:
        """Code of a category, or of a number that is released unchanged; None for one that never is."""
        if label is None:
            return 0
        if self.cells is None:
            return self.labels.index(label) + 1 if label in self.labels else None
        try:
            at = np.flatnonzero(self.cells.atoms == float(label))
        except ValueError:
            return None
        return int(self.cells.atom_cells[at[0]]) + 1 if len(at) else None

    def outputs(self, codes: Ints) -> Floats:
        """What distinguishes an ordered column's codes: rank and value, in deviations, and whether one is missing."""
        cells = self.cells
        assert cells is not None
        counts = np.bincount(codes, minlength=len(self))
        ranks = np.cumsum(counts) - counts / 2.0
        means = np.concatenate([[0.0], cells.means])
        known = codes > 0
        found = [np.where(known, _scaled(each[codes], known), 0.0) for each in (ranks, means)]
        if not known.all():
            found.append(_scaled(known.astype(np.float64), np.ones_like(known)) * 2.0)
        return np.column_stack(found)

    def features(self, codes: Ints, most: int) -> Ints:
        """What each code says in an additive score, shape (codes, features); of a sample of these codes."""
        from privpipe.kernels.synthesis.additive_scores import category_features, number_features

        counts = np.bincount(codes, minlength=len(self))
        return (
            category_features(counts, most) if self.cells is None else number_features(counts, self.cells.means, most)
        )

    def values(self, codes: Ints, uniforms: Floats, found: Any) -> Any:
        """A column of this Arrow type with the values of these codes; a cell's points by the uniforms."""
        import pyarrow as pa

        if self.cells is None:
            words = pa.array(self.labels, pa.string()).take(pa.array(codes - 1, mask=codes <= 0))
            return words.cast(found)
        sizes = np.array([0, *map(len, self.cells.points)], np.int64)
        first = np.cumsum(sizes) - sizes
        at = first[np.maximum(codes, 0)] + np.floor(uniforms * sizes[np.maximum(codes, 0)]).astype(np.int64)
        missing = sizes[np.maximum(codes, 0)] == 0
        flat = np.array([point for points in self.cells.points for point in points] or [0], self.cells.atoms.dtype)
        values = flat[np.where(missing, 0, np.minimum(at, len(flat) - 1))]
        if pa.types.is_floating(found):
            return pa.array(values.astype(np.float64), pa.float64(), mask=missing).cast(found)
        return whole_numbers(values, missing, found)

    def is_sound(self) -> bool:
        """Whether every code has a value: a book may be read from JSON, which may hold anything."""
        if self.cells is not None:
            return self.cells.is_whole()
        return len(set(self.labels)) == len(self.labels) and all(isinstance(label, str) for label in self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"labels": list(self.labels)} if self.cells is None else {"cells": self.cells.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From that."""
        from privpipe.kernels.synthesis.value_cells import ValueCells

        if "cells" in data:
            return cls(cells=ValueCells.from_dict(data["cells"]))
        return cls(labels=tuple(data["labels"]))


def is_bare(book: Mapping[str, Any]) -> bool:
    """Whether nothing is ever released of a number with this codebook."""
    return "cells" in book and not any(book["cells"]["points"])


def _scaled(values: Floats, known: Bools) -> Floats:
    held = values[known]
    if not len(held):
        return np.zeros(len(values))
    sd = float(held.std())
    return (values - float(held.mean())) / (sd if sd > 0 else 1.0)
