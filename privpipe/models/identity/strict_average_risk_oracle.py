"""Strict average risk from its definition, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Case, Classes, Expected, around_figure, slack

__all__ = ["around", "oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The mean risk, and the share of records above the highest one."""
    sizes = classes.sizes
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


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"at_most": float(rng.uniform(0.01, 1))}


def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
    """Both thresholds at the figures; the highest single risk is not compared, but decides who is at risk."""
    at = {"at_most": observed["average"], "records_at_risk": observed["records_at_risk"]}
    for name, figure in at.items():
        for what, value, passes in around_figure(figure, "at_most"):
            yield f"{name} {what}", {**at, name: value}, passes
