"""Entropy l-diversity from its definition, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from privpipe.blocks.oracle_classes import Case, Classes, Expected, around_figure, by_class, slack

__all__ = ["around", "oracle", "thresholds"]


EULER_GAMMA = 0.5772156649015329


def oracle(model: Any, classes: Classes) -> Expected:
    """exp of each class's entropy, and as many values as a real l asks for."""
    estimate = _shannon if model.estimator == "shannon" else _grassberger
    counted = classes.value_sets(model.column)
    figures = [math.exp(estimate(list(counts.values()))) for counts in counted]
    needed = 1 if model.l is None else math.ceil(model.l - 1e-9)
    passes = [
        len(counts) >= needed and (model.l is None or figure >= model.l - slack(model.l))
        for counts, figure in zip(counted, figures, strict=True)
    ]
    if model.estimator == "grassberger":
        enough = [figure for figure, counts in zip(figures, counted, strict=True) if len(counts) >= needed]
        figures = enough + [1.0 for counts in counted if len(counts) == 1]
    return by_class(classes, figures, passes, min)


def _shannon(counts: list[int]) -> float:
    return -math.fsum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)


def _grassberger(counts: list[int]) -> float:
    def g(count: int) -> float:
        odd = math.fsum(2 / (2 * i - 1) for i in range(1, count // 2 + 1))
        return -EULER_GAMMA - math.log(2) + odd

    return g(sum(counts)) - math.fsum(count * g(count) for count in counts) / sum(counts)


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"l": float(rng.uniform(1, 4))}


def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
    """At the figure. Grassberger's is of classes with enough values for l, so that moving l moves the figure: none."""
    if model.estimator == "shannon":
        for what, figure, passes in around_figure(observed, "at_least"):
            yield what, {"l": figure}, passes
