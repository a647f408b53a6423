"""Two released tables laid over one another by what anybody sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.comparison import EXPLAIN, Comparison, least
from privpipe.blocks.release_history import EarlierTables
from privpipe.hierarchies import canonical_text
from privpipe.measures.risk.releases.released_regions import explained_labels, relation_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Joined", "joined"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
LARGEST = 100_000_000
"""Pairs of classes that are compared at the most."""


@dataclass(frozen=True)
class Joined:
    """A release beside an earlier one.

    Parameters
    ----------
    crossing : int
        Pairs of classes that overlap and neither lies inside the other.
    smallest : int
        Records of the smaller class of any pair that overlaps, or of a class of the new release by itself.
    linked : float
        Share of the new rows that only one earlier row fits: in region and in every column both released as it was.
    joined_k : int
        Rows of the smallest class of the table of linked rows; 0: no row is linked.
    compared : tuple of Comparison
        Records whose label is explained, of the release and the column with the smallest share of them.
    """

    crossing: int
    smallest: int
    linked: float
    joined_k: int
    compared: tuple[Comparison, ...] = field(default=(), compare=False)


def joined(tables: EarlierTables, at: int) -> Joined | None:
    """The new release beside one earlier; None where there are too many pairs of classes."""
    new, old = tables.current, tables.earlier[at]
    own, own_keys, own_sizes = _classes(new, tables.keys)
    theirs, their_keys, their_sizes = _classes(old, tables.keys)
    if len(own_sizes) * len(their_sizes) > LARGEST:
        return None
    overlap = np.ones((len(own_sizes), len(their_sizes)), dtype=np.bool_)
    inside, around = overlap.copy(), overlap.copy()
    compared = []
    for name in tables.keys:
        # A column that a release lacks may be anything there.
        first, second = own_keys.get(name), their_keys.get(name)
        if first is None or second is None:
            inside &= second is None
            around &= first is None
            continue
        labels, codes = _numbered(first)
        other_labels, other_codes = _numbered(second)
        spec = tables.hierarchies.get(name)
        meet, small, large = relation_of(labels, other_labels, spec)
        known = explained_labels(labels, other_labels, spec)
        for side, shown, sizes in (("this", first, own_sizes), ("an earlier", second, their_sizes)):
            what = f"records of {side} release have a label of {name!r} that is explained"
            told = sizes[[label in known for label in shown]].sum()
            compared.append(Comparison(int(told), int(sizes.sum()), what, EXPLAIN))
        place = np.ix_(codes, other_codes)
        overlap &= meet[place]
        inside &= small[place]
        around &= large[place]
    nested = overlap & (inside | around)
    sizes = np.minimum(own_sizes[:, None], their_sizes[None, :])[overlap]
    smallest = int(min(own_sizes.min(), sizes.min(initial=own_sizes.min())))
    linked, joined_k = _linked(tables, new, old, own, theirs, overlap)
    return Joined(int((overlap & ~nested).sum()), smallest, linked, joined_k, least(compared))


def _classes(table: pa.Table, keys: Sequence[str]) -> tuple[Ints, dict[str, list[str | None]], Ints]:
    """The class of each row, the labels of each class by column, and its records."""
    columns = {name: _texts(table, name) for name in keys if name in table.schema.names}
    rows = list(zip(*columns.values(), strict=True)) if columns else [()] * table.num_rows
    seen: dict[tuple[str | None, ...], int] = {}
    numbers = np.array([seen.setdefault(row, len(seen)) for row in rows], dtype=np.int64)
    sizes = np.bincount(numbers, weights=table["__count"].to_numpy(), minlength=len(seen)).astype(np.int64)
    return numbers, {name: [row[at] for row in seen] for at, name in enumerate(columns)}, sizes


def _linked(
    tables: EarlierTables, new: pa.Table, old: pa.Table, own: Ints, theirs: Ints, overlap: Flags
) -> tuple[float, int]:
    """Share of new rows that a single earlier row fits, and rows of the smallest class they form together."""
    shared = [name for name in tables.joined if name in new.schema.names and name in old.schema.names]
    texts = _texts_of(new, shared), _texts_of(old, shared)
    seen: dict[tuple[str | None, ...], int] = {}
    told = [
        np.array([seen.setdefault(row, len(seen)) for row in _rows(side, table.num_rows)], dtype=np.int64)
        for side, table in zip(texts, (new, old), strict=True)
    ]
    counts, earlier = (table["__count"].to_numpy().astype(np.int64) for table in (new, old))
    order = np.argsort(told[1], kind="stable")
    starts = np.searchsorted(told[1][order], np.arange(len(seen) + 1))
    rows, pairs = 0, dict[tuple[int, int], int]()
    for at in range(len(own)):
        held = order[starts[told[0][at]] : starts[told[0][at] + 1]]
        fits = held[overlap[own[at], theirs[held]]]
        if earlier[fits].sum() == 1:
            rows += int(counts[at])
            pair = int(own[at]), int(theirs[fits[0]])
            pairs[pair] = pairs.get(pair, 0) + int(counts[at])
    return rows / int(counts.sum()), min(pairs.values(), default=0)


def _rows(columns: list[list[str | None]], number: int) -> list[tuple[str | None, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * number


def _texts_of(table: pa.Table, names: Sequence[str]) -> list[list[str | None]]:
    return [_texts(table, name) for name in names]


def _texts(table: pa.Table, name: str) -> list[str | None]:
    found: list[str | None] = canonical_text(table[name], None, column=name).to_pylist()
    return found


def _numbered(labels: Sequence[str | None]) -> tuple[list[str | None], Ints]:
    seen: dict[str | None, int] = {}
    codes = np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
    return list(seen), codes
