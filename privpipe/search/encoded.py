"""The distinct table: each combination of quasi-identifiers and sensitive values as integer codes, with its count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError, NoSolutionError, UnsupportedError
from privpipe.hierarchies import Hierarchy, canonical_text
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext
from privpipe.transforms.generalize import Generalize, generalized_columns
from privpipe.transforms.suppression import judged_sets

__all__ = ["EncodedTable", "encode", "grouped"]

LARGEST_LATTICE = 1 << 24


@dataclass(frozen=True)
class EncodedTable:
    """What a search reads; held in memory and never written.

    Parameters
    ----------
    columns : tuple of str
        Columns to generalize, m of them.
    hierarchies : tuple of Hierarchy, one a column
    codes : ndarray of int32, shape (t, m)
        Leaf codes.
    fixed : mapping of column to ndarray of int64, shape (t,)
        Codes of quasi-identifiers that stay as they are.
    sensitive : mapping of column to ndarray of int64, shape (t,)
        Codes of sensitive values: positions in the base distribution where there is one.
    counts : ndarray of int64, shape (t,)
        Records of each combination.
    records : int
        N, those suppressed for an unknown value included.
    unknown : int
        Records suppressed before all others because a hierarchy lacks their value.
    """

    columns: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    codes: NDArray[np.int32] = field(repr=False)
    fixed: Mapping[str, NDArray[np.int64]] = field(repr=False)
    sensitive: Mapping[str, NDArray[np.int64]] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    records: int
    unknown: int

    def labels(self, column: str, level: int) -> tuple[NDArray[np.int64], int]:
        """Code of each row's label at a level, and how many labels there are."""
        if column in self.fixed:
            codes = self.fixed[column]
            return codes, int(codes.max(initial=0)) + 1
        at = self.columns.index(column)
        hierarchy = self.hierarchies[at]
        return hierarchy.codes(level)[self.codes[:, at]].astype(np.int64), len(hierarchy.labels(level))

    def nodes(self) -> NDArray[np.int8]:
        """Every vector of levels within the columns' limits, in lexicographic order, shape (M, m).

        Raises
        ------
        UnsupportedError
            More than 2^24 of them.
        """
        ranges = [range(hierarchy.min_level, hierarchy.max_level + 1) for hierarchy in self.hierarchies]
        size = int(np.prod([len(levels) for levels in ranges], dtype=np.float64))
        if size > LARGEST_LATTICE:
            raise UnsupportedError(
                f"the lattice has {size:,} vectors of levels, an exhaustive proof serves {LARGEST_LATTICE:,}; "
                "narrow it with min_level and max_level of the columns, or generalize fewer columns"
            )
        grids = np.meshgrid(*[np.array(levels, dtype=np.int8) for levels in ranges], indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)


def encode(engine: Any, table: Any, stage: Generalize, context: StageContext) -> EncodedTable:
    """Count the distinct combinations on the engine and encode them on the driver.

    Raises
    ------
    HierarchyError
        A value that a hierarchy lacks, by its rule.
    NoSolutionError
        No record is left.
    """
    columns = generalized_columns(stage, context)
    sets = judged_sets(context)
    keys = dict.fromkeys(key for keys in sets for key in keys)
    sensitive = dict.fromkeys(
        column for models, _ in sets.values() for model in models for column in model.sensitive_columns()
    )
    fixed = [key for key in keys if key not in columns]
    wanted = [*columns, *fixed, *(column for column in sensitive if column not in keys)]
    distinct = engine.distinct(table, wanted)
    counts = distinct["__count"].to_numpy().astype(np.int64)
    hierarchies, leaves = [], []
    for column in columns:
        hierarchy, codes = _leaf_codes(distinct[column], counts, column, context)
        hierarchies.append(hierarchy)
        leaves.append(codes)
    codes = np.stack(leaves, axis=1)
    known = (codes >= 0).all(axis=1)
    if not known.any():
        raise NoSolutionError(f"{context.place}: no record is left to generalize")
    return EncodedTable(
        columns=columns,
        hierarchies=tuple(hierarchies),
        codes=codes[known],
        fixed={column: _local_codes(distinct[column])[known] for column in fixed},
        sensitive={column: _sensitive_codes(distinct[column], column, context)[known] for column in sensitive},
        counts=counts[known],
        records=int(counts.sum()),
        unknown=int(counts[~known].sum()),
    )


def grouped(keys: Sequence[tuple[NDArray[np.int64], int]], rows: int) -> tuple[NDArray[np.int64], int]:
    """Class of each row from its codes: dense numbers in the order of the codes, and how many classes.

    Codes are combined in mixed radix and made dense again before 64 bits would overflow.

    Examples
    --------
    >>> classes, count = grouped([(np.array([1, 0, 1]), 2), (np.array([3, 3, 3]), 4)], 3)
    >>> classes.tolist(), count
    ([1, 0, 1], 2)
    """
    combined, span = np.zeros(rows, dtype=np.int64), 1
    for codes, size in keys:
        if span > (2**62) // max(1, size):
            values, combined = np.unique(combined, return_inverse=True)
            span = len(values)
        combined = combined * size + codes
        span *= size
    values, classes = np.unique(combined, return_inverse=True)
    return classes.astype(np.int64), len(values)


def _leaf_codes(
    values: Any, counts: NDArray[np.int64], column: str, context: StageContext
) -> tuple[Hierarchy, NDArray[np.int32]]:
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    kind = context.types.get(column) or column_type_of(encoded.dictionary.type)
    texts = canonical_text(encoded.dictionary, kind, column=column).to_pylist()
    places = encoded.indices.to_numpy(zero_copy_only=False)
    totals = np.bincount(places, weights=counts, minlength=len(texts)).astype(np.int64)
    hierarchy = context.hierarchies[column].build(texts, totals.tolist(), kind)
    return hierarchy, hierarchy.encode(texts)[places]


def _local_codes(values: Any) -> NDArray[np.int64]:
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _sensitive_codes(values: Any, column: str, context: StageContext) -> NDArray[np.int64]:
    if column not in context.base.histograms:
        return _local_codes(values)
    import pyarrow.compute as pc

    known = context.base.histograms[column].values
    found = pc.index_in(values.combine_chunks(), value_set=known.cast(values.type))
    if found.null_count:
        raise DataError(f"the base distribution of {column!r} does not cover the values of the table")
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)
