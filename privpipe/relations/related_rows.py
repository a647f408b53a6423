"""Rows of related tables with the person they belong to, and the rows left when persons or parents are removed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.blocks.requests import PERSON, Related
from privpipe.draws import Seed, Stream
from privpipe.engines.base.class_blocks import value_order
from privpipe.errors import UnsupportedError
from privpipe.kernels.ids.record_ids import content_hash
from privpipe.relations.counting import Census, Fails, RelatedTables, person_columns
from privpipe.relations.guarantees import JointGuarantee
from privpipe.transforms.suppression.class_failures import KeysDropped

__all__ = [
    "MOST_SUPPRESSED",
    "Capped",
    "Kept",
    "PersonBucket",
    "closed",
    "counts_of",
    "failing_persons",
    "persons_failing",
    "row_hashes",
    "with_person",
    "without_persons",
]


Kept = Literal["random", "first", "last"]
ROWS_IN_BUCKET = 1 << 16


def with_person(related: RelatedTables, name: str) -> tuple[Any, tuple[str, ...]]:
    """A table whose rows belong to a person each, and its columns that hold the person's key.

    Rows of a table with others between it and the person get columns for it, and those without one are left out.
    """
    path, table = related.tree.path(name), related.tables[name]
    columns = path[0].columns
    for step, onward in itertools.pairwise(path):
        new = tuple(f"{PERSON}_{len(related.tree.path(step.to))}_{at}" for at in range(len(onward.columns)))
        key = related.tree.tables[step.to].key
        table = related.engine.derive(
            Related(table, related.tables[step.to], columns, key, dict(zip(onward.columns, new, strict=True)))
        )
        columns = new
    return table, columns


def closed(related: RelatedTables) -> RelatedTables:
    """The tables without rows that belong to no row of the table above them."""
    tables = dict(related.tables)
    for name in sorted(related.tree.children, key=lambda each: len(related.tree.path(each))):
        step = related.tree.path(name)[0]
        key = related.tree.tables[step.to].key
        tables[name] = related.engine.derive(Related(tables[name], tables[step.to], step.columns, key))
    return related.having(tables)


def without_persons(related: RelatedTables, gone: pa.Table) -> RelatedTables:
    """The tables without some persons, known by their keys, and all their rows."""
    root = related.tree.root
    key = related.tree.tables[root].key
    dropped = KeysDropped.of(key, gone.rename_columns(list(key)))
    left = related.engine.map_rows(related.tables[root], dropped, related.tables[root].schema)
    return closed(related.having({root: left}))


def counts_of(related: RelatedTables) -> Mapping[str, int]:
    """Records of each table."""
    return {name: related.engine.count(table) for name, table in related.tables.items()}


def row_hashes(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> NDArray[np.int64]:
    """A hash of some columns of each row, shape (n, 2), by their order and whatever their names."""
    cells = [table.column(name) for name in columns]
    named = type(table).from_arrays(cells, names=[f"{at:03}" for at in range(len(columns))])
    return content_hash(named, Seed.public("privpipe/rows of persons"))


def _words(rows: RowBlock, columns: tuple[str, ...]) -> NDArray[np.uint64]:
    return row_hashes(rows.batch, columns)[:, 1].view(np.uint64)


@dataclass(frozen=True)
class PersonBucket:
    """A number for each row, the same for all rows of a person; many persons share one."""

    columns: tuple[str, ...]
    buckets: int

    def __call__(self, rows: RowBlock) -> Ints:
        return (_words(rows, self.columns) % np.uint64(self.buckets)).astype(np.int64)

    @classmethod
    def of(cls, columns: tuple[str, ...], rows: int) -> PersonBucket:
        """Enough buckets for this number of rows."""
        return cls(columns, max(1, rows // ROWS_IN_BUCKET))


@dataclass(frozen=True)
class Capped:
    """At most a number of rows of each person, from all rows of some persons.

    Parameters
    ----------
    persons : tuple of str
        Columns of the person's key.
    at_most : int
    keep : {"random", "first", "last"}
        Which: by a keyed draw, or by a column; equal values by the draw, rows without a value last.
    stream : Stream
    column : str, optional
    """

    persons: tuple[str, ...]
    at_most: int
    keep: Kept
    stream: Stream
    column: str | None = None

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        words = _words(rows, self.persons)
        keys: list[NDArray[Any]] = [self.stream.order(rows.record_ids)]
        if self.column is not None:
            keys.append(_places(rows.column(self.column), backwards=self.keep == "last"))
        order = np.lexsort((*keys, words))
        own = words[order]
        fresh = np.ones(len(own), np.bool_)
        fresh[1:] = own[1:] != own[:-1]
        starts = np.flatnonzero(fresh)
        places = np.arange(len(own)) - np.repeat(starts, np.diff(np.append(starts, len(own))))
        return rows.take(np.sort(order[places < self.at_most]))


def _places(column: pa.Array, *, backwards: bool) -> Ints:
    """The rank of each distinct value, missing ones last."""
    encoded = column.dictionary_encode()
    distinct = value_order(encoded.dictionary).to_numpy()
    ranks = np.empty(len(distinct) + 1, dtype=np.int64)
    ranks[distinct] = np.arange(len(distinct))[::-1] if backwards else np.arange(len(distinct))
    ranks[len(distinct)] = len(distinct)
    found: Ints = ranks[pc.fill_null(encoded.indices, len(distinct)).to_numpy(zero_copy_only=False)]
    return found


MOST_SUPPRESSED = 20_000_000
"""Persons that may be suppressed: their keys are held by the process that drives the engine."""


def failing_persons(
    related: RelatedTables, guarantees: Sequence[JointGuarantee], census: Census, enough: int | None = None
) -> pa.Table:
    """The keys of the persons that have to go.

    Parameters
    ----------
    enough : int, optional
        The search stops once more than this many have to be removed.

    Raises
    ------
    UnsupportedError
        They are more than are held.
    """
    for guarantee in guarantees:
        related.require_few(census, guarantee.knows)
    root, left, gone = related.tree.root, related, []
    many = 0
    while many < census.persons and (enough is None or many <= enough):
        found = [persons_failing(left, guarantee, census) for guarantee in guarantees]
        lost = pa.concat_tables(found).group_by(found[0].column_names).aggregate([])
        if not lost.num_rows:
            break
        many += lost.num_rows
        if many > MOST_SUPPRESSED:
            raise UnsupportedError(
                f"more than {MOST_SUPPRESSED:,} persons would have to go; generalize or cap rows before"
            )
        gone.append(lost)
        key = related.tree.tables[root].key
        dropped = KeysDropped.of(key, lost.rename_columns(list(key)))
        table = related.engine.map_rows(left.tables[root], dropped, left.tables[root].schema)
        left = left.having({root: table})
    return pa.concat_tables(gone) if gone else pa.table({})


def persons_failing(related: RelatedTables, guarantee: JointGuarantee, census: Census) -> pa.Table:
    """Keys of the persons for whom some knowledge has a group that fails a guarantee."""
    groups, query, facts = related.groups(guarantee.knows, guarantee.row_counts, guarantee.sensitive, census)
    failing = related.engine.keep_classes(groups, query, Fails(guarantee.score, facts))
    persons = person_columns(failing)
    return related.engine.distinct(failing, persons).select(list(persons))
