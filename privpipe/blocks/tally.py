"""The figure of a set of classes, as models measure and merge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Tally", "added"]


@dataclass(frozen=True)
class Tally:
    """Figure of a set of classes: the worst score, what fails, and how much was judged.

    `observed` is None before any class was seen. `sums` holds counters particular to a model.
    """

    observed: Any = None
    failing_classes: int = 0
    failing_records: int = 0
    classes: int = 0
    records: int = 0
    sums: Mapping[str, Any] = field(default_factory=dict)


def added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Counters of two tallies together."""
    sums = dict(left)
    for name, count in right.items():
        sums[name] = sums.get(name, 0) + count
    return sums
