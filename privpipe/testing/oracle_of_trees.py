"""Distance along a tree of values, node by node with fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from privpipe.errors import DataError

__all__ = ["distance_along", "paths_of"]


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
            value: [value, *(_shown(value, width - level) for level in range(1, width)), "*"]
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


def _shown(value: str, length: int) -> str:
    return value[:length].rstrip("*")


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
