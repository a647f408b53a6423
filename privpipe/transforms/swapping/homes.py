"""The households of a table: a row each, with size, areas, profiles and risk, on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Asked", "Homes", "household_ids", "read_homes", "rows_moved"]

COUNT = "__count"


@dataclass(frozen=True)
class Asked:
    """The roles of columns of a household.

    Parameters
    ----------
    household : str
    areas, along : tuple of str
        Columns that move: areas from coarse to fine, and those that move along with them.
    profiles : tuple of tuple of str
        Columns in which donors agree, one list after the other.
    keys : tuple of str
        Columns by whose combination a person may be found in an area.
    risk : tuple of str
        Instead: columns of given risks, one per level or one for all.
    persons : tuple of str
        Columns whose different values are counted instead of records.
    """

    household: str
    areas: tuple[str, ...]
    along: tuple[str, ...]
    profiles: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]
    risk: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[str, ...]:
        """Columns in which a household has one value."""
        return tuple(dict.fromkeys((*self.areas, *self.along, *(name for names in self.profiles for name in names))))

    @property
    def named(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(dict.fromkeys((self.household, *self.own, *self.keys, *self.risk, *self.persons)))


@dataclass(frozen=True)
class Homes:
    """The households, in the order of their key.

    Parameters
    ----------
    rows : pyarrow.Table
        What of them moves.
    ids : ndarray of int64, shape (n, 2)
        By these they draw.
    sizes : ndarray of int64, shape (n,)
        Records of each.
    areas : ndarray of int64, shape (n, levels)
    area_ids : ndarray of int64, shape (finest areas, 2)
        By these the finest areas draw.
    kinds : tuple of ndarray of int64
        A profile each: households of one number agree in it, and in size.
    risk : ndarray of float64, shape (n, levels)
        The largest of their members.
    """

    rows: pa.Table = field(repr=False)
    ids: Ints = field(repr=False)
    sizes: Ints = field(repr=False)
    areas: Ints = field(repr=False)
    area_ids: Ints = field(repr=False)
    kinds: tuple[Ints, ...] = field(repr=False)
    risk: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)


def household_ids(column: pa.Array | pa.ChunkedArray) -> Ints:
    """Ids of households from their key, whatever its type; shape (n, 2).

    Examples
    --------
    >>> import pyarrow as pa
    >>> ids = household_ids(pa.array([7, 8, 7]))
    >>> bool((ids[0] == ids[2]).all()), bool((ids[0] == ids[1]).all())
    (True, False)
    """
    import pyarrow as pa

    from privpipe.draws import Seed
    from privpipe.hierarchies import canonical_text
    from privpipe.kernels.ids.record_ids import declared_id
    from privpipe.roles import column_type_of

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # No secret: draws are keyed by the seed, whatever ids they are of.
    return declared_id(canonical_text(whole, column_type_of(whole.type)), Seed.public("privpipe/record swap"))


def read_homes(engine: Primitives, table: Any, asked: Asked, place: str) -> Homes:
    """Read the households.

    Raises
    ------
    DataError
        Records without a household, an area or a risk; a household with several values in one of its columns; a
        given risk below 0.
    """
    found = engine.distinct(table, [asked.household, *asked.own])
    _refuse_missing(found, (asked.household, *asked.areas), place)
    first = _firsts(found[asked.household])
    if len(first) < found.num_rows:
        raise DataError(_several(found, first, asked, place))
    sizes = found[COUNT].to_numpy().astype(np.int64)
    areas = np.empty((len(first), len(asked.areas)), np.int64)
    area_ids = np.empty((0, 2), np.int64)
    for level in range(len(asked.areas)):
        areas[:, level] = _codes(found, asked.areas[: level + 1])
    if len(first):
        _, heads = np.unique(areas[:, -1], return_index=True)
        area_ids = _row_ids(found.select(list(asked.areas)).take(heads))
    kinds = [_together([sizes, _codes(found, names)]) for names in asked.profiles]
    return Homes(
        rows=found.select(list(dict.fromkeys((*asked.areas, *asked.along)))),
        ids=household_ids(found[asked.household]),
        sizes=sizes,
        areas=areas,
        area_ids=area_ids,
        kinds=tuple(kinds) or (sizes,),
        risk=_given_risk(engine, table, asked, place)
        if asked.risk
        else _counted_risk(engine, table, asked, areas, place),
    )


def _firsts(column: pa.ChunkedArray) -> Ints:
    """Where a run of equal keys begins."""
    codes = _indices(column)
    return np.flatnonzero(np.diff(codes, prepend=-1) != 0)


def _indices(column: pa.ChunkedArray) -> Ints:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _together(parts: Sequence[Ints]) -> Ints:
    """A number for each combination of numbers."""
    joined = parts[0]
    for part in parts[1:]:
        _, joined = np.unique(joined, return_inverse=True)
        joined = joined * (int(part.max(initial=0)) + 1) + part
    return np.asarray(np.unique(joined, return_inverse=True)[1], dtype=np.int64)


def _codes(rows: pa.Table, names: Sequence[str]) -> Ints:
    """A number for each combination of values; a missing one is a value."""
    return _together([_indices(rows[name]) for name in names]) if names else np.zeros(rows.num_rows, np.int64)


def _row_ids(rows: pa.Table) -> Ints:
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    return content_hash(rows.combine_chunks(), Seed.public("privpipe/record swap"))


def _counted_risk(engine: Primitives, table: Any, asked: Asked, areas: Ints, place: str) -> Floats:
    """One over the records (or persons) of an area that are like a member of the household, for the rarest member."""
    found = engine.distinct(table, list(dict.fromkeys((asked.household, *asked.keys, *asked.persons))))
    _refuse_missing(found, asked.persons, place)
    first, counts = _firsts(found[asked.household]), found[COUNT].to_numpy().astype(np.int64)
    home = np.repeat(np.arange(len(first)), np.diff([*first.tolist(), found.num_rows]))
    like = _codes(found, asked.keys)
    risk = np.zeros(areas.shape)
    for level in range(areas.shape[1] if len(first) else 0):
        cells = _together([areas[home, level], like])
        alike = np.bincount(cells, weights=counts) if not asked.persons else _persons_in(cells, found, asked.persons)
        alike = alike[cells]
        risk[:, level] = 1 / np.minimum.reduceat(alike, first)
    return risk


def _persons_in(cells: Ints, rows: pa.Table, persons: Sequence[str]) -> Ints:
    """Different persons of each cell; of several units the fewest."""
    pairs = [np.unique(np.column_stack([cells, _indices(rows[name])]), axis=0) for name in persons]
    return np.asarray(np.min([np.bincount(each[:, 0], minlength=int(cells.max()) + 1) for each in pairs], axis=0))


def _given_risk(engine: Primitives, table: Any, asked: Asked, place: str) -> Floats:
    """The largest risk of a member, by level."""
    found = engine.distinct(table, [asked.household, *dict.fromkeys(asked.risk)])
    _refuse_missing(found, asked.risk, place)
    first = _firsts(found[asked.household])
    risk = np.zeros((len(first), len(asked.areas)))
    for level in range(len(asked.areas) if len(first) else 0):
        name = asked.risk[level if len(asked.risk) > 1 else 0]
        values = RowBlock(found.select([name]).combine_chunks().to_batches()[0])[name]
        wrong = int((~(values >= 0) | np.isinf(values)).sum())
        if wrong:
            raise DataError(f"{place}: column {name!r} has {wrong:,} values that are not risks; a risk is at least 0")
        risk[:, level] = np.maximum.reduceat(values, first)
    return risk


def _refuse_missing(found: pa.Table, names: Sequence[str], place: str) -> None:
    import pyarrow.compute as pc

    for name in names:
        missing = pc.sum(found.filter(pc.is_null(found[name], nan_is_null=True))[COUNT]).as_py()
        if missing:
            raise DataError(
                f"{place}: column {name!r} has {missing:,} missing values; fill them in, or remove these records "
                "before households are swapped"
            )


def _several(found: pa.Table, first: Ints, asked: Asked, place: str) -> str:
    """Which columns differ within households, and in how many."""
    home = np.searchsorted(first, np.arange(found.num_rows), side="right")
    parts = []
    for name in asked.own:
        codes = _indices(found[name])
        differs = (np.diff(codes) != 0) & (np.diff(home) == 0)
        homes = len(np.unique(home[1:][differs]))
        if homes:
            parts.append(f"{name!r} in {homes:,}")
    return (
        f"{place}: members of a household differ in columns that are the household's own ({', '.join(parts)} of "
        f"{len(first):,} households); correct them, or name columns in which all members agree"
    )


@dataclass(frozen=True)
class _Moved:
    """Rows with the areas of the household that theirs exchanged with."""

    household: str
    known: Any = field(repr=False)
    values: pa.Table = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        at = pc.index_in(_words(household_ids(rows.column(self.household))), value_set=self.known)
        moved = at.is_valid()
        for name in self.values.column_names:
            new = self.values[name].combine_chunks().take(at)
            kept = rows.column(name)
            made = pc.if_else(moved, new.cast(kept.type), kept)
            rows = rows.replace(name, made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made)
        return rows


def rows_moved(homes: Homes, partner: Ints, household: str) -> _Moved:
    """The function of a block that gives each household the areas of its partner; those of none stay."""
    moved = np.flatnonzero(partner >= 0)
    return _Moved(household, _words(homes.ids[moved]), homes.rows.take(partner[moved]).combine_chunks())


def _words(ids: Ints) -> Any:
    import pyarrow as pa

    words = np.ascontiguousarray(ids)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])
