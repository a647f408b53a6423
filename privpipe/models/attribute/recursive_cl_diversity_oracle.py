"""Recursive (c, l)-diversity from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class, slack

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The most frequent value below c times what lies outside the first l - 1."""
    infima: list[Fraction | None] = []
    passes = []
    for counts in classes.value_sets(model.column):
        descending = sorted(counts.values(), reverse=True)
        tail = sum(descending[model.l - 1 :])
        infima.append(Fraction(descending[0], tail) if tail else None)
        limit = None if model.c is None else float(Fraction(model.c) * tail)
        passes.append(limit is None or descending[0] < limit - slack(limit))
    return by_class(classes, infima, passes, lambda figures: None if None in figures else max(figures))


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"c": float(rng.uniform(0.3, 6))}
