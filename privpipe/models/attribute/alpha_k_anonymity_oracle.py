"""(alpha, k)-anonymity from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class, slack

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every class has k records, and no value a larger share than alpha."""
    columns = [model.column] if model.column else classes.sensitive
    sizes = classes.sizes
    tops = []
    for at in range(len(sizes)):
        held = [
            share
            for column in columns
            for value, share in classes.shares(column)[at].items()
            if model.values is None or value in model.values
        ]
        tops.append(max(held, default=Fraction(0)))
    passes = [
        model.k is None or (size >= model.k and float(top) <= model.alpha + slack(model.alpha))
        for size, top in zip(sizes, tops, strict=True)
    ]
    return by_class(classes, sizes, passes, lambda _: {"k": min(sizes), "alpha": float(max(tops))})


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"k": int(rng.integers(1, 9)), "alpha": float(rng.uniform(0.1, 1))}
