"""The distinct table: each combination of quasi-identifiers and sensitive values as integer codes, with its count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import NoSolutionError, UnsupportedError
from privpipe.hierarchies import Hierarchy, canonical_text
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext
from privpipe.transforms.class_failures import Combinations, judged_sets
from privpipe.transforms.generalize import Generalize, generalized_columns
from privpipe.transforms.suppression import sensitive_codes, text_ranks

__all__ = ["EncodedTable", "encode"]

LARGEST_LATTICE = 1 << 24


@dataclass(frozen=True)
class EncodedTable:
    """What a search reads; held in memory and never written.

    Parameters
    ----------
    columns : tuple of str
        Columns to generalize, m of them, in policy order.
    fixed : tuple of str
        Judged quasi-identifiers that stay as they are.
    hierarchies : tuple of Hierarchy, one a generalized column
    codes : ndarray of int32, shape (t, m + fixed)
        Leaf codes of the generalized columns, then ranks of the fixed ones' values.
    rows : Combinations
        Records and sensitive codes of each combination.
    records : int
        N, those suppressed for an unknown value included.
    unknown : int
        Records suppressed before all others because a hierarchy lacks their value.
    """

    columns: tuple[str, ...]
    fixed: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    codes: NDArray[np.int32] = field(repr=False)
    rows: Combinations = field(repr=False)
    records: int
    unknown: int

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each column stands in `codes`."""
        return {column: place for place, column in enumerate((*self.columns, *self.fixed))}

    @cached_property
    def lookups(self) -> list[list[tuple[int, NDArray[np.int64], int]]]:
        """Of each column and level: its place, the label's code of each leaf code, and how many labels there are."""
        found = [
            [
                (place, hierarchy.codes(level).astype(np.int64), len(hierarchy.labels(level)))
                for level in range(hierarchy.height + 1)
            ]
            for place, hierarchy in enumerate(self.hierarchies)
        ]
        for place in range(len(self.columns), self.codes.shape[1]):
            values = int(self.codes[:, place].max(initial=-1)) + 1
            found.append([(place, np.arange(values), values)])
        return found

    def lookup(self, column: str, levels: Sequence[int]) -> tuple[int, NDArray[np.int64], int]:
        """The entry of `lookups` for a column at a vector of levels."""
        place = self.places[column]
        return self.lookups[place][levels[place] if place < len(self.columns) else 0]

    def key_ranks(self, column: str, levels: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ranks of some combinations' released texts in a column: what class keys are ordered by, shape (n,)."""
        place = self.places[column]
        if place >= len(self.columns):
            fixed: NDArray[np.int64] = self.codes[rows, place].astype(np.int64)
            return fixed
        hierarchy, level = self.hierarchies[place], levels[place]
        texts: list[str | None] = list(hierarchy.texts(level))
        if level == 0 and hierarchy.null_code is not None:
            texts[hierarchy.null_code] = None
        ranks: NDArray[np.int64] = text_ranks(texts)[self.codes[rows, place]]
        return ranks

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

    The combinations come sorted, so nothing depends on the engine, its partitions or the order of the rows.

    Raises
    ------
    HierarchyError
        A value that a hierarchy lacks, by its rule.
    NoSolutionError
        No record is left.
    """
    columns = generalized_columns(stage, context)
    sets = judged_sets(context)
    fixed = tuple(key for key in sets.columns if key not in columns)
    distinct = engine.distinct(table, list(dict.fromkeys([*columns, *fixed, *sets.sensitive])))
    counts = distinct["__count"].to_numpy().astype(np.int64)
    hierarchies, codes = [], []
    for column in columns:
        hierarchy, leaves = _leaf_codes(distinct[column], counts, column, context)
        hierarchies.append(hierarchy)
        codes.append(leaves)
    codes += [_ranks(distinct[column], column) for column in fixed]
    matrix = np.stack(codes, axis=1).astype(np.int32)
    known = (matrix >= 0).all(axis=1)
    if not known.any():
        raise NoSolutionError(f"{context.place}: no record is left to generalize")
    sensitive = {column: sensitive_codes(distinct[column], column, context.base)[known] for column in sets.sensitive}
    return EncodedTable(
        columns=columns,
        fixed=fixed,
        hierarchies=tuple(hierarchies),
        codes=np.ascontiguousarray(matrix[known]),
        rows=Combinations(counts[known], sensitive),
        records=int(counts.sum()),
        unknown=int(counts[~known].sum()),
    )


def _leaf_codes(
    values: Any, counts: NDArray[np.int64], column: str, context: StageContext
) -> tuple[Hierarchy, NDArray[np.int64]]:
    distinct, places = _sorted_values(values)
    kind = context.types.get(column) or column_type_of(distinct.type)
    texts = canonical_text(distinct, kind, column=column).to_pylist()
    totals = np.bincount(places, weights=counts, minlength=len(texts)).astype(np.int64)
    hierarchy = context.hierarchies[column].build(texts, totals.tolist(), kind)
    return hierarchy, hierarchy.encode(texts).astype(np.int64)[places]


def _ranks(values: Any, column: str) -> NDArray[np.int64]:
    distinct, places = _sorted_values(values)
    return text_ranks(canonical_text(distinct, None, column=column).to_pylist())[places]


def _sorted_values(values: Any) -> tuple[Any, NDArray[np.int64]]:
    """Distinct values in the order of a histogram (nulls last), by which builders name leaves; and each row's place."""
    import pyarrow.compute as pc

    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    order = pc.sort_indices(encoded.dictionary).to_numpy()  # nulls last
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return encoded.dictionary.take(order), place[encoded.indices.to_numpy(zero_copy_only=False)]
