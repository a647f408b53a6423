"""Homogeneity, background knowledge and guessing on the three worked tables.

Source: reference/torra.json, slides after L. Sweeney (2002) and A. Machanavajjhala et al. (2007).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.kernels.classes.posterior import insider_posterior, ruled_out_posterior
from privpipe.measures import AttributeInference, BackgroundKnowledgeAttack, HomogeneityAttack
from privpipe.models import KAnonymity
from privpipe.roles import Roles

TABLES = ("patient_table", "race_birth_gender_zip_table", "city_table")


def classes_of(worked: dict[str, Any]) -> dict[tuple[Any, ...], Counter[str]]:
    found: dict[tuple[Any, ...], Counter[str]] = {}
    for row in worked["rows"]:
        found.setdefault(tuple(row[at] for at in worked["qi"]), Counter())[row[-1]] += 1
    return found


def figures(engine: Engine, worked: dict[str, Any]) -> dict[str, Any]:
    names = [f"q{at}" for at in worked["qi"]]
    table = pa.table(dict(zip([*names, "illness"], zip(*worked["rows"], strict=True), strict=True)))
    measures = [
        HomogeneityAttack(column="illness"),
        BackgroundKnowledgeAttack(column="illness", exclude_values=1),
        BackgroundKnowledgeAttack(column="illness", insiders=1),
        AttributeInference(column="illness"),
    ]
    roles = Roles(quasi_identifiers=names, sensitive=["illness"])
    scanned = engine.scan(Source(data=table))
    found = assess(engine, scanned, guarantees=[KAnonymity(k=worked["k"])], measures=measures, roles=roles)
    shares = [verdict.observed for verdict in found.measures]
    return {"k": found.verdicts[0].observed, "classes": found.classes, **dict(zip("hbic", shares, strict=True))}


def by_definition(worked: dict[str, Any]) -> dict[str, Any]:
    """The shares straight from the definition."""
    groups = classes_of(worked)
    n = len(worked["rows"])
    sizes = {key: sum(counts.values()) for key, counts in groups.items()}
    sure: dict[str, int] = dict.fromkeys("hbi", 0)
    for key, counts in groups.items():
        f, best = sizes[key], 0.0
        for value, own in counts.items():
            rest = sorted((count for other, count in counts.items() if other != value), reverse=True)
            best = max(best, own / (f - sum(rest[:1])))
        sure["h"] += f if max(counts.values()) == f else 0
        sure["b"] += f if best == 1 else 0
        sure["i"] += f if max(own / (f - min(1, f - own)) for own in counts.values()) == 1 else 0
    totals = Counter(row[-1] for row in worked["rows"])
    share = sum(max(counts.values()) for counts in groups.values()) / n
    base = max(totals.values()) / n
    inferred = {"share": share, "baseline": base, "gain": share - base}
    return {"k": min(sizes.values()), "classes": len(groups), **{a: b / n for a, b in sure.items()}, "c": inferred}


def test_the_three_worked_tables(engine: Engine, torra: dict[str, Any]) -> None:
    for name in TABLES:
        worked = torra["worked_examples"][name]
        found, wanted = figures(engine, worked), by_definition(worked)
        assert found["h"] == pytest.approx(worked["homogeneity_share"], rel=1e-12)
        assert found["k"] == worked["k"]
        assert found["classes"] == worked.get("classes", found["classes"])
        for figure, value in wanted.items():
            assert found[figure] == (pytest.approx(value, rel=1e-12)), (name, figure)


def test_worst_posteriors_class_by_class(torra: dict[str, Any]) -> None:
    examples = torra["worked_examples"]
    patient = examples["patient_table"]
    for key, counts in classes_of(patient).items():
        cells = np.array(list(counts.values()), dtype=np.int64)
        (posterior,) = ruled_out_posterior(np.array([0, len(cells)]), cells, np.array([cells.sum()]), 1).tolist()
        assert posterior == patient["exclude_values_1_worst_posterior_by_class"]["/".join(key)]
    city = examples["city_table"]
    counts = classes_of(city)["Tarragona", 60]
    cells = np.array(list(counts.values()), dtype=np.int64)
    (posterior,) = insider_posterior(np.array([0, len(cells)]), cells, np.array([cells.sum()]), 1).tolist()
    assert posterior == city["insiders_1_worst_posterior_of_Tarragona"]
    assert min(len(counts) for counts in classes_of(city).values()) == city["p_sensitive"]
