"""Strict average risk from its definition, in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, slack

__all__ = ["oracle"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The mean risk, and the share of records above the highest one."""
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
