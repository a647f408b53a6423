"""Attribute inference from its definition, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from privpipe.blocks.oracle_classes import Case, Classes, Expected, around_figure, slack

__all__ = ["around", "oracle"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Records guessed correctly by the most frequent value of each class, and by that of the whole table."""
    counted = classes.counts(model.column)
    records = sum(classes.sizes)
    if not records:
        return Expected("error", None)
    right = [max(counts.values()) for counts in counted]
    share = Fraction(sum(right), records)
    baseline = Fraction(max(sum(counted, Counter()).values()), records)
    figures = {"share": share, "baseline": baseline, "gain": share - baseline}
    compared = float(figures["gain" if model.gain else "share"])
    met = model.at_most is None or compared <= model.at_most + slack(model.at_most)
    return Expected("pass" if met else "fail", {name: float(figure) for name, figure in figures.items()})


def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
    """At the figure that is compared: the gain where it is asked for."""
    for what, figure, passes in around_figure(observed["gain" if model.gain else "share"], "at_most"):
        yield what, {"at_most": figure}, passes
