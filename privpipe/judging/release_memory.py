"""What a ledger keeps of a release: keyed hashes of its classes, persons and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Facts, RowBlock, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.release_history import NoiseRows, ReleaseRows
from privpipe.engines import Engine
from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.draws import Seed

__all__ = [
    "Ints",
    "LedgerUnit",
    "NoiseStage",
    "Words",
    "class_memory",
    "collected_rows",
    "gathered_rows",
    "gathered_words",
    "hashed_rows",
    "noise_memory",
    "places_of",
    "require_keys",
    "row_texts",
    "spelt_units",
    "unit_words",
]


Words = tuple[Ints, ...]


@dataclass(frozen=True)
class _Hashed:
    """A reduction: ids of records, and the keyed hashes of some sets of their columns; no value leaves the engine.

    `filled`: a missing value is an empty text, as in a CSV file. `steps` normalise every text. `folds`: of which sets
    the texts are hashed without case, surrounding spaces and Unicode form.
    """

    sets: tuple[tuple[str, ...], ...]
    seeds: tuple[Seed, ...]
    filled: bool = False
    steps: tuple[str, ...] = ()
    folds: tuple[bool, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(dict.fromkeys(name for names in self.sets for name in names))

    @property
    def widths(self) -> tuple[int, ...]:
        """Words of each array."""
        return (2,) * (1 + len(self.sets))

    def measure(self, block: RowBlock, facts: Facts) -> list[Words]:
        """Ids, then the hash of each set."""
        import pyarrow as pa

        from privpipe.judging.notes import folded
        from privpipe.kernels.ids.record_ids import content_hash, normalised

        hashes = []
        for at, (columns, seed) in enumerate(zip(self.sets, self.seeds, strict=True)):
            if not columns:  # all records are one class then
                hashes.append(np.zeros((len(block), 2), dtype=np.int64))
                continue
            texts = row_texts(block, columns, filled=self.filled)
            texts = {name: normalised(texts[name], self.steps) for name in texts}
            if self.folds and self.folds[at]:
                texts = {name: folded(text) for name, text in texts.items()}
            hashes.append(content_hash(pa.table(texts), seed))
        return [tuple(np.ascontiguousarray(words) for words in (block.record_ids, *hashes))]

    def merge(self, left: list[Words], right: list[Words]) -> list[Words]:
        """Both, in any order."""
        return left + right

    def judge(self, observed: Any, facts: Facts) -> Verdict:
        """Judges nothing."""
        raise TypeError("hashes are judged by the measures that requested them")


@dataclass(frozen=True)
class LedgerUnit:
    """What a ledger follows from release to release, and how it is hashed.

    Parameters
    ----------
    columns : tuple of str
        Columns of the original that distinguish the units: the key of persons, or the quasi-identifiers.
    seed : Seed
        Keys the hashes; the same for all releases of a ledger.
    persons : bool
        Whether the units are persons.
    normalise : tuple of str
        What is done to the keys of persons before.
    """

    columns: tuple[str, ...]
    seed: Seed = field(repr=False)
    persons: bool
    normalise: tuple[str, ...] = ()


def class_memory(
    engine: Engine,
    original: Any,
    released: Any,
    *,
    unit: LedgerUnit,
    keys: Sequence[str],
    sensitive: str | None,
) -> ReleaseRows:
    """The rows a ledger keeps of a release.

    Parameters
    ----------
    original, released : Table
        With the same record ids; the release without its suppressed records.
    unit : LedgerUnit
    keys : sequence of str
        Released quasi-identifiers.
    sensitive : str, optional
        A released column.

    Raises
    ------
    DataError
        A released record whose person's key is missing or empty: it could not be followed.
    """
    from privpipe.kernels.grouping.word_groups import group_rows

    seed = unit.seed
    before = spelt_units(engine, original, unit)
    sets, with_seeds = [tuple(keys)], [_seed_of(seed, "class")]
    if sensitive is not None:
        sets.append((sensitive,))
        with_seeds.append(_seed_of(seed, "value"))
    after = gathered_words(engine, released, _Hashed(tuple(sets), tuple(with_seeds)))
    places = places_of(before[0], after[0])
    known = places >= 0  # a record that was made up belongs to no one
    if unit.persons:
        require_keys(before[1][places[known]], unit)
    joined = np.ascontiguousarray(np.hstack([before[1][places[known]], *(words[known] for words in after[1:])]))
    numbers, firsts = group_rows(joined)
    order = np.lexsort(joined[firsts].T[::-1])  # no trace of the files' order
    distinct = joined[firsts][order]
    counts = np.bincount(numbers, minlength=len(firsts))[order].astype(np.int64)
    values = distinct[:, 4:6] if sensitive is not None else None
    folds = before[2][places[known]][firsts][order] if unit.persons else None
    return ReleaseRows(
        distinct[:, :2],
        distinct[:, 2:4],
        counts,
        values,
        sensitive=sensitive,
        unit=tuple(sorted(unit.columns)),
        folds=folds,
    )


def require_keys(units: Ints, unit: LedgerUnit) -> None:
    """Refuse records without a key, which cannot be followed: all would have the same hash.

    Raises
    ------
    DataError
    """
    import pyarrow as pa

    from privpipe.kernels.ids.record_ids import content_hash

    seed, columns = _seed_of(unit.seed, "person"), unit.columns
    nothing = [
        content_hash(pa.table({name: pa.array([text], pa.string()) for name in columns}), seed) for text in (None, "")
    ]
    missing = sum(int((units == words).all(axis=1).sum()) for words in nothing)
    if missing:
        raise DataError(
            f"{missing:,} released records have no {', '.join(map(repr, columns))}: the ledger follows persons by it, "
            "and cannot recognise who they are; give them one, or leave these records out"
        )


@dataclass(frozen=True)
class _Whole:
    """A reduction that brings records with their ids to the driver."""

    def measure(self, block: RowBlock, facts: Facts) -> list[tuple[Any, Ints]]:
        """The block, and its ids."""
        return [(block.batch, block.record_ids)]

    def merge(self, left: list[tuple[Any, Ints]], right: list[tuple[Any, Ints]]) -> list[tuple[Any, Ints]]:
        """Both, in any order."""
        return left + right

    def judge(self, observed: Any, facts: Facts) -> Verdict:
        """Judges nothing."""
        raise TypeError("gathered records are judged by the measures that requested them")


def gathered_rows(engine: Engine, table: Any, columns: Sequence[str]) -> tuple[Any, Ints]:
    """A pyarrow Table of some columns and the record ids, in the order of the ids."""
    whole, ids = collected_rows(engine, table, columns)
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    return whole.take(order), ids[order]


def collected_rows(engine: Engine, table: Any, columns: Sequence[str]) -> tuple[Any, Ints]:
    """A pyarrow Table of some columns and the record ids, as the engine has them: in no order that can be relied on."""
    import pyarrow as pa

    parts = engine.reduce_rows(table, columns, _Whole(), Facts()) or []
    whole = pa.Table.from_batches([batch.select(list(columns)) for batch, _ in parts])
    return whole, np.concatenate([ids for _, ids in parts])


def hashed_rows(engine: Engine, table: Any, columns: Sequence[str], seed: Seed) -> tuple[Ints, Ints]:
    """Ids of all records, and the hash of their texts as `row_texts` gives them."""
    ids, hashes = gathered_words(engine, table, _Hashed((tuple(columns),), (seed,), filled=True))
    return ids, hashes


def row_texts(rows: Any, columns: Sequence[str], *, filled: bool = True) -> dict[str, Any]:
    """Canonical texts of some columns of a table or block; `filled`: a missing value is an empty text."""
    import pyarrow.compute as pc

    from privpipe.hierarchies import canonical_text

    texts = {name: canonical_text(rows.column(name), None, column=name) for name in columns}
    return {name: pc.fill_null(text, "") for name, text in texts.items()} if filled else texts


def spelt_units(engine: Engine, original: Any, unit: LedgerUnit) -> Words:
    """As `unit_words`; of persons also the keyed hash of the folded spelling."""
    if not unit.persons:
        return unit_words(engine, original, unit)
    seeds = (_seed_of(unit.seed, "person"), _seed_of(unit.seed, "person folded"))
    spelt = _Hashed((unit.columns, unit.columns), seeds, steps=unit.normalise, folds=(False, True))
    return gathered_words(engine, original, spelt)


def unit_words(engine: Engine, original: Any, unit: LedgerUnit) -> tuple[Ints, Ints]:
    """Ids of all records, and the keyed hash of the person (or combination) each is of."""
    own = _seed_of(unit.seed, "person" if unit.persons else "combination")
    ids, words = gathered_words(engine, original, _Hashed((unit.columns,), (own,), steps=unit.normalise))
    return ids, words


def _seed_of(seed: Seed, label: str) -> Seed:
    from privpipe.draws import Seed

    return Seed(seed.key(f"ledger {label}"))


def gathered_words(engine: Engine, table: Any, reduction: Any) -> Words:
    """What a reduction of this kind gives over a whole table: arrays side by side, one row per record."""
    parts = engine.reduce_rows(table, list(reduction.columns), reduction, Facts()) or []
    empty = tuple(np.zeros((0, width), dtype=np.int64) for width in reduction.widths)
    return tuple(np.concatenate(each) for each in zip(empty, *parts, strict=True))


def places_of(ids: Ints, asked: Ints) -> Ints:
    """The place of each requested id among the ids; -1: nowhere."""
    from privpipe.kernels.grouping.word_groups import group_rows

    numbers, firsts = group_rows(np.concatenate([ids, asked]))
    places = np.full(len(firsts), -1, dtype=np.int64)
    places[numbers[: len(ids)]] = np.arange(len(ids))
    found: Ints = places[numbers[len(ids) :]]
    return found


@dataclass(frozen=True, kw_only=True)
class NoiseStage:
    """A stage that added noise.

    Parameters
    ----------
    table : Table
        As it entered the stage.
    columns : tuple of str
    together : bool
        Noise was drawn for all columns together.
    ratio : float
    spares_zeros : bool
        Zeros stay zeros, as the policy says: they are not secret, and left out.
    unchanged : frozenset of str
        Columns that have no variance, in the table or in a stratum.
    key_ids : mapping of str to str
        Name of the stage key of each column.
    """

    table: Any = field(repr=False)
    columns: tuple[str, ...]
    together: bool
    ratio: float
    spares_zeros: bool = False
    unchanged: frozenset[str] = frozenset()
    key_ids: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class _Numbers:
    """A reduction: ids, and for each column whether there is a number to hide, and the hash of it (or of all)."""

    columns: tuple[str, ...]
    seed: Seed
    spares_zeros: bool

    @property
    def widths(self) -> tuple[int, ...]:
        """Words of each array."""
        return (2, 2, *(3 for _ in self.columns))

    def measure(self, block: RowBlock, facts: Facts) -> list[Words]:
        """Ids, the hash of the values together, then for each column its hash and a flag, side by side."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from privpipe.kernels.ids.record_ids import content_hash

        texts = row_texts(block, self.columns, filled=False)
        whole = content_hash(pa.table({str(at): texts[name] for at, name in enumerate(self.columns)}), self.seed)
        found = [np.ascontiguousarray(block.record_ids), whole]
        for name in self.columns:
            words = content_hash(pa.table({"0": texts[name]}), self.seed)
            hidden = pc.is_valid(texts[name])
            if self.spares_zeros:
                hidden = pc.and_(hidden, pc.not_equal(pc.fill_null(texts[name], "0"), "0"))
            flag = hidden.to_numpy(zero_copy_only=False).astype(np.int64)
            found.append(np.column_stack([words, flag]))
        return [tuple(found)]

    def merge(self, left: list[Words], right: list[Words]) -> list[Words]:
        """Both, in any order."""
        return left + right

    def judge(self, observed: Any, facts: Facts) -> Verdict:
        """Judges nothing."""
        raise TypeError("hashes are judged by the measures that requested them")


def noise_memory(
    engine: Engine,
    original: Any,
    released: Any,
    stages: Sequence[NoiseStage],
    *,
    unit: LedgerUnit,
    bare: Sequence[str] = (),
) -> NoiseRows:
    """The rows a ledger keeps of the noise of a release.

    Parameters
    ----------
    original, released : Table
        With the same record ids; the release without its suppressed records.
    unit : LedgerUnit
        Of persons.
    bare : sequence of str
        Numeric columns released unchanged.
    """
    names: list[tuple[str, str]] = []
    parts: list[tuple[Ints, ...]] = []
    seed = unit.seed
    persons = unit_words(engine, original, unit) if stages else None
    for stage in stages:
        columns = tuple(name for name in stage.columns if name in released.schema.names)
        if not columns or persons is None:
            continue
        reduction = _Numbers(columns, _own(seed, "number"), stage.spares_zeros)
        ids, whole, *numbers = gathered_words(engine, stage.table, reduction)
        after = gathered_words(engine, released, replace(reduction, spares_zeros=False))
        places, owners = places_of(ids, after[0]), places_of(persons[0], after[0])
        known = (places >= 0) & (owners >= 0)
        places, units, out = places[known], persons[1][owners[known]], [words[known] for words in after]
        for at, name in enumerate(columns):
            own = numbers[at][places]
            told = (own[:, 2] == 1) & (out[2 + at][:, 2] == 1)
            value, who = own[told, :2], units[told]
            tied = whole[places][told] if stage.together else value
            ratios = np.full(len(value), stage.ratio)
            if name in stage.unchanged:
                ratios[(out[2 + at][told, :2] == value).all(axis=1)] = 0.0
            key = _own(seed, f"key {stage.key_ids[name]}")
            draws = _hashed(key, ids[places][told], tied)
            parts.append(
                (who, np.full(len(value), len(names)), draws, _hashed(_own(seed, "value"), who, value), ratios)
            )
            names.append((name, key.key("id").hex()))
    shapes = ((0, 2), (0,), (0, 2), (0, 2))
    empty = (*(np.zeros(shape, dtype=np.int64) for shape in shapes), np.zeros(0))
    units, which, draws, values, ratios = (np.concatenate(each) for each in zip(empty, *parts, strict=True))
    order = np.lexsort((*draws.T, *units.T, which))  # no trace of the files' order
    arrays = (units[order], which[order], draws[order], values[order], ratios[order])
    return NoiseRows(tuple(names), *arrays, bare=tuple(bare))


def _own(seed: Seed, label: str) -> Seed:
    from privpipe.draws import Seed

    return Seed(seed.key(f"ledger noise {label}"))


def _hashed(seed: Seed, *words: Ints) -> Ints:
    """One keyed hash of several, row by row."""
    import pyarrow as pa

    from privpipe.kernels.ids.record_ids import content_hash

    columns = np.hstack(words).T
    return content_hash(pa.table({f"{at:02}": column for at, column in enumerate(columns)}), seed)
