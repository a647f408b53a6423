"""`groups`: consecutive values of an order merged, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.literals import exact_number, is_ordered_by_text
from privpipe.hierarchies.options import ROOT, whose
from privpipe.hierarchies.parameters import choice, declared_values, known_keys, listed, texts, whole_number

__all__ = ["Groups"]


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups ``[first, last]`` of consecutive values, then groups of groups, and a ``*`` level above.

    Without `sizes` and `counts` two and two are merged, then two and two of these, as long as three groups are left.

    Examples
    --------
    >>> days = Groups(order=("mo", "tu", "we", "th", "fr"), sizes=((2,),))
    >>> days.draft([], None, "text", "day").levels.labels[1]
    ('[mo, tu]', '[we, th]', 'fr')
    """

    example: ClassVar[str] = "{order: [none, primary, secondary, bachelor, master, doctor], sizes: [[2, 1, 3], [2, 1]]}"
    example_values: ClassVar[tuple[str, ...]] = ("none", "primary", "secondary", "bachelor", "master", "doctor")
    example_type: ClassVar[str] = "text"
    short_forms: ClassVar[Mapping[str, Any]] = {"sizes": {"type": "integer", "minimum": 1}}

    order: Annotated[
        Literal["natural", "text", "frequency"] | tuple[str, ...],
        Doc(
            "natural: the order of the column's type, over the values seen (text has none); text: that of their texts; "
            "frequency: the most frequent first; a list: that order, and it is the domain"
        ),
    ] = "natural"
    sizes: Annotated[
        tuple[tuple[Annotated[int, Ge(1)], ...], ...],
        Doc("one list a level: how many of the level below each group takes, repeated until none is left"),
    ] = ()
    counts: Annotated[tuple[Annotated[int, Ge(1)], ...], Doc("instead of sizes: the number of groups, by level")] = ()
    by: Annotated[
        Literal["values", "frequency"],
        Doc("with counts: groups of as equal a number of values, or of records, as can be; the latter needs the data"),
    ] = "values"

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `groups:`."""
        mapping = known_keys(given, cls, cls.example)
        order: Any = mapping.get("order", "natural")
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
            choice(self.order, "order", ("natural", "text", "frequency"))
        if self.sizes and self.counts:
            raise UsageError(f"sizes or counts: give one of the two, as in {self.example}")
        for size in (*(size for row in self.sizes for size in row), *self.counts):
            whole_number(size, "sizes" if self.sizes else "counts", least=1)
        choice(self.by, "by", ("values", "frequency"))
        if self.by == "frequency" and not self.counts:
            raise UsageError("by: frequency goes with counts, not with sizes")

    @property
    def shows_values(self) -> str:
        """What labels show of the data; nothing where the order is declared."""
        return "its labels are the first and last values of groups" if isinstance(self.order, str) else ""

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the values in their order."""
        if "frequency" in (self.by, self.order) and counts is None:
            raise UsageError("groups: `frequency` needs the number of records of each value")
        order = self._ordered(values, counts or (), kind)
        seen = dict(zip(values, counts or (), strict=False))
        weights = np.array([int(seen.get(value, 0)) for value in order], dtype=np.int64)
        codes, labels = [np.arange(len(order))], [tuple(order)]
        for level in range(len(self.sizes) or len(self.counts) or _halvings(len(order))):
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

    def _ordered(self, values: Sequence[str], counts: Sequence[int], kind: str | None) -> list[str]:
        if not isinstance(self.order, str):
            return declared_values(self.order, "groups.order", kind)
        if self.order == "frequency":
            return [value for _, value in sorted(zip((-int(count) for count in counts), values, strict=True))]
        if self.order == "text" or (kind not in {None, "text"} and is_ordered_by_text(kind)):
            return sorted(values)
        if kind in {None, "text"}:
            raise UsageError("groups: text has no natural order; list it under `order:`, or say `order: text`")
        return sorted(values, key=exact_number)

    def _merged(self, level: int, groups: int, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group at this level of each group of the level below."""
        places = np.arange(groups)
        if not self.counts:
            sizes = self.sizes[level] if self.sizes else (2,)
            return np.searchsorted(_ends(sizes, groups), places, side="right")
        wanted, total = self.counts[level], int(weights.sum())
        if self.by == "values" or not total:
            return np.unique(places * wanted // max(groups, 1), return_inverse=True)[1]
        # The middle record of a group decides, in integers: equal on every machine.
        middle = 2 * np.cumsum(weights) - weights
        return np.unique(np.minimum(middle * wanted // (2 * total), wanted - 1), return_inverse=True)[1]


def _halvings(groups: int) -> int:
    """How often two and two are merged until two groups are left."""
    levels = 0
    while groups > 2:
        groups, levels = -(-groups // 2), levels + 1
    return levels


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
