"""Rows of one of several related tables by which an intruder finds too few persons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.blocks.requests import GROUP, PERSON, Related
from privpipe.draws import Stream
from privpipe.errors import UnsupportedError, UsageError
from privpipe.relations.counting import Census, Fails, Knows, RelatedTables, person_columns
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.related_rows import PersonBucket, closed, persons_failing, row_hashes, with_person
from privpipe.transforms.suppression.class_failures import KeysDropped

__all__ = ["MOST_DISCLOSIVE", "CopiesGone", "Picks", "without_disclosive_rows"]


Words = NDArray[np.int64]
"""Hashes of rows, shape (n, 2)."""


@dataclass(frozen=True)
class CopiesGone:
    """Rows of persons whose copies are removed.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, 2)
        Hash of the person and of what may be known about the row.
    first : ndarray of int64, shape (n,)
        Of equal rows of the person, this and every later one go; 1: all.
    """

    rows: Words
    first: Ints

    @classmethod
    def none(cls) -> Self:
        """No row."""
        return cls(np.empty((0, 2), np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, parts: Sequence[CopiesGone]) -> Self:
        """All of them, each row once, in the order of their hashes."""
        rows = np.concatenate([np.empty((0, 2), np.int64), *(each.rows for each in parts)])
        first = np.concatenate([np.empty(0, np.int64), *(each.first for each in parts)])
        order = np.lexsort((first, rows[:, 1], rows[:, 0]))
        rows, first = rows[order], first[order]
        fresh = np.ones(len(rows), np.bool_)
        fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        return cls(rows[fresh], first[fresh])


@dataclass(frozen=True)
class Picks:
    """Picks of up to m rows of a person each, that have to go.

    Parameters
    ----------
    persons : ndarray of int64, shape (n, 2)
        Hash of the person.
    sizes : ndarray of int64, shape (n,)
        Rows of each pick, at least 1.
    rows : ndarray of int64, shape (n, m, 2)
        Hash of the person and of each row of a pick; those beyond its size mean nothing.
    holders : ndarray of int64, shape (n, m)
        How many persons with the same root row have a row like it.
    """

    persons: Words
    sizes: Ints
    rows: NDArray[np.int64]
    holders: NDArray[np.int64]

    @classmethod
    def together(cls, parts: Sequence[Picks]) -> Self:
        """The picks of several guarantees."""
        most = max(each.rows.shape[1] for each in parts)
        wide = [np.pad(each.rows, ((0, 0), (0, most - each.rows.shape[1]), (0, 0))) for each in parts]
        holders = [np.pad(each.holders, ((0, 0), (0, most - each.holders.shape[1]))) for each in parts]
        return cls(
            np.concatenate([each.persons for each in parts]),
            np.concatenate([each.sizes for each in parts]),
            np.concatenate(wide),
            np.concatenate(holders),
        )

    def chosen(self) -> CopiesGone:
        """Rows without which no pick of those that are smallest for their person is left.

        Of a person, the row that most of these picks hold goes first; among such, one that most persons have, whom the
        others miss least. Where a pick holds a row twice, the person keeps one.
        """
        if not len(self.sizes):
            return CopiesGone.none()
        persons = np.unique(self.persons, axis=0, return_inverse=True)[1].reshape(-1)
        least = np.full(persons.max() + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, persons, self.sizes)
        small = np.flatnonzero(self.sizes == least[persons])
        part = Picks(self.persons[small], self.sizes[small], self.rows[small], self.holders[small])
        return part._hit(persons[small])

    def _hit(self, persons: Ints) -> CopiesGone:
        picks, rows, copies, holders = self._elements()
        elements, code = np.unique(np.column_stack([rows, copies]), axis=0, return_inverse=True)
        code = code.reshape(-1)
        owner, common = np.empty(len(elements), np.int64), np.empty(len(elements), np.int64)
        owner[code], common[code] = persons[picks], holders
        left = np.ones(len(self.sizes), np.bool_)
        gone = np.zeros(len(elements), np.bool_)
        while left.any():
            hits = np.bincount(code[left[picks]], minlength=len(elements))
            order = np.lexsort((np.arange(len(elements)), -common, -hits, owner))
            first = np.ones(len(order), np.bool_)
            first[1:] = owner[order][1:] != owner[order][:-1]
            best = order[first]
            best = best[hits[best] > 0]
            gone[best] = True
            left[picks[np.isin(code, best)]] = False
        return CopiesGone.of([CopiesGone(elements[gone, :2], elements[gone, 2])])

    def _elements(self) -> tuple[Ints, Words, Ints, Ints]:
        """Each distinct row of each pick: the pick, the row's hash, how often the pick holds it, and who have it."""
        most = self.rows.shape[1]
        inside = np.arange(most) < self.sizes[:, None]
        same = (self.rows[:, :, None] == self.rows[:, None, :]).all(axis=3) & inside[:, :, None] & inside[:, None, :]
        copies = same.sum(axis=2)
        before = np.tril(np.ones((most, most), np.bool_), -1)
        fresh = inside & ~(same & before).any(axis=2)
        picks, places = np.nonzero(fresh)
        return picks, self.rows[picks, places], copies[picks, places], self.holders[picks, places]


MOST_DISCLOSIVE = 20_000_000
"""Picks of rows of persons that go at a time: their hashes are held by the process that drives the engine."""
COPY = f"{PERSON}_copy"


def without_disclosive_rows(
    related: RelatedTables, name: str, guarantees: Sequence[JointGuarantee], stream: Stream
) -> Any:
    """A table without rows, so that no group fails that some of them are known in.

    Single rows go first, then pairs, then three; of a person whose rows are all known, the one that fewest others have.
    A person who has lost a row is missing from the groups of that row, so the rest is counted again. Persons who
    fail whatever is known of the table keep their rows.

    Parameters
    ----------
    stream : Stream
        Draws which of equal rows of a person go.

    Raises
    ------
    UsageError
        No guarantee shows that a row of the table is known.
    UnsupportedError
        More go than are held.
    """
    at = related.tree.children.index(name)
    asked = [each for each in guarantees if related.knowledge(each.knows)[at]]
    if not asked:
        raise UsageError(
            f"suppress_rows: no joint guarantee requires that a row of {name!r} is known; leave the stage out, or give "
            f"{name!r} a place in `knows`"
        )
    census, left = related.census(), related
    for guarantee in asked:
        left.require_few(census, guarantee.knows)
    known = {each: related.knowledge(each.knows)[at] for each in asked}
    most = max([1, *(int(each) for each in known.values() if each != "all")])
    for size in range(1, most + 1):
        now = [
            (each, rows if rows == "all" else min(int(rows), size))
            for each, rows in known.items()
            if rows != "all" or size == most
        ]
        while now:
            gone = _Search(left, name, left.census()).rows_to_go(now)
            if not len(gone.first):
                break
            fewer = _without(left, name, gone, stream)
            if left.engine.count(fewer) >= left.engine.count(left.tables[name]):
                raise TypeError("disclosive rows were found and none of them was removed")
            left = closed(left.having({name: fewer}))
    return left.tables[name]


def _without(related: RelatedTables, name: str, gone: CopiesGone, stream: Stream) -> Any:
    engine, table = related.engine, related.tables[name]
    owned, persons = with_person(related, name)
    fewer = _Fewer((*persons, *related.tree.tables[name].quasi_identifiers), gone, stream)
    if (gone.first == 1).all():
        kept = engine.map_rows(owned, fewer, owned.schema)
    else:
        kept = engine.map_groups(owned, PersonBucket.of(persons, engine.count(owned)), fewer, owned.schema)
    return engine.select(kept, table.schema.names)


@dataclass(frozen=True)
class _Search:
    """Looks for rows of a table that have to go."""

    related: RelatedTables
    name: str
    census: Census

    @property
    def _at(self) -> int:
        return self.related.tree.children.index(self.name) + 1

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.related.tree.tables[self.name].quasi_identifiers

    def rows_to_go(self, asked: Sequence[tuple[JointGuarantee, Knows]]) -> CopiesGone:
        """Rows to remove at once, by the guarantees and the rows that are known for each."""
        picks, wholes = [], []
        holders = _Holders(self)
        for guarantee, rows in asked:
            knows = dict(zip(self.related.tree.children, self.related.knowledge(guarantee.knows), strict=True))
            failing = self._failing(replace(guarantee, knows={**knows, self.name: rows}))
            without = persons_failing(self.related, replace(guarantee, knows={**knows, self.name: 0}), self.census)
            if rows == "all":
                persons = self._distinct(failing, person_columns(failing), self.census.persons)
                wholes.append(self._rarest(_others(persons, without), holders))
            else:
                picks.append(self._picks(failing, int(rows), without, holders))
        return CopiesGone.of([*([Picks.together(picks).chosen()] if picks else []), *wholes])

    def _failing(self, guarantee: JointGuarantee) -> Any:
        """All persons and knowledge in groups that fail."""
        groups, query, facts = self.related.groups(
            guarantee.knows, guarantee.row_counts, guarantee.sensitive, self.census
        )
        return self.related.engine.keep_classes(groups, query, Fails(guarantee.score, facts))

    def _picks(self, failing: Any, most: int, without: pa.Table, holders: _Holders) -> Picks:
        some = self.related.engine.map_rows(failing, _Some(f"{GROUP}_{self._at}_size"), failing.schema)
        persons, root = person_columns(failing), holders.root_columns(failing.schema)
        rows = [tuple(f"{GROUP}_{self._at}_{pick}_{at}" for at in range(len(self._columns))) for pick in range(most)]
        names = (*persons, *root, f"{GROUP}_{self._at}_size", *(column for pick in rows for column in pick))
        at_most = self.census.picks([most if name == self.name else 0 for name in self.related.tree.children])
        found = _others(self._distinct(some, names, at_most), without)
        hashes = [row_hashes(found, (*persons, *pick)) for pick in rows]
        many = (
            [np.zeros(found.num_rows, np.int64)] * most
            if most == 1
            else [holders.of(found, (*root, *pick), np.ones(found.num_rows, np.int64)) for pick in rows]
        )
        return Picks(
            row_hashes(found, persons),
            found[f"{GROUP}_{self._at}_size"].to_numpy().astype(np.int64),
            np.stack(hashes, axis=1),
            np.stack(many, axis=1),
        )

    def _rarest(self, failing: pa.Table, holders: _Holders) -> CopiesGone:
        """Of each of these persons, the row that fewest persons have as often."""
        if not failing.num_rows:
            return CopiesGone.none()
        table, persons = holders.numbered
        theirs = _KeysKept(KeysDropped.of(persons, failing.rename_columns(list(persons))))
        names = (*persons, *holders.known, *self._columns, COPY)
        mine = self.related.engine.map_rows(table, theirs, table.schema)
        found = self._distinct(mine, names, self.related.engine.count(self.related.tables[self.name]))
        if not found.num_rows:
            return CopiesGone.none()
        copies = found[COPY].to_numpy()
        many = holders.of(found, (*holders.known, *self._columns), copies)
        rows, owner = row_hashes(found, (*persons, *self._columns)), row_hashes(found, persons)
        order = np.lexsort((rows[:, 1], rows[:, 0], -copies, many, owner[:, 1], owner[:, 0]))
        first = np.ones(len(order), np.bool_)
        first[1:] = (owner[order][1:] != owner[order][:-1]).any(axis=1)
        return CopiesGone(rows[order[first]], copies[order[first]])

    def _distinct(self, table: Any, columns: Sequence[str], at_most: int) -> pa.Table:
        """Distinct combinations, unless they are too many to hold: surely no more than `at_most`."""
        if at_most > MOST_DISCLOSIVE and self.related.engine.count(table) > MOST_DISCLOSIVE:
            raise UnsupportedError(
                f"suppress_rows: more than {MOST_DISCLOSIVE:,} combinations of rows of {self.name!r} identify persons; "
                "generalize before"
            )
        return self.related.engine.distinct(table, list(columns)).select(list(columns))


class _Holders:
    """How many persons with the same root row have a row this often; counted when first needed."""

    def __init__(self, search: _Search) -> None:
        self._search = search
        self._numbered: tuple[Any, tuple[str, ...]] | None = None
        self._counted: tuple[NDArray[np.int64], Ints] | None = None

    @property
    def known(self) -> tuple[str, ...]:
        """Columns of `numbered` that hold the root's quasi-identifiers."""
        tree = self._search.related.tree
        return tuple(f"{GROUP}_0_{at}" for at in range(len(tree.tables[tree.root].quasi_identifiers)))

    def root_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """The same columns of a table of knowledge."""
        return tuple(name for name in self.known if name in schema.names)

    @property
    def numbered(self) -> tuple[Any, tuple[str, ...]]:
        """The table with the person's key, the root's quasi-identifiers, and a number for each of equal rows."""
        if self._numbered is None:
            related, name = self._search.related, self._search.name
            tree, engine = related.tree, related.engine
            owned, persons = with_person(related, name)
            root = tree.tables[tree.root]
            columns = dict(zip(root.quasi_identifiers, self.known, strict=True))
            if columns:
                owned = engine.derive(Related(owned, related.tables[tree.root], persons, root.key, columns))
            schema = owned.schema.append(pa.field(COPY, pa.int64()))
            copies = _Copies((*persons, *tree.tables[name].quasi_identifiers))
            bucket = PersonBucket.of(persons, engine.count(owned))
            self._numbered = engine.map_groups(owned, bucket, copies, schema), persons
        return self._numbered

    def of(self, found: pa.Table, columns: Sequence[str], copies: Ints) -> Ints:
        """Persons who have each row, at least so often: `columns` are the root's and the row's quasi-identifiers."""
        if self._counted is None:
            table, _ = self.numbered
            names = [*self.known, *self._search.related.tree.tables[self._search.name].quasi_identifiers]
            counts = self._search.related.engine.distinct(table, [*names, COPY])
            words = _with_copies(row_hashes(counts, names)[:, 0], counts[COPY].to_numpy())
            order = np.argsort(words)
            self._counted = words[order], counts["__count"].to_numpy().astype(np.int64)[order]
        words, many = self._counted
        if not len(words):
            return np.zeros(found.num_rows, np.int64)
        wanted = _with_copies(row_hashes(found, columns)[:, 0], copies)
        places = np.minimum(np.searchsorted(words, wanted), len(words) - 1)
        return np.where(words[places] == wanted, many[places], 0)


def _with_copies(words: NDArray[np.int64], copies: Ints) -> NDArray[np.int64]:
    mixed: NDArray[np.int64] = words ^ (copies.astype(np.int64) * np.int64(0x2545F4914F6CDD1D))
    return mixed


def _others(found: pa.Table, without: pa.Table) -> pa.Table:
    """The rows that are not of some persons."""
    if not found.num_rows or not without.num_rows:
        return found
    return found.filter(pa.array(~KeysDropped.of(without.column_names, without).holds(found)))


def _copy_numbers(words: NDArray[np.int64], order: NDArray[np.int64] | None = None) -> Ints:
    """A number from 1 on for each of equal hashes, in an order."""
    keys = (words[:, 1], words[:, 0]) if order is None else (order, words[:, 1], words[:, 0])
    places = np.lexsort(keys)
    fresh = np.ones(len(places), np.bool_)
    fresh[1:] = (words[places][1:] != words[places][:-1]).any(axis=1)
    starts = np.flatnonzero(fresh)
    found = np.empty(len(places), np.int64)
    found[places] = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places)))) + 1
    return found


@dataclass(frozen=True)
class _Some:
    """The rows in which a number is above 0."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.column(self.column).to_numpy(zero_copy_only=False) > 0))


@dataclass(frozen=True)
class _KeysKept:
    """The rows of some persons."""

    keys: KeysDropped

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(self.keys.holds(rows.batch)))


@dataclass(frozen=True)
class _Copies:
    """Numbers equal rows of a person, of all rows of some persons."""

    columns: tuple[str, ...]

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        copies = pa.array(_copy_numbers(row_hashes(rows.batch, self.columns)))
        return rows.with_batch(rows.batch.append_column(COPY, copies))


@dataclass(frozen=True)
class _Fewer:
    """All rows of some persons without copies that go; which of equal rows these are is drawn."""

    columns: tuple[str, ...]
    gone: CopiesGone = field(repr=False)
    stream: Stream

    def __call__(self, rows: RowBlock, number: int = 0) -> RowBlock:
        words = row_hashes(rows.batch, self.columns)
        places = pc.index_in(_binary(words), value_set=_binary(self.gone.rows))
        found = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        if not len(found):
            return rows
        first = self.gone.first[places.drop_null().to_numpy()]
        drawn = self.stream.order(rows.record_ids)[found] if (first > 1).any() else None
        kept = np.ones(len(rows), np.bool_)
        kept[found] = _copy_numbers(words[found], drawn) < first
        return rows.take(np.flatnonzero(kept))


def _binary(words: NDArray[np.int64]) -> pa.Array:
    words = np.ascontiguousarray(words)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])
