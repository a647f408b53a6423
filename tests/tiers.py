"""What `make test` leaves to `make test-deep`: cases beyond the first of their kind, and most random examples."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["at_most", "deep", "deep_among", "deep_beyond", "deep_on_spark_beyond", "on_engines", "third_on_spark"]


def deep(*values: Any, id: str | None = None) -> Any:
    """A case of a parametrized test that `make test-deep` runs."""
    return pytest.param(*values, marks=pytest.mark.deep, id=id)


def deep_beyond(usual: int, cases: Iterable[Any], then_rare: int | None = None) -> list[Any]:
    """Cases of one parameter each: `make test` runs the first so many, `make test-deep` the others, up to the number
    from which `make test-integrations` runs them."""
    found: list[Any] = []
    for at, case in enumerate(cases):
        mark = pytest.mark.deep if then_rare is None or at < then_rare else pytest.mark.rare
        found.append(case if at < usual else pytest.param(case, marks=mark))
    return found


def deep_on_spark_beyond(usual: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of one parameter each: on Spark `make test` runs the first so many, `make test-deep` the others."""
    mark = pytest.mark.deep_on_spark
    return [pytest.param(case, marks=mark) if at >= usual else case for at, case in enumerate(cases)]


def third_on_spark(cases: Iterable[Any]) -> list[Any]:
    """Cases of one parameter each: on Spark every third runs, and with `make test-integrations` the others."""
    mark = pytest.mark.rare_on_spark
    return [pytest.param(case, marks=mark) if at % 3 else case for at, case in enumerate(cases)]


def at_most(examples: int) -> int:
    """As many random examples as the profile asks for, or this many where each of them takes long."""
    return min(examples, settings().max_examples)


def deep_among(slow: Container[Any], cases: Iterable[Any]) -> list[Any]:
    """Cases of one parameter each: `make test-deep` runs those that are slow."""
    return [deep(case) if case in slow else case for case in cases]


def on_engines(*usual: str) -> pytest.MarkDecorator:
    """A test of each engine: `make test` runs it on those that are named, `make test-deep` on the others."""
    cases = [name if name in usual else deep(name) for name in ("embedded", "dask", "spark")]
    return pytest.mark.parametrize("engine", cases, indirect=True)
