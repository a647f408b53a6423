"""Losses of the general form divergence(f(original), f(released)), registered from Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privpipe.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NAMES", "REGISTERED", "RegisteredLoss", "register_loss"]

Summary = Callable[["pa.RecordBatch"], Any]
Divergence = Callable[[Any, Any], float]
NAMES = (
    *("il1s", "il1", "sse_sst", "moments", "correlation", "eigen", "propensity", "discernibility", "c_avg", "ncp"),
    *("entropy", "kl", "classifier", "regression", "arctan"),
    *("hellinger", "wasserstein", "contingency", "specks"),
)
"""Losses that are ours."""
REGISTERED: dict[str, RegisteredLoss] = {}
"""Registered losses by name; of this process alone."""


@dataclass(frozen=True)
class RegisteredLoss:
    """A summary of a table, and how far two of them are apart.

    Parameters
    ----------
    summary : callable
        From a RecordBatch of the columns compared, in keyed order of records, to anything.
    divergence : callable
        From two summaries to a number, 0 for equal ones.
    """

    summary: Summary = field(repr=False)
    divergence: Divergence = field(repr=False)

    def __call__(self, before: pa.RecordBatch, after: pa.RecordBatch) -> float:
        """Their divergence; NaN where it is not a number."""
        found = float(self.divergence(self.summary(before), self.summary(after)))
        return found if math.isfinite(found) else math.nan


def register_loss(name: str, summary: Summary, divergence: Divergence | None = None) -> None:
    """Offer a loss of one's own as `information_loss: {measure: name}`.

    Parameters
    ----------
    name : str
        A snake_case word that no loss of ours has.
    summary : callable
        f: from a pyarrow RecordBatch of the columns compared to a figure, or what `divergence` takes.
    divergence : callable, optional
        Default: the absolute difference of two figures.

    Raises
    ------
    UsageError
        The name is taken, or no word.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> register_loss("largest_age", lambda table: pc.max(table["age"]).as_py())
    >>> "largest_age" in REGISTERED
    True
    """
    if not name.isidentifier() or name != name.lower():
        raise UsageError(f"a loss is named by a snake_case word, got {name!r}")
    if name in NAMES:
        raise UsageError(f"information_loss has a measure {name!r} of its own; choose another name")
    REGISTERED[name] = RegisteredLoss(summary, divergence or (lambda before, after: abs(before - after)))
