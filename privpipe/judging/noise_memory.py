"""What a ledger keeps of a release's noise: keyed hashes of draw, number and person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Facts, RowBlock, Verdict
from privpipe.blocks.release_history import NoiseRows
from privpipe.engines import Engine
from privpipe.judging.class_memory import Ints, LedgerUnit, Words, gathered_words, places_of, row_texts, unit_words

if TYPE_CHECKING:
    from privpipe.draws import Seed

__all__ = ["NoiseStage", "noise_memory"]


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
        Zeros stay zeros, as the policy says: they are no secret, and left out.
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
        raise TypeError("hashes are judged by the measures that asked for them")


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
        Numeric columns released as they are.
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
