"""Whole equivalence classes as three arrays: offsets, value codes, counts. No class key among them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.cells import Cells
from privpipe.blocks.facts import Histogram
from privpipe.blocks.held_values import HeldValues

__all__ = ["Cells", "ClassBlock", "ClassQuery"]


@dataclass(frozen=True, kw_only=True)
class ClassQuery:
    """What an engine is asked to count.

    Parameters
    ----------
    keys : tuple of str
        The quasi-identifiers; records equal on all of them (null equals null) form a class. Empty: one class.
    columns : tuple of str
        Sensitive columns whose values are counted within each class.
    dictionaries : mapping of column to Histogram
        Columns whose codes must be positions in that histogram. For the others a code only tells values of one
        class apart.
    mark : str or None
        A class of records whose every key is this text, or missing where it is no text, comes with `marked` set: all
        suppressed records are in it, and maybe others.
    person : str or None
        Count distinct values of this column instead of records; the block then has `held` too.
    weight : str or None
        Sum this column per class into `ClassBlock.weights`.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...] = ()
    dictionaries: Mapping[str, Histogram] = field(default_factory=dict, repr=False)
    mark: str | None = None
    person: str | None = None
    weight: str | None = None


@dataclass(frozen=True)
class ClassBlock:
    """Some whole classes of a class table.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_classes,)
        n_c, records (or persons) of each class, at least 1; beside a population 0 for its classes without a record.
    cells : mapping of column to Cells
    marked : ndarray of bool, shape (n_classes,), or None
        Classes whose every key is the suppression mark, or missing where the key is no text.
    population : ndarray of int64, shape (n_classes,), or None
        F_c, size of the class in the population table; 0 where the population lacks it.
    weights : ndarray of float64, shape (n_classes,), or None
        Sum of the sampling weights of the class; under wildcard matching of all records that match.
    matching : ndarray of int64, shape (n_classes,), or None
        Under wildcard matching the "classes" are distinct patterns, and this is w, the records that match each.
    partial : ndarray of int64, shape (n_classes,), or None
        Where weights are summed under wildcard matching: records in w that hold blanks and are of another pattern.
    partial_weights : ndarray of float64, shape (n_classes,), or None
        Sum of the weights of those.
    complete : ndarray of bool, shape (n_classes,), or None
        Under wildcard matching: patterns without a blank.
    held : mapping of column to HeldValues
        Where persons are counted: which values each of them has. A cell counts the persons who have its value, so that
        the cells of a class may add up to more than its size: a share of a value is its count divided by the size.

    Examples
    --------
    >>> block = ClassBlock(np.array([3, 2]))
    >>> len(block), block.records
    (2, 5)
    """

    sizes: NDArray[np.int64]
    cells: Mapping[str, Cells] = field(default_factory=dict)
    marked: NDArray[np.bool_] | None = None
    population: NDArray[np.int64] | None = None
    weights: NDArray[np.float64] | None = None
    matching: NDArray[np.int64] | None = None
    partial: NDArray[np.int64] | None = None
    partial_weights: NDArray[np.float64] | None = None
    complete: NDArray[np.bool_] | None = None
    held: Mapping[str, HeldValues] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sizes)

    @functools.cached_property
    def records(self) -> int:
        """Records in these classes."""
        return int(self.sizes.sum())

    @property
    def alike(self) -> NDArray[np.int64]:
        """Records that a record of each class is like: the class's size, or what matches it under wildcards."""
        return self.sizes if self.matching is None else self.matching

    @property
    def alone(self) -> int | None:
        """Complete records that equal no other complete record; None but under wildcard matching."""
        return None if self.complete is None else int((self.complete & (self.sizes == 1)).sum())

    def value_sets(self, column: str) -> Cells:
        """The cells that distinct, entropy and recursive l-diversity and p-sensitivity count.

        Those of the values; where persons are counted, those of the set of values that each person has in the class,
        a class of which all have some value in common being of a single value.
        """
        held = self.held.get(column)
        return self.cells[column] if held is None else held.sets(len(self))

    def take(self, chosen: NDArray[np.bool_]) -> ClassBlock:
        """The chosen classes (a mask over classes)."""
        return ClassBlock(
            self.sizes[chosen],
            {name: cells.take(chosen) for name, cells in self.cells.items()},
            None if self.marked is None else self.marked[chosen],
            None if self.population is None else self.population[chosen],
            None if self.weights is None else self.weights[chosen],
            None if self.matching is None else self.matching[chosen],
            None if self.partial is None else self.partial[chosen],
            None if self.partial_weights is None else self.partial_weights[chosen],
            None if self.complete is None else self.complete[chosen],
            {name: held.take(chosen) for name, held in self.held.items()},
        )

    def released(self) -> ClassBlock:
        """Without the class of the mark, if it is here."""
        if self.marked is None or not self.marked.any():
            return self
        return self.take(~self.marked)

    def split(self, classes: int) -> Iterator[ClassBlock]:
        """Blocks of at most so many classes each."""
        if len(self) <= classes:
            yield self
            return
        for start in range(0, len(self), classes):
            chosen = np.zeros(len(self), dtype=np.bool_)
            chosen[start : start + classes] = True
            yield self.take(chosen)
