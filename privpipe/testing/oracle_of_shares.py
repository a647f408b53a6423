"""Oracles of the models that compare shares of sensitive values with those of the whole table, or with a number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from privpipe.errors import DataError
from privpipe.testing.oracle_classes import Classes, Expected, by_class, slack

__all__ = ["SHARE_ORACLES"]


def _shares(counts: Counter[Any]) -> dict[Any, Fraction]:
    total = sum(counts.values())
    return {value: Fraction(count, total) for value, count in counts.items()}


def _base(model: Any, classes: Classes) -> dict[Any, Fraction]:
    base = classes.base[model.column]
    for counts in classes.counts(model.column):
        if any(value not in base for value in counts):
            raise DataError("base does not cover the released values")
    return _shares(base)


def _delta(model: Any, classes: Classes) -> Expected:
    base = _base(model, classes)
    figures: list[float] = []
    for counts in classes.counts(model.column):
        shares = _shares(counts)
        farthest = max(abs(math.log2(shares[value] / base[value])) for value in shares)
        lacks = model.absent == "strict" and len(shares) < len(base)
        figures.append(math.inf if lacks else farthest)
    passes = (model.delta is None or figure < model.delta - slack(model.delta) for figure in figures)
    return by_class(classes, figures, passes, _finite_max)


def _finite_max(figures: Any) -> float | None:
    worst = max(figures)
    return None if math.isinf(worst) else worst


def _basic_beta(model: Any, classes: Classes) -> Expected:
    base = _base(model, classes)
    figures = [
        max([Fraction(0), *((share - base[value]) / base[value] for value, share in _shares(counts).items())])
        for counts in classes.counts(model.column)
    ]
    passes = (model.beta is None or float(figure) <= model.beta + slack(model.beta) for figure in figures)
    return by_class(classes, figures, passes, max)


def _enhanced_beta(model: Any, classes: Classes) -> Expected:
    base = _base(model, classes)
    figures: list[float] = []
    for counts in classes.counts(model.column):
        gains = {value: float((share - base[value]) / base[value]) for value, share in _shares(counts).items()}
        caps = {value: -math.log(base[value]) for value in gains}
        over = any(gain > caps[value] + slack(caps[value]) for value, gain in gains.items())
        figures.append(math.inf if over else max(0.0, *gains.values()))
    passes = [
        not math.isinf(figure) and (model.beta is None or figure <= model.beta + slack(model.beta))
        for figure in figures
    ]
    if model.beta is None:
        passes = [True] * len(figures)
    return by_class(classes, figures, passes, _finite_max)


def _p_sensitive(model: Any, classes: Classes) -> Expected:
    columns = model.columns or classes.sensitive
    sizes = [len(rows) for rows in classes.members]
    values = [min(len(classes.counts(column)[at]) for column in columns) for at in range(len(sizes))]
    passes = [
        model.k is None or (size >= model.k and number >= model.p) for size, number in zip(sizes, values, strict=True)
    ]
    return by_class(classes, sizes, passes, lambda _: {"k": min(sizes), "p": min(values)})


def _alpha_k(model: Any, classes: Classes) -> Expected:
    columns = [model.column] if model.column else classes.sensitive
    sizes = [len(rows) for rows in classes.members]
    tops = []
    for at in range(len(sizes)):
        shares = [
            share
            for column in columns
            for value, share in _shares(classes.counts(column)[at]).items()
            if model.values is None or value in model.values
        ]
        tops.append(max(shares, default=Fraction(0)))
    passes = [
        model.k is None or (size >= model.k and float(top) <= model.alpha + slack(model.alpha))
        for size, top in zip(sizes, tops, strict=True)
    ]
    return by_class(classes, sizes, passes, lambda _: {"k": min(sizes), "alpha": float(max(tops))})


SHARE_ORACLES: Mapping[str, Callable[[Any, Classes], Expected]] = {
    "delta_disclosure": _delta,
    "basic_beta_likeness": _basic_beta,
    "enhanced_beta_likeness": _enhanced_beta,
    "p_sensitive_k_anonymity": _p_sensitive,
    "alpha_k_anonymity": _alpha_k,
}
"""By catalogue name."""
