"""Predicates over a table: conjunctions of parts, and how many rows meet each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["CodedColumn", "Parts", "isolated_once_of", "matches"]

Places = NDArray[np.int64]
ROWS = 262_144
"""Rows whose bitmaps are at hand at one time."""
BITMAPS = 2_000


@dataclass(frozen=True)
class CodedColumn:
    """A column of a table as codes.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Numbers by rank; what is missing is -1, and a text by its number.
    covered : ndarray of bool, shape (values, labels), optional
        Which labels cover a value, where parts name labels.
    """

    codes: Places = field(repr=False)
    covered: NDArray[np.bool_] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Parts:
    """Distinct parts of predicates: a column whose codes lie between two ends, or under the label `low`.

    `negated` turns a part round.
    """

    column: Places = field(repr=False)
    low: Places = field(repr=False)
    high: Places = field(repr=False)
    negated: NDArray[np.bool_] | None = field(default=None, repr=False)

    def met(self, at: int, columns: list[CodedColumn], rows: slice) -> NDArray[np.bool_]:
        """Which rows meet a part."""
        column = columns[int(self.column[at])]
        codes = column.codes[rows]
        if column.covered is not None:
            found = column.covered[codes, self.low[at]]
        elif self.low[at] == self.high[at]:
            found = codes == self.low[at]
        else:
            found = (codes >= self.low[at]) & (codes <= self.high[at])
        return ~found if self.negated is not None and self.negated[at] else np.asarray(found)


def matches(predicates: Places, parts: Parts, columns: list[CodedColumn]) -> tuple[Places, Places]:
    """How many rows meet each predicate, and the last of them.

    Parameters
    ----------
    predicates : ndarray of int64, shape (m, size)
        Numbers of parts; all must be met.
    parts : Parts
    columns : list of CodedColumn
        Of one table.

    Returns
    -------
    counts : ndarray of int64, shape (m,)
    last : ndarray of int64, shape (m,)
        -1 where no row meets it; the only row where one does.

    Examples
    --------
    >>> column = CodedColumn(np.array([0, 1, 2, -1]))
    >>> parts = Parts(np.array([0, 0]), np.array([1, 0]), np.array([2, 1]))
    >>> [found.tolist() for found in matches(np.array([[0, 0], [0, 1]]), parts, [column])]
    [[2, 1], [2, 1]]
    """
    n, m = len(columns[0].codes), len(predicates)
    counts, last = np.zeros(m, dtype=np.int64), np.full(m, -1, dtype=np.int64)
    for first in range(0, m, BITMAPS):
        some = slice(first, first + BITMAPS)
        used, places = np.unique(predicates[some], return_inverse=True)
        places = places.reshape(predicates[some].shape)
        for start in range(0, n, ROWS):
            rows = slice(start, min(start + ROWS, n))
            width = -(-(rows.stop - start) // 64)
            bitmaps = np.zeros((len(used), width), dtype=np.uint64)
            for at, part in enumerate(used.tolist()):
                bits = np.packbits(parts.met(part, columns, rows), bitorder="little")
                bitmaps[at].view(np.uint8)[: len(bits)] = bits
            _count(read_only(places, np.int64), read_only(bitmaps, np.uint64), start, counts[some], last[some])
    return counts, last


def isolated_once_of(counts: Places, total: int, drawn: int) -> NDArray[np.float64]:
    """The chance that exactly one of some matching rows is among `drawn` of `total` rows drawn at random.

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Matching rows.
    total, drawn : int
        At least one, and no more drawn than there are.

    Examples
    --------
    >>> isolated_once_of(np.array([0, 1, 2, 4]), 4, 2).round(4).tolist()
    [0.0, 0.5, 0.6667, 0.0]
    >>> isolated_once_of(np.array([0, 1, 2]), 4, 4).tolist()
    [0.0, 1.0, 0.0]
    """
    most = int(counts.max(initial=0))
    chances = np.zeros(most + 1)
    # d C(h-d, n-1) / C(h, n) = d n/h times the factors (h-n-i)/(h-1-i), i < d - 1.
    product = drawn / total
    for d in range(1, most + 1):
        chances[d] = d * product
        product *= max(total - drawn - (d - 1), 0) / max(total - d, 1)
    return np.asarray(chances[counts])


@njit(nogil=True, cache=True)
def _ones(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def _count(
    predicates: NDArray[np.int64],
    bitmaps: NDArray[np.uint64],
    start: int,
    counts: NDArray[np.int64],
    last: NDArray[np.int64],
) -> None:
    size = predicates.shape[1]
    for r in range(len(predicates)):
        for word in range(bitmaps.shape[1]):
            bits = bitmaps[predicates[r, 0], word]
            for j in range(1, size):
                bits &= bitmaps[predicates[r, j], word]
            if bits:
                counts[r] += _ones(bits)
                at = 63
                while not (bits >> np.uint64(at)) & np.uint64(1):
                    at -= 1
                last[r] = start + 64 * word + at
