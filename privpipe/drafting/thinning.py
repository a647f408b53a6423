"""Reduce the suggested hierarchies until an optimal search over them ends soon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["MOST_NODES", "levels_of", "thinned"]

MOST_NODES = 50_000
LISTS = {
    "intervals": "widths",
    "bands": "steps",
    "quantiles": "counts",
    "dates": "levels",
    "frequency_groups": "keep",
    "groups": "sizes",
    "from_columns": "columns",
}
USUAL = (1, 2, 3)
"""As many levels as a builder is taken to make that says not how many."""
CUT = ("intervals", "bands", "quantiles", "dates", "frequency_groups")
"""Builders whose levels do not rest on the one below."""


def levels_of(hierarchy: Mapping[str, Any], code_length: int = 0) -> int:
    """Levels that a search may choose from, of a suggested hierarchy.

    Examples
    --------
    >>> levels_of({"intervals": {"widths": [5, 10]}}), levels_of({"redact": {"keep": "left"}}, 5)
    (4, 6)
    """
    builder = next(iter(hierarchy), "")
    given = hierarchy.get(builder)
    given = given if isinstance(given, Mapping) else {}
    if builder in LISTS:
        found = 2 + len(given.get(LISTS[builder], USUAL))
    elif builder == "priority":
        found = 1 + given["levels"]
    else:
        found = 1 + (code_length if builder == "redact" and code_length else len(USUAL))
    return int(found - hierarchy.get("min_level", 0))


def thinned(
    hierarchies: Mapping[str, Mapping[str, Any]], code_lengths: Mapping[str, int], most: int = MOST_NODES
) -> dict[str, dict[str, Any]]:
    """The hierarchies with fewer levels: the one with most loses a middle one, of two the finer, then the raw values.

    Every column keeps two levels at least, so many columns may still make more vectors of levels than `most`.

    Examples
    --------
    >>> thinned({"age": {"intervals": {"widths": [5, 10]}}}, {}, most=3)
    {'age': {'intervals': {'widths': [10]}}}
    >>> thinned({"zip": {"redact": {"keep": "left"}}}, {"zip": 5}, most=4)
    {'zip': {'redact': {'keep': 'left'}, 'min_level': 2}}
    """
    left = {name: dict(hierarchy) for name, hierarchy in hierarchies.items()}
    while left:
        levels = {name: levels_of(hierarchy, code_lengths.get(name, 0)) for name, hierarchy in left.items()}
        name = max(levels, key=lambda name: levels[name])
        if math.prod(levels.values()) <= most or levels[name] <= 2:
            break
        left[name] = _coarser(left[name])
    return left


def _coarser(hierarchy: dict[str, Any]) -> dict[str, Any]:
    builder = next(iter(hierarchy))
    listed = hierarchy[builder][LISTS[builder]] if builder in CUT else ()
    if len(listed) > 1:
        gone = len(listed) // 2 if len(listed) > 2 else 0
        left = [each for at, each in enumerate(listed) if at != gone]
        return {**hierarchy, builder: {**hierarchy[builder], LISTS[builder]: left}}
    return {**hierarchy, "min_level": hierarchy.get("min_level", 0) + 1}
