"""delta-presence from its definition, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, slack

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The share of each class of the population that is in the table, classes without a record too."""
    sizes = classes.sizes
    released = [Fraction(size, of) for size, of in zip(sizes, classes.population, strict=True)]
    shares = [*released, *(Fraction(0) for _ in classes.foreign)]

    def fails(share: Fraction) -> bool:
        if model.max is None:
            return False
        return bool(float(share) < model.min - slack(model.min) or float(share) > model.max + slack(model.max))

    observed = {"min": min(shares), "max": max(shares)} if shares else None
    records = sum(size for size, share in zip(sizes, released, strict=True) if fails(share))
    failing = sum(map(fails, shares))
    return Expected("fail" if failing else "pass", observed, failing, records)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"min": float(rng.uniform(0, 0.3)), "max": float(rng.uniform(0.3, 1))}
