"""Interval disclosure by rank gives the worked shares, on every engine and in any order.

Source: reference/torra.json, the ten-record table of the slides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.kernels.linkage.interval_disclosure import rank_disclosed
from privpipe.measures import RankIntervalDisclosure
from privpipe.tolerance import floor_share


def worked_tables(torra: dict[str, Any]) -> tuple[pa.Table, pa.Table]:
    worked = torra["worked_examples"]["rank_swap_attack"]
    tables = [
        pa.table({f"c{at}": [float(v) for v in column] for at, column in enumerate(zip(*worked[side], strict=True))})
        for side in ("orig", "masked")
    ]
    return tables[0], tables[1]


def test_the_worked_table(engine: Engine, torra: dict[str, Any], judged_pair: Any) -> None:
    original, released = worked_tables(torra)
    wanted = torra["worked_examples"]["interval_disclosure_on_the_same_table"]["rank"]
    for name, figures in wanted.items():
        verdict = judged_pair(
            engine,
            RankIntervalDisclosure(percent=float(name[1:])),
            original,
            released,
            order=[3, 1, 4, 0, 2, 9, 8, 7, 6, 5],
        )
        assert list(verdict.observed["columns"].values()) == pytest.approx(figures["per_column"])
        assert verdict.observed["all"] == pytest.approx(figures["joint"])
        assert verdict.observed["share"] == pytest.approx(max(figures["per_column"]))


@pytest.mark.parametrize("seed", range(4))
def test_ties_and_missing_values_as_defined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 9, 40).astype(float), rng.integers(0, 9, 40).astype(float)
    x[rng.random(40) < 0.1], y[rng.random(40) < 0.1] = np.nan, np.nan
    for percent in (0.0, 7.0, 20.0, 200.0):
        inside, known = rank_disclosed(x, y, percent)
        ranked = sorted(v for v in y.tolist() if v == v)
        w = floor_share(percent / 200, len(ranked))
        for at in range(40):
            if x[at] != x[at] or y[at] != y[at]:
                assert not known[at]
                assert not inside[at]
                continue
            first, last = ranked.index(y[at]), len(ranked) - 1 - ranked[::-1].index(y[at])
            low, high = ranked[max(first - w, 0)], ranked[min(last + w, len(ranked) - 1)]
            assert inside[at] == (low <= x[at] <= high)


def test_what_cannot_be_judged(embedded: Engine, judged_pair: Any) -> None:
    numbers, texts = pa.table({"a": [1.0, 2.0]}), pa.table({"a": ["1", "2"]})
    with pytest.raises(DataError, match="not a number in both tables"):
        judged_pair(embedded, RankIntervalDisclosure(at_most=1.0), numbers, texts)
    empty = pa.table({"a": pa.array([None, None], pa.float64())})
    assert judged_pair(embedded, RankIntervalDisclosure(at_most=1.0), numbers, empty).outcome == "error"
    for wrong in ({"percent": -1}, {"percent": 201}, {"joint": "one"}, {"at_most": 1.5}, {"columns": ()}):
        with pytest.raises(UsageError):
            RankIntervalDisclosure(**wrong)
