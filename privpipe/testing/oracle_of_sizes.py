"""Oracles of the models that are functions of class sizes alone, beyond the simplest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

from privpipe.errors import DataError
from privpipe.testing.oracle_classes import Classes, Expected, by_class, slack
from privpipe.testing.oracle_of_items import km_anonymity_of_items
from privpipe.testing.oracle_of_uniques import uniques_of

__all__ = ["SIZE_ORACLES"]


def _strict_average_risk(model: Any, classes: Classes) -> Expected:
    sizes = [len(rows) for rows in classes.members]
    if not sizes:
        return Expected("fail", None)
    exact = Fraction(str(model.highest))
    whole = math.floor(1 / exact + Fraction(1, 10**9))
    least = whole + 1 if Fraction(1, whole) - exact >= exact / 100 else whole
    average = Fraction(len(sizes), sum(sizes))
    at_risk = Fraction(sum(size for size in sizes if size < least), sum(sizes))
    met = model.at_most is None or (
        float(average) <= model.at_most + slack(model.at_most)
        and float(at_risk) <= model.records_at_risk + slack(model.records_at_risk)
    )
    figures = {"average": average, "highest": Fraction(1, min(sizes)), "records_at_risk": at_risk}
    return Expected("pass" if met else "fail", {name: float(figure) for name, figure in figures.items()})


def _estimated_k_map(model: Any, classes: Classes) -> Expected:
    sizes = [len(rows) for rows in classes.members]
    if classes.records > model.population_size:
        raise DataError("the population is smaller than the table")
    least = 1 if model.k is None else _derived(model, classes.records)
    return by_class(classes, sizes, [size >= least for size in sizes], min)


def _derived(model: Any, records: int) -> int:
    mean = model.k * records / model.population_size
    nobody = math.exp(-mean)
    truncated = model.estimator == "zero_truncated_poisson"
    size, term, cumulated = 0, nobody, 0.0 if truncated else nobody
    whole = -math.expm1(-mean) if truncated else 1.0
    while cumulated / whole < 1 - model.significance or (truncated and size < 1):
        size += 1
        term *= mean / size
        cumulated += term
    return max(1, min(int(model.k), size + (1 if truncated else 2), records))


def _population_uniqueness(model: Any, classes: Classes) -> Expected:
    sizes = Counter(len(rows) for rows in classes.members)
    records = sum(size * count for size, count in sizes.items())
    if records > model.population_size:
        raise DataError("the population is smaller than the table")
    if not records:
        return Expected("fail", None)
    uniques: float | None = 0.0
    if records == model.population_size:
        uniques = float(sizes[1])
    elif sizes[1]:
        uniques = uniques_of(tuple(sorted(sizes.items())), model.population_size, model.estimator)
    share = None if uniques is None else uniques / model.population_size
    met = model.at_most is None or (share is not None and share <= model.at_most + slack(model.at_most))
    return Expected("pass" if met else "fail", share)


def _km_anonymity(model: Any, classes: Classes) -> Expected:
    """Every set of m keys, record by record."""
    if model.items is not None:
        return km_anonymity_of_items(model, classes)
    rows = [row for rows in classes.members for row in rows]
    known = min(model.m, len(classes.keys))
    supports: list[int] = []
    for columns in combinations(classes.keys, known):
        seen = Counter(tuple(classes.values[name][row] for name in columns) for row in rows)
        supports += seen.values()
    sets = math.comb(len(classes.keys), known)
    failing = [support for support in supports if model.k is not None and support < model.k]
    return Expected(
        "fail" if failing else "pass",
        min(supports, default=None),
        len(failing),
        sum(failing) if sets == 1 else None,
    )


def _prosecutor_profitability(model: Any, classes: Classes) -> Expected:
    """The rule that no attack pays; the payout needs hierarchies, which the hostile tables have not."""
    sizes = [len(rows) for rows in classes.members]
    gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
    return by_class(classes, sizes, [size * cost > gain or not gain for size in sizes], min)


SIZE_ORACLES: Mapping[str, Callable[[Any, Classes], Expected]] = {
    "strict_average_risk": _strict_average_risk,
    "estimated_k_map": _estimated_k_map,
    "prosecutor_profitability": _prosecutor_profitability,
    "km_anonymity": _km_anonymity,
    "population_uniqueness": _population_uniqueness,
}
"""By catalogue name."""
