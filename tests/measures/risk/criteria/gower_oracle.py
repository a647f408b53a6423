"""Distances and attacks from their definitions, in plain Python and without any kernel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

Rows = list[dict[str, Any]]


def ranges(original: Rows, released: Rows, columns: Sequence[str]) -> dict[str, Fraction | None]:
    """The range of each number over original and release; None: no number."""
    found: dict[str, Fraction | None] = {}
    for name in columns:
        values = [row[name] for row in (*original, *released) if row[name] is not None]
        if all(isinstance(value, int | float) for value in values):
            exact = [Fraction(value) for value in values]
            found[name] = max(exact) - min(exact) if exact else Fraction(0)
        else:
            found[name] = None
    return found


def distance(x: dict[str, Any], y: dict[str, Any], spans: dict[str, Fraction | None]) -> Fraction:
    """Gower's, as a sum, exactly."""
    total = Fraction(0)
    for name, span in spans.items():
        a, b = x[name], y[name]
        if span == 0:
            continue
        if a is None or b is None:
            total += (a is None) != (b is None)
        elif span is None:
            total += a != b
        else:
            total += abs(Fraction(a) - Fraction(b)) / span
    return total


def nearest(x: dict[str, Any], rows: Rows, spans: dict[str, Fraction | None], k: int) -> tuple[set[int], set[int]]:
    """Rows strictly nearer than the k-th, and rows at its distance."""
    apart = [distance(x, y, spans) for y in rows]
    kth = sorted(apart)[k - 1]
    return {i for i, d in enumerate(apart) if d < kth}, {i for i, d in enumerate(apart) if d == kth}


def linked(x: dict[str, Any], rows: Rows, sides: Sequence[dict[str, Fraction | None]], k: int) -> Fraction:
    """The chance of a common row, over every way to break the ties."""
    ways = []
    for spans in sides:
        near, tied = nearest(x, rows, spans, k)
        ways.append([near | set(chosen) for chosen in itertools.combinations(sorted(tied), k - len(near))])
    hits = sum(bool(one & other) for one in ways[0] for other in ways[1])
    return Fraction(hits, len(ways[0]) * len(ways[1]))


def rows_of(table: pa.Table) -> Rows:
    """The rows of a table."""
    found: Rows = table.to_pylist()
    return found
