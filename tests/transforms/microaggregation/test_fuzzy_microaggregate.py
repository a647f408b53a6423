"""Fuzzy microaggregation: what is released are group means, k times or more, and the mean stays in expectation."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.errors import NoSolutionError, UsageError
from privpipe.transforms import FuzzyMicroaggregate, Microaggregate


def frame(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "sex": rng.choice(["f", "m"], n), "row": np.arange(n)}
    )


def test_what_is_released_are_means_of_groups_held_by_k(run: Any) -> None:
    rows = frame()
    groups = run(Microaggregate(columns=["a", "b"], k=4), rows, record_id="row")
    stage = FuzzyMicroaggregate(columns=["a", "b"], k=4)
    found = run(stage, rows, record_id="row")
    released = Counter(zip(found["a"], found["b"], strict=True))
    assert min(released.values()) >= 4
    assert len(released) > 10
    assert found.rows.column("a").to_pylist() != groups.rows.column("a").to_pylist()
    assert found.plan.name == "fuzzy_microaggregate"
    assert "drawn" in found.plan.detail["warnings"][-1]
    means = [math.fsum(run(stage, rows, seed=seed, record_id="row")["a"]) / 300 for seed in range(5)]
    assert np.mean(means) == pytest.approx(np.mean(rows["a"].to_numpy()), abs=0.05)
    assert len(set(means)) > 1


def test_low_fuzziness_is_nearly_the_nearest_group(run: Any) -> None:
    rows = frame(120)
    found = run(FuzzyMicroaggregate(columns=["a"], k=3, fuzziness=1.01, neighbours=2), rows, record_id="row")
    gap = np.abs(np.array(found.rows.sort_by("row")["a"].to_pylist()) - rows["a"].to_numpy())
    wide = run(FuzzyMicroaggregate(columns=["a"], k=3, fuzziness=10, neighbours=20), rows, record_id="row")
    far = np.abs(np.array(wide.rows.sort_by("row")["a"].to_pylist()) - rows["a"].to_numpy())
    assert gap.mean() < far.mean()


def test_strata_nulls_and_rounding(run: Any) -> None:
    rows = frame(100).set_column(0, "a", pa.array([None if at % 9 == 0 else at for at in range(100)]))
    found = run(FuzzyMicroaggregate(columns=["a"], k=3, by=["sex"], round=True), rows)
    assert found.rows.schema.field("a").type == pa.int64()
    assert found["a"].count(None) == 12
    with pytest.raises(NoSolutionError):
        run(FuzzyMicroaggregate(columns=["a"], k=3), {"a": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"neighbours": 1}, r"neighbours must be an integer in \[2, 20\]"),
        ({"neighbours": 21}, "neighbours"),
        ({"fuzziness": 1.0}, "fuzziness must be a number > 1"),
        ({"fuzziness": 11}, "fuzziness"),
        ({"k": 1}, "k must be an integer >= 2"),
        ({"by": ["a"]}, "masks itself"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FuzzyMicroaggregate(**{"columns": ["a"], "k": 3, **parameters})
    assert FuzzyMicroaggregate.problems({"columns": ["a"], "k": 3, **parameters})
