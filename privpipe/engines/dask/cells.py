"""Class tables by joint cells: for finding records' classes again, counting persons and summing weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Histogram
from privpipe.blocks.held_values import HeldValues
from privpipe.draws import Seed
from privpipe.engines.base.assembly import grouping_columns
from privpipe.engines.base.histograms import find_codes
from privpipe.engines.dask.encode import Encoded, encode, grouped, tuple_hashes
from privpipe.engines.dask.exchange import Pieces
from privpipe.errors import DataError
from privpipe.kernels.classes.cells import marginal_cells, sum_by_class
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group, split_order
from privpipe.kernels.sums.weights import exact_sum_by_class

__all__ = [
    "CellPlan",
    "Located",
    "Unfit",
    "assemble",
    "class_block",
    "codes_in",
    "count_cells",
    "locate_cells",
    "marked_classes",
]

Ints = NDArray[np.int64]
KEY_WORDS = 2


class Unfit(DataError):
    """A partition cannot be counted as asked; the engine then looks at all of them to say how much is amiss."""


@dataclass(frozen=True, repr=False)
class CellPlan:
    """How a class query is counted: what the words of a cell are.

    A cell is a row of words: two for the class (a keyed hash of its key), for each sensitive column one (its
    code in the dictionary) or two (a hash of the value, where there is no dictionary), two for the person, one
    for the weight (the bits of the float); then the number of records.

    Parameters
    ----------
    query : ClassQuery
    places : int
        Meeting places over which classes are spread.
    seed : Seed
        One-time key of the hashes.
    types : tuple of pyarrow.DataType, or None
        Of the keys, where the class of nothing but the mark is marked.
    """

    query: ClassQuery
    places: int
    seed: Seed = field(default_factory=Seed.from_os)
    types: tuple[pa.DataType, ...] | None = None

    def salted(self, purpose: str) -> Seed:
        """The key of one purpose's hashes."""
        return Seed(self.seed.key(purpose))

    def marked_hash(self) -> Ints:
        """Hash of the class whose every key is the suppression mark, or missing where it is no text."""
        marks = [pa.array([self.query.mark if pa.types.is_string(kind) else None], kind) for kind in self.types or ()]
        return tuple_hashes([encode(mark) for mark in marks], self.salted("class"), 1)[0]


@dataclass(frozen=True, repr=False)
class Located:
    """One partition's cells, and where the cell of each of its rows lies among them."""

    pieces: Pieces
    positions: Ints

    def piece(self, place: int) -> Ints:
        """The cells that go to one place."""
        cells: Ints = self.pieces.piece(place)
        return cells


def count_cells(batch: pa.RecordBatch, plan: CellPlan) -> Pieces:
    """The partition's cells, each with its count, cut by the place of its class."""
    return locate_cells(batch, plan).pieces


def locate_cells(batch: pa.RecordBatch, plan: CellPlan) -> Located:
    """As `count_cells`, with the way back from rows to cells."""
    encoded = {name: encode(batch.column(name)) for name in grouping_columns(plan.query)}
    groups, firsts = grouped(list(encoded.values()), batch.num_rows)
    chosen = {name: column.take(firsts) for name, column in encoded.items()}
    keys = tuple_hashes([chosen[name] for name in plan.query.keys], plan.salted("class"), len(firsts))
    counts = np.bincount(groups, minlength=len(firsts))
    cells = np.concatenate([keys, *_value_words(chosen, plan, len(firsts)), counts[:, None]], axis=1)
    order, offsets = split_order(keys[:, 0], plan.places)
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = np.arange(len(order))
    return Located(Pieces(cells[order], offsets), positions[groups])


def _value_words(chosen: dict[str, Encoded], plan: CellPlan, rows: int) -> list[Ints]:
    words = []
    for name in dict.fromkeys(plan.query.columns):
        dictionary = plan.query.dictionaries.get(name)
        if dictionary is None:
            words.append(tuple_hashes([chosen[name]], plan.salted("value"), rows))
        else:
            words.append(codes_in(chosen[name], dictionary)[:, None])
    if plan.query.person is not None:
        _refuse_nulls(chosen[plan.query.person], plan.query.person, "person")
        words.append(tuple_hashes([chosen[plan.query.person]], plan.salted("person"), rows))
    if plan.query.weight is not None:
        _refuse_nulls(chosen[plan.query.weight], plan.query.weight, "weight")
        words.append(_float_bits(chosen[plan.query.weight])[:, None])
    return words


def codes_in(column: Encoded, dictionary: Histogram) -> Ints:
    """Positions of a column's values in a dictionary.

    Raises
    ------
    Unfit
        It lacks one of them.
    """
    codes = find_codes(column.values, dictionary)
    if (codes < 0).any():
        raise Unfit("a value that the dictionary lacks")
    return codes[column.codes]


def _refuse_nulls(column: Encoded, name: str, what: str) -> None:
    if column.values.null_count:
        raise Unfit(f"{what} column {name!r} has missing values; a record needs a {what} to be counted by")


def _float_bits(column: Encoded) -> Ints:
    values = column.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)[column.codes]


def class_block(pieces: Sequence[Ints], plan: CellPlan) -> ClassBlock:
    """The whole classes of one place."""
    return assemble(pieces, plan)[0]


def assemble(pieces: Sequence[Ints], plan: CellPlan) -> tuple[ClassBlock, Ints]:
    """The whole classes of one place, and the class of each cell that came."""
    cells = np.concatenate(pieces)
    classes, firsts = group_rows(cells[:, :KEY_WORDS])
    coded, at = {}, KEY_WORDS
    for name in dict.fromkeys(plan.query.columns):
        width = 1 if name in plan.query.dictionaries else 2
        words = cells[:, at : at + width]
        coded[name] = words[:, 0] if width == 1 else group_rows(words)[0]
        at += width
    marked = marked_classes(cells[firsts, :KEY_WORDS], plan)
    if plan.query.person is not None:
        persons = group_rows(cells[:, at : at + 2])[0]
        sizes, found, held = _in_persons(classes, coded, persons, len(firsts))
        return ClassBlock(sizes, found, marked, held=held), classes
    order, offsets = ordered_by_group(classes, len(firsts))
    counts = read_only(cells[order, -1], np.int64)
    sizes = np.asarray(sum_by_class(read_only(offsets, np.int64), counts))
    found = {name: _marginal(offsets, codes[order], counts) for name, codes in coded.items()}
    weights = None if plan.query.weight is None else _weights(offsets, cells[order, -2], counts)
    return ClassBlock(sizes, found, marked, weights=weights), classes


def _in_persons(
    classes: Ints, coded: Mapping[str, Ints], persons: Ints, number: int
) -> tuple[Ints, dict[str, Cells], dict[str, HeldValues]]:
    """Sizes and cells in distinct persons, one of whom counts once a class and once a value; and who holds which."""
    _groups, once = group_rows(np.column_stack([classes, persons]))
    found, held = {}, {}
    for name, codes in coded.items():
        _groups, kept = group_rows(np.column_stack([classes, codes, persons]))
        order, offsets = ordered_by_group(classes[kept], number)
        found[name] = _marginal(offsets, codes[kept][order], np.ones(len(kept), dtype=np.int64))
        held[name] = HeldValues(classes[kept], persons[kept], codes[kept])
    return np.bincount(classes[once], minlength=number), found, held


def _marginal(offsets: Ints, codes: Ints, counts: Ints) -> Cells:
    return Cells(*marginal_cells(*(read_only(part, np.int64) for part in (offsets, codes, counts))))


def marked_classes(keys: Ints, plan: CellPlan) -> NDArray[np.bool_] | None:
    """Which class, given by its hash, holds nothing but the suppression mark; None where nobody asks."""
    return None if plan.types is None else np.all(keys == plan.marked_hash(), axis=1)


def _weights(offsets: Ints, bits: Ints, counts: Ints) -> NDArray[np.float64]:
    """Weight of each class, exact and rounded once, so that every engine and partitioning gives the same double."""
    values = read_only(np.ascontiguousarray(bits).view(np.float64), np.float64)
    sums = exact_sum_by_class(read_only(offsets, np.int64), values, read_only(counts, np.int64))
    return np.asarray(sums, dtype=np.float64)
