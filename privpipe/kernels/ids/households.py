"""Households: which of them are partly left, and the compositions of values that live together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.kernels.ids.record_ids import content_hash

__all__ = ["COMPOSITION", "Bucketed", "Composed", "composition_schema", "parts_of"]


def parts_of(before: pa.Table, after: pa.Table, household: str) -> pa.Table:
    """Households that lost some of their records and not all, with the number of those in `missing`.

    Parameters
    ----------
    before, after : pyarrow.Table
        One row per household, with its number of records in `__count`. Missing keys form no household.

    Examples
    --------
    >>> before = pa.table({"home": ["a", "b", "c", None], "__count": [2, 3, 1, 4]})
    >>> after = pa.table({"home": ["a", "b", None], "__count": [2, 1, 1]})
    >>> parts_of(before, after, "home").to_pydict()
    {'home': ['b'], 'missing': [2]}
    """
    known = after.filter(pc.is_valid(after[household]))
    places = pc.index_in(known[household], value_set=before[household].combine_chunks())
    missing = pc.subtract(before["__count"].take(places), known["__count"])
    found = pa.table({household: known[household], "missing": missing})
    return found.filter(pc.greater(found["missing"], 0))


COMPOSITION = ("__privpipe_composition_hi", "__privpipe_composition_lo", "__privpipe_members")
"""The columns that identify a composition: two words of a hash, and the number of members."""
BUCKETS = 4096
Words = NDArray[np.uint64]


def composition_schema(household: pa.Field) -> pa.Schema:
    """Schema of a table of one row per household."""
    return pa.schema([household, *(pa.field(name, pa.int64()) for name in COMPOSITION)])


@dataclass(frozen=True)
class Bucketed:
    """A number for each row, the same for all rows of a household; many households share one."""

    household: str

    def __call__(self, rows: RowBlock) -> Ints:
        return _words(rows, (self.household,), "household")[:, 0].astype(np.int64) % BUCKETS


@dataclass(frozen=True)
class Composed:
    """One row per household, from all rows of some households.

    A composition is the multiset of what the members have in `keys`; a member is a row, or the multiset of a person's
    rows. It is known by the sum of 128-bit hashes of its members, which no order changes, and by their number.

    Parameters
    ----------
    keys : tuple of str
    household : str
        Without missing values, which the caller sees to.
    person : str, optional

    Examples
    --------
    >>> rows = RowBlock(pa.record_batch({"home": ["a", "b", "a", "b"], "age": [1, 2, 2, 1]}))
    >>> made = Composed(("age",), "home")(rows, 0)
    >>> made.column(COMPOSITION[2]).to_pylist(), len(set(made.column(COMPOSITION[0]).to_pylist()))
    ([2, 2], 1)
    """

    keys: tuple[str, ...]
    household: str
    person: str | None = None

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        homes = _words(rows, (self.household,), "household")
        members = _words(rows, self.keys, "member") if self.keys else np.ones((len(rows), 2), np.uint64)
        firsts = np.arange(len(rows))
        if self.person is not None:
            people = _words(rows, (self.person,), "person")
            places, firsts = _groups(np.hstack([homes, people]))
            members = _hashed(_sums(members, places, len(firsts)), "rows of a person")
            homes = homes[firsts]
        places, chosen = _groups(homes)
        sums = _sums(members, places, len(chosen)).astype(np.int64)
        counts = np.bincount(places, minlength=len(chosen)).astype(np.int64)
        kept = rows.take(firsts[chosen])
        columns = [kept.column(self.household), *(pa.array(each) for each in (sums[:, 0], sums[:, 1], counts))]
        return kept.with_batch(pa.record_batch(columns, names=[self.household, *COMPOSITION]))


def _words(rows: RowBlock, columns: tuple[str, ...], purpose: str) -> Words:
    # In the order of `keys`, whatever their names: the hash goes through columns by name.
    chosen = pa.record_batch([rows.column(name) for name in columns], names=[f"{at:05}" for at in range(len(columns))])
    return content_hash(chosen, Seed.public(f"privpipe/compositions/{purpose}")).astype(np.uint64)


def _hashed(words: Words, purpose: str) -> Words:
    batch = pa.record_batch([pa.array(words[:, at].astype(np.int64)) for at in (0, 1)], names=["a", "b"])
    return content_hash(batch, Seed.public(f"privpipe/compositions/{purpose}")).astype(np.uint64)


def _groups(words: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The group of each row, and the first row of each group."""
    _, firsts, places = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return places.reshape(-1), firsts


def _sums(words: Words, places: NDArray[np.intp], groups: int) -> Words:
    sums = np.zeros((groups, 2), np.uint64)
    np.add.at(sums, places, words)
    return sums
