"""Risks from sampling weights are their definitions on every engine, to the same bits in any order of the records."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.measures import IndividualRisk, LoglinearRisk, ProsecutorRisk, SpecialUniques
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("a", "b"))
MEASURES = [
    IndividualRisk(weight="w", threshold=0.02, threshold_for=0.01),
    IndividualRisk(weight="w", household="home"),
    SpecialUniques(),
]
PLAIN = [
    LoglinearRisk(weight="w", formula="a + b"),
    LoglinearRisk(weight="w", formula="a*b", figure="tau2"),
    ProsecutorRisk(figure="average"),
]
FOUND: dict[str, Any] = {}


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    n = 300
    gone = rng.random((3, n)) < 0.05
    return pa.table(
        {
            "a": pa.array([str(v) for v in rng.integers(0, 7, n)], mask=gone[0]),
            "b": pa.array(rng.integers(0, 11, n), mask=gone[1]),
            "w": pa.array(1 + 100 * rng.random(n)),
            "home": pa.array([f"h{v}" for v in rng.integers(0, 90, n)], mask=gone[2]),
        }
    )


def risk(f: int, population: float) -> float:
    """The series of the definition."""
    p = f / population
    terms, term, m = [1.0], 1.0, 0
    while term > 1e-18:
        m += 1
        term *= m / (f + m) * (1 - p)
        terms.append(term)
    return p / f * math.fsum(terms)


def risks(table: pa.Table) -> list[float]:
    records = [(row["a"], row["b"]) for row in table.to_pylist()]
    sizes, weights = Counter(records), defaultdict(list)
    for record, weight in zip(records, table["w"].to_pylist(), strict=True):
        weights[record].append(weight)
    return [risk(sizes[record], math.fsum(weights[record])) for record in records]


def of_households(table: pa.Table, own: list[float]) -> list[float]:
    homes = [home or at for at, home in enumerate(table["home"].to_pylist())]
    spared: dict[Any, float] = defaultdict(lambda: 1.0)
    for home, each in zip(homes, own, strict=True):
        spared[home] *= 1 - each
    return [1 - spared[home] for home in homes]


def test_they_are_their_definitions_to_the_same_bits(engine: Engine) -> None:
    table = rows(1)
    order = np.random.default_rng(2).permutation(table.num_rows)
    for given in (table.take(order),) if engine.name == "spark" else (table, table.take(order)):
        scanned = engine.scan(Source(data=given))
        judged = assess(engine, scanned, guarantees=[], measures=MEASURES + PLAIN, roles=ROLES)
        wild = assess(
            engine, scanned, guarantees=[], measures=MEASURES, roles=ROLES, rules=JudgingRules(nulls="wildcard")
        )
        observed = [verdict.observed for verdict in (*judged.measures, *wild.measures)]
        # Another engine, partitioning or order: the same doubles.
        assert FOUND.setdefault("observed", observed) == observed
    plain, homes = observed[:2]
    own = risks(table)
    assert plain["mean"] == pytest.approx(np.mean(own), rel=1e-12)
    assert plain["max"] == pytest.approx(max(own), rel=1e-12)
    assert plain["share_above"] == pytest.approx(sum(each > 0.02 for each in own) / 300)
    able = [v for v in own if sum(min(each, v) for each in own) < 3.0]
    assert plain["threshold_for"] == pytest.approx(max(able))
    assert homes["mean"] == pytest.approx(np.mean(of_households(table, own)), rel=1e-12)
    loglinear(table, observed[3])
    wildcards(table, observed[6])


def loglinear(table: pa.Table, found: dict[str, Any]) -> None:
    records = list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True))
    sizes, n_a, n_b = Counter(records), Counter(a for a, _ in records), Counter(b for _, b in records)
    tau = 0.0
    for record, weight in zip(records, table["w"].to_pylist(), strict=True):
        if sizes[record] == 1:
            tau += math.exp(-(1 - 1 / weight) * n_a[record[0]] * n_b[record[1]] / 300)
    assert found["tau1"] == pytest.approx(tau, rel=1e-12)
    assert found["sample_uniques"] == sum(size == 1 for size in sizes.values())


def wildcards(table: pa.Table, found: dict[str, Any]) -> None:
    records = list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True))
    weights = table["w"].to_pylist()
    expected = []
    for record in records:
        alike = [
            weight
            for other, weight in zip(records, weights, strict=True)
            if all(x is None or y is None or x == y for x, y in zip(record, other, strict=True))
        ]
        expected.append(risk(len(alike), math.fsum(alike)))
    assert found["mean"] == pytest.approx(np.mean(expected), rel=1e-12)
    assert found["k_own_value"] <= found["k_wildcard"]
