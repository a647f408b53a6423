"""delta-disclosure privacy from its definition, in plain Python."""

from __future__ import annotations

import math
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, base_shares, by_class, finite_max, slack

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The farthest logarithm of a class's share over the base's."""
    base = base_shares(model, classes)
    figures: list[float] = []
    for found in classes.shares(model.column):
        farthest = max(abs(math.log2(found[value] / base[value])) for value in found)
        lacks = model.absent == "strict" and len(found) < len(base)
        figures.append(math.inf if lacks else farthest)
    passes = (model.delta is None or figure < model.delta - slack(model.delta) for figure in figures)
    return by_class(classes, figures, passes, finite_max)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"delta": float(rng.uniform(0.05, 4))}
