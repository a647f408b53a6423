"""What a ledger keeps of tables: keyed hashes of persons, and the leaf cell of each table that their records are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks import Facts, RowBlock, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.release_history import ReleaseRows, TableRows
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError
from privpipe.hierarchies import Hierarchy, HierarchySpec, canonical_text
from privpipe.judging.release_memory import LedgerUnit, Words, gathered_words, places_of, require_keys, spelt_units
from privpipe.tables.aggregation import leaf_codes
from privpipe.tables.contribution_rows import in_units, truth_values
from privpipe.tables.table import Table
from privpipe.tables.table_history import columns_of, without_cells

__all__ = ["table_memory"]

MADE_UP = (
    "{number:,} records of the tables are none of the source, and belong to no person that the ledger could follow; "
    "leave out the stage that makes records, or the ledger"
)


@dataclass(frozen=True)
class _TableLeaves:
    """How the leaf cell of a record is found in one table."""

    by: tuple[str, ...]
    only: tuple[tuple[str, str], ...]
    drop_nulls: bool
    codes: tuple[Mapping[str | None, int], ...]
    sizes: tuple[int, ...]

    def leaves(self, texts: Mapping[str, Any], size: int) -> Ints:
        """The leaf cell of each record; -1 of those that the table leaves out."""
        import pyarrow.compute as pc

        inside = np.ones(size, dtype=np.bool_)
        for column, label in self.only:
            inside &= pc.fill_null(pc.equal(texts[column], label), False).to_numpy(zero_copy_only=False)
        found = np.zeros(size, dtype=np.int64)
        for column, codes, labels in zip(self.by, self.codes, self.sizes, strict=True):
            coded = texts[column].dictionary_encode()
            known = np.array([codes.get(text, -1) for text in [*coded.dictionary.to_pylist(), None]], dtype=np.int64)
            places = coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
            if self.drop_nulls:
                inside &= texts[column].is_valid().to_numpy(zero_copy_only=False)
            code = known[places]
            missing = int((code[inside] < 0).sum())
            if missing:
                raise DataError(f"column {column!r}: {missing:,} records of a part changed while they were counted")
            found = found * labels + np.maximum(code, 0)
        return np.where(inside, found, -1)


@dataclass(frozen=True)
class _Leaves:
    """A reduction: ids of records, their leaf cell in each table, and their contributions."""

    tables: tuple[_TableLeaves, ...]
    sums: tuple[tuple[str, int], ...]
    waived: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it reads."""
        own = [name for table in self.tables for name in (*table.by, *(column for column, _ in table.only))]
        waived = () if self.waived is None else (self.waived,)
        return tuple(dict.fromkeys([*own, *(column for column, _ in self.sums), *waived]))

    @property
    def widths(self) -> tuple[int, ...]:
        """Words of each array."""
        return (2, len(self.tables), len(self.sums), len(self.sums))

    def measure(self, block: RowBlock, facts: Facts) -> list[Words]:
        """Ids, leaves, contributions, and where there is one."""
        size = len(block)
        named = dict.fromkeys(name for t in self.tables for name in (*t.by, *(column for column, _ in t.only)))
        texts = {name: canonical_text(block.column(name), None) for name in named}
        leaves = np.column_stack([table.leaves(texts, size) for table in self.tables])
        values, present = (np.zeros((size, len(self.sums)), dtype=np.int64) for _ in range(2))
        for at, (column, decimals) in enumerate(self.sums):
            units = in_units(column, block.column(column), decimals)
            present[:, at] = units.is_valid().to_numpy(zero_copy_only=False)
            values[:, at] = units.fill_null(0).to_numpy(zero_copy_only=False)
        if self.waived is not None:
            present *= 1 + truth_values(self.waived, block.column(self.waived)).to_numpy(zero_copy_only=False)[:, None]
        return [(np.ascontiguousarray(block.record_ids), leaves, values, present)]

    def merge(self, left: list[Words], right: list[Words]) -> list[Words]:
        """Both, in any order."""
        return left + right

    def judge(self, observed: Any, facts: Facts) -> Verdict:
        """Judges nothing."""
        raise TypeError("leaves are judged by the guarantees on tables")


def table_memory(
    engine: Engine,
    original: Any,
    records: Any,
    tables: Mapping[str, Table],
    *,
    unit: LedgerUnit,
    person: str | None,
    hierarchies: Mapping[str, Hierarchy | HierarchySpec],
) -> ReleaseRows:
    """The rows a ledger keeps of a release of tables; the published figures are added when they are decided.

    Parameters
    ----------
    original, records : Table
        With the same record ids; the records are those that were counted.
    tables : mapping of str to Table
        As they were counted.
    unit : LedgerUnit
        Follows persons.
    person : str, optional
        Column of contributors; None: each record is one.

    Raises
    ------
    DataError
        A record whose person's key is missing, or that is not in the source.
    UnsupportedError
        Weights or a bound on contributions, which are not followed.
    """
    from privpipe.kernels.grouping.word_groups import group_rows

    _require_followed(tables)
    sums = tuple(
        (key, next(t.measures[key].figures.decimals for t in tables.values() if key in t.measures))
        for key in columns_of(list(tables.values()))
    )
    found = []
    waived = next((table.aggregated.spec.waived for table in tables.values()), None)
    for table in tables.values():
        spec, cells = table.aggregated.spec, table.cells
        codes = leaf_codes(engine, records, table.aggregated, person=person, hierarchies=hierarchies)
        only = tuple(sorted(spec.only.items()))
        found.append(_TableLeaves(spec.by, only, spec.drop_nulls, tuple(codes), cells.shape))
    ids, words, folds = spelt_units(engine, original, unit)
    own, leaves, values, present = gathered_words(engine, records, _Leaves(tuple(found), sums, waived))
    places = places_of(ids, own)
    if (places < 0).any():
        raise DataError(MADE_UP.format(number=int((places < 0).sum())))
    require_keys(words[places], unit)
    inside = (leaves >= 0).any(axis=1)
    numbers, firsts = group_rows(np.ascontiguousarray(words[places[inside]]))
    order = np.lexsort(words[places[inside]][firsts].T[::-1])  # no trace of the files' order
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    persons = rank[numbers]
    rows = _ordered(persons, leaves[inside], values[inside], present[inside])
    units = words[places[inside]][firsts][order]
    return ReleaseRows(
        units,
        np.zeros_like(units),
        np.bincount(persons, minlength=len(units)).astype(np.int64),
        unit=tuple(sorted(unit.columns)),
        folds=folds[places[inside]][firsts][order],
        tables=TableRows(without_cells(tables), (), *rows[:2], tuple(name for name, _ in sums), *rows[2:]),
    )


def _require_followed(tables: Mapping[str, Table]) -> None:
    for table in tables.values():
        spec = table.aggregated.spec
        for what in ("weight", "contribution_bound"):
            if getattr(spec, what) is not None:
                raise UnsupportedError(
                    f"a ledger does not follow tables with `{what}`; leave it out, or the ledger of the guarantees"
                )


def _ordered(persons: Ints, leaves: Ints, values: Ints, present: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows by person, cells and contributions, with no trace of the files' order; without sums, each only once.

    Contributions are kept record by record: another table may put two records of one person into two cells.
    """
    whole = np.column_stack([persons, leaves, values, present])
    whole = whole[np.lexsort(whole.T[::-1])]
    if not values.shape[1] and len(whole):
        whole = whole[np.diff(whole, axis=0, prepend=-2).any(axis=1)]
    ends = np.cumsum([1, leaves.shape[1], values.shape[1]])
    first, *rest = np.split(whole, ends, axis=1)
    cells, added, there = (np.ascontiguousarray(each) for each in rest)
    return first[:, 0], cells, added, there
