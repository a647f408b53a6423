"""A finished release read back as levels of its hierarchies and suppressed classes, and the cost of its labels cell
by cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.file_pair import DistinctPair
from privpipe.errors import HierarchyError, PrivpipeError
from privpipe.hierarchies import Hierarchy, canonical_text
from privpipe.kernels.quality.table import Counted, TableOfCodes
from privpipe.measures.label_meaning import range_penalty
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "LabelCosts",
    "NotRecoded",
    "Recoded",
    "Text",
    "Texts",
    "cell_losses",
    "certainty_penalties",
    "recoded",
    "texts_of",
]


Text = str | None


class NotRecoded(PrivpipeError):
    """The given tables do not show the release to be a full-domain recoding; the message shows why."""


@dataclass(frozen=True)
class Recoded:
    """What quality models are evaluated on.

    Parameters
    ----------
    table : TableOfCodes
        Of the original where it is known, else of the release, with any value of a label in the label's place.
    levels : tuple of int
    gone : ndarray of bool, shape (t,)
        Suppressed combinations.
    values_known : bool
        Whether the original's values are.
    """

    table: TableOfCodes
    levels: tuple[int, ...]
    gone: Bools = field(repr=False)
    values_known: bool


@dataclass(frozen=True)
class Texts:
    """Distinct values of a column as canonical text, in their own order with nulls last, and each row's place."""

    values: list[Text] = field(repr=False)
    places: Ints = field(repr=False)
    kind: str

    def counts(self, records: Ints) -> list[int]:
        """Records of each value."""
        return [int(of) for of in np.bincount(self.places, weights=records, minlength=len(self.values))]


def texts_of(table: pa.Table, column: str) -> Texts:
    """A column of a distinct table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column_type_of(table.schema.field(column).type)
    encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
    encoded = pa.concat_arrays(encoded.chunks) if isinstance(encoded, pa.ChunkedArray) else encoded
    order = pc.sort_indices(encoded.dictionary).to_numpy()  # nulls last
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    texts = canonical_text(encoded.dictionary.take(pa.array(order)), kind, column=column).to_pylist()
    return Texts(texts, place[encoded.indices.to_numpy(zero_copy_only=False)], kind)


def recoded(pair: DistinctPair, response: str | None = None) -> Recoded:
    """The release as a node of its lattice, together with the original where the two fit, else by itself.

    Raises
    ------
    NotRecoded
    """
    columns = tuple(key for key in pair.keys if key in pair.hierarchies)
    fixed = tuple(key for key in pair.keys if key not in pair.hierarchies)
    if not columns:
        raise NotRecoded("no quasi-identifier has a `hierarchy:`, so there is no label to weigh")
    try:
        if pair.original is not None:
            found = _beside(pair, columns, fixed, response)
            if found is not None:
                return found
        return _alone(pair, columns, fixed, response)
    except HierarchyError as error:
        raise NotRecoded(f"a hierarchy does not fit: {error}") from None


def _beside(pair: DistinctPair, columns: Sequence[str], fixed: Sequence[str], response: str | None) -> Recoded | None:
    """From the original's values; None where the release is not a recoding of them by whole classes."""
    original, released = pair.original, pair.released
    assert original is not None
    counts = _counts(original)
    hierarchies, codes, levels, here, there = [], [], [], [], []
    for column in columns:
        values, labels = texts_of(original, column), texts_of(released, column)
        hierarchy = pair.hierarchies[column].build(values.values, values.counts(counts), values.kind)
        leaves = hierarchy.encode(values.values).astype(np.int64)[values.places]
        level = _level(hierarchy, column, labels.values, pair)
        hierarchies.append(hierarchy)
        codes.append(leaves)
        levels.append(level)
        here.append(np.where(leaves < 0, -1, hierarchy.codes(level)[leaves]))
        there.append(_label_codes(hierarchy, level, labels.values)[labels.places])
    for column in fixed:
        first, second = texts_of(original, column), texts_of(released, column)
        number = {text: at for at, text in enumerate(dict.fromkeys([*first.values, *second.values]))}
        codes.append(np.array([number[text] for text in first.values])[first.places])
        here.append(codes[-1])
        there.append(np.array([number[text] for text in second.values])[second.places])
    known: Bools = np.asarray((np.stack(codes, axis=1) >= 0).all(axis=1))
    gone = _suppressed(np.stack(here, axis=1), counts, known, np.stack(there, axis=1), _counts(released))
    if gone is None:
        return None
    matrix = np.stack(codes, axis=1)[known].astype(np.int32)
    rows = Counted(counts[known], _responses(original, response, known))
    unknown = int(counts[~known].sum())
    table = TableOfCodes(tuple(columns), tuple(fixed), tuple(hierarchies), matrix, rows, int(counts.sum()), unknown)
    return Recoded(table, tuple(levels), gone[known], values_known=True)


def _suppressed(
    here: Ints,
    counts: Ints,
    known: Bools,
    there: Ints,
    released: Ints,
) -> Bools | None:
    """Which of the original's combinations are missing; None where some class is there in part, or from elsewhere."""
    _, numbers = np.unique(np.concatenate([here, there]), axis=0, return_inverse=True)
    numbers = numbers.ravel()
    own, other = numbers[: len(here)], numbers[len(here) :]
    before = np.bincount(own, weights=np.where(known, counts, 0), minlength=numbers.max() + 1)
    after = np.bincount(other, weights=released, minlength=numbers.max() + 1)
    if ((after > 0) & (after != before)).any():
        return None
    gone: Bools = after[own] == 0
    return gone


def _alone(pair: DistinctPair, columns: Sequence[str], fixed: Sequence[str], response: str | None) -> Recoded:
    """Only from the labels, any value of which represents all; a suppressed cell has no value."""
    released = pair.released
    counts = _counts(released)
    hierarchies, codes, levels = [], [], []
    for column in columns:
        labels = texts_of(released, column)
        nulls: list[Text] = [None] if None in labels.values or "null" in labels.values else []
        hierarchy = pair.hierarchies[column].build(nulls, [1] * len(nulls), labels.kind)
        level = _level(hierarchy, column, labels.values, pair)
        leaves, first = np.unique(hierarchy.codes(level), return_index=True)
        any_value = np.zeros(int(leaves.max()) + 1, dtype=np.int64)
        any_value[leaves] = first
        hierarchies.append(hierarchy)
        levels.append(level)
        codes.append(any_value[_label_codes(hierarchy, level, labels.values)[labels.places]])
    codes += [texts_of(released, column).places for column in fixed]
    total = int(counts.sum())
    records = max(total + pair.marked, pair.records or 0)
    if pair.original is not None:
        records = max(records, int(_counts(pair.original).sum()))
    everything = np.ones(len(counts), dtype=np.bool_)
    rows = Counted(counts, _responses(released, response, everything))
    matrix = np.stack(codes, axis=1).astype(np.int32)
    table = TableOfCodes(tuple(columns), tuple(fixed), tuple(hierarchies), matrix, rows, records, records - total)
    return Recoded(table, tuple(levels), np.zeros(len(counts), dtype=np.bool_), values_known=False)


def _level(hierarchy: Hierarchy, column: str, labels: Sequence[Text], pair: DistinctPair) -> int:
    """The level the plan says, else the lowest that has all the labels."""
    planned = [stage["detail"]["levels"] for stage in pair.stages if stage["name"] == "generalize"]
    said = [int(levels[column]) for levels in planned if column in levels]
    for level in (*said, *range(hierarchy.height + 1)):
        if (_label_codes(hierarchy, level, labels) >= 0).all():
            return int(level)
    raise NotRecoded(
        f"column {column!r} was not released at one level of its hierarchy: quality models are of full-domain recoding"
    )


def _label_codes(hierarchy: Hierarchy, level: int, labels: Sequence[Text]) -> Ints:
    """Code of each label at a level; -1 where the level has it not."""
    number: dict[Text, int] = {label: code for code, label in enumerate(hierarchy.released_labels(level))}
    if level and hierarchy.null_code is not None:
        # Releases of before wrote a label for missing values.
        number.setdefault(hierarchy.label(level, hierarchy.null_code), int(hierarchy.codes(level)[hierarchy.null_code]))
    return np.array([number.get(label, -1) for label in labels], dtype=np.int64)


def _counts(table: pa.Table) -> Ints:
    return np.asarray(table["__count"].to_numpy(), dtype=np.int64)


def _responses(table: pa.Table, response: str | None, kept: Bools) -> dict[str, Any]:
    return {} if response is None else {response: texts_of(table, response).places[kept]}


@dataclass(frozen=True)
class LabelCosts:
    """Costs of a hierarchy's labels, each by its lowest level.

    Parameters
    ----------
    penalties, shares : mapping of label to float
        NCP: 0 for a single value, else share of the domain; and the share itself.
    domain_size : float

    Examples
    --------
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"]])
    >>> {label: round(ncp, 3) for label, ncp in LabelCosts.of(ages).penalties.items()}
    {'7': 0.0, '8': 0.0, '30': 0.0, 'child': 0.667, 'adult': 0.0, '*': 1.0}
    """

    penalties: Mapping[Text, float] = field(repr=False)
    shares: Mapping[Text, float] = field(repr=False)
    domain_size: float

    @classmethod
    def of(cls, hierarchy: Hierarchy) -> LabelCosts:
        """Of every label."""
        penalties: dict[Text, float] = {}
        shares: dict[Text, float] = {}
        for level in range(hierarchy.height + 1):
            leaves = np.bincount(hierarchy.codes(level))
            found = dict(zip(hierarchy.released(level), hierarchy.shares(level).tolist(), strict=True))
            for label, below in zip(hierarchy.released_labels(level), leaves.tolist(), strict=True):
                penalties.setdefault(label, 0.0 if below == 1 else found[label])
                shares.setdefault(label, found[label])
        if hierarchy.null_code is not None:
            penalties[None], shares[None] = 0.0, float(hierarchy.shares(0)[hierarchy.null_code])
            # Releases of before wrote a label for missing values.
            for costs in (penalties, shares):
                costs.setdefault(hierarchy.values[hierarchy.null_code], costs[None])
        return cls(penalties, shares, max(hierarchy.domain_size, 1.0))


def certainty_penalties(pair: DistinctPair, records: int) -> dict[str, float]:
    """Mean NCP of each quasi-identifier's cells over all records, 1 for a suppressed record's.

    By its hierarchy where a column has one; else by the range or the set that a label names, compared with the
    original; a column that still has values costs nothing.

    Raises
    ------
    NotRecoded
        Labels that nothing explains.
    """
    counts = _pair_counts(pair)
    lost, found = records - int(counts.sum()), {}
    for column in pair.keys:
        labels = texts_of(pair.released, column)
        if column in pair.hierarchies:
            each: Sequence[float] = _each(column, labels, LabelCosts.of(_hierarchy(pair, column)).penalties)
        else:
            each = _by_range(pair, column, labels)
        found[column] = (_weighted_sum(each, labels, counts) + lost) / records
    return found


def cell_losses(pair: DistinctPair, records: int) -> dict[str, float]:
    """Iyengar's u of each column that has a hierarchy, from the share of each cell's own label.

    Raises
    ------
    NotRecoded
        Labels that a hierarchy lacks, or no hierarchy at all.
    """
    counts = _pair_counts(pair)
    lost, found = records - int(counts.sum()), {}
    for column in pair.keys:
        if column not in pair.hierarchies:
            continue
        labels, costs = texts_of(pair.released, column), LabelCosts.of(_hierarchy(pair, column))
        total = _weighted_sum(_each(column, labels, costs.shares), labels, counts) + lost
        least = records / costs.domain_size
        found[column] = 0.0 if records == least else max(0.0, (total - least) / (records - least))
    if not found:
        raise NotRecoded("no quasi-identifier has a `hierarchy:`, so there is no label to weigh")
    return found


def _each(column: str, labels: Texts, costs: Mapping[Text, float]) -> list[float]:
    unknown = sum(label not in costs for label in labels.values)
    if unknown:
        raise NotRecoded(f"column {column!r} has {unknown:,} labels that its hierarchy does not have")
    return [costs[label] for label in labels.values]


def _by_range(pair: DistinctPair, column: str, labels: Texts) -> list[float]:
    if pair.original is None:
        return [0.0] * len(labels.values)
    values = texts_of(pair.original, column)
    found = [range_penalty(label, values.values, values.kind) for label in labels.values]
    unknown = sum(penalty is None for penalty in found)
    if unknown:
        raise NotRecoded(f"column {column!r} has no hierarchy and {unknown:,} labels that are not ranges of its values")
    return [penalty or 0.0 for penalty in found]


def _weighted_sum(each: Sequence[float], labels: Texts, counts: Ints) -> float:
    return float(np.cumsum(np.array(each) * np.array(labels.counts(counts)))[-1])


def _pair_counts(pair: DistinctPair) -> Ints:
    return np.asarray(pair.released["__count"].to_numpy(), dtype=np.int64)


def _hierarchy(pair: DistinctPair, column: str) -> Hierarchy:
    source = pair.released if pair.original is None else pair.original
    values = texts_of(source, column)
    texts, counts = values.values, values.counts(np.asarray(source["__count"].to_numpy(), dtype=np.int64))
    if pair.original is None:
        texts = [None] if None in texts else []
        counts = [1] * len(texts)
    try:
        return pair.hierarchies[column].build(texts, counts, values.kind)
    except HierarchyError as error:
        raise NotRecoded(f"a hierarchy does not fit: {error}") from None
