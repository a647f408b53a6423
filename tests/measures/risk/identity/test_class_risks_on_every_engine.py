"""Measures over classes are what their definition says of random tables, on every engine and in any order."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.measures import (
    AttributeInference,
    BackgroundKnowledgeAttack,
    FileUniqueness,
    HomogeneityAttack,
    JournalistRisk,
    MarketerRisk,
    ProsecutorRisk,
    RiskyCells,
)
from privpipe.roles import Roles
from tests.tiers import deep_beyond

ROLES = Roles(quasi_identifiers=("a", "b"), sensitive=("s",))
MEASURES = [
    *(ProsecutorRisk(figure=figure, threshold=0.4) for figure in ("highest", "average", "at_risk")),
    *(JournalistRisk(figure=figure, threshold=0.1) for figure in ("highest", "average", "at_risk")),
    MarketerRisk(),
    FileUniqueness(if_no_uniques="pass"),
    HomogeneityAttack(column="s"),
    HomogeneityAttack(column="s", certainty=0.6),
    AttributeInference(column="s"),
    *(BackgroundKnowledgeAttack(column="s", insiders=r, certainty=0.7) for r in (0, 1, 2)),
    *(BackgroundKnowledgeAttack(column="s", exclude_values=b) for b in (0, 1, 2)),
    RiskyCells(threshold=2, max_dim=2),
]


def tables(seed: int) -> tuple[pa.Table, pa.Table]:
    """A sample and the population it was drawn from, with missing values in every column."""
    rng = np.random.default_rng(seed)
    n = 400
    mask = rng.random((3, n)) < 0.1
    a, b = rng.integers(0, 6, n), rng.integers(0, 9, n)
    s = (a + rng.integers(0, 3, n)) % 4
    columns = [pa.array([str(v) for v in values], mask=gone) for values, gone in zip((a, b, s), mask, strict=True)]
    population = pa.table(dict(zip("abs", columns, strict=True)))
    return population.take(np.sort(rng.choice(n, 60, replace=False))), population.select(["a", "b"])


def by_definition(sample: pa.Table, population: pa.Table) -> list[Any]:
    """What the measures must observe, in the order of `MEASURES`."""
    rows = list(zip(*(sample[name].to_pylist() for name in "abs"), strict=True))
    people = Counter(zip(*(population[name].to_pylist() for name in "ab"), strict=True))
    classes: dict[Any, Counter[Any]] = {}
    for a, b, s in rows:
        classes.setdefault((a, b), Counter())[s] += 1
    f = {key: sum(counts.values()) for key, counts in classes.items()}
    n, total = len(rows), sum(people[key] for key in f)
    by_record = sum(Fraction(f[key], people[key]) for key in f) / n
    alone = [key for key in f if f[key] == 1]
    found: list[Any] = [
        Fraction(1, min(f.values())),
        Fraction(len(f), n),
        Fraction(sum(size for size in f.values() if Fraction(1, size) > Fraction(2, 5)), n),
        Fraction(1, min(people[key] for key in f)),
        max(Fraction(len(f), total), by_record),
        Fraction(sum(f[key] for key in f if Fraction(1, people[key]) > Fraction(1, 10)), n),
        by_record,
        Fraction(sum(people[key] == 1 for key in alone), len(alone)) if alone else None,
    ]
    for certainty in (Fraction(1), Fraction(3, 5)):
        sure = [key for key, counts in classes.items() if Fraction(max(counts.values()), f[key]) >= certainty]
        found.append(Fraction(sum(f[key] for key in sure), n))
    guessed = Fraction(sum(max(counts.values()) for counts in classes.values()), n)
    baseline = Fraction(max(Counter(s for _, _, s in rows).values()), n)
    found.append({"share": guessed, "baseline": baseline, "gain": guessed - baseline})
    for r in (0, 1, 2):
        worst = {
            key: max(Fraction(c, f[key] - min(r, f[key] - c)) for c in counts.values())
            for key, counts in classes.items()
        }
        found.append(Fraction(sum(f[key] for key in f if worst[key] >= Fraction(7, 10)), n))
    for b in (0, 1, 2):
        sure = 0
        for key, counts in classes.items():
            for value, c in counts.items():
                others = sorted((count for other, count in counts.items() if other != value), reverse=True)
                if c == f[key] - sum(others[:b]):
                    sure += f[key]
                    break
        found.append(Fraction(sure, n))
    rare = set()
    for size in (1, 2):
        for places in combinations(range(2), size):
            held = Counter(tuple(row[at] for at in places) for row in rows)
            rare |= {at for at, row in enumerate(rows) if held[tuple(row[p] for p in places)] <= 2}
    found.append(Fraction(len(rare), n))
    return found


@pytest.mark.usual
@pytest.mark.parametrize("seed", deep_beyond(1, [1, 2]))
def test_measures_are_their_definitions(engine: Engine, seed: int) -> None:
    sample, population = tables(seed)
    order = np.random.default_rng(seed).permutation(len(sample))
    for rows in (sample, sample.take(order)):
        table = engine.scan(Source(data=rows))
        judged = assess(
            engine,
            table,
            guarantees=[],
            measures=MEASURES,
            roles=ROLES,
            population=engine.scan(Source(data=population)),
        )
        for verdict, wanted in zip(judged.measures, by_definition(sample, population), strict=True):
            observed = verdict.observed["share"] if isinstance(verdict.entry, RiskyCells) else verdict.observed
            if isinstance(wanted, dict):
                assert observed == pytest.approx({k: float(v) for k, v in wanted.items()}, rel=1e-12, abs=1e-15)
            elif wanted is None:
                assert observed is None
            else:
                assert observed == pytest.approx(float(wanted), rel=1e-12), verdict.entry
