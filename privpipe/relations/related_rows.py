"""Rows of related tables with the person they belong to, and what is left of them when persons or parents go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed, Stream
from privpipe.relations.counting import RelatedTables
from privpipe.relations.knowledge import LINK, PERSON, Bucket, person_words

__all__ = ["Capped", "Kept", "WithoutPersons", "closed", "with_person"]

Kept = Literal["random", "first", "last"]


@dataclass(frozen=True)
class _WithLink:
    """Rows with a word for what they are related to; and no person yet, or the same word where it is the person's."""

    columns: tuple[str, ...]
    seed: Seed
    is_person: bool

    def __call__(self, rows: RowBlock) -> RowBlock:
        words = pa.array(person_words(rows, self.columns, self.seed))
        persons = words if self.is_person else pa.nulls(len(rows), pa.int64())
        names = [*rows.schema.names, LINK, PERSON]
        return rows.with_batch(pa.record_batch([*rows.batch.columns, words, persons], names=names))


@dataclass(frozen=True)
class _AsLinks:
    """Rows that others are related to, as rows of the others' schema: their link and person, and nothing else."""

    key: tuple[str, ...]
    seed: Seed
    schema: pa.Schema = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        known = {LINK: pa.array(person_words(rows, self.key, self.seed)), PERSON: rows.column(PERSON)}
        columns = [known.get(each.name, pa.nulls(0)) for each in self.schema]
        columns = [
            column if len(column) == len(rows) and each.name in known else pa.nulls(len(rows), each.type)
            for column, each in zip(columns, self.schema, strict=True)
        ]
        return rows.with_batch(pa.record_batch(columns, schema=self.schema))


@dataclass(frozen=True)
class _Joined:
    """Rows whose link leads to a row, with its person; links themselves go."""

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        persons = rows.column(PERSON)
        links = rows.column(LINK).to_numpy(zero_copy_only=False)
        leads = pc.is_valid(persons).to_numpy(zero_copy_only=False)
        order = np.flatnonzero(leads)[np.argsort(links[leads], kind="stable")]
        own = np.flatnonzero(~leads)
        at = np.searchsorted(links[order], links[own])
        at[at == len(order)] = 0
        found = links[order][at] == links[own] if len(order) else np.zeros(len(own), np.bool_)
        kept = rows.take(own[found])
        filled = persons.take(pa.array(order[at[found]]))
        place = kept.schema.get_field_index(PERSON)
        columns = [filled if i == place else column for i, column in enumerate(kept.batch.columns)]
        return kept.with_batch(pa.record_batch(columns, schema=kept.schema))


def _with_words(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, pa.field(LINK, pa.int64()), pa.field(PERSON, pa.int64())])


def with_person(related: RelatedTables, name: str) -> Any:
    """A table with two more columns: a word for what each row is related to, and one for the person it belongs to.

    Rows that belong to no row of the table above them are left out.
    """
    engine, tree, table = related.engine, related.tree, related.tables[name]
    path = tree.path(name)
    schema = _with_words(table.schema)
    if not path:
        return engine.map_rows(table, _WithLink(tree.tables[name].key, related.seed, True), schema)
    above = with_person(related, path[0].to)
    own = engine.map_rows(table, _WithLink(path[0].columns, related.seed, False), schema)
    links = engine.map_rows(above, _AsLinks(tree.tables[path[0].to].key, related.seed, schema), schema)
    both = engine.append(own, links)
    return engine.map_groups(both, Bucket.of(LINK, engine.count(both)), _Joined(), schema)


def closed(related: RelatedTables) -> RelatedTables:
    """The tables without rows that belong to no row of the table above them."""
    engine, tables = related.engine, dict(related.tables)
    for name in sorted(related.tree.children, key=lambda each: len(related.tree.path(each))):
        own = related.tables[name].schema.names
        tables[name] = engine.select(with_person(related.having(tables), name), own)
    return related.having(tables)


@dataclass(frozen=True)
class WithoutPersons:
    """Rows without those of some persons.

    Parameters
    ----------
    words : ndarray of int64, shape (n,)
        Ascending.
    key : tuple of str, optional
        Columns that distinguish persons; None: the rows have the word itself.
    seed : Seed, optional
    """

    words: Ints = field(repr=False)
    key: tuple[str, ...] | None = None
    seed: Seed | None = field(default=None, repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        if self.key is None or self.seed is None:
            own = rows.column(PERSON).to_numpy(zero_copy_only=False)
        else:
            own = person_words(rows, self.key, self.seed)
        at = np.searchsorted(self.words, own)
        at[at == len(self.words)] = 0
        gone = self.words[at] == own if len(self.words) else np.zeros(len(own), np.bool_)
        return rows.take(np.flatnonzero(~gone))


@dataclass(frozen=True)
class Capped:
    """At most so many rows of each person, of all rows of some persons.

    Parameters
    ----------
    at_most : int
    keep : {"random", "first", "last"}
        Which: by a keyed draw, or by a column; equal values by the draw, rows without a value last.
    stream : Stream
    column : str, optional
    """

    at_most: int
    keep: Kept
    stream: Stream
    column: str | None = None

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        persons = rows.column(PERSON).to_numpy(zero_copy_only=False)
        keys: list[NDArray[Any]] = [self.stream.order(rows.record_ids)]
        if self.column is not None:
            keys.append(_places(rows.column(self.column), backwards=self.keep == "last"))
        order = np.lexsort((*keys, persons))
        own = persons[order]
        fresh = np.ones(len(own), np.bool_)
        fresh[1:] = own[1:] != own[:-1]
        starts = np.flatnonzero(fresh)
        places = np.arange(len(own)) - np.repeat(starts, np.diff(np.append(starts, len(own))))
        return rows.take(np.sort(order[places < self.at_most]))


def _places(column: pa.Array, *, backwards: bool) -> Ints:
    """The rank of each value, missing ones last."""
    ranks = pc.rank(
        column, sort_keys="descending" if backwards else "ascending", null_placement="at_end", tiebreaker="dense"
    )
    found: Ints = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def counts_of(related: RelatedTables) -> Mapping[str, int]:
    """Records of each table."""
    return {name: related.engine.count(table) for name, table in related.tables.items()}
