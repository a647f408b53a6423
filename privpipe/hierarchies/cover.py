"""Extending a hierarchy to cover the data: leaves for nulls and for values it does not list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import HierarchyError
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.options import ROOT

__all__ = ["NULL", "NULL_PLACE", "UNKNOWN_PLACE", "Absent", "Extras", "absent", "extended", "refuse_unknown"]

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
        "(`privpipe hierarchy check POLICY --show-values` lists them), or say `unknown: root` or `unknown: suppress`",
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
