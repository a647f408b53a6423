"""Windows chosen for a correlation or for means: what was asked is what comes, on any distribution."""

from __future__ import annotations

import datetime
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from privpipe.engines import Engine
from privpipe.errors import DataError
from privpipe.transforms import RankSwap
from privpipe.transforms.swapping import swap_window
from privpipe.transforms.swapping.swap_window import chosen_window

RNG = np.random.default_rng(3)
SHAPES = {
    "even": RNG.permutation(2000) * 1.0,
    "normal": RNG.normal(50, 10, 2000),
    "skewed": RNG.exponential(300, 2000),
    "heavy": RNG.lognormal(8, 0.5, 2000),
    "counts": RNG.poisson(3, 2000),
}


def swapped(run: Any, stage: RankSwap, values: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    frame = pa.table({"x": values, "row": range(len(values))})
    made = run(stage, frame, record_id="row", **options)
    return made.rows.sort_by("row").column("x").to_numpy(), made.plan.detail["columns"]["x"]


@pytest.mark.parametrize("wanted", [0.99, 0.95, 0.7])
@pytest.mark.parametrize("values", SHAPES.values(), ids=SHAPES)
def test_the_correlation_asked_for_is_the_one_that_comes(run: Any, values: Any, wanted: float) -> None:
    found, plan = swapped(run, RankSwap(columns=["x"], keep_correlation=wanted), pa.array(values))
    assert sorted(found) == sorted(values)
    assert wanted <= plan["expected_correlation"]
    realised = [
        np.corrcoef(values, swapped(run, RankSwap(columns=["x"], keep_correlation=wanted), values, seed=seed)[0])[0, 1]
        for seed in (1, 2, 3)
    ]
    assert np.mean(realised) == pytest.approx(plan["expected_correlation"], abs=0.35 * (1 - wanted))


def test_the_window_is_the_widest_one() -> None:
    """The oracle: the mean square change of each window, from the definition."""
    from privpipe.draws import Stream
    from privpipe.kernels.rank_swapping import swap_permutation

    values = np.sort(SHAPES["skewed"])[:300]
    found = chosen_window(values, "unswapped", correlation=0.9)

    def correlation(width: int) -> float:
        streams = [Stream(turn.to_bytes(16, "little")) for turn in range(64)]
        partners = [values[swap_permutation(300, width, stream, segment=300)] for stream in streams]
        return float(np.mean([np.corrcoef(values, each)[0, 1] for each in partners]))

    assert found.correlation == pytest.approx(correlation(found.width), abs=1e-6)
    assert correlation(found.width) >= 0.9 > correlation(found.width + 1)


@pytest.mark.parametrize("wanted", [0.02, 0.05, 0.1])
def test_evenly_spread_values_have_the_window_of_the_formula(wanted: float) -> None:
    """P = sqrt(8/3) K0 |mean| / range: rankSwap of sdcMicro 5.8.1, RankSwapping.h, after Moore 1996."""
    values = np.arange(500, 4500)
    formula = math.sqrt(8 / 3) * wanted * values.mean() / (values.max() - values.min())
    found = chosen_window(values, "unswapped", mean=wanted)
    assert found.width / found.of == pytest.approx(formula, rel=0.06)
    assert found.mean_change is not None
    assert found.mean_change <= wanted


def test_means_of_subsets_change_as_little_as_asked(run: Any) -> None:
    """K0 of sdcMicro: |X1 - X2| <= 2 K0 X1 / sqrt(N) for the means of N records before and after."""
    values = np.abs(SHAPES["normal"])
    found, plan = swapped(run, RankSwap(columns=["x"], keep_mean=0.05), values)
    assert plan["expected_mean_change"] == pytest.approx(0.05, rel=0.05)
    rng = np.random.default_rng(1)
    within = []
    for _ in range(400):
        rows = rng.choice(len(values), 100, replace=False)
        before, after = values[rows].mean(), found[rows].mean()
        within.append(abs(before - after) <= 2 * 0.05 * before / math.sqrt(100))
    assert 0.9 <= np.mean(within) < 1


def test_the_correlations_of_census_and_what_the_formula_would_give(shared: Path) -> None:
    """At R0 = .95 Moore's even spread gives .98 for AGI and .80 for INTVAL, which is skewed."""
    from privpipe.draws import Stream
    from privpipe.kernels.rank_swapping import swap_permutation

    census = pc.read_csv(shared / "data" / "casc" / "census.csv")
    windows = {}
    for column, formula_gives in (("AGI", 0.98), ("INTVAL", 0.80)):
        values = np.sort(census[column].to_numpy())
        windows[column] = chosen_window(values, "unswapped", correlation=0.95)
        assert windows[column].correlation == pytest.approx(0.953, abs=0.004)
        share = math.sqrt(2 * values.var() * 0.05) / (values.max() - values.min())
        pi = [swap_permutation(len(values), int(share * len(values)), Stream(bytes([turn]) * 16)) for turn in range(64)]
        moore = np.mean([np.corrcoef(values, values[each])[0, 1] for each in pi])
        assert moore == pytest.approx(formula_gives, abs=0.03)
    assert {column: each.width for column, each in windows.items()} == {"AGI": 152, "INTVAL": 6}


def test_more_kept_is_a_narrower_window() -> None:
    for values in SHAPES.values():
        by_correlation = [chosen_window(values, "skip", correlation=each).width for each in (0.5, 0.8, 0.9, 0.99)]
        by_mean = [chosen_window(values, "content", mean=each).width for each in (0.5, 0.2, 0.1)]
        assert all(a >= b for widths in (by_correlation, by_mean) for a, b in pairwise(widths))


def test_unit_and_order_change_nothing() -> None:
    values = SHAPES["counts"].astype(np.int64)
    found = chosen_window(values, "unswapped", correlation=0.9, top=0.05)
    assert chosen_window(values[::-1] * 1000, "unswapped", correlation=0.9, top=0.05) == found
    assert chosen_window(values.astype(float) * 2.0**900, "unswapped", correlation=0.9, top=0.05) == found


def test_tails_take_no_part(run: Any) -> None:
    values = np.concatenate([np.arange(1000.0), [1e9] * 10])
    with pytest.raises(DataError, match=r"keep_correlation = 0.9999 .* window of 0 ranks"):
        swapped(run, RankSwap(columns=["x"], keep_correlation=0.9999), np.concatenate([values, [1e8, 2e8]]))
    found, plan = swapped(run, RankSwap(columns=["x"], keep_correlation=0.9, top=0.005), values)
    inner = values < 1e9
    assert plan["top"] == 10
    assert np.corrcoef(values[inner], found[inner])[0, 1] == pytest.approx(0.9, abs=0.03)


def test_a_sample_gives_the_same_share_of_ranks(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = SHAPES["normal"]
    whole = swapped(run, RankSwap(columns=["x"], keep_correlation=0.8), values)[1]["window"]
    monkeypatch.setattr(swap_window, "SAMPLED", 500)
    found, plan = swapped(run, RankSwap(columns=["x"], keep_correlation=0.8), values)
    assert plan["window"] == pytest.approx(whole, rel=0.1)
    assert np.corrcoef(values, found)[0, 1] == pytest.approx(0.8, abs=0.04)


def test_edges(run: Any) -> None:
    stage = RankSwap(columns=["x"], keep_correlation=0.9)
    for values in ([], [None, None], [5], [7, 7, 7], [1e308, 1e308]):
        column = pa.array(values, pa.float64())
        assert swapped(run, stage, column)[0].tolist() == pytest.approx(
            column.to_numpy(zero_copy_only=False).tolist(), nan_ok=True
        )
    days = pa.array([datetime.date(2000, 1, 1 + day) for day in range(28)])
    assert sorted(swapped(run, stage, days)[0]) == sorted(days.to_numpy(zero_copy_only=False))
    with pytest.raises(DataError, match="holds dates, whose mean has no percentage"):
        swapped(run, RankSwap(columns=["x"], keep_mean=0.1), days)
    with pytest.raises(DataError, match="keep_mean = 0.1 .* window of 0 ranks"):
        swapped(run, RankSwap(columns=["x"], keep_mean=0.1), [-1.0, 0.0, 1.0])
    with pytest.raises(DataError, match="'x' holds 1 infinite"):
        swapped(run, stage, [1.0, math.inf, 2.0])


def test_every_engine_chooses_alike(engine: Engine, embedded: Engine, run_on: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(swap_window, "SAMPLED", 300)
    rows = pa.table({"x": pa.array([None, *SHAPES["heavy"][:600]]), "row": range(601)})
    stage = RankSwap(columns=["x"], keep_correlation=0.8, top=0.02)
    wanted = run_on(embedded, stage, rows, record_id="row")
    found = run_on(engine, stage, rows, record_id="row", parts=3, shuffled=True)
    assert found.plan == wanted.plan
    assert found.rows.sort_by("row").equals(wanted.rows.sort_by("row"))
