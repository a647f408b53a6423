"""The input of cell suppression: the distinct combinations as codes, the columns that may be blanked, and the cost of
a blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassModel
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.kernels.local_suppression.wildcard_matching import (
    MOST_COLUMNS,
    cheapest_covers,
    cheapest_first,
    matches,
    packed,
)
from privpipe.models.identity.k_anonymity import KAnonymity
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext
from privpipe.transforms.local_suppression.suppress_cells_stage import (
    BlankGroup,
    SuppressCellsStage,
    combinations_digest,
)

__all__ = ["Aim", "CellTable", "aim_of", "matching", "read_cells"]


PAIRS_A_MASK = 100
"""Combinations for each set of missing columns, below which comparing all pairs is cheaper than joining the sets."""


@dataclass(frozen=True)
class CellTable:
    """Distinct combinations of the keys, in the order of the engine's distinct table.

    Parameters
    ----------
    keys : tuple of str
        First the columns that may be blanked, then those that must match.
    columns : int
        How many may be blanked.
    codes : ndarray of int64, shape (t, m)
        -1 is a missing value that matches anything, or (own_value) one that equals a blank; others are at least 0.
    counts : ndarray of int64, shape (t,)
        Records of each combination.
    weights : ndarray of float64, shape (columns,)
    k : int
    wildcard : bool
        Whether a blank matches anything; one that is blank in every judged key still adds to no other record's class.
    judged : tuple of int
        Places of the keys that the guarantees are over; the others are strata.
    alone_at_most : float or None
        Under wildcards, largest share of the records that may stay complete and equal no other complete one.
    records : int
        Of the whole table.
    digest : str
        Of the engine's distinct table.
    """

    keys: tuple[str, ...]
    columns: int
    codes: Ints = field(repr=False)
    counts: Ints = field(repr=False)
    weights: Floats = field(repr=False)
    k: int
    wildcard: bool
    judged: tuple[int, ...]
    alone_at_most: float | None
    records: int
    digest: str

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def packed(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Combinations as words, the bits missing in them, the fields of the columns that may be blanked."""
        return packed(self.codes, self.columns)

    @cached_property
    def judged_bits(self) -> NDArray[np.uint64]:
        """Bits of the judged keys; a record that is blank in all of them counts for no others."""
        every = packed(self.codes, self.codes.shape[1])[2]
        bits = np.zeros(every.shape[1], np.uint64)
        for at in self.judged:
            bits |= every[at]
        return bits

    @cached_property
    def exposed(self) -> Bools:
        """Combinations of one complete record that, left unchanged, equal no other complete one."""
        complete = (self.codes[:, list(self.judged)] >= 0).all(axis=1)
        return np.asarray(complete & (self.counts == 1), dtype=np.bool_)

    @cached_property
    def completing(self) -> Ints:
        """Places of the columns that may be blanked and are judged: without a blank there a record stays complete."""
        return np.array([at for at in self.judged if at < self.columns], dtype=np.int64)

    @property
    def completing_bits(self) -> int:
        """The same columns, as bits."""
        return int((np.int64(1) << self.completing).sum())

    @property
    def limited(self) -> bool:
        """Whether few of the exposed records may stay complete, and a blank decides it."""
        return self.wildcard and self.alone_at_most is not None and len(self.completing) > 0

    @property
    def allowed(self) -> int:
        """How many of the exposed records may stay complete."""
        share = self.alone_at_most
        return len(self) if share is None or not self.limited else floor_share(share, self.records)

    def left_alone(self, blanks: Ints) -> Bools:
        """The exposed combinations that these blanks, as bits a combination, leave complete."""
        return np.asarray(self.exposed & (blanks & self.completing_bits == 0), dtype=np.bool_)

    def alone_too_many(self, blanks: Ints) -> int:
        """How many records beyond what is allowed these blanks leave complete and alone."""
        return max(0, int(self.left_alone(blanks).sum()) - self.allowed)

    @cached_property
    def sets(self) -> tuple[Ints, Floats]:
        """Every set of columns that may be blanked, cheapest first; cost by set."""
        return cheapest_first(self.weights)

    @cached_property
    def missing(self) -> Ints:
        """Columns that are missing in each combination already, as bits."""
        bits = np.int64(1) << np.arange(self.columns, dtype=np.int64)
        return np.asarray((self.codes[:, : self.columns] < 0) @ bits, dtype=np.int64)

    def blanked_cells(self, blank_groups: Sequence[BlankGroup]) -> Ints:
        """Cells that become blank in each column, shape (columns,); those of suppressed records are not counted."""
        found = np.zeros(self.columns, dtype=np.int64)
        for at, blanks, records in blank_groups:
            if blanks >= 0:
                found += records * ((blanks & ~int(self.missing[at])) >> np.arange(self.columns) & 1)
        return found

    def cost(self, blank_groups: Sequence[BlankGroup]) -> float:
        """Weights of all cells that become blank, added column by column."""
        return float(np.cumsum(self.blanked_cells(blank_groups) * self.weights)[-1])

    def lower_bound(self, members: Ints) -> float:
        """A cost that no blanks of some combinations, which meet no others, fall below.

        Where a blank is a value, a record's class agrees with it outside its blanks in the data already, so it pays
        at least for the cheapest blanks under which k do; under wildcards others' blanks may do all the work, so that
        one cell is all that is certain.
        """
        counts, missing = self.counts[members], self.missing[members]
        words, _, fields = packed(self.codes[members] + 1, self.columns)  # a missing value as one more value
        order, cost = self.sets
        if self.wildcard:
            words, hidden, fields = (part[members] if at < 2 else part for at, part in enumerate(self.packed))
            risky = matches(words, hidden, self.judged_bits, counts) < self.k
            return float(
                (counts[:, None] * self.weights)[(missing[:, None] >> np.arange(self.columns) & 1) == 0].min()
                if risky.any()
                else 0.0
            )
        none = np.zeros_like(words)
        covers = cheapest_covers(words, none, none[0], fields, counts, counts, order, self.k)
        certain = (covers > 0) & (missing == 0)
        sums = np.cumsum(np.where(certain, counts * cost[covers], 0.0))
        return float(sums[-1]) if len(sums) else 0.0

    def patterns(self, blank_groups: Sequence[BlankGroup]) -> tuple[Ints, Ints]:
        """Distinct codes and records of the table with these parcels blanked or suppressed; places are of `codes`."""
        left = self.counts.copy()
        rows, counts = [], []
        for at, blanks, records in blank_groups:
            left[at] -= records
            if blanks >= 0:
                row = self.codes[at].copy()
                row[: self.columns][(blanks >> np.arange(self.columns) & 1) == 1] = -1
                rows.append(row)
                counts.append(records)
        codes = np.concatenate([self.codes[left > 0], np.array(rows, dtype=np.int64).reshape(-1, self.codes.shape[1])])
        records_ = np.concatenate([left[left > 0], np.array(counts, dtype=np.int64)])
        distinct, owner = np.unique(codes, axis=0, return_inverse=True)
        merged = np.bincount(owner.ravel(), weights=records_, minlength=len(distinct)).astype(np.int64)
        return distinct, merged

    def failing(self, blank_groups: Sequence[BlankGroup]) -> dict[str, int]:
        """Records that are like fewer than k once these are blanked, by either reading of a blank."""
        codes, counts = self.patterns(blank_groups)
        empty = (codes[:, list(self.judged)] < 0).all(axis=1) & bool(self.judged)
        alike = np.empty(len(codes), dtype=np.int64)
        for part in (empty, ~empty):
            alike[part] = matching(codes[part], counts[part])
        return {
            "own_value": int(counts[counts < self.k].sum()),
            "wildcard": int(counts[alike < self.k].sum()),
        }


def matching(codes: Ints, counts: Ints) -> Ints:
    """Records that each distinct combination matches, -1 matching anything."""
    from privpipe.kernels.local_suppression.wildcard_matching import mask_count, matching_sizes

    if len(codes) >= PAIRS_A_MASK * mask_count(codes):
        return matching_sizes(codes, counts)
    words, missing, _ = packed(codes, codes.shape[1])
    return np.asarray(matches(words, missing, np.zeros_like(words[0]), counts), dtype=np.int64)


@dataclass(frozen=True)
class Aim:
    """What cells are suppressed for.

    Parameters
    ----------
    k : int
    columns, fixed, by : tuple of str
        Columns that may be blanked, those that must match, and the strata.
    judged : tuple of int
        Places among all of these of the keys that the guarantees are over.
    alone_at_most : float
        The least share of complete records alone that the stage or a guarantee allows.
    """

    k: int
    columns: tuple[str, ...]
    fixed: tuple[str, ...]
    by: tuple[str, ...]
    judged: tuple[int, ...]
    alone_at_most: float

    @property
    def keys(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.columns, *self.fixed, *self.by)


def aim_of(stage: SuppressCellsStage, context: StageContext) -> Aim:
    """What only the policy determines for a stage.

    Raises
    ------
    UsageError, UnsupportedError
        Errors of the policy: no guarantee to meet, a column that is not a quasi-identifier, too many of them.
    """
    _require_policy(context)
    sized = _size_models(context)
    k = max([stage.k or 1, *(entry.least_size() for entry in sized)])
    if k < 2 and not stage.combinations and stage.by_risk is None:
        raise UsageError(f"{context.place}: give `k:`, or a guarantee such as k_anonymity to work for")
    every = _judged_columns(sized, context.roles.quasi_identifiers)
    asked = _blanked_columns(stage, every, context)
    fixed = tuple(name for name in every if name not in (*asked, *stage.by))
    names = (*asked, *fixed, *stage.by)
    own = [at for at, name in enumerate(names) if name in every or (not every and name not in stage.by)]
    return Aim(k, asked, fixed, tuple(stage.by), tuple(own), _least_alone(stage, sized))


def _size_models(context: StageContext) -> list[ClassModel]:
    """The guarantees that ask for more than one record in a class."""
    entries = [guarantee.with_roles(context.roles) for guarantee in context.guarantees]
    return [entry for entry in entries if isinstance(entry, ClassModel) and entry.least_size() > 1]


def _judged_columns(sized: Sequence[ClassModel], known: Sequence[str]) -> list[str]:
    """All keys that the guarantees are over."""
    judged = [known if entry.quasi_identifiers is None else entry.quasi_identifiers for entry in sized]
    return list(dict.fromkeys(name for keys in judged for name in keys))


def _least_alone(stage: SuppressCellsStage, sized: Sequence[ClassModel]) -> float:
    alone = [entry.alone_at_most for entry in sized if isinstance(entry, KAnonymity)]
    return min([stage.alone_at_most, *(share for share in alone if share is not None)])


def _require_policy(context: StageContext) -> None:
    if context.nulls == "refuse":
        raise UsageError(
            f"{context.place}: a blank is a missing value, and the policy has `nulls: refuse`; "
            "write own_value or wildcard"
        )
    if context.person is not None:
        raise UnsupportedError(f"{context.place}: cells are suppressed by records, not persons as `person_id` requires")


def _blanked_columns(stage: SuppressCellsStage, judged: Sequence[str], context: StageContext) -> tuple[str, ...]:
    """Columns that may be blanked: those a stage names, else those that guarantees are over."""
    where, known, asked = context.place, context.roles.quasi_identifiers, stage.columns
    if asked is None:
        every = judged if judged and stage.k is None and not stage.combinations else known
        asked = tuple(name for name in known if name in every and name not in stage.by)
    for name in asked:
        if name not in known:
            raise UsageError(f"{where}: {name!r} is not a quasi-identifier{did_you_mean(name, known)}")
    if not asked:
        raise UsageError(f"{where}: there is no quasi-identifier whose cells could be blanked")
    if len(asked) > MOST_COLUMNS:
        raise UnsupportedError(
            f"{where}: {len(asked)} columns to blank, more than {MOST_COLUMNS}; every set of them is examined: "
            "name fewer under `columns:`"
        )
    return asked


def read_cells(engine: Any, table: Any, stage: SuppressCellsStage, context: StageContext) -> CellTable:
    """Count the distinct combinations on the engine and encode them on the driver; sorted, so always the same."""
    aim = aim_of(stage, context)
    columns, keys = aim.columns, aim.keys
    for name in stage.by:
        if name not in context.schema.names:
            raise DataError(f"{context.place}: `by` names {name!r}{did_you_mean(name, context.schema.names)}")
    wildcard = context.nulls == "wildcard"
    distinct = engine.distinct(table, list(keys))
    counts = distinct["__count"].to_numpy().astype(np.int64)
    blanks = [*columns, *(aim.fixed if wildcard else ())]  # elsewhere a missing value equals a missing value
    codes = np.empty((len(counts), len(keys)), dtype=np.int64)
    for at, name in enumerate(keys):
        codes[:, at] = _codes(distinct[name], missing=-1 if name in blanks else None)
    return CellTable(
        keys=keys,
        columns=len(columns),
        codes=codes,
        counts=counts,
        weights=_weights(stage, columns, context),
        k=aim.k,
        wildcard=wildcard,
        judged=aim.judged,
        alone_at_most=aim.alone_at_most,
        records=int(counts.sum()),
        digest=combinations_digest(distinct, keys, context.seed_key) if len(counts) else "",
    )


def _weights(stage: SuppressCellsStage, columns: tuple[str, ...], context: StageContext) -> Floats:
    """For each column; under an order a column outweighs the sum of all those to be blanked before it."""
    if stage.order is not None:
        if set(stage.order) != set(columns):
            raise UsageError(f"{context.place}: order must list every column that may be blanked: {', '.join(columns)}")
        m = len(columns)
        return np.array([float((m + 1) ** (m - 1 - stage.order.index(name))) for name in columns])
    for name in stage.weights:
        if name not in columns:
            raise UsageError(f"{context.place}: weights names {name!r}{did_you_mean(name, columns)}")
    return np.array([float(stage.weights.get(name, 1.0)) for name in columns])


def _codes(values: Any, missing: int | None) -> Ints:
    """Codes by first appearance; a missing value has the given one, else a separate one."""
    column = values.combine_chunks()
    if missing is None:
        indices = column.dictionary_encode(null_encoding="encode").indices
    else:
        indices = column.dictionary_encode().indices.fill_null(missing)
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int64)
