"""Uniques of the original among the uniques of the release."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.kernels.classes.joins import thinned_uniques
from privpipe.kernels.linkage.attack_figures import attack_figures
from privpipe.measures import ReplicatedUniques

from ..joined import adult, adult_cases, judged, keyed, need_reference, random_table


def by_definition(x: pa.Table, y: pa.Table) -> dict[str, float]:
    names = x.schema.names
    own, shown = keyed(x, names), keyed(y, names)
    unique = [key for key, count in own.items() if count == 1]
    return {
        "replicated": sum(shown[key] == 1 for key in unique) / x.num_rows,
        "uniques": len(unique) / x.num_rows,
        "released_uniques": sum(count == 1 for count in shown.values()) / y.num_rows,
        "uniques_found": sum(shown[key] > 0 for key in unique) / x.num_rows,
        "copies": sum(shown[key] for key in unique) / y.num_rows,
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_engine_counts_by_the_definition(engine: Engine, seed: int) -> None:
    if seed and engine.name == "spark":
        pytest.skip("one table says it on Spark")
    x, y = random_table(seed, 30), random_table(seed + 50, 40)
    observed = judged(engine, ReplicatedUniques(at_most=1.0), x, y).observed
    for name, value in by_definition(x, y).items():
        assert observed[name] == pytest.approx(value), name


@need_reference()
@pytest.mark.parametrize("case", adult_cases("attribution"), ids=lambda case: f"{case['data']} {case['keys']}")
def test_published_figures(embedded: Engine, case: dict[str, Any]) -> None:
    """Those of synthpop 1.9-2, by the file of reference figures."""
    x, y, _ = adult(case["data"])
    observed = judged(embedded, ReplicatedUniques(columns=case["keys"]), x, y).observed
    expected = case["expected"]
    assert observed["replicated"] == pytest.approx(expected["rep_u"], rel=1e-9)
    assert observed["uniques"] == pytest.approx(expected["unique_original"], rel=1e-9)
    assert observed["uniques_found"] == pytest.approx(expected["unique_original_in_released"], rel=1e-9)


@need_reference()
def test_few_verbatim_copies_are_seen(embedded: Engine) -> None:
    """Eight copies among 300 synthetic rows: quantiles of distances and advantages of the average do not show them."""
    x, y, _ = adult("synthesize")
    gate = ReplicatedUniques(columns=tuple(x.schema.names), at_most=0.005)
    assert judged(embedded, gate, x, y).outcome == "pass"
    copied = pa.concat_tables([y.slice(0, 292), x.slice(0, 8).cast(y.schema)])
    verdict = judged(embedded, gate, x, copied)
    assert (verdict.outcome, round(verdict.observed["replicated"] * 300)) == ("fail", 8)


def test_beside_a_holdout_the_excess_is_compared(engine: Engine, tmp_path: Path) -> None:
    x = pa.table({"a": list(range(60))})
    y, others = pa.table({"a": list(range(50))}), pa.table({"a": list(range(40, 100))})
    pq.write_table(others, tmp_path / "others.parquet")
    entry = ReplicatedUniques(at_most=0.5, holdout=str(tmp_path / "others.parquet"))
    verdict = judged(engine, entry, x, y)
    wanted = attack_figures(50, 60, control_hits=10, controls=60, everyone=True)
    assert (verdict.observed["control"], verdict.observed["upper"]) == (10 / 60, wanted.excess_upper)
    assert (verdict.outcome, "smaller holdout" in verdict.reason) == ("fail", False)
    pq.write_table(others.slice(0, 20), tmp_path / "others.parquet")
    assert "smaller holdout" in judged(engine, entry, x, y).reason
    pq.write_table(y, tmp_path / "others.parquet")
    assert judged(engine, entry, x, y).outcome == "error"


def test_a_larger_holdout_counts_as_the_mean_over_its_samples() -> None:
    held, kept = [1, 1, 1, 2, 2, 3], 4
    once = {1, 3}
    mean = np.mean([sum(drawn.count(key) == 1 for key in once) for drawn in combinations(held, kept)])
    assert thinned_uniques({3: 1, 1: 1}, len(held), kept) == pytest.approx(mean)


def test_what_cannot_be_judged_is_an_error(embedded: Engine) -> None:
    same = pa.table({"a": [1, 1, 1]})
    assert "distinguishes rows" in judged(embedded, ReplicatedUniques(at_most=1.0), same, same).reason
    for wrong in ({"at_most": -1}, {"columns": ()}, {"columns": ("a", "a")}):
        with pytest.raises(UsageError):
            ReplicatedUniques(**wrong)  # type: ignore[arg-type]


def test_texts_that_equal_no_value_are_an_error_and_numbers_are_not_copies(embedded: Engine) -> None:
    """Of numbers it is known that they differ; the value of a text is not known."""
    x = pa.table({"age": [str(at) for at in range(40)], "income": [float(at) for at in range(40)]})
    labels = pa.table({"age": ["0-19"] * 20 + ["20-39"] * 20, "income": [at + 0.5 for at in range(40)]})
    verdict = judged(embedded, ReplicatedUniques(at_most=0.0), x, labels)
    assert (verdict.outcome, verdict.observed["replicated"]) == ("error", 0.0)
    numbers = ReplicatedUniques(columns=("income",), at_most=0.0)
    verdict = judged(embedded, numbers, x, labels)
    assert (verdict.outcome, verdict.observed["replicated"]) == ("pass", 0.0)
    missing = labels.set_column(1, "income", pa.nulls(40, pa.float64()))
    assert judged(embedded, numbers, x, missing).outcome == "error"


def test_an_original_without_uniques_has_none_to_repeat(embedded: Engine) -> None:
    """Every record was looked up: 0 rests on all of them."""
    x = pa.table({"a": ["u", "u", "v", "v"]})
    verdict = judged(embedded, ReplicatedUniques(at_most=0.0), x, x)
    assert (verdict.outcome, verdict.observed["uniques"], verdict.compared[-1].share) == ("pass", 0.0, 1.0)
