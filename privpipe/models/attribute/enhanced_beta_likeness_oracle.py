"""Enhanced beta-likeness from its definition, in plain Python."""

from __future__ import annotations

import math
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, base_shares, by_class, finite_max, slack

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The largest gain of a value in a class, within its cap."""
    base = base_shares(model, classes)
    figures: list[float] = []
    for shares in classes.shares(model.column):
        gains = {value: float((share - base[value]) / base[value]) for value, share in shares.items()}
        caps = {value: -math.log(base[value]) for value in gains}
        over = any(gain > caps[value] + slack(caps[value]) for value, gain in gains.items())
        figures.append(math.inf if over else max(0.0, *gains.values()))
    passes = [
        not math.isinf(figure) and (model.beta is None or figure <= model.beta + slack(model.beta))
        for figure in figures
    ]
    if model.beta is None:
        passes = [True] * len(figures)
    return by_class(classes, figures, passes, finite_max)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"beta": float(rng.uniform(0.01, 8))}
