"""Top and bottom coding of several columns by distance: who is coded, where the boundary is met, and what stays."""

from __future__ import annotations

import datetime
import functools
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.transforms import CATALOGUE, BottomCode, TopCode
from privpipe.transforms.outliers import Boundary, Region
from tests.kernels.noise.test_minimum_covariance import hbk, squared, weighed
from tests.tiers import at_most

Array = np.ndarray[Any, Any]
SEED = "9f2c41d7e0b85a6394c1f7d2083be65a"
MAD = 1.482602218505602


def coded(run: Any, stage: Any, columns: dict[str, Any], **options: Any) -> dict[str, list[Any]]:
    frame = pa.table({**columns, "row": range(len(next(iter(columns.values()))))})
    rows = run(stage, frame, record_id="row", **options).rows.sort_by("row")
    return {name: rows.column(name).to_pylist() for name in columns}


def correlated(n: int = 300, seed: int = 4) -> Array:
    """Two columns, with two records that only their pair of values shows, and one far out at each end."""
    rng = np.random.default_rng(seed)
    a = rng.normal(50, 10, n)
    points = np.stack([a, 2 * a + rng.normal(0, 4, n)], axis=1)
    points[:4] = [65, 85], [35, 115], [150, 310], [-40, -90]
    return points


def columns_of(points: Array) -> dict[str, Any]:
    return {name: pa.array(column, from_pandas=True) for name, column in zip("abcd", points.T, strict=False)}


def as_points(found: dict[str, list[Any]]) -> Array:
    return np.array([[math.nan if cell is None else cell for cell in column] for column in found.values()]).T


def outside(points: Array, centre: Array, scatter: Array, quantile: float) -> tuple[Array, Array]:
    """By the definition, of complete records: who is beyond, and where the ray to the centre meets the boundary."""
    distances = squared(points, centre, scatter)
    cut = chi2.ppf(quantile, points.shape[1])
    far = distances > cut
    return far, centre + np.sqrt(cut / distances)[:, None] * (points - centre)


def upper(points: Array, centre: Array) -> Array:
    """Records whose value furthest from its centre, in scales, is above it."""
    scale = MAD * np.nanmedian(np.abs(points - np.nanmedian(points, axis=0)), axis=0)
    off = (points - centre) / scale
    return np.array([row[np.nanargmax(np.abs(row))] > 0 for row in off])


def test_the_published_outliers_meet_the_boundary_of_another_program(run: Any) -> None:
    """Raw centre and scatter as DIALS prints them after R robustbase; winsorized as mvTopCoding of sdcMicro does."""
    points = hbk()
    raw = np.array([1.5333333333333334, 2.4564102564102566, 1.6076923076923078])
    spread = [
        [1.18964912281, 0.00464912280702, 0.217368421053],
        [0.00464912280702, 0.37620782726, 0.182186234818],
        [0.217368421053, 0.182186234818, 0.910728744939],
    ]
    near = weighed(points, raw, np.array(spread))
    far, met = outside(points, near.mean(0), np.cov(near.T), 0.975)
    assert np.flatnonzero(far).tolist() == list(range(14))
    found = as_points(coded(run, TopCode(columns=[*"abc"], distance=0.975), columns_of(points)))
    assert found[:14] == pytest.approx(met[:14], rel=1e-9)
    assert found[14:].tobytes() == points[14:].tobytes()
    below = coded(run, BottomCode(columns=[*"abc"], distance=0.975), columns_of(points))
    assert as_points(below).tobytes() == points.tobytes()


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.975])
def test_each_side_by_the_definition(run: Any, quantile: float) -> None:
    points = correlated()
    outcome = run(TopCode(columns=[*"ab"], distance=quantile), pa.table(columns_of(points)))
    region = Region.from_dict(outcome.plan.detail["regions"][0])
    centre, axes = np.array(region.centre), np.array(region.boundaries["11"].axes) / np.array(region.scale)[:, None]
    scatter = np.linalg.inv(axes @ axes.T)
    far, met = outside(points, centre, scatter, quantile)
    above = upper(points, centre)
    assert far[:4].all()
    assert above[:4].tolist() == [True, False, True, False]
    for stage, side in ((TopCode, above), (BottomCode, ~above)):
        found = as_points(coded(run, stage(columns=[*"ab"], distance=quantile), columns_of(points)))
        assert found[far & side] == pytest.approx(met[far & side], rel=1e-9)
        assert found[~(far & side)].tobytes() == points[~(far & side)].tobytes()
    assert outcome.plan.detail["regions"][0]["coded"] == (far & above).sum()


def test_the_two_ends_leave_no_one_outside(run: Any) -> None:
    points = correlated()
    region = Region.of(points, 0.95)
    top, on_boundary, _ = region.coded(points, True)
    bottom, both, _ = region.coded(on_boundary, False)
    again = region.coded(both, True)[0] | region.coded(both, False)[0]
    assert (top & bottom).sum() == 0
    assert (top | bottom).sum() > 4
    distances = region.boundaries["11"].squared((both - np.array(region.centre)) / np.array(region.scale))
    assert distances[again] == pytest.approx(chi2.ppf(0.95, 2), rel=1e-12)  # but for the last bits
    assert distances.max() == pytest.approx(chi2.ppf(0.95, 2), rel=1e-12)


def test_who_is_on_neither_side_is_coded_by_both() -> None:
    region = Region((1.0, 2.0), (2.0, 4.0), 2, {"11": Boundary(((1.0, 0.0), (0.0, 1.0)), 4.0)})
    point = np.array([[1.0 + 2 * 3, 2.0 - 4 * 3]])
    for above in (True, False):
        found, met, _ = region.coded(point, above)
        assert found.all()
        assert met == pytest.approx(np.array([[1 + 2 * np.sqrt(2), 2 - 4 * np.sqrt(2)]]))


finite = st.floats(-1e6, 1e6)
BASE = np.random.default_rng(2).normal(size=(60, 3)) @ np.array([[3.0, 1, 0], [0, 2, 1], [0, 0, 1]])


@functools.cache
def region_of_three() -> Region:
    return Region.of(BASE, 0.9)


@settings(max_examples=at_most(40))
@given(st.lists(st.tuples(*[st.one_of(st.none(), finite)] * 3), min_size=1, max_size=12), st.booleans())
def test_every_coded_record_keeps_its_direction(rows: list[tuple[float | None, ...]], above: bool) -> None:
    points = np.array([[np.nan if cell is None else cell for cell in row] for row in rows], float)
    kinds = {"".join("01"[int(known)] for known in row) for row in ~np.isnan(points)}
    region = region_of_three().with_boundaries(kinds, 0.9)
    assert Region.from_dict(region.to_dict()) == region
    found, met, too_far = region.coded(points, above)
    assert too_far == 0
    assert met[~found].tobytes() == points[~found].tobytes()
    centre = np.array(region.centre)
    for x, y in zip(points[found], met[found], strict=True):
        known = ~np.isnan(x)
        assert (np.isnan(y) == ~known).all()
        share = np.linalg.norm((y - centre)[known]) / np.linalg.norm((x - centre)[known])
        assert 0 <= share < 1
        assert (y - centre)[known] == pytest.approx(share * (x - centre)[known], rel=1e-6, abs=1e-9)
        boundary = region.boundaries["".join("01"[int(each)] for each in known)]
        at = boundary.squared(((y - centre) / np.array(region.scale))[known][None])
        assert at == pytest.approx(boundary.cut, rel=1e-6)


def test_a_record_that_misses_values_is_measured_over_those_it_has(run: Any) -> None:
    points = correlated()
    points[2, 1], points[4], points[5] = np.nan, [np.nan, 400], [np.nan, np.nan]
    stage = TopCode(columns=[*"ab"], distance=0.975)
    frame = {**columns_of(points), "row": range(len(points))}
    plan = run(stage, pa.table(frame), record_id="row").plan.detail
    found = as_points(coded(run, stage, columns_of(points)))
    assert (np.isnan(found) == np.isnan(points)).all()
    region = Region.from_dict(plan["regions"][0])
    assert set(region.boundaries) == {"11", "10", "01"}
    axes = np.array(region.boundaries["11"].axes) / np.array(region.scale)[:, None]
    limit = np.array(region.centre) + np.sqrt(chi2.ppf(0.975, 1) * np.diag(np.linalg.inv(axes @ axes.T)))
    assert found[2, 0] == pytest.approx(limit[0], rel=1e-9)
    assert found[4, 1] == pytest.approx(limit[1], rel=1e-9)
    with pytest.raises(DataError, match="column 'a' has 2 missing values"):
        run(TopCode(columns=[*"ab"], distance=0.975, nulls="refuse"), pa.table(frame), record_id="row")


def test_collinear_columns_are_served(run: Any) -> None:
    points = correlated()
    three = np.column_stack([points, points.sum(axis=1)])
    three[7, 2] += 50
    outcome = run(TopCode(columns=[*"abc"], distance=0.975), pa.table({**columns_of(three), "row": range(300)}))
    region = Region.from_dict(outcome.plan.detail["regions"][0])
    assert region.rank == 2
    assert region.boundaries["111"].cut == pytest.approx(chi2.ppf(0.975, 2))
    top = as_points(coded(run, TopCode(columns=[*"abc"], distance=0.975), columns_of(three)))
    assert top[7] == pytest.approx(region.centre, abs=0.1)  # off the plane, next to the centre
    assert top[2].tolist() != three[2].tolist()
    assert top[2, 2] == pytest.approx(top[2, 0] + top[2, 1], abs=0.01)
    # Of columns whose plane is the missing one's matter, the rest has the rank that it has.
    assert region.with_boundaries(["110"], 0.9).boundaries["110"].cut == pytest.approx(chi2.ppf(0.9, 2))
    twice = Region.of(np.column_stack([points, points[:, 0]]), 0.9).with_boundaries(["101", "110"], 0.9)
    assert [twice.boundaries[each].cut for each in ("101", "110")] == pytest.approx(chi2.ppf(0.9, [1, 2]))


def test_a_mean_keeps_the_sum_of_each_column(run: Any) -> None:
    points = correlated()
    points[4] = [np.nan, 500]
    boundary = as_points(coded(run, TopCode(columns=[*"ab"], distance=0.9), columns_of(points)))
    moved = (np.nan_to_num(boundary) != np.nan_to_num(points)).any(axis=1)
    found = as_points(coded(run, TopCode(columns=[*"ab"], distance=0.9, replace="mean"), columns_of(points)))
    assert np.nansum(found, axis=0) == pytest.approx(np.nansum(points, axis=0), rel=1e-12)
    wanted = np.where(np.isnan(points), np.nan, np.nanmean(points[moved], axis=0))
    assert found[moved] == pytest.approx(wanted[moved], rel=1e-12, nan_ok=True)
    assert found[~moved].tobytes() == points[~moved].tobytes()
    few = TopCode(columns=[*"ab"], distance=0.99999, replace="mean")
    with pytest.raises(
        DataError, match=r"values of column 'a' would be replaced by their mean, fewer than at_least = 5"
    ):
        coded(run, few, columns_of(points))


def test_integers_dates_and_decimals(run: Any) -> None:
    points = np.rint(correlated())
    whole = {"a": pa.array(points[:, 0].astype(np.int64)), "b": pa.array(points[:, 1].astype(np.int32))}
    free = coded(run, TopCode(columns=[*"ab"], distance=0.975), whole)
    found = coded(run, TopCode(columns=[*"ab"], distance=0.975, round=True), whole)
    assert isinstance(free["a"][2], float)
    assert free["a"][2] != round(free["a"][2])
    assert isinstance(found["a"][2], int)
    assert [found[name][2] for name in "ab"] == [round(free[name][2]) for name in "ab"]
    assert found["a"][4:9] == whole["a"].to_pylist()[4:9]
    big = {name: pa.array([2**60 + 2**50 * int(cell) + 1 for cell in points[:, at]]) for at, name in enumerate("ab")}
    kept = coded(run, TopCode(columns=[*"ab"], distance=0.975, round=True), big)
    assert [kept[name][4:9] for name in "ab"] == [big[name].to_pylist()[4:9] for name in "ab"]
    dates = {
        "a": pa.array([datetime.date(2000, 1, 1) + datetime.timedelta(days=int(day)) for day in points[:, 0]]),
        "b": pa.array(points[:, 1]).cast(pa.decimal128(9, 2)),
    }
    days = coded(run, TopCode(columns=[*"ab"], distance=0.975), dates)
    assert days["a"][2] == datetime.date(2000, 1, 1) + datetime.timedelta(days=found["a"][2])
    assert float(days["b"][2]) == pytest.approx(free["b"][2], abs=0.0051)


def test_strata_have_regions_of_their_own(run: Any) -> None:
    points = np.concatenate([correlated(), correlated(seed=5) + np.array([1000, -1000])])
    home = ["x"] * 300 + ["y"] * 300
    stage = TopCode(columns=[*"ab"], distance=0.975, by=["home"])
    found = coded(run, stage, {**columns_of(points), "home": home})
    both = np.array([found["a"], found["b"]]).T
    alone = [coded(run, TopCode(columns=[*"ab"], distance=0.975), columns_of(half)) for half in np.split(points, 2)]
    assert both.tobytes() == np.concatenate([as_points(each) for each in alone]).tobytes()
    with pytest.raises(NoSolutionError, match="1 of 3 strata by 'home'"):
        coded(run, stage, {**columns_of(points), "home": [*home[:-5], *["z"] * 5]})


def test_the_order_and_the_cuts_of_a_table_change_nothing(run: Any) -> None:
    frame = pa.table({**columns_of(correlated()), "row": range(300)})
    stage = TopCode(columns=[*"ab"], distance=0.9, replace="mean")
    runs = [run(stage, frame, record_id="row", parts=parts, shuffled=True) for parts in (1, 2, 7)]
    first, *others = [each.rows.sort_by("row") for each in runs]
    assert all(each.equals(first) for each in others)
    assert all(each.plan.detail == runs[0].plan.detail for each in runs)


def test_large_tables_learn_from_the_records_of_smallest_id(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table({**columns_of(correlated()), "row": range(300)})
    stage = TopCode(columns=[*"ab"], distance=0.9)
    whole = run(stage, frame, record_id="row").plan.detail["regions"][0]
    monkeypatch.setattr("privpipe.transforms.outliers.LARGEST_SAMPLE", 100)
    found = [run(stage, frame, record_id="row", parts=parts, shuffled=True).plan.detail["regions"] for parts in (1, 5)]
    assert found[0] == found[1] != [whole]
    assert found[0][0]["centre"] == pytest.approx(whole["centre"], rel=0.1)


def test_a_frozen_plan_codes_another_table_as_its_own() -> None:
    points = correlated()
    frame = pd.DataFrame({"a": points[:, 0], "b": points[:, 1], "home": ["x", "y"] * 150})
    other = frame.copy()
    other.loc[10, ["a", "b"]] = [500.0, 900.0]
    other.loc[11, "b"], other.loc[11, "a"] = np.nan, 500.0
    fitted = TopCode(columns=[*"ab"], distance=0.975, by=["home"]).fit(frame, seed=SEED)
    one, two = fitted.transform(frame), fitted.transform(other)
    rest = [at for at in range(300) if at not in (10, 11)]
    assert one.iloc[rest].equals(two.iloc[rest])
    assert one.loc[10, "a"] == frame.loc[10, "a"]
    assert two.loc[10, "a"] < 100
    assert two.loc[11, "a"] < 100  # no record of the plan's own table missed b
    empty = TopCode(columns=[*"ab"], distance=0.975).fit(frame.assign(a=np.nan, b=np.nan), seed=SEED)
    with pytest.raises(DataError, match="has no boundary for 'a', 'b'"):
        empty.transform(frame)
    calm = frame[frame["a"].between(40, 60) & frame["b"].between(90, 110)]
    few = TopCode(columns=[*"ab"], distance=0.99999, replace="mean").fit(calm, seed=SEED)
    with pytest.raises(DataError, match="has no mean of coded records"):
        few.transform(frame)


def test_what_cannot_be_measured_is_refused(run: Any) -> None:
    stage = TopCode(columns=[*"ab"], distance=0.975)
    with pytest.raises(DataError, match="fewer than 6 records have a value in each of 'a', 'b', too few"):
        coded(run, stage, {"a": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "b": [1.0, 5.0, 2.0, 7.0, 3.0, None]})
    with pytest.raises(DataError, match="half of the values of column 'b' or more are equal"):
        coded(run, stage, {"a": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "b": [0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 5.0]})
    with pytest.raises(DataError, match="column 'b' holds 1 infinite values"):
        coded(run, stage, columns_of(np.where(correlated() > 300, math.inf, correlated())))
    with pytest.raises(DataError, match="column 'b' holds numbers beyond 1e301"):
        coded(run, stage, columns_of(np.where(correlated() > 300, 1e305, correlated())))
    tiny = correlated() * 1e-20
    tiny[9] = [1e300, 1e300]
    with pytest.raises(DataError, match="1 records hold values of 'a', 'b' too far"):
        coded(run, stage, columns_of(tiny))
    nothing = pa.array([], pa.float64())
    assert coded(run, stage, {"a": nothing, "b": nothing}) == {"a": [], "b": []}
    gaps = pa.array([None] * 3, pa.float64())
    assert coded(run, stage, {"a": gaps, "b": gaps}) == {"a": [None] * 3, "b": [None] * 3}


@pytest.mark.parametrize(
    ("stage", "changed", "said"),
    [
        (TopCode, {"columns": ["a"]}, "TopCode: distance is over at least two columns"),
        (BottomCode, {"replace": "label", "label": "far"}, "BottomCode: label replaces a single value"),
        (TopCode, {"label": "far"}, "label replaces a single value"),
        (TopCode, {"at": 3}, "give at, quantile or distance, one of the three"),
        (TopCode, {"quantile": 0.9}, "give at, quantile or distance, one of the three"),
        (TopCode, {"distance": None}, "give at, quantile or distance, one of the three"),
        (TopCode, {"distance": 0.4}, "distance must be"),
        (TopCode, {"distance": 1.0}, "distance must be"),
        (TopCode, {"distance": math.nan}, "distance must be"),
    ],
)
def test_what_cannot_be_asked_for(stage: Any, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        stage(**{"columns": ["a", "b"], "distance": 0.975} | changed)


def test_nothing_of_the_region_is_public(run: Any) -> None:
    plan = run(TopCode(columns=[*"ab"], distance=0.975), columns_of(correlated())).plan
    assert plan.detail["confidential"]
    assert CATALOGUE["top_code"].public_detail(plan.detail) == {}
    assert plan.public().detail == {}
