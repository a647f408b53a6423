"""`groups`, `frequency_groups` and `priority`: values merged by their order, their frequency or their importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, cycle, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.canonical import exact_number, is_ordered_by_text
from privpipe.hierarchies.levels import Draft, Levels
from privpipe.hierarchies.options import (
    ROOT,
    Builder,
    choice,
    declared_values,
    known_keys,
    listed,
    texts,
    whole_number,
    whose,
)

__all__ = ["FrequencyGroups", "Groups", "Priority"]


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
            raise UsageError("by: frequency requires counts, not sizes")

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
            raise UsageError("groups: text has no natural order; list it under `order:`, or set `order: text`")
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


@dataclass(frozen=True, kw_only=True)
class FrequencyGroups(Builder):
    """The most frequent values keep their names, the others become one group, which takes in more a level.

    Ties go by text; a value that reads as the group does belongs to it from the first level on. Without `keep` and
    `shares`, half of the values keep their names, then half of these, down to one. The plan shows that the hierarchy
    depends on the data.

    Examples
    --------
    >>> jobs = FrequencyGroups()
    >>> draft = jobs.draft(["cook", "clerk", "judge", "nurse", "smith"], [9, 40, 1, 30, 2], "text", "job")
    >>> draft.levels.labels[1:]
    (('clerk', 'nurse', 'other'), ('clerk', 'other'), ('*',))
    """

    example: ClassVar[str] = "{shares: [0.05, 0.2]}"
    example_values: ClassVar[tuple[str, ...]] = (
        *("clerk",) * 12, *("nurse",) * 8, *("cook",) * 3, "judge", "smith"
    )  # fmt: skip
    example_type: ClassVar[str] = "text"

    keep: Annotated[
        tuple[Annotated[int, Ge(1)], ...],
        Doc("how many of the most frequent values keep their names, falling by level"),
    ] = ()
    shares: Annotated[
        tuple[Decimal, ...],
        Doc("instead of keep: values of a smaller share of the records are grouped, above 0, rising by level up to 1"),
    ] = ()
    label: Annotated[str, Doc("what the group is called")] = "other"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep and self.shares:
            raise UsageError("keep or shares: give one of the two, or none")
        if any(below <= above for below, above in pairwise(self.keep)):
            raise UsageError("keep: must fall from level to level, or a value would have two groups above it")
        if any(below >= above for below, above in pairwise(self.shares)):
            raise UsageError("shares: must rise from level to level, or a value would have two groups above it")
        if not all(0 < share <= 1 for share in self.shares):
            raise UsageError("shares: must be above 0 and at most 1")
        if not self.label or self.label == ROOT:
            raise UsageError(f"label: must be a text, and not {ROOT!r}")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, the most frequent first."""
        if counts is None:
            raise UsageError("frequency_groups: needs the number of records of each value")
        pairs = sorted((-int(count), value) for value, count in zip(values, counts, strict=True))
        named = [(-count, value) for count, value in pairs if value != self.label]
        order = [*(value for _, value in named), *(value for _, value in pairs if value == self.label)]
        kept = self._kept([count for count, _ in named], sum(-count for count, _ in pairs))
        columns = [order[:names] + [self.label] * (len(order) - names) for names in kept]
        return Draft(
            levels=Levels.from_columns([order, *columns, [ROOT] * len(order)]),
            source="frequency_groups",
            level_names=("raw", *self._names(len(columns)), ROOT),
            data_dependent=True,
        )

    def _kept(self, counts: Sequence[int], total: int) -> list[int]:
        """How many values keep their names, by level."""
        if self.keep:
            return [min(names, len(counts)) for names in self.keep]
        if self.shares:
            return [sum(Fraction(count) >= Fraction(share) * total for count in counts) for share in self.shares]
        halves = [len(counts) // 2]
        while halves[-1] > 1:
            halves.append(halves[-1] // 2)
        return [names for names in halves if len(counts) > 2 and names]

    def _names(self, levels: int) -> list[str]:
        if self.keep:
            return [f"{names} kept" for names in self.keep]
        if self.shares:
            return [f"shares from {share:f}" for share in self.shares]
        return [f"halved {level}" for level in range(1, levels + 1)]


@dataclass(frozen=True, kw_only=True)
class Priority:
    """At level l the lowest ceil(l / levels x values) values become ``*``; rare or important ones stay longest.

    Examples
    --------
    >>> Priority(levels=2).draft(["a", "b", "c"], [9, 1, 5], "text", "x").levels.texts(1)
    ['*', '*', 'b']
    """

    example: ClassVar[str] = "{levels: 3, order: [gout, measles, flu]}"
    example_values: ClassVar[tuple[str, ...]] = ("flu", "measles", "gout")
    example_type: ClassVar[str] = "text"

    levels: Annotated[int, Ge(1), Doc("levels above the raw one; at the last every value is *")]
    order: Annotated[
        Literal["frequency"] | tuple[str, ...],
        Doc(
            "frequency: the most frequent value gives way first (ties: by text), which depends on the data; a list: "
            "the most important value first, and it is the domain"
        ),
    ] = "frequency"

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `priority:`."""
        mapping = known_keys(given, cls, cls.example)
        order: Any = mapping.get("order", "frequency")
        if not isinstance(order, str):
            order = texts(order, "order")
        return cls(levels=whole_number(mapping.get("levels"), "levels", least=1), order=order)

    def __post_init__(self) -> None:
        whole_number(self.levels, "levels", least=1)
        if isinstance(self.order, str):
            choice(self.order, "order", ("frequency",))

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the values, the first to give way first."""
        by_frequency = isinstance(self.order, str)
        if isinstance(self.order, str):
            if counts is None:
                raise UsageError("priority: `order: frequency` needs the number of records of each value")
            order = [value for _, value in sorted(zip((-int(count) for count in counts), values, strict=True))]
        else:
            order = declared_values(self.order, "priority.order", kind)[::-1]
        columns = [order]
        for level in range(1, self.levels + 1):
            gone = -(-level * len(order) // self.levels)
            columns.append([ROOT] * gone + order[gone:])
        names = (*(f"priority {level}" for level in range(1, self.levels)), ROOT)
        return Draft(
            levels=Levels.from_columns(columns),
            source="priority",
            level_names=("raw", *names),
            data_dependent=by_frequency,
        )
