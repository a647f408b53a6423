"""Profitability against a journalist from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class
from privpipe.models.economic.prosecutor_profitability_oracle import around

__all__ = ["around", "oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """With `no_attack`; payouts depend on labels, and hostile tables have none."""
    gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
    passes = (not gain or size * cost > gain for size in classes.population)
    return by_class(classes, classes.population, passes, min)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"adversary_gain": float(rng.integers(1, 30)), "adversary_cost": 1.0}
