"""Distinct l-diversity from its definition, in plain Python."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every class has l values."""
    numbers = [len(counts) for counts in classes.value_sets(model.column)]
    return by_class(classes, numbers, (model.l is None or number >= model.l for number in numbers), min)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"l": int(rng.integers(1, 6))}
