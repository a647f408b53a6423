"""Oracles of the models that compare with a population."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from privpipe.testing.oracle_classes import Classes, Expected, by_class, slack

__all__ = ["POPULATION_ORACLES"]


def _k_map(model: Any, classes: Classes) -> Expected:
    return by_class(
        classes, classes.population, (model.k is None or size >= model.k for size in classes.population), min
    )


def _delta_presence(model: Any, classes: Classes) -> Expected:
    sizes = [len(rows) for rows in classes.members]
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


def _journalist(model: Any, classes: Classes) -> Expected:
    """With `no_attack`; payouts depend on labels, and hostile tables have none."""
    gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
    passes = (not gain or size * cost > gain for size in classes.population)
    return by_class(classes, classes.population, passes, min)


POPULATION_ORACLES: Mapping[str, Callable[[Any, Classes], Expected]] = {
    "k_map": _k_map,
    "delta_presence": _delta_presence,
    "journalist_profitability": _journalist,
}
"""By catalogue name."""
