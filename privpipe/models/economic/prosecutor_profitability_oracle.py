"""Profitability against a prosecutor from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class

__all__ = ["oracle"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The rule that no attack pays; the payout needs hierarchies, which the hostile tables have not."""
    sizes = [len(rows) for rows in classes.members]
    gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
    return by_class(classes, sizes, [size * cost > gain or not gain for size in sizes], min)
