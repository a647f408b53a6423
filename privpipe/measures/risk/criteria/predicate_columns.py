"""The columns of three tables as codes, and the parts of predicates that a release gives over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.hierarchies import canonical_text
from privpipe.kernels.linkage.predicates import CodedColumn, Parts
from privpipe.measures.risk.linkage.linkable_files import coded_texts
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.blocks import FilePair

__all__ = ["Coded", "ReleasedColumn", "coded", "joined_parts"]

Places = NDArray[np.int64]


@dataclass(frozen=True)
class ReleasedColumn:
    """The distinct released values of a column, in an order that is that of the values alone.

    Parameters
    ----------
    values : ndarray of int64, shape (v,)
        The code of each, as parts name it; -1 for a missing number.
    place : ndarray of int64, shape (n',)
        Which of them each row bears.
    counts : ndarray of int64, shape (v,)
    upper : ndarray of bool, shape (v,)
        Numbers above the median.
    largest : int
        The largest code of a number; -1 where the column is none.
    missing : int
        Place of the missing value among the distinct ones; -1 where none is missing.
    """

    values: Places = field(repr=False)
    place: Places = field(repr=False)
    counts: Places = field(repr=False)
    upper: NDArray[np.bool_] = field(repr=False)
    largest: int = -1
    missing: int = -1

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers or dates."""
        return self.largest >= 0

    def ends(self) -> tuple[Places, Places]:
        """Of each value the part that a row with it gives: from it on, up to it, or it alone."""
        if not self.numeric:
            return self.values, self.values
        known = self.values >= 0
        low = np.where(known & ~self.upper, 0, self.values)
        high = np.where(known & self.upper, self.largest, self.values)
        return low, high


@dataclass(frozen=True)
class Coded:
    """Three tables by the same columns."""

    released: tuple[ReleasedColumn, ...]
    tables: tuple[list[CodedColumn], list[CodedColumn], list[CodedColumn]] = field(repr=False)

    @property
    def offsets(self) -> Places:
        """Where the parts of each column begin."""
        return np.cumsum([0, *(len(column.values) for column in self.released)])[:-1].astype(np.int64)


def coded(pair: FilePair, originals: int, columns: Sequence[str], owner: str) -> Coded:
    """The columns of original, release and holdout; `pair` holds the holdout behind the original.

    Raises
    ------
    DataError
        An infinite number.
    """
    released: list[ReleasedColumn] = []
    tables: tuple[list[CodedColumn], list[CodedColumn], list[CodedColumn]] = ([], [], [])
    for name in columns:
        found = pair.finite_numbers(name, owner)
        column, own, shown, covered = _texts(pair, name) if found is None else _numbers(*found)
        released.append(column)
        tables[0].append(CodedColumn(own[:originals], covered))
        tables[1].append(CodedColumn(shown))
        tables[2].append(CodedColumn(own[originals:], covered))
    return Coded(tuple(released), tables)


def joined_parts(released: Sequence[ReleasedColumn]) -> Parts:
    """The parts that rows give, column after column, a part for each distinct value."""
    ends = [column.ends() for column in released]
    return Parts(
        np.repeat(np.arange(len(released)), [len(column.values) for column in released]),
        np.concatenate([low for low, _ in ends]),
        np.concatenate([high for _, high in ends]),
    )


Found = tuple[ReleasedColumn, Places, Places, NDArray[np.bool_] | None]


def _numbers(own: NDArray[np.float64], shown: NDArray[np.float64]) -> Found:
    values = np.unique(np.concatenate([own, shown]))
    values = values[~np.isnan(values)]
    codes = [np.where(np.isnan(side), -1, np.searchsorted(values, side)).astype(np.int64) for side in (own, shown)]
    distinct, place, counts = np.unique(codes[1], return_inverse=True, return_counts=True)
    known = shown[~np.isnan(shown)]
    upper = np.zeros(len(distinct), dtype=np.bool_)
    if len(known):
        upper = (distinct >= 0) & (values[np.maximum(distinct, 0)] > np.median(known))
    missing = 0 if len(distinct) and distinct[0] < 0 else -1
    column = ReleasedColumn(distinct, place.reshape(-1).astype(np.int64), counts, upper, len(values) - 1, missing)
    return column, codes[0], codes[1], None


def _texts(pair: FilePair, name: str) -> Found:
    own, shown, mismatch = coded_texts(pair, name)
    codes, first, place, counts = np.unique(shown, return_index=True, return_inverse=True, return_counts=True)
    column = pair.released.column(name)
    texts = canonical_text(column.take(first.tolist()), column_type_of(column.type), column=name).to_pylist()
    order = np.array(sorted(range(len(codes)), key=lambda at: (texts[at] is None, texts[at] or "")), dtype=np.int64)
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes))
    found = ReleasedColumn(
        codes[order].astype(np.int64),
        ranks[place.reshape(-1)],
        counts[order],
        np.zeros(len(codes), dtype=np.bool_),
        missing=int(ranks[texts.index(None)]) if None in texts else -1,
    )
    return found, own, shown, None if mismatch is None else ~mismatch
