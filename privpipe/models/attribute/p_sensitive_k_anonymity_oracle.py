"""p-sensitive k-anonymity from its definition, in plain Python."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every class has k records and p values of each column."""
    columns = model.columns or classes.sensitive
    sizes = classes.sizes
    values = [min(len(classes.value_sets(column)[at]) for column in columns) for at in range(len(sizes))]
    passes = [
        model.k is None or (size >= model.k and number >= model.p) for size, number in zip(sizes, values, strict=True)
    ]
    return by_class(classes, sizes, passes, lambda _: {"k": min(sizes), "p": min(values)})


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    p = int(rng.integers(1, 5))
    return {"k": int(rng.integers(p, 9)), "p": p}
