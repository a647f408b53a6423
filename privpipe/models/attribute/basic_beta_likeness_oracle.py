"""Basic beta-likeness from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, base_shares, by_class, slack

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The largest gain of a value in a class."""
    base = base_shares(model, classes)
    figures = [
        max([Fraction(0), *((share - base[value]) / base[value] for value, share in shares.items())])
        for shares in classes.shares(model.column)
    ]
    passes = (model.beta is None or float(figure) <= model.beta + slack(model.beta) for figure in figures)
    return by_class(classes, figures, passes, max)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"beta": float(rng.uniform(0.01, 8))}
