"""Raw values in leaf order with their labels, codes and shares at every level, extended to cover the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privpipe.errors import HierarchyError
from privpipe.hierarchies.levels import Levels, content_digest
from privpipe.hierarchies.options import ROOT

__all__ = [
    "NULL",
    "NULL_PLACE",
    "UNKNOWN_PLACE",
    "Absent",
    "Extras",
    "LabelTable",
    "absent",
    "extended",
    "refuse_unknown",
]


NULL: Final = "null"
NULL_PLACE: Final = -1
UNKNOWN_PLACE: Final = -2


@dataclass(frozen=True)
class Absent:
    """How many of the seen values a hierarchy holds, and how many it does not."""

    found: int
    values: int
    records: int


def absent(index: Mapping[str, int], values: Sequence[str | None], counts: Sequence[int] | None) -> Absent:
    """Count the values outside `index` and their records; nulls belong to neither side.

    Examples
    --------
    >>> absent({"a": 0}, ["a", "b", None], [5, 2, 1])
    Absent(found=1, values=1, records=2)
    """
    outside = [place for place, value in enumerate(values) if value is not None and value not in index]
    records = len(outside) if counts is None else sum(int(counts[place]) for place in outside)
    nulls = sum(value is None for value in values)
    return Absent(found=len(values) - nulls - len(outside), values=len(outside), records=records)


def refuse_unknown(name: str, values: int, records: int) -> NoReturn:
    """Raise for values the hierarchy does not list; counts only."""
    raise HierarchyError(
        f"{name}: unknown: {values:,} distinct values of the data ({records:,} records) are not in it; add them "
        "(`privpipe hierarchy check POLICY --show-values` lists them), or set `unknown: root` or `unknown: suppress`",
        kind="unknown",
    )


@dataclass(frozen=True)
class Extras:
    """The parts of a hierarchy that new leaves change: levels and places in leaf order, shares, size."""

    levels: Levels
    order: NDArray[np.int32]
    shares: NDArray[np.float64] | None
    size: float


def extended(base: Extras, name: str, *, null: bool, unknown: bool, null_label: str | None = None) -> Extras:
    """With a leaf for nulls (counted in the domain) and one for unknown values (not counted), again in leaf order.

    Without a `null_label`, the text of the leaf of nulls is never released below the root, and may be a label too.

    Raises
    ------
    HierarchyError
        ``no_root`` when a leaf cannot reach a root; ``label_collision`` when its label names another node.
    """
    if null:
        base = _with_leaf(_with_counted_share(base), _null_path(base.levels, name, null_label), NULL_PLACE, name)
    if unknown:
        root = _root_label(base.levels)
        if root is None:
            message = f"{name}: no root: `unknown: root` needs a single label at the last level; use `add_root: true`"
            raise HierarchyError(message, kind="no_root")
        base = _with_leaf(_with_row(base, 1.0, 1.0), [root] * (base.levels.height + 1), UNKNOWN_PLACE, name)
    return base


def _root_label(levels: Levels) -> str | None:
    """The single label of the last level; `*` for a hierarchy of no value; None when there are several."""
    top = levels.labels[-1]
    return ROOT if not top else top[0] if len(top) == 1 else None


def _null_path(levels: Levels, name: str, null_label: str | None) -> list[str]:
    root = _root_label(levels)
    _require_own(levels, name, null_label)
    if levels.height == 0 and root is not None:
        message = f"{name}: no root: it has a single level and the data holds nulls; `add_root: true` joins the two"
        raise HierarchyError(message, kind="no_root")
    label = null_label or NULL
    above = [label] * levels.height if root is None else [*[label] * (levels.height - 1), root]
    return [NULL, *above]


def _require_own(levels: Levels, name: str, null_label: str | None) -> None:
    # The text of before, `null`, may be a raw value: missing values were never written so at level 0.
    for level in range(null_label == NULL, levels.height + 1):
        if null_label in levels.labels[level]:
            raise HierarchyError(
                f"{name}: label_collision: level {level} already has a label {null_label!r}, which is how nulls are "
                "written; rename it, or choose another null_label",
                kind="label_collision",
            )


def _with_counted_share(base: Extras) -> Extras:
    """One more value in the domain: declared shares shrink to make room for it."""
    grown = base.size + 1.0
    if base.shares is None:
        return Extras(base.levels, base.order, None, grown)
    shrink = base.size / grown if np.isfinite(grown) else 1.0
    shares = base.shares * shrink
    if _root_label(base.levels) is not None:
        shares[-1] = 1.0
    return _with_row(Extras(base.levels, base.order, shares, grown), 1.0 / grown, 1.0)


def _with_row(base: Extras, share: float, at_root: float) -> Extras:
    if base.shares is None:
        return base
    row = np.full((len(base.shares), 1), share)
    row[-1] = at_root
    return Extras(base.levels, base.order, np.concatenate([base.shares, row], axis=1), base.size)


def _with_leaf(base: Extras, path: Sequence[str], place: int, name: str) -> Extras:
    """Append a value with the labels of `path`; shares already have its column."""
    labels, column = [], []
    for level, (names, text) in enumerate(zip(base.levels.labels, path, strict=True)):
        # A missing value and the text "null" are two nodes below the root: a release writes the former as missing.
        root = level == base.levels.height and len(names) == 1
        taken = text in names and (place != NULL_PLACE or root)
        if taken and level == 0:
            raise HierarchyError(
                f"{name}: label_collision: level {level} already has a label {text!r}, which is how values outside the "
                "hierarchy are written; rename it",
                kind="label_collision",
            )
        labels.append(names if taken else (*names, text))
        column.append(names.index(text) if taken else len(names))
    codes = np.concatenate([base.levels.codes, np.array(column, dtype=np.int32)[:, None]], axis=1)
    levels = Levels(tuple(labels), codes)
    if (conflict := levels.first_conflict()) is not None:
        raise HierarchyError(
            f"{name}: label_collision: {path[-1]!r} is the root, and at level {conflict[0]} also a label below "
            "another one; rename that label, or do not map unknown values to the root",
            kind="label_collision",
        )
    levels, order = levels.in_leaf_order()
    places = np.append(base.order, np.int32(place))[order]
    return Extras(levels, places, None if base.shares is None else base.shares[:, order], base.size)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelTable:
    """What a hierarchy states about each raw value; immutable and picklable.

    Values are in leaf order (sorted by their path from the root, siblings as the source first names them), so
    every label covers a contiguous range of values and no level's codes ever fall along them.

    Parameters
    ----------
    levels : Levels
        In leaf order.
    leaf_order : ndarray of int32, shape (n_values,)
        Place of each value in its source; -1 is the leaf of nulls, -2 that of unknown values (see `cover`).
    domain_size : float
        D_j: the number of values, unless the builder declares a domain; the leaf of unknown values not counted.
    declared_shares : ndarray of float64, shape (levels, n_values), or None
        Shares of a declared domain.
    null_label : str or None
        What the leaf of nulls is released as between level 0 and the root; None: it stays missing there.

    Examples
    --------
    >>> levels, order = Levels.from_columns([["7", "30", "8"], ["child", "adult", "child"]]).in_leaf_order()
    >>> table = LabelTable(levels=levels, leaf_order=order, domain_size=3.0)
    >>> table.values, table.labels(1), table.codes(1).tolist()
    (('7', '8', '30'), ('child', 'adult'), [0, 0, 1])
    """

    levels: Levels
    leaf_order: NDArray[np.int32]
    domain_size: float
    declared_shares: NDArray[np.float64] | None = None
    null_label: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """Raw values as canonical text, in leaf order, with the leaves of nulls and unknown values if any."""
        return self.levels.labels[0]

    @property
    def height(self) -> int:
        """Number of levels above the raw one."""
        return self.levels.height

    @cached_property
    def null_code(self) -> int | None:
        """The leaf of nulls, when the data has any."""
        return self._leaf(NULL_PLACE)

    @cached_property
    def unknown_code(self) -> int | None:
        """The leaf that stands for every value outside the hierarchy, under ``unknown: root``."""
        return self._leaf(UNKNOWN_PLACE)

    @property
    def root(self) -> str | None:
        """The label of the last level; None when it has several or there is no value."""
        return self.levels.labels[-1][0] if len(self.levels.labels[-1]) == 1 else None

    def labels(self, level: int) -> tuple[str, ...]:
        """Distinct labels of a level, by their first value in leaf order."""
        return self.levels.labels[level]

    def codes(self, level: int) -> NDArray[np.int32]:
        """Index into `labels(level)` of each value; read-only, never falling, shape (n_values,)."""
        row: NDArray[np.int32] = self.levels.codes[level].view()
        row.flags.writeable = False
        return row

    def texts(self, level: int) -> list[str]:
        """The label of each value at a level."""
        return self.levels.texts(level)

    def released(self, level: int) -> list[str | None]:
        """What each value is released as at a level: its label, or None where a missing value stays missing.

        Examples
        --------
        >>> levels, order = Levels.from_columns([["a", "null"], ["x", "null"], ["*", "*"]]).in_leaf_order()
        >>> table = LabelTable(levels=levels, leaf_order=np.array([0, -1], dtype=np.int32), domain_size=2.0)
        >>> [table.released(level) for level in range(3)]
        [['a', None], ['x', None], ['*', '*']]
        """
        labels = self.released_labels(level)
        return [labels[code] for code in self.levels.codes[level].tolist()]

    def released_labels(self, level: int) -> tuple[str | None, ...]:
        """`labels` as they are released: None for that of missing values where they stay missing."""
        labels: tuple[str | None, ...] = self.labels(level)
        if not self.stays_missing(level):
            return labels
        place = int(self.levels.codes[level, self.null_code])
        return (*labels[:place], None, *labels[place + 1 :])

    def stays_missing(self, level: int) -> bool:
        """Whether there are missing values and a release at this level shows them as such; never at the root."""
        if self.null_code is None or (level == self.height and level > 0 and self.root is not None):
            return False
        return level == 0 or self.null_label is None

    def mapping(self, level: int) -> dict[str, str]:
        """Canonical raw text to label, without the leaves of nulls and unknown values.

        Examples
        --------
        >>> levels, order = Levels.from_columns([["a", "b"], ["*", "*"]]).in_leaf_order()
        >>> LabelTable(levels=levels, leaf_order=order, domain_size=2.0).mapping(1)
        {'a': '*', 'b': '*'}
        """
        texts = self.texts(level)
        return {value: texts[code] for value, code in self._index.items()}

    def shares(self, level: int) -> NDArray[np.float64]:
        """share_j of each value's label at a level, shape (n_values,), in [0, 1].

        Values that carry the label / D_j, or the builder's declared share. A value outside the hierarchy stands
        for any: 1 at every level.
        """
        if self.declared_shares is not None:
            declared: NDArray[np.float64] = self.declared_shares[level].copy()
            return declared
        codes = self.levels.codes[level]
        counted = np.ones(len(codes), dtype=np.float64)
        if self.unknown_code is not None:
            counted[self.unknown_code] = 0.0
        rows = np.bincount(codes, weights=counted, minlength=len(self.labels(level)))
        share: NDArray[np.float64] = rows[codes] / max(self.domain_size, 1.0)
        if self.unknown_code is not None:
            share[self.unknown_code] = 1.0
        return share

    def span(self, level: int, code: int) -> tuple[int, int]:
        """First value and one past the last value that carry label `code` of a level."""
        row = self.levels.codes[level]
        return int(np.searchsorted(row, code, side="left")), int(np.searchsorted(row, code, side="right"))

    def common_level(self, low: ArrayLike, high: ArrayLike) -> NDArray[np.int32]:
        """Level of the lowest common ancestor of the values `low` to `high`, elementwise.

        Parameters
        ----------
        low, high : array_like of int
            Codes of the ends of ranges in leaf order, in any order of the two; shapes broadcast.

        Returns
        -------
        ndarray of int32
            `height + 1` where there is none (``root: optional``).
        """
        first, last = np.broadcast_arrays(np.asarray(low), np.asarray(high))
        found = np.full(first.shape, self.height + 1, dtype=np.int32)
        for level in range(self.height, -1, -1):
            row = self.levels.codes[level]
            found[row[first] == row[last]] = level
        return found

    def label(self, level: int, code: int) -> str:
        """The label of value `code` at a level."""
        return self.levels.labels[level][int(self.levels.codes[level, code])]

    def digest(self) -> str:
        """SHA-256 over values, labels, codes and shares, in hexadecimal: equal content, equal digest.

        Names, rules and limits are not part of it.
        """
        missing = any(self.stays_missing(level) for level in range(1, self.height + 1))
        return content_digest(self.levels, self.leaf_order, self.declared_shares, self.domain_size, missing=missing)

    def __getstate__(self) -> dict[str, Any]:
        # The look-up table is rebuilt where it is needed: a broadcast hierarchy stays small.
        return {
            key: value for key, value in self.__dict__.items() if key not in {"_index", "null_code", "unknown_code"}
        }

    def _leaf(self, place: int) -> int | None:
        found = np.flatnonzero(self.leaf_order == place)
        return int(found[0]) if found.size else None

    @cached_property
    def _index(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values) if self.leaf_order[code] >= 0}
