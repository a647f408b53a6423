"""What an intruder may know of a person: rows of related tables as keyed hashes, and every pick of a few of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.kernels.ids.record_ids import content_hash

__all__ = [
    "GROUP",
    "LINK",
    "LINKED",
    "MARKS",
    "MOST_KNOWN",
    "PERSON",
    "TABLE",
    "VALUE",
    "Bucket",
    "Known",
    "Knows",
    "LinkedMarks",
    "Marked",
    "Marks",
    "PersonMarks",
    "group_schema",
    "person_words",
]

Knows = int | Literal["all"]
"""How many rows of a table an intruder knows at most; `all`: all of them, and that there are no more."""
MOST_KNOWN = 3
PERSON, LINK, TABLE, VALUE = "__privpipe_person", "__privpipe_link", "__privpipe_table", "__privpipe_value"
ROW = ("__privpipe_row_hi", "__privpipe_row_lo")
GROUP = ("__privpipe_group_hi", "__privpipe_group_lo")
MARKS = pa.schema([pa.field(name, pa.int64()) for name in (PERSON, TABLE, *ROW, VALUE)])
LINKED = pa.schema([pa.field(name, pa.int64()) for name in (LINK, *MARKS.names)])
ROWS_IN_BUCKET = 1 << 17
U = np.uint64
Words = NDArray[np.uint64]


def group_schema(valued: bool) -> pa.Schema:
    """Schema of a table with a row for every person and knowledge, or, if `valued`, every value it has too."""
    names = (PERSON, *GROUP, VALUE) if valued else (PERSON, *GROUP)
    return pa.schema([pa.field(name, pa.int64()) for name in names])


def _words(rows: RowBlock, columns: tuple[str, ...], seed: Seed, table: int = 0) -> Ints:
    # By their order, whatever their names; the first cell keeps equal rows of different tables apart.
    cells = [pa.array(np.full(len(rows), table, np.int64)), *(rows.column(name) for name in columns)]
    return content_hash(pa.record_batch(cells, names=[f"{at:05}" for at in range(len(cells))]), seed)


def person_words(rows: RowBlock, columns: tuple[str, ...], seed: Seed) -> Ints:
    """A keyed hash of each row's key, ndarray of int64; equal keys have equal words in all tables."""
    return _words(rows, columns, seed, table=-1)[:, 1]


@dataclass(frozen=True)
class Marked:
    """What is marked of the rows of one table.

    Parameters
    ----------
    table : int
        Its number; the root's is 0.
    columns : tuple of str
        Released quasi-identifiers, as they are known of a row.
    column : str, optional
        A sensitive column.
    values : pyarrow.Array, optional
        Its distinct values; the code of a value is its place plus 1, and 0 that of a row without the column.
    """

    table: int
    columns: tuple[str, ...]
    column: str | None = None
    values: pa.Array | None = field(default=None, repr=False)

    def cells(self, rows: RowBlock, seed: Seed) -> list[Ints]:
        """Number of the table, two words and a code for each row."""
        words = _words(rows, self.columns, seed, self.table)
        codes = np.zeros(len(rows), np.int64)
        if self.column is not None:
            places = pc.index_in(rows.column(self.column), value_set=self.values)
            codes = places.to_numpy(zero_copy_only=False).astype(np.int64) + 1
        return [np.full(len(rows), self.table, np.int64), words[:, 0], words[:, 1], codes]


@dataclass(frozen=True)
class Marks:
    """The rows of a table that has the person's key, as `MARKS`."""

    marked: Marked
    key: tuple[str, ...]
    seed: Seed

    def __call__(self, rows: RowBlock) -> RowBlock:
        cells = [person_words(rows, self.key, self.seed), *self.marked.cells(rows, self.seed)]
        return rows.with_batch(pa.record_batch([pa.array(each) for each in cells], schema=MARKS))


@dataclass(frozen=True)
class LinkedMarks:
    """Rows that are related to a table between them and the person, and the rows of that table: as `LINKED`.

    Parameters
    ----------
    marked : Marked, optional
        Of the rows that look for a person; None: `person` has it, and the rows are what others are related to.
    link : tuple of str
        Key of the table between.
    person : tuple of str
    """

    marked: Marked | None
    link: tuple[str, ...]
    seed: Seed
    person: tuple[str, ...] = ()

    def __call__(self, rows: RowBlock) -> RowBlock:
        links, none = person_words(rows, self.link, self.seed), np.zeros(len(rows), np.int64)
        if self.marked is None:
            cells = [links, person_words(rows, self.person, self.seed), none - 1, none, none, none]
        else:
            cells = [links, none, *self.marked.cells(rows, self.seed)]
        return rows.with_batch(pa.record_batch([pa.array(each) for each in cells], schema=LINKED))


@dataclass(frozen=True)
class Bucket:
    """A number for each row, the same for all rows of a word; many words share one."""

    column: str
    buckets: int

    def __call__(self, rows: RowBlock) -> Ints:
        words = rows.column(self.column).to_numpy(zero_copy_only=False).view(U)
        return (words % U(self.buckets)).astype(np.int64)

    @classmethod
    def of(cls, column: str, rows: int) -> Bucket:
        """Enough buckets for so many rows."""
        return cls(column, max(1, rows // ROWS_IN_BUCKET))


@dataclass(frozen=True)
class PersonMarks:
    """`LINKED` rows of some links with what their link leads to; one that leads nowhere belongs to no person.

    Parameters
    ----------
    last : bool
        The link leads to persons, and rows become `MARKS`; else to the next table between.
    """

    last: bool

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        links, tables, persons = (_ints(rows, name) for name in (LINK, TABLE, PERSON))
        between = np.flatnonzero(tables < 0)
        order = between[np.argsort(links[between], kind="stable")]
        found = np.flatnonzero(tables >= 0)
        at = np.searchsorted(links[order], links[found])
        at[at == len(order)] = 0
        leads = links[order][at] == links[found] if len(order) else np.zeros(len(found), np.bool_)
        # A link that is in no row before stays a word of its own, and is no person's.
        onward = links[found].copy()
        onward[leads] = persons[order[at[leads]]]
        kept = rows.take(found)
        if self.last:
            columns = [pa.array(onward), *(kept.column(name) for name in MARKS.names[1:])]
            return kept.with_batch(pa.record_batch(columns, schema=MARKS))
        columns = [pa.array(onward), *(kept.column(name) for name in LINKED.names[1:])]
        return kept.with_batch(pa.record_batch(columns, schema=LINKED))


@dataclass(frozen=True)
class Known:
    """A row for every person and all that an intruder may know of it, from all marks of some persons.

    Parameters
    ----------
    knows : mapping of int to int or "all"
        For each number of a table, rows that are known of it.
    seed : Seed
    counted : tuple of int
        Tables of which it is known how many rows a person has.
    valued : bool
        A row with the code 0 stands for the person; one for each code that its rows have follows.

    Notes
    -----
    Knowledge is the multiset of the root's row and the rows that are picked, as the sum of keyed 128-bit hashes; sums
    of different multisets are equal by a chance of some n^2 / 2^129. A pick may hold the same row as often as the
    person has it.
    """

    knows: Mapping[int, Knows]
    seed: Seed
    counted: tuple[int, ...] = ()
    valued: bool = False

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        persons, tables = _ints(rows, PERSON), _ints(rows, TABLE)
        words = np.column_stack([_ints(rows, name).view(U) for name in ROW])
        roots = np.flatnonzero(tables == 0)
        roots = roots[np.argsort(persons[roots], kind="stable")]
        names, sums = persons[roots], words[roots]
        owner = np.searchsorted(names, persons)
        related = np.append(names, 0)[owner] == persons
        related &= owner < len(names)
        persons, tables, words, owner = persons[related], tables[related], words[related], owner[related]
        owners, known = np.arange(len(names)), sums
        for table in self.counted:
            many = np.bincount(owner[tables == table], minlength=len(names)).astype(np.int64)
            known = known + _count_words(many, table, self.seed)
        for table, most in self.knows.items():
            own = np.flatnonzero(tables == table)
            picks = _all_rows if most == "all" else _picks
            owners, known = _product(owners, known, *picks(owner[own], words[own], most, len(names)), len(names))
        columns = [names[owners], known[:, 0].view(np.int64), known[:, 1].view(np.int64)]
        if self.valued:
            columns = _valued(columns, owners, *_held(owner, _ints(rows, VALUE)[related], len(names)))
        made = pa.record_batch([pa.array(each) for each in columns], schema=group_schema(self.valued))
        return RowBlock(made)


def _ints(rows: RowBlock, name: str) -> Ints:
    return rows.column(name).to_numpy(zero_copy_only=False)


def _count_words(many: Ints, table: int, seed: Seed) -> Words:
    """Words that stand for a number of rows of a table."""
    batch = pa.record_batch([pa.array(np.full(len(many), -2 - table)), pa.array(many)], names=["a", "b"])
    return content_hash(batch, seed).view(U)


def _runs(owner: Ints, words: Words) -> tuple[Ints, Ints, Words]:
    """Distinct rows of each person in its order, how often each has them, and their words."""
    order = np.lexsort((words[:, 1], words[:, 0], owner))
    owner, words = owner[order], words[order]
    fresh = np.ones(len(owner), np.bool_)
    fresh[1:] = (owner[1:] != owner[:-1]) | (words[1:] != words[:-1]).any(axis=1)
    starts = np.flatnonzero(fresh)
    return owner[starts], np.diff(np.append(starts, len(owner))), words[starts]


def _picks(owner: Ints, words: Words, most: Knows, persons: int) -> tuple[Ints, Words]:
    """Every multiset of up to `most` rows of each person, the empty one too: whose it is, and its sum."""
    owners, sums = [np.arange(persons)], [np.zeros((persons, 2), U)]
    if most:
        owner, many, words = _runs(owner, words)
        ends = np.searchsorted(owner, owner, side="right")
        last, used, total = np.arange(len(owner)), np.ones(len(owner), np.int64), words
        for size in range(1, int(most) + 1):
            owners.append(owner[last])
            sums.append(total)
            if size == most:
                break
            again = many[last] > used
            first = np.where(again, last, last + 1)
            more = ends[last] - first
            source = np.repeat(np.arange(len(last)), more)
            following = np.arange(len(source)) - np.repeat(np.cumsum(more) - more, more) + first[source]
            used = np.where(following == last[source], used[source] + 1, 1)
            total = total[source] + words[following]
            last = following
    return np.concatenate(owners), np.concatenate(sums)


def _all_rows(owner: Ints, words: Words, most: Knows, persons: int) -> tuple[Ints, Words]:
    """The multiset of all rows of each person."""
    sums = np.zeros((persons, 2), U)
    np.add.at(sums, owner, words)
    return np.arange(persons), sums


def _product(owners: Ints, known: Words, more: Ints, picks: Words, persons: int) -> tuple[Ints, Words]:
    """Everything known with every pick of the same person."""
    if len(more) == persons:
        ordered = np.empty_like(picks)
        ordered[more] = picks
        return owners, known + ordered[owners]
    order = np.argsort(more, kind="stable")
    many = np.bincount(more, minlength=persons)
    starts = np.cumsum(many) - many
    source = np.repeat(np.arange(len(owners)), many[owners])
    places = np.arange(len(source)) - np.repeat(np.cumsum(many[owners]) - many[owners], many[owners])
    chosen = order[starts[owners[source]] + places]
    return owners[source], known[source] + picks[chosen]


def _held(owner: Ints, codes: Ints, persons: int) -> tuple[Ints, Ints]:
    """Distinct pairs of a person and a code, each person with the code 0, by person."""
    pairs = np.unique(np.concatenate([np.column_stack([owner, codes]), _nothing(persons)]), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _nothing(persons: int) -> Ints:
    return np.column_stack([np.arange(persons), np.zeros(persons, np.int64)])


def _valued(columns: list[Ints], owners: Ints, holders: Ints, codes: Ints) -> list[Ints]:
    """Each row with each code of its person."""
    starts = np.searchsorted(holders, owners)
    many = np.searchsorted(holders, owners, side="right") - starts
    source = np.repeat(np.arange(len(owners)), many)
    places = np.arange(len(source)) - np.repeat(np.cumsum(many) - many, many) + starts[source]
    return [*(column[source] for column in columns), codes[places]]
