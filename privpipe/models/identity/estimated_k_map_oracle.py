"""Estimated k-map from its definition, in plain Python."""

from __future__ import annotations

import math
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class
from privpipe.errors import DataError

__all__ = ["oracle"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every class has the size that the estimator derives from k."""
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
