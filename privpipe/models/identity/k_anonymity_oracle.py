"""k-anonymity from its definition, in plain Python."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every class has k records."""
    sizes = classes.sizes
    return by_class(classes, sizes, (model.k is None or size >= model.k for size in sizes), min)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"k": int(rng.integers(1, 9))}
