"""The weighted share from its definition, in plain Python."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class, slack

__all__ = ["oracle"]


def oracle(model: Any, classes: Classes) -> Expected:
    """No value of a class has a larger product."""
    tops = [max(map(float, shares.values())) for shares in classes.shares(model.column_of_interest)]
    products = [model.weight * top for top in tops]
    fine = [model.at_most is None or product <= model.at_most + slack(model.at_most) for product in products]
    return by_class(classes, products, fine, max)
