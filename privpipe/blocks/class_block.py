"""Whole equivalence classes as arrays, without keys: values and who holds them, distinct combinations, tallies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.facts import Histogram
from privpipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "INFORMATION",
    "Cells",
    "ClassBlock",
    "ClassQuery",
    "DistinctBlock",
    "HeldValues",
    "Tally",
    "added",
    "information_lost",
    "weights_of",
]


T = TypeVar("T")


class Cells:
    """The cells (class, value, count) of one sensitive column, compressed by class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``; no class is empty.
    codes : ndarray of int64, shape (n_cells,)
        Ascending and distinct within a class.
    counts : ndarray of int64, shape (n_cells,)
        At least 1.
    """

    __slots__ = ("_memory", "codes", "counts", "offsets")

    def __init__(self, offsets: Ints, codes: Ints, counts: Ints) -> None:
        self.offsets = offsets
        self.codes = codes
        self.counts = counts
        self._memory: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def once(self, name: str, compute: Callable[[Cells], T]) -> T:
        """Compute a figure per class at most once a block, however many models ask for it."""
        if name not in self._memory:
            self._memory[name] = compute(self)
        return self._memory[name]  # type: ignore[return-value]

    def __getstate__(self) -> tuple[Ints, ...]:
        return self.offsets, self.codes, self.counts

    def __setstate__(self, state: tuple[Ints, ...]) -> None:
        self.offsets, self.codes, self.counts = state
        self._memory = {}

    def take(self, chosen: Bools) -> Cells:
        """The cells of the chosen classes (a mask over classes)."""
        lengths = np.diff(self.offsets)
        kept = np.repeat(chosen, lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64)
        return Cells(offsets, self.codes[kept], self.counts[kept])


class HeldValues:
    """The values of one sensitive column that each person has in each class, a row for each; rows may repeat.

    Parameters
    ----------
    classes : ndarray of int64, shape (n,)
        Class of each row.
    persons : ndarray of int64, shape (n,)
        Number of the person (or household), the same in all classes.
    codes : ndarray of int64, shape (n,)
        The value, equal within a class exactly where values are.
    counts : ndarray of int64, shape (n,), optional
        Persons that a row stands for, the same in all rows of a number; default: 1.
    """

    __slots__ = ("_sets", "classes", "codes", "counts", "persons")

    def __init__(self, classes: Ints, persons: Ints, codes: Ints, counts: Ints | None = None) -> None:
        self.classes = classes
        self.persons = persons
        self.codes = codes
        self.counts = np.ones(len(codes), dtype=np.int64) if counts is None else counts
        self._sets: Cells | None = None

    def __getstate__(self) -> tuple[Ints, ...]:
        return self.classes, self.persons, self.codes, self.counts

    def __setstate__(self, state: tuple[Ints, ...]) -> None:
        self.classes, self.persons, self.codes, self.counts = state
        self._sets = None

    def rows(self, kept: Bools) -> HeldValues:
        """Some of the rows, shape (n,)."""
        return HeldValues(self.classes[kept], self.persons[kept], self.codes[kept], self.counts[kept])

    def take(self, chosen: Bools) -> HeldValues:
        """What the chosen classes hold (a mask over classes), which are numbered again."""
        found = self.rows(chosen[self.classes])
        found.classes = (np.cumsum(chosen) - 1)[found.classes].astype(np.int64)
        return found

    def sets(self, classes: int) -> Cells:
        """The cells of each class over sets of values: a person's value is the set of those she has in the class.

        A class in which all persons share some value counts as one of a single value: anyone who finds a person there
        knows it. Where each person has one value, the cells are those of values.

        Parameters
        ----------
        classes : int
            How many there are.

        Examples
        --------
        Three persons with the sets {1}, {1, 2} and {2}; two persons with {1, 2} and {1, 3}, who both have 1.

        >>> held = HeldValues(*np.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 2, 3, 3, 4, 4], [1, 1, 2, 2, 1, 2, 1, 3]]))
        >>> cells = held.sets(2)
        >>> cells.offsets.tolist(), cells.counts.tolist()
        ([0, 3, 4], [1, 1, 1, 2])
        """
        if self._sets is None:
            self._sets = self._counted(classes)
        return self._sets

    def _counted(self, classes: int) -> Cells:
        order = np.lexsort((self.codes, self.persons, self.classes))
        owner, person, code = self.classes[order], self.persons[order], self.codes[order]
        fresh = _changes(owner, person, code)
        owner, person, code, many = owner[fresh], person[fresh], code[fresh], self.counts[order][fresh]
        starts = np.flatnonzero(_changes(owner, person))
        members, weights = owner[starts], many[starts]
        names = _names(members, starts, code, classes)
        names = np.where(_shared(owner, code, many, members, weights, classes)[members], members, names)
        order = np.lexsort((names, members))
        first = np.flatnonzero(_changes(members[order], names[order]))
        counts = np.add.reduceat(weights[order], first) if len(first) else weights
        own = np.bincount(members[order][first], minlength=classes)
        return Cells(np.concatenate([[0], np.cumsum(own)]).astype(np.int64), names[order][first], counts)


def _names(members: Ints, starts: Ints, codes: Ints, classes: int) -> Ints:
    """A number from `classes` on for each set of sorted codes, equal exactly for equal sets of one class."""
    lengths = np.diff(np.append(starts, len(codes)))
    dense = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    width = int(dense.max(initial=0)) + 1
    names, following = members.astype(np.int64), classes
    longest_first = np.argsort(-lengths, kind="stable")
    for at in range(int(lengths.max(initial=0))):
        going = longest_first[: int(np.searchsorted(-lengths[longest_first], -at))]
        steps, number = np.unique(names[going] * width + dense[starts[going] + at], return_inverse=True)
        names[going] = following + number.reshape(-1)
        following += len(steps)
    return names


def _shared(owner: Ints, code: Ints, many: Ints, members: Ints, weights: Ints, classes: int) -> Bools:
    """In which classes all persons have some value, shape (classes,)."""
    order = np.lexsort((code, owner))
    first = np.flatnonzero(_changes(owner[order], code[order]))
    sizes, most = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    np.add.at(sizes, members, weights)
    if len(first):
        np.maximum.at(most, owner[order][first], np.add.reduceat(many[order], first))
    shared: Bools = most == sizes
    return shared


def _changes(*columns: Ints) -> Bools:
    """Which rows differ from the row before."""
    changes = np.ones(len(columns[0]), dtype=np.bool_)
    changes[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changes


@dataclass(frozen=True)
class DistinctBlock:
    """Every combination of some columns as codes, with its records; what the codes stand for stays behind.

    Parameters
    ----------
    columns : tuple of str
        m of them.
    codes : ndarray of int64, shape (t, m)
        Equal codes of a column are equal values; a missing value has its own code.
    counts : ndarray of int64, shape (t,)
        Records of each combination, all at least 1.
    blanks : ndarray of bool, shape (t, m), or None
        Cells without a value, or with the text that stands for any; None: none.
    weights : ndarray of float64, shape (t,), or None
        Sampling weight of every record of the combination; one that occurs with several weights stands there for each.
    """

    columns: tuple[str, ...]
    codes: Ints = field(repr=False)
    counts: Ints = field(repr=False)
    blanks: Bools | None = field(default=None, repr=False)
    weights: Floats | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def records(self) -> int:
        """Records counted."""
        return int(self.counts.sum())

    def of(self, columns: Sequence[str]) -> DistinctBlock:
        """Some of the columns; combinations may then occur several times."""
        places = [self.columns.index(column) for column in columns]
        blanks = None if self.blanks is None else self.blanks[:, places]
        return DistinctBlock(tuple(columns), self.codes[:, places], self.counts, blanks, self.weights)

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        columns: Sequence[str],
        *,
        wildcard: str | None = None,
        weight: str | None = None,
    ) -> DistinctBlock:
        """The codes of an engine's distinct table.

        A cell without a value, or with the text `wildcard`, is blank. With `weight` the table is also distinct on that
        column.

        Raises
        ------
        DataError
            A record without a weight.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"zip": ["a", None, "*"], "__count": [2, 3, 4]})
        >>> block = DistinctBlock.from_table(table, ["zip"], wildcard="*")
        >>> block.blanks.tolist(), block.records
        ([[False], [True], [True]], 9)
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        counts = table["__count"].to_numpy().astype(np.int64)
        codes = np.zeros((len(counts), len(columns)), dtype=np.int64)
        blanks = np.zeros((len(counts), len(columns)), dtype=np.bool_)
        for at, column in enumerate(columns):
            encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
            encoded = pa.concat_arrays(encoded.chunks) if isinstance(encoded, pa.ChunkedArray) else encoded
            codes[:, at] = encoded.indices.to_numpy(zero_copy_only=False)
            text = pa.types.is_string(table[column].type) or pa.types.is_large_string(table[column].type)
            blanks[:, at] = table[column].is_null(nan_is_null=True).to_numpy()
            if text and wildcard is not None:
                blanks[:, at] |= pc.equal(table[column], wildcard).fill_null(False).to_numpy()
        weights = None if weight is None else weights_of(table[weight], counts, weight)
        return cls(tuple(columns), codes, counts, blanks, weights)


def weights_of(values: pa.ChunkedArray, counts: Ints, column: str) -> Floats:
    """The weight of every row.

    Raises
    ------
    DataError
        Records without one, or a column that holds no numbers.
    """
    import pyarrow as pa
    import pyarrow.types as pt

    kind = values.type
    if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        raise DataError(f"weight column {column!r} is {kind}; weights must be numbers")
    weights: Floats = values.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    missing = int(counts[np.isnan(weights)].sum())
    if missing:
        raise DataError(f"weight column {column!r} has {missing:,} missing values; a record needs a weight")
    return weights


@dataclass(frozen=True)
class Tally:
    """Figure of a set of classes: the worst score, what fails, and how much was judged.

    `observed` is None before any class was seen. `sums` holds counters particular to a model.
    """

    observed: Any = None
    failing_classes: int = 0
    failing_records: int = 0
    classes: int = 0
    records: int = 0
    sums: Mapping[str, Any] = field(default_factory=dict)

    def plus(self, other: Tally) -> Tally:
        """Classes, records and counters of both together."""
        return Tally(
            classes=self.classes + other.classes,
            records=self.records + other.records,
            sums=added(self.sums, other.sums),
        )


def added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Counters of two tallies together."""
    sums = dict(left)
    for name, count in right.items():
        sums[name] = sums.get(name, 0) + count
    return sums


INFORMATION = "__privpipe_information"
"""A column with the loss of each record's labels, added to a table while it is judged."""


def information_lost(log_shares: Floats, log_domains: float) -> Floats:
    """IL of labels, in [0, 1]: 0 where all are raw values, 1 where all stand for their whole domain.

    Parameters
    ----------
    log_shares : ndarray of float64, shape (n,)
        sum_j ln share_j(v) of each combination of labels, at most 0.
    log_domains : float
        sum_j ln D_j; at 0 nothing can be lost.

    Notes
    -----
    Source: Prasser et al., AMIA Annu. Symp. Proc. 2017 (entropy-based information loss).

    Examples
    --------
    >>> information_lost(np.log([0.25, 0.5, 1.0]), float(np.log(4))).tolist()
    [0.0, 0.5, 1.0]
    """
    if not log_domains > 0:
        return np.zeros(len(log_shares))
    return np.clip(1 + log_shares / log_domains, 0.0, 1.0)


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
        Columns whose codes must be positions in that histogram. For the others a code only distinguishes values of one
        class apart.
    mark : str or None
        A class of records whose every key is this text, or missing where it is not text, comes with `marked` set: all
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
        n_c, records (or persons) of each class, at least 1; with a population 0 for its classes without a record.
    cells : mapping of column to Cells
    marked : ndarray of bool, shape (n_classes,), or None
        Classes whose every key is the suppression mark, or missing where the key is not text.
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

    sizes: Ints
    cells: Mapping[str, Cells] = field(default_factory=dict)
    marked: Bools | None = None
    population: Ints | None = None
    weights: Floats | None = None
    matching: Ints | None = None
    partial: Ints | None = None
    partial_weights: Floats | None = None
    complete: Bools | None = None
    held: Mapping[str, HeldValues] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sizes)

    @functools.cached_property
    def records(self) -> int:
        """Records in these classes."""
        return int(self.sizes.sum())

    @property
    def alike(self) -> Ints:
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

    def take(self, chosen: Bools) -> ClassBlock:
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
