"""The labels of a hierarchy as integer codes: one row of codes a level, one column a raw value."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Levels", "content_digest", "factorize"]


def factorize(texts: Iterable[str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Codes of texts in order of first appearance, and the distinct texts.

    Examples
    --------
    >>> codes, labels = factorize(["b", "a", "b"])
    >>> codes.tolist(), labels
    ([0, 1, 0], ('b', 'a'))
    """
    known: dict[str, int] = {}
    codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), dtype=np.int32)
    return codes, tuple(known)


@dataclass(frozen=True, eq=False)
class Levels:
    """Labels of every level and, for each raw value, which one is its own.

    Parameters
    ----------
    labels : tuple of tuple of str
        Distinct labels a level, from raw (level 0) to coarsest.
    codes : ndarray of int32, shape (levels, n_values)
        ``codes[l, x]`` indexes ``labels[l]``.
    """

    labels: tuple[tuple[str, ...], ...]
    codes: NDArray[np.int32]

    @classmethod
    def from_columns(cls, columns: Sequence[Iterable[str]]) -> Self:
        """From one iterable of labels a level; codes in order of first appearance.

        Examples
        --------
        >>> Levels.from_columns([["1", "2"], ["*", "*"]]).codes.tolist()
        [[0, 1], [0, 0]]
        """
        parts = [factorize(column) for column in columns]
        return cls(tuple(labels for _, labels in parts), np.stack([codes for codes, _ in parts]))

    @property
    def height(self) -> int:
        """Levels above the raw one."""
        return len(self.labels) - 1

    @property
    def size(self) -> int:
        """Number of raw values."""
        return int(self.codes.shape[1])

    def texts(self, level: int) -> list[str]:
        """The label of each raw value at a level, in the order of the values."""
        labels = self.labels[level]
        return [labels[code] for code in self.codes[level].tolist()]

    def topped(self, label: str) -> Levels:
        """With one more level, on which every value carries `label`."""
        row = np.zeros((1, self.size), dtype=np.int32)
        return Levels((*self.labels, (label,)), np.concatenate([self.codes, row]))

    def first_conflict(self) -> tuple[int, int, int] | None:
        """The first breach of C1: a level, and two values that share its label but not the one above.

        Returns
        -------
        tuple of (level, earlier value, later value), or None when every level is a function of the one below.

        Examples
        --------
        >>> Levels.from_columns([["1", "2"], ["a", "a"], ["x", "y"]]).first_conflict()
        (1, 0, 1)
        """
        for level in range(self.height):
            below, above = self.codes[level], self.codes[level + 1]
            owner = np.full(len(self.labels[level]), self.size, dtype=np.int64)
            np.minimum.at(owner, below, np.arange(self.size))
            wrong = np.flatnonzero(above != above[owner[below]])
            if wrong.size:
                return level, int(owner[below[wrong[0]]]), int(wrong[0])
        return None

    def in_leaf_order(self) -> tuple[Levels, NDArray[np.int32]]:
        """The values sorted by their path from the root, so that every node covers a contiguous range.

        Labels of a level are renumbered by their first value; codes of every level then never fall along the
        values. Siblings keep the order in which the source first names them.

        Returns
        -------
        tuple of (Levels, ndarray of int32, shape (n_values,))
            The sorted levels, and for each value its place in the source.

        Examples
        --------
        >>> levels, order = Levels.from_columns([["1", "2", "3"], ["a", "b", "a"]]).in_leaf_order()
        >>> levels.labels[0], levels.codes[1].tolist(), order.tolist()
        (('1', '3', '2'), [0, 0, 1], [0, 2, 1])
        """
        firsts = [_first_positions(row, len(labels)) for row, labels in zip(self.codes, self.labels, strict=True)]
        keys = [np.arange(self.size), *(first[row] for first, row in zip(firsts, self.codes, strict=True))]
        order = np.lexsort(keys).astype(np.int32)
        labels, rows = [], []
        for names, row in zip(self.labels, self.codes, strict=True):
            place = np.argsort(_first_positions(row[order], len(names)), kind="stable")
            rank = np.empty(len(names), dtype=np.int32)
            rank[place] = np.arange(len(names), dtype=np.int32)
            labels.append(tuple(names[index] for index in place.tolist()))
            rows.append(rank[row[order]])
        return Levels(tuple(labels), np.stack(rows)), order

    def spans(self, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First value and one past the last value of each label, for levels in leaf order."""
        wanted = np.arange(len(self.labels[level]))
        row = self.codes[level]
        return np.searchsorted(row, wanted, side="left"), np.searchsorted(row, wanted, side="right")

    def collisions(self) -> list[tuple[int, int]]:
        """Pairs of levels on which one text names nodes of different branches; levels must be in leaf order.

        A label repeated along one branch (a padded leaf, ``*`` below ``*``) is not a collision.

        Returns
        -------
        list of (lower level, upper level)
            One entry a text and pair of levels.

        Examples
        --------
        >>> Levels.from_columns([["1", "20"], ["20", "30"], ["*", "*"]]).collisions()
        [(0, 1)]
        """
        repeated = _repeated(self.labels)
        if not repeated:
            return []
        seen: dict[str, list[tuple[int, int, int]]] = {}
        found = []
        for level, labels in enumerate(self.labels):
            starts, stops = self.spans(level)
            for label, start, stop in zip(labels, starts.tolist(), stops.tolist(), strict=True):
                if label not in repeated:
                    continue
                places = seen.setdefault(label, [])
                found += [(lower, level) for lower, a, b in places if not (start <= a and b <= stop)]
                places.append((level, start, stop))
        return found


def _repeated(levels: Iterable[Sequence[str]]) -> set[str]:
    """The labels of more than one level."""
    seen, repeated = set[str](), set[str]()
    for labels in levels:
        own = set(labels)
        repeated |= own & seen
        seen |= own
    return repeated


def _first_positions(row: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    first = np.full(count, len(row), dtype=np.int64)
    np.minimum.at(first, row, np.arange(len(row)))
    return first


def content_digest(
    levels: Levels,
    order: NDArray[np.int32],
    shares: NDArray[np.float64] | None,
    size: float,
    *,
    missing: bool = False,
) -> str:
    """SHA-256 of levels in leaf order, which of them are leaves of nulls or unknown values, and shares.

    `missing`: whether nulls are released as such above level 0; plans of versions that wrote a label know the other.

    The same on every machine: texts are UTF-8 with their length before them, numbers little-endian.
    """
    whole = hashlib.sha256(f"hierarchy 1;{levels.height};{levels.size};{size!r};".encode())
    for labels, row in zip(levels.labels, levels.codes, strict=True):
        for label in labels:
            text = label.encode("utf-8", "surrogatepass")
            whole.update(b"%d:" % len(text) + text)
        whole.update(row.astype("<i4").tobytes())
    whole.update(np.minimum(order, 0).astype("<i4").tobytes())
    if shares is not None:
        whole.update(shares.astype("<f8").tobytes())
    if missing:
        whole.update(b"nulls stay missing")
    return whole.hexdigest()
