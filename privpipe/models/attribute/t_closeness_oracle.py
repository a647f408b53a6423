"""t-closeness from its definition: sums over lines and trees with fractions, node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any

from privpipe.blocks.oracle_classes import Classes, Expected, by_class, slack
from privpipe.errors import DataError, UsageError

__all__ = ["distance_along", "oracle", "paths_of", "thresholds"]


def oracle(model: Any, classes: Classes) -> Expected:
    """The distance of each class from the base, by the model's way to measure it."""
    base = classes.base[model.column]
    if model.distance == "hierarchical":
        return _along_a_tree(model, classes)
    ordered = model.distance == "ordered"
    line = _line(model, base) if ordered else list(base)
    total = sum(base.values())
    distances = []
    for counts in classes.counts(model.column):
        if any(value not in base for value in counts):
            raise DataError("base does not cover the released values")
        size = sum(counts.values())
        gains = [Fraction(counts[value], size) - Fraction(base[value], total) for value in line]
        moved = list(accumulate(gains))[:-1] if ordered else gains
        steps = max(len(line) - 1, 1) if ordered else 2
        distances.append(sum(map(abs, moved), start=Fraction(0)) / steps)
    passes = (model.t is None or float(distance) <= model.t + slack(model.t) for distance in distances)
    return by_class(classes, distances, passes, max)


def _along_a_tree(model: Any, classes: Classes) -> Expected:
    base = classes.base[model.column]
    counted = classes.counts(model.column)
    if any(value not in base for counts in counted for value in counts):
        raise DataError("base does not cover the released values")
    paths = paths_of(model.hierarchy, list(base))
    distances = [distance_along(paths, counts, base) for counts in counted]
    passes = (model.t is None or float(distance) <= model.t + slack(model.t) for distance in distances)
    return by_class(classes, distances, passes, max)


def _line(model: Any, base: Counter[Any]) -> list[Any]:
    """The values of the base in their order."""
    if None in base:
        raise DataError("a missing value has no place in an order")
    text = any(isinstance(value, str) for value in base)
    if model.order is None and text:
        raise UsageError("text has no natural order")
    if model.order is None:
        return sorted(base)
    if model.order == "text":
        return sorted(base, key=str)
    if any(value not in model.order for value in base):
        raise DataError("a value has no place in the order")
    return [value for value in model.order if value in base]


def paths_of(hierarchy: Mapping[str, Any], values: list[Any]) -> dict[Any, list[Any]]:
    """The nodes of each value from leaf to root, of a hierarchy made by `redact` (keep left) or `tree`.

    Examples
    --------
    >>> paths_of({"redact": {"keep": "left"}}, ["flu", "a"])["a"]
    ['a', 'a', 'a', '*']
    """
    if "redact" in hierarchy:
        width = max([1, *(len(value) for value in values if value is not None)])
        paths = {
            value: [value, *(value[: width - level].rstrip("*") for level in range(1, width)), "*"]
            for value in values
            if value is not None
        }
    else:
        paths = _branches(hierarchy["tree"], [])
        missing = sum(value is not None and value not in paths for value in values)
        if missing:
            raise DataError(f"the hierarchy lacks {missing} values")
    height = max((len(path) for path in paths.values()), default=2)
    root = next(iter(paths.values()))[-1] if paths else "*"
    if None in values:
        paths[None] = [None] * (height - 1) + [root]
    return paths


def _branches(tree: Any, above: list[Any]) -> dict[Any, list[Any]]:
    if not isinstance(tree, Mapping):
        return {leaf: [leaf, *above] for leaf in tree}
    found = {}
    for node, below in tree.items():
        found.update(_branches(below, [node, *above]))
    return found


def distance_along(paths: Mapping[Any, list[Any]], counts: Counter[Any], base: Counter[Any]) -> Fraction:
    """The earth mover's distance of the shares of `counts` to those of `base`.

    Examples
    --------
    >>> paths = {"a": ["a", "x", "*"], "b": ["b", "x", "*"], "c": ["c", "y", "*"]}
    >>> distance_along(paths, Counter("a"), Counter("abc"))
    Fraction(1, 2)
    """
    size, total = sum(counts.values()), sum(base.values())
    extra = {(0, value): Fraction(counts[value], size) - Fraction(base[value], total) for value in base}
    height = len(next(iter(paths.values()))) - 1
    cost = Fraction(0)
    for level in range(1, height + 1):
        children: dict[Any, set[Any]] = {}
        for value in base:
            child = value if level == 1 else paths[value][level - 1]
            children.setdefault(paths[value][level], set()).add((level - 1, child))
        for node, below in children.items():
            much = sum((max(extra[child], Fraction(0)) for child in below), start=Fraction(0))
            little = sum((max(-extra[child], Fraction(0)) for child in below), start=Fraction(0))
            cost += Fraction(level, height) * min(much, little)
            extra[level, node] = much - little
    return cost


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"t": float(rng.uniform(0, 1))}
