"""Sample uniqueness from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, at_most

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Records alone in their class over records."""
    sizes = classes.sizes
    return at_most(model, Fraction(sizes.count(1), sum(sizes)) if sizes else None)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"at_most": float(rng.uniform(0, 1))}
