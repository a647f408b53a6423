"""Weights of classes are exact sums, rounded once."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassQuery
from privpipe.engines import Engine, Source
from privpipe.errors import DataError

QUERY = ClassQuery(keys=("k", "j"), weight="w", mark="*")


def table_of(engine: Engine, weights: pa.Array) -> tuple[Any, pa.Table]:
    rng = np.random.default_rng(3)
    n = len(weights)
    rows = pa.table(
        {
            "k": pa.array([["a", "b", "*", None][v] for v in rng.integers(0, 4, n)], pa.string()),
            "j": pa.array([["x", "*"][v] for v in rng.integers(0, 2, n)]),
            "w": weights,
        }
    )
    return engine.scan(Source(data=rows)), rows


def shapes(blocks: Any) -> Counter[tuple[int, float, bool]]:
    found: Counter[tuple[int, float, bool]] = Counter()
    for block in blocks:
        found.update(zip(block.sizes.tolist(), block.weights.tolist(), block.marked.tolist(), strict=True))
    return found


@pytest.mark.parametrize(
    "weights",
    [
        1 + 1e3 * np.random.default_rng(1).random(500),
        np.random.default_rng(2).random(500) * 2.0 ** np.random.default_rng(3).integers(-20, 20, 500),
        np.random.default_rng(4).integers(0, 2**40, 500),
        np.full(500, 1e300),
        np.full(500, 1e-200),
        np.zeros(500),
    ],
    ids=["survey", "wide", "whole", "huge", "tiny", "zero"],
)
def test_they_are_the_nearest_doubles_of_the_sums(embedded: Any, weights: Any) -> None:
    table, rows = table_of(embedded, pa.array(weights))
    sums: dict[Any, Fraction] = defaultdict(Fraction)
    sizes: Counter[Any] = Counter()
    for row in rows.to_pylist():
        sums[row["k"], row["j"]] += Fraction(row["w"])
        sizes[row["k"], row["j"]] += 1
    wanted = Counter((sizes[key], float(sums[key]), key == ("*", "*")) for key in sums)
    assert shapes(embedded.classes(table, QUERY)) == wanted


def test_weights_of_any_magnitude_are_summed_and_missing_ones_refused(embedded: Any) -> None:
    apart, _ = table_of(embedded, pa.array([1e-30, 1e30] * 50))
    assert sum(shapes(embedded.classes(apart, QUERY)).values()) == 8
    for missing in (None, float("nan")):
        table, _ = table_of(embedded, pa.array([1.0, missing] * 10))
        with pytest.raises(DataError, match="10 missing values"):
            list(embedded.classes(table, QUERY))
    empty, _ = table_of(embedded, pa.array([], pa.float64()))
    assert not list(embedded.classes(empty, QUERY))
