"""Records of a release next to their originals: a keyed sample of them, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.row_reductions import bears_nothing
from privpipe.errors import PrivpipeError
from privpipe.hierarchies import canonical_text
from privpipe.roles import ColumnType, column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.engines import Engine
    from privpipe.hierarchies import Hierarchy, HierarchySpec
    from privpipe.kernels.losses.column_losses import CountedPairs

__all__ = [
    "LARGEST_SAMPLE",
    "CodedColumn",
    "ColumnValues",
    "Loss",
    "PairedColumn",
    "PairedSample",
    "Seen",
    "coded_column",
    "looked_at",
    "moments_moved",
    "paired_sample",
]


Loss = tuple[float | None, str]
"""A loss in [0, 1], and how it was measured."""
Seen = tuple[list[str | None], list[int]]
"""Distinct canonical texts, None for null, and the records of each."""
ROUNDING = 1e-12
"""A loss below this is a rounding error of added shares."""
NO_LOSS: Loss = (None, "")
NUMBERS = ("integer", "number", "decimal")
ORDERED = ("integer", "number", "decimal", "date", "timestamp")


@dataclass(frozen=True)
class ColumnValues:
    """The distinct values of a column in the order of their type, null last.

    Parameters
    ----------
    values : pyarrow.Array, shape (m,)
    counts : ndarray of int64, shape (m,)
        Cells of each.
    blank : ndarray of bool, shape (m,)
        Which values are not labels: null and the suppression mark.
    """

    values: pa.Array = field(repr=False)
    counts: Ints = field(repr=False)
    blank: Bools = field(repr=False)

    @property
    def labels(self) -> int:
        """Distinct labels."""
        return int((~self.blank).sum())

    @property
    def seen(self) -> Seen:
        """Every value but marks with its records, as a hierarchy is built for them."""
        texts = zip(self.texts, self.values.is_valid().to_pylist(), self.counts.tolist(), strict=True)
        found = [(text, count) for text, valid, count in texts if text is not None or not valid]
        return [text for text, _ in found], [count for _, count in found]

    @property
    def kind(self) -> ColumnType:
        """The type of its values."""
        return column_type_of(self.values.type)

    @property
    def ordered(self) -> bool:
        """Whether its values are numbers or points in time."""
        return self.kind in ORDERED

    @cached_property
    def texts(self) -> list[str | None]:
        """The values as canonical text; of a blank one, None."""
        found = canonical_text(self.values, self.kind).to_pylist()
        return [None if gone else text for text, gone in zip(found, self.blank.tolist(), strict=True)]


@dataclass(frozen=True)
class CodedColumn(ColumnValues):
    """A column as codes of its distinct values.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
    """

    codes: Ints = field(repr=False)

    @property
    def alone(self) -> ColumnValues:
        """What is left without the codes."""
        return ColumnValues(self.values, self.counts, self.blank)


def coded_column(column: pa.Array, mark: str) -> CodedColumn:
    """A column of a block in codes."""
    import pyarrow as pa

    from privpipe.engines.base.class_blocks import group_key, value_order

    encoded = group_key(column).dictionary_encode(null_encoding="encode")
    order = value_order(encoded.dictionary).to_numpy(zero_copy_only=False)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    values = encoded.dictionary.take(pa.array(order))
    codes = place[encoded.indices.to_numpy(zero_copy_only=False)] if len(order) else np.zeros(0, dtype=np.int64)
    blank = bears_nothing(values, mark) | np.asarray(values.is_null(nan_is_null=True))
    return CodedColumn(values, np.bincount(codes, minlength=len(values)), blank, codes)


@dataclass(frozen=True)
class PairedColumn:
    """A column before and after, with the pairs of cells of the records that both tables hold.

    Parameters
    ----------
    before, after : CodedColumn
    cells : CountedPairs
        Of their codes.
    """

    before: CodedColumn
    after: CodedColumn
    cells: CountedPairs

    @classmethod
    def of(cls, before: CodedColumn, after: CodedColumn, first: Ints, second: Ints) -> PairedColumn:
        """From the positions of the pairs in both."""
        from privpipe.kernels.losses.column_losses import counted_pairs

        return cls(before, after, counted_pairs(before.codes[first], after.codes[second], len(after.values)))

    @cached_property
    def changed(self) -> float | None:
        """Share of cells that differ; two blank ones do not."""
        return self._share(self._differ)

    @cached_property
    def blanked(self) -> float | None:
        """Share of cells that had a label and have none."""
        return self._share(self._gone)

    @cached_property
    def moved(self) -> dict[str, float | None]:
        """How zeros, signs, missing cells, mean and quantiles changed; see `ColumnLoss`, which has these names.

        Nothing but the missing cells of a column that is not a number before and after.
        """
        gone, absent = self.after.blank[self.cells.after], self.before.blank[self.cells.before]
        found = {"missing_changed": self._share_of(absent, ~gone)}
        if self.before.kind not in NUMBERS or self.after.kind not in NUMBERS:
            return found
        before, after = (_floats(side.values) for side in (self.before, self.after))
        first, second, kept = before[self.cells.before], after[self.cells.after], ~(absent | gone)
        zero = (first == 0) & ~absent
        found |= {
            "zeros": self._share(zero),
            "zeros_changed": self._share_of(zero, gone | (second != 0)),
            "signs_changed": self._share_of(kept & (first != 0), np.sign(first) * np.sign(second) < 0),
        }
        valued, left = ~absent & np.isfinite(first), ~gone & np.isfinite(second)
        return found | moments_moved(first[valued], self.cells.counts[valued], second[left], self.cells.counts[left])

    def loss(self, spec: HierarchySpec | None, seen: Seen | None = None) -> Loss:
        """What the released cells no longer reveal of the original ones.

        By the hierarchy where every released label is one of it over the value that it represents. Else by the
        correlation of ranks for numbers, by the uncertainty coefficient for other values: what it keeps, times the
        share of labels that are not blanked. Where labels have too few records for either, the share of labels that
        changed. None where there is no label before.

        Parameters
        ----------
        spec : HierarchySpec, optional
            The column's hierarchy.
        seen : texts and counts, optional
            The values it is built for, where these are more than are here.
        """
        valued = ~self.before.blank[self.cells.before]
        had = int(self.cells.counts[valued].sum())
        if not had:
            return NO_LOSS
        if spec is not None:
            lost = self._by_hierarchy(spec, seen)
            if lost is not None:
                return (lost if abs(lost) > ROUNDING else 0.0), "hierarchy"
        left = self.cells.where(valued & ~self._gone)
        share = left.records / had
        found, by = self._kept(left)
        if found is None:
            changed = int(self.cells.counts[valued & self._differ].sum())
            return changed / had, "cells"
        return min(1.0, max(0.0, 1.0 - found * share)), by

    def _kept(self, left: CountedPairs) -> tuple[float | None, str]:
        """The association that is left where there are labels on both sides."""
        from privpipe.kernels.losses.column_losses import rank_correlation, rank_ratio, uncertainty

        ranked = self.before.ordered and self.after.ordered
        by = "rank correlation" if self.before.ordered else "association"
        if self.before.labels < 2 or not self._differ.any():
            return (1.0 if left.records else 0.0), by
        if not left.records:
            return 0.0, by
        if ranked:
            return max(0.0, rank_correlation(left)), by
        return (rank_ratio(left) if self.before.ordered else uncertainty(left)), by

    @cached_property
    def _gone(self) -> Bools:
        found: Bools = ~self.before.blank[self.cells.before] & self.after.blank[self.cells.after]
        return found

    @cached_property
    def _differ(self) -> Bools:
        """Of each pair of codes."""
        same = self._same_code()[self.cells.after] == self.cells.before
        both = self.before.blank[self.cells.before] & self.after.blank[self.cells.after]
        found: Bools = ~(same | both)
        return found

    def _same_code(self) -> Ints:
        """For each released value the code of the same value before; -1 where there is none."""
        import pyarrow.compute as pc

        before, after = self.before.values, self.after.values
        if before.type == after.type:
            places = pc.fill_null(pc.index_in(after, value_set=before), -1)
            return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)
        number = {text: code for code, text in enumerate(self.before.texts) if text is not None}
        return np.array([-1 if text is None else number.get(text, -1) for text in self.after.texts], dtype=np.int64)

    def _share(self, chosen: Bools) -> float | None:
        records = self.cells.records
        return int(self.cells.counts[chosen].sum()) / records if records else None

    def _share_of(self, all_: Bools, chosen: Bools) -> float | None:
        """Of some of the cells the share that is also chosen; None over none."""
        records = int(self.cells.counts[all_].sum())
        return int(self.cells.counts[all_ & chosen].sum()) / records if records else None

    def _by_hierarchy(self, spec: HierarchySpec, seen: Seen | None) -> float | None:
        """Iyengar's loss over the labels before; None where a released one is not of the hierarchy over its value."""
        from privpipe.transforms.recoding.labelling import column_loss

        texts, counts = seen or self.before.seen
        own = self.before.texts
        known = np.array([text is not None for text in own], dtype=np.bool_)
        leaves = np.full(len(own), -1, dtype=np.int64)
        try:
            hierarchy = spec.build(texts, counts, self.before.kind)
            leaves[known] = hierarchy.encode([text for text in own if text is not None])
        except PrivpipeError:
            return None
        valued = ~self.before.blank[self.cells.before]
        kept = valued & ~self._gone
        shares = self._shares(hierarchy, leaves[self.cells.before[kept]], kept)
        if shares is None:
            return None
        gone = int(self.cells.counts[self._gone].sum())
        return min(1.0, column_loss(self.cells.counts[kept], shares, hierarchy.domain_size, gone))

    def _shares(self, hierarchy: Hierarchy, leaves: Ints, kept: Bools) -> Floats | None:
        """The share of the domain that each released label covers, by the lowest level that has it."""
        labels = self.after.texts
        own = self.cells.after[kept]
        found = np.full(len(leaves), np.nan)
        for level in range(hierarchy.height + 1):
            open_ = np.isnan(found) & (leaves >= 0)
            if not open_.any():
                break
            number = {label: code for code, label in enumerate(hierarchy.released_labels(level))}
            code_of = np.array([number.get(text, -1) for text in labels], dtype=np.int64)
            met = open_.copy()
            met[open_] = hierarchy.codes(level)[leaves[open_]] == code_of[own[open_]]
            found[met] = hierarchy.shares(level)[leaves[met]]
        return None if np.isnan(found).any() else found


def _floats(values: pa.Array) -> Floats:
    import pyarrow as pa
    import pyarrow.compute as pc

    found: Floats = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def moments_moved(before: Floats, times: Ints, after: Floats, times_after: Ints) -> dict[str, float | None]:
    """The change of the mean and the largest change of a quantile, in standard deviations before.

    None where a side has no cells, or all of those before are equal.

    Parameters
    ----------
    before, after : ndarray of float64
        Finite values.
    times, times_after : ndarray of int64
        Cells of each.

    Examples
    --------
    >>> moments_moved(np.array([0.0, 2.0]), np.array([5, 5]), np.array([1.0, 2.0]), np.array([5, 5]))
    {'mean_change': 0.5, 'quantile_change': 1.0}
    """
    if not len(before) or not len(after):
        return {"mean_change": None, "quantile_change": None}
    # Both changes are ratios: in a unit near the largest value, a power of two, no square or sum leaves 64-bit floats.
    unit = -int(np.frexp(max(np.abs(before).max(), np.abs(after).max()))[1])
    before, after = np.ldexp(before, unit), np.ldexp(after, unit)
    mean = float(np.average(before, weights=times))
    deviation = float(np.sqrt(np.average((before - mean) ** 2, weights=times)))
    if not deviation > 0:
        return {"mean_change": None, "quantile_change": None}
    moved = float(np.average(after, weights=times_after)) - mean
    pairs = zip(_quantiles(before, times), _quantiles(after, times_after), strict=True)
    return {
        "mean_change": moved / deviation,
        "quantile_change": max((b - a for a, b in pairs), key=abs) / deviation,
    }


def _quantiles(values: Floats, times: Ints) -> list[float]:
    """The smallest value that at least a given number of cells do not exceed."""
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(times[order])
    places = [int(np.searchsorted(upto, share * int(upto[-1]))) for share in QUANTILES]
    return [float(values[order[place]]) for place in places]


Side = Literal["original", "released"]
LARGEST_SAMPLE = 200_000
"""Records that are looked at on the driver, at most."""
WIDE = 50
"""Released columns from which on fewer are looked at, so that their cells stay as many."""
SMALLEST_SAMPLE = 20_000


@dataclass(frozen=True)
class PairedSample:
    """Records of both tables: all of them, or those of smallest id where the released table is large.

    Parameters
    ----------
    original, released : RowBlock
        Each in a separate order, records that only one table has among them.
    whole : bool
        Whether they are all there are.
    """

    original: RowBlock = field(repr=False)
    released: RowBlock = field(repr=False)
    whole: bool
    _values: dict[tuple[Side, str, str], ColumnValues] = field(default_factory=dict, repr=False, compare=False)

    def coded(self, side: Side, name: str, mark: str) -> CodedColumn:
        """A column of one side in codes, whose values are known from then on."""
        found = coded_column((self.released if side == "released" else self.original).column(name), mark)
        self._values[side, name, mark] = found.alone
        return found

    def values(self, side: Side, name: str, mark: str) -> ColumnValues:
        """The values of a column of one side."""
        known = self._values.get((side, name, mark))
        return self.coded(side, name, mark).alone if known is None else known

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Positions in both of the records that are in both."""
        from privpipe.kernels.ids.record_ids import partners

        return partners(self.original.record_ids, self.released.record_ids)

    def chosen(self, order: Stream, kept: Bools | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """As many of the pairs as are looked at, the first in a keyed order.

        Parameters
        ----------
        order : Stream
        kept : ndarray of bool, optional
            Which of the released records may be chosen.
        """
        first, second = self.pairs
        if kept is not None:
            allowed = kept[second]
            first, second = first[allowed], second[allowed]
        places = order.arrange(self.released.record_ids[second])[: looked_at(len(self.released.schema.names))]
        return first[places], second[places]


def looked_at(columns: int) -> int:
    """Records that are examined in a release with this number of columns.

    Examples
    --------
    >>> [looked_at(columns) for columns in (1, 50, 100, 300, 10_000)]
    [200000, 200000, 100000, 33333, 20000]
    """
    return max(min(LARGEST_SAMPLE, SMALLEST_SAMPLE), LARGEST_SAMPLE * WIDE // max(columns, WIDE))


def paired_sample(engine: Engine, released: Any, original: Any, columns: Sequence[str]) -> PairedSample | None:
    """The records of a table and of its original, with these columns of the original.

    None where the two tables cannot be aligned.
    """
    if original is None or not (original.has_record_ids and released.has_record_ids):
        return None
    records = max(engine.count(released), 1)
    share = 1.05 * LARGEST_SAMPLE / records
    if share < 1:  # a table that is brought whole needs no second count of its labels, however wide it is
        share = 1.05 * looked_at(len(released.schema.names)) / records
    sides = [
        _brought(engine, engine.select(table, list(names)), share)
        for table, names in ((original, columns), (released, released.schema.names))
    ]
    if not all(sides):
        return None
    first, second = (_together(side) for side in sides)
    return PairedSample(first, second, whole=share >= 1)


def _brought(engine: Engine, table: Any, share: float) -> list[pa.RecordBatch]:
    """The records of smallest id, which is keyed, on the driver."""
    thin = engine.thinned(table, share) if share < 1 else table
    return engine.reduce_rows(thin, list(table.schema.names), _Gathered(), Facts()) or []


class _Gathered:
    """A reduction that brings rows to the driver."""

    def measure(self, block: RowBlock, facts: Facts) -> list[pa.RecordBatch]:
        return [block.to_batch()]

    def merge(self, left: list[pa.RecordBatch], right: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return left + right


def _together(batches: Sequence[pa.RecordBatch]) -> RowBlock:
    import pyarrow as pa

    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return RowBlock(whole[0] if whole else batches[0])
