"""Estimated k-map from its definition, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from privpipe.blocks.oracle_classes import Case, Classes, Expected, by_class
from privpipe.errors import DataError

__all__ = ["around", "oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every class has the size that the estimator derives from k."""
    sizes = classes.sizes
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


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"k": int(rng.integers(1, 9))}


def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
    """Several k: the size asked for is derived from k and the number of records."""
    for k in (max(1, observed - 1), observed, observed + 1, 3 * observed, 50 * observed):
        least = _derived(SimpleNamespace(**vars(model) | {"k": k}), facts.records)
        yield f"k = {k}", {"k": k}, observed >= least
