"""k^m-anonymity from its definition, in plain Python."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import combinations
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected
from privpipe.errors import DataError

__all__ = ["oracle", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """Every set of m keys, record by record."""
    if model.items is not None:
        return _of_items(model, classes)
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


def _of_items(model: Any, classes: Classes) -> Expected:
    """Each combination of at most m items that occurs in a record must occur in k of them.

    Counted as failing are those of m items and those that are a whole record of fewer.
    """
    baskets = _baskets(model, classes)
    supports = Counter(
        frozenset(known)
        for basket in baskets
        for size in range(1, model.m + 1)
        for known in combinations(sorted(basket), size)
    )
    asked = [known for known in supports if len(known) == model.m or known in baskets]
    failing = sum(model.k is not None and supports[known] < model.k for known in asked)
    return Expected("fail" if failing else "pass", min(supports.values(), default=None), failing)


def _baskets(model: Any, classes: Classes) -> list[frozenset[str]]:
    """The items of each record."""
    cells = [classes.values[model.items][row] for rows in classes.members for row in rows]
    if any(not isinstance(cell, str | None) for cell in classes.values[model.items]):
        raise DataError("items are a text")
    return [frozenset(item for item in _items(cell or "", model.separator) if item) for cell in cells]


def _items(cell: str, separator: str | None) -> list[str]:
    """A JSON array of texts where no separator is given, else the parts of a text."""
    if separator is None and cell.startswith("["):
        try:
            found = json.loads(cell)
        except ValueError:
            found = None
        if isinstance(found, list) and all(isinstance(item, str | None) for item in found):
            return [item for item in found if item]
    return cell.split(separator or ",")


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"k": int(rng.integers(1, 9))}
