"""`groups`: consecutive values of an order merged, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.literals import exact_number, is_ordered_by_text
from privpipe.hierarchies.options import ROOT, whose
from privpipe.hierarchies.parameters import choice, declared_values, known_keys, listed, texts, whole_number

__all__ = ["Groups"]

EXAMPLE = "{order: [...], sizes: [[2, 3, 2], [3]]}"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups ``[first, last]`` of consecutive values, then groups of groups, and a ``*`` level above.

    Parameters
    ----------
    order : {"natural", "text"} or tuple of str
        ``natural``: the order of the column's type, over the values seen (text has none: say ``text`` or list
        it). A list is the domain.
    sizes : tuple of tuple of int
        One list a level: how many of the level below each group takes, repeated from its start until none is
        left; a last partial group is kept.
    counts : tuple of int
        Instead of sizes: the number of groups a level.
    by : {"values", "frequency"}
        With counts: groups of as equal a number of values, or of records, as can be. The latter depends on the
        data.

    Examples
    --------
    >>> days = Groups(order=("mo", "tu", "we", "th", "fr"), sizes=((2,),))
    >>> days.draft([], None, "text", "day").levels.labels[1]
    ('[mo, tu]', '[we, th]', 'fr')
    """

    order: str | tuple[str, ...] = "natural"
    sizes: tuple[tuple[int, ...], ...] = ()
    counts: tuple[int, ...] = ()
    by: str = "values"

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `groups:`."""
        mapping = known_keys(given, cls, EXAMPLE)
        order = mapping.get("order", "natural")
        if not isinstance(order, str):
            order = texts(order, "order")
        rows = listed(mapping["sizes"], "sizes") if "sizes" in mapping else ()
        return cls(
            order=order,
            sizes=tuple(tuple(listed([row] if isinstance(row, int) else row, "sizes")) for row in rows),
            counts=tuple(listed(mapping["counts"], "counts")) if "counts" in mapping else (),
            by=mapping.get("by", "values"),
        )

    def __post_init__(self) -> None:
        if isinstance(self.order, str):
            choice(self.order, "order", ("natural", "text"))
        if bool(self.sizes) == bool(self.counts):
            raise UsageError(f"sizes or counts: give one of the two, as in {EXAMPLE}")
        for size in (*(size for row in self.sizes for size in row), *self.counts):
            whole_number(size, "sizes" if self.sizes else "counts", least=1)
        choice(self.by, "by", ("values", "frequency"))
        if self.by == "frequency" and self.sizes:
            raise UsageError("by: frequency goes with counts, not with sizes")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the values in their order."""
        if self.by == "frequency" and counts is None:
            raise UsageError("groups: `by: frequency` needs the number of records of each value")
        order = self._ordered(values, kind)
        seen = dict(zip(values, counts or (), strict=False))
        weights = np.array([int(seen.get(value, 0)) for value in order], dtype=np.int64)
        codes, labels = [np.arange(len(order))], [tuple(order)]
        for level in range(len(self.sizes) or len(self.counts)):
            groups = int(codes[-1][-1]) + 1 if order else 0
            merged = self._merged(level, groups, weights)
            weights = np.bincount(merged, weights=weights).astype(np.int64) if order else weights
            codes.append(merged[codes[-1]])
            labels.append(_labels(order, codes[-1], column))
        codes.append(np.zeros(len(order), dtype=np.int64))
        labels.append((ROOT,) if order else ())
        return Draft(
            levels=Levels(tuple(labels), np.stack(codes).astype(np.int32)),
            source="groups",
            level_names=("raw", *(f"groups {level}" for level in range(1, len(labels) - 1)), ROOT),
            data_dependent=isinstance(self.order, str) or self.by == "frequency",
        )

    def _ordered(self, values: Sequence[str], kind: str | None) -> list[str]:
        if not isinstance(self.order, str):
            return declared_values(self.order, "groups.order", kind)
        if self.order == "text" or (kind not in {None, "text"} and is_ordered_by_text(kind)):
            return sorted(values)
        if kind in {None, "text"}:
            raise UsageError("groups: text has no natural order; list it under `order:`, or say `order: text`")
        return sorted(values, key=exact_number)

    def _merged(self, level: int, groups: int, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group at this level of each group of the level below."""
        places = np.arange(groups)
        if self.sizes:
            return np.searchsorted(_ends(self.sizes[level], groups), places, side="right")
        wanted, total = self.counts[level], int(weights.sum())
        if self.by == "values" or not total:
            return np.unique(places * wanted // max(groups, 1), return_inverse=True)[1]
        # The middle record of a group decides, in integers: equal on every machine.
        middle = 2 * np.cumsum(weights) - weights
        return np.unique(np.minimum(middle * wanted // (2 * total), wanted - 1), return_inverse=True)[1]


def _ends(sizes: Sequence[int], groups: int) -> list[int]:
    """One past the last member of each group, sizes repeated until all are taken."""
    ends = []
    for end in accumulate(cycle(sizes)):
        ends.append(end)
        if end >= groups:
            break
    return ends


def _labels(order: Sequence[str], codes: NDArray[np.int64], column: str) -> tuple[str, ...]:
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    stops = [*starts[1:], len(order)][: len(starts)]
    labels = tuple(
        order[a] if b - a == 1 else f"[{order[a]}, {order[b - 1]}]" for a, b in zip(starts, stops, strict=True)
    )
    if len(set(labels)) < len(labels):
        name = whose(column, "groups")
        raise HierarchyError(f"{name}: label_collision: two groups read the same", kind="label_collision")
    return labels
