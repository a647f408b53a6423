"""What a guarantee says of a table: pass, fail and error are three things, and error blocks as fail does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Literal

from privpipe.blocks.entry import Entry

__all__ = ["Outcome", "Verdict", "plain"]

Outcome = Literal["pass", "fail", "error"]


@dataclass(frozen=True)
class Verdict:
    """The judgement of one entry over one table.

    Parameters
    ----------
    entry : Entry
        The guarantee or measure that judged.
    observed : int, float, mapping or None
        The tightest parameter with which the table would pass; None when no number meets the definition.
    outcome : {"pass", "fail", "error"}
    threshold : int, float, mapping or None
    failing_classes, failing_records : int or None
        What the figure rests on; None where the entry does not judge class by class.
    failing_share : float or None
        failing_records / records judged.
    reason : str
        One sentence for a person; never a data value.
    """

    entry: Entry
    observed: Any
    outcome: Outcome
    threshold: Any = None
    failing_classes: int | None = None
    failing_records: int | None = None
    failing_share: float | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The entry's catalogue name."""
        return self.entry.name()

    @property
    def parameters(self) -> dict[str, Any]:
        """The entry's parameters, defaults included."""
        return self.entry.parameters()

    @property
    def passed(self) -> bool:
        """Whether the outcome is `pass`."""
        return self.outcome == "pass"

    def to_dict(self) -> dict[str, Any]:
        """The row of the verdict document."""
        return {
            "name": self.name,
            "parameters": plain(self.parameters),
            "observed": plain(self.observed),
            "threshold": plain(self.threshold),
            "outcome": self.outcome,
            "failing_classes": self.failing_classes,
            "failing_records": self.failing_records,
            "failing_share": plain(self.failing_share),
            "reason": self.reason,
        }

    def to_measure(self) -> dict[str, Any]:
        """The row of a measure, which has no outcome."""
        return {
            "name": self.name,
            "parameters": plain(self.parameters),
            "observed": plain(self.observed),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        return f"{self.outcome.upper():5} {self.entry!r}: {self.reason}"


def plain(value: Any) -> Any:
    """A value as JSON knows it: numpy scalars unwrapped, non-finite floats None, tuples lists.

    Examples
    --------
    >>> plain({"k": 3, "h": float("inf"), "pair": (1, 2.5)})
    {'k': 3, 'h': None, 'pair': [1, 2.5]}
    """
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value
