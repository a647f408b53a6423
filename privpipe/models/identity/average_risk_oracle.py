"""Average risk from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, at_most

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Classes over records."""
    records = sum(classes.sizes)
    return at_most(model, Fraction(len(classes.members), records) if records else None)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"at_most": float(rng.uniform(0.01, 1))}
