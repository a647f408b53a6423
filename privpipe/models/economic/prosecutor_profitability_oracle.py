"""Profitability against a prosecutor from its definition, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Case, Classes, Expected, by_class

__all__ = ["around", "oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The rule that no attack pays; the payout needs hierarchies, which the hostile tables have not."""
    sizes = classes.sizes
    gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
    return by_class(classes, sizes, [size * cost > gain or not gain for size in sizes], min)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"adversary_gain": float(rng.integers(1, 9)), "adversary_cost": 1.0}


def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
    """Gain over cost at the size and on both sides, in exact decimals: nothing is rounded, so nothing is tolerated."""
    for what, gain, passes in (("at", 0.0, False), ("above", 0.001, False), ("below", -0.001, True)):
        yield f"ratio {what} the size", {"adversary_gain": observed + gain, "adversary_cost": 1.0}, passes
