"""Noise for outliers alone: who is one, what they get, and that all others keep their bits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpipe.blocks import RowBlock
from privpipe.draws import Draws, Seed
from privpipe.errors import DataError, UsageError
from privpipe.kernels.ids.value_draws import value_normals
from privpipe.transforms import CATALOGUE, AddNoise
from privpipe.transforms.outliers import LARGEST_SAMPLE, OutlierCuts
from tests.tiers import at_most

Array = np.ndarray[Any, Any]


def released(run: Any, stage: AddNoise, columns: dict[str, Any], **options: Any) -> list[list[Any]]:
    frame = pa.table({**columns, "row": range(len(next(iter(columns.values()))))})
    found = run(stage, frame, record_id="row", **options).rows.sort_by("row")
    return [found.column(name).to_pylist() for name in columns]


def stage(*columns: str, **given: Any) -> AddNoise:
    return AddNoise(**{"columns": columns, "variance_ratio": 0.5, "outliers": 0.975} | given)


def two_columns(n: int = 400) -> tuple[Array, Array]:
    """Correlated, with three records that only their pair of values shows and two by a value each."""
    rng = np.random.default_rng(6)
    a = rng.normal(size=n)
    b = a + 0.1 * rng.normal(size=n)
    a[:3], b[:3] = 1.2, -1.2
    a[3], b[4] = 9.0, -9.0
    return a, b


def far(x: Array, quantile: float) -> Array:
    """Of one column by the definition."""
    off = np.abs(x - np.nanmedian(x))
    scale = 1.482602218505602 * np.nanmedian(off) or np.nanstd(x, ddof=1)
    return np.asarray(off > np.sqrt(chi2.ppf(quantile, 1)) * scale)


def test_one_column_by_the_definition(run: Any) -> None:
    x = [1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 40.0, None, -30.0]
    values = np.array([np.nan if each is None else each for each in x])
    outlying = far(values, 0.975)
    assert outlying.sum() == 2
    frame = pa.table({"a": x, "row": range(10)})
    outcome = run(stage("a"), frame, record_id="row")
    figures = outcome.plan.detail
    rows = outcome.rows.sort_by("row").column("a").to_pylist()
    assert [one for one, so in zip(rows, outlying, strict=True) if not so] == [
        one for one, so in zip(x, outlying, strict=True) if not so
    ]
    ids = np.array([[at, 0] for at in range(10)])
    block = RowBlock(pa.record_batch({"a": x}), ids)
    draws = Draws(Seed.insecure(5), 0, "add_noise")
    wanted = values + np.sqrt(0.5) * np.nanstd(values, ddof=1) * value_normals(draws.of("a"), block, ["a"])
    found = stage("a").apply_block(block, outcome.plan, draws)["a"]
    assert figures["sd"]["a"] == pytest.approx(np.nanstd(values, ddof=1))
    assert found[outlying] == pytest.approx(wanted[outlying], rel=1e-12)
    assert found[~outlying].tobytes() == values[~outlying].tobytes()


def test_a_pair_of_common_values_is_found_by_its_distance(run: Any) -> None:
    a, b = two_columns()
    y, z = map(np.array, released(run, stage("a", "b"), {"a": a, "b": b}))
    assert not far(a, 0.975)[:3].any()
    assert (y[:5] != a[:5]).all()
    assert (z[:5] != b[:5]).all()
    assert ((y != a) == (z != b)).all()
    assert (y != a)[far(a, 0.975) | far(b, 0.975)].all()
    assert (y != a).mean() < 0.12


def test_the_order_and_the_cuts_of_a_table_change_nothing(run: Any) -> None:
    a, b = two_columns()
    frame = pa.table({"a": a, "b": b, "row": range(len(a))})
    runs = [run(stage("a", "b"), frame, record_id="row", parts=parts, shuffled=True) for parts in (1, 2, 7)]
    first, *others = [each.rows.sort_by("row") for each in runs]
    assert all(each.equals(first) for each in others)
    assert all(each.plan.detail == runs[0].plan.detail for each in runs)


@settings(max_examples=at_most(40))
@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-9, 9), st.floats(-1e6, 1e6))] * 3), max_size=40))
def test_who_is_not_an_outlier_keeps_every_bit(rows: list[tuple[float | None, ...]]) -> None:
    columns = {name: [row[at] for row in rows] for at, name in enumerate("abc")}
    points = np.array([[np.nan if cell is None else cell for cell in row] for row in rows], float).reshape(-1, 3)
    known = {name: points[~np.isnan(points[:, at]), at] for at, name in enumerate("abc")}
    sd = {name: float(x.std()) if len(x) else 0.0 for name, x in known.items()}
    cuts = OutlierCuts.of(points, "abc", sd, 0.9)
    assert OutlierCuts.from_dict(cuts.to_dict()) == cuts
    block = RowBlock(pa.record_batch({name: pa.array(x, pa.float64()) for name, x in columns.items()}), ids(len(rows)))
    plan = plan_of(stage("a", "b", "c", outliers=0.9), cuts, sd)
    made = stage("a", "b", "c", outliers=0.9).apply_block(block, plan, Draws(Seed.insecure(5), 0, "add_noise"))
    outlying = cuts.outlying({name: block[name] for name in "abc"})
    assert len(rows) >= 8 or outlying.all()
    for name in "abc":
        before, after = block[name], made[name]
        assert after[~outlying].tobytes() == before[~outlying].tobytes()
        assert (np.isnan(after) == np.isnan(before)).all()
        changed = outlying & ~np.isnan(before) & (sd[name] > 1e-9 * np.abs(before))
        assert (after[changed] != before[changed]).all()


def ids(n: int) -> Array:
    return np.stack([np.arange(n), np.zeros(n, np.int64)], axis=1)


def plan_of(made: AddNoise, cuts: OutlierCuts, sd: dict[str, float]) -> Any:
    from privpipe.transforms.base import StagePlan

    return StagePlan(name="add_noise", detail={"sd": sd, "constant": [], "outliers": cuts.to_dict()})


def test_whole_numbers_beyond_floats_stay_exact(run: Any) -> None:
    x = [2**62 + at for at in (1, 3, 5, 7, 9, 11)] + [5]
    (found,) = released(run, stage("a", round=True), {"a": x})
    assert found[:6] == x[:6]
    assert found[6] != 5
    (widened,) = released(run, stage("a"), {"a": x})
    assert widened[:6] == [float(each) for each in x[:6]]


def test_bits_of_zeros_and_of_values_beyond_the_clip_stay(run: Any) -> None:
    x = [-0.0, 1.0, 2.0, 3.0, 4.0, 2.5, 99.0]
    (found,) = released(run, stage("a", clip=(1.5, 3.5)), {"a": x})
    assert [struct.pack("d", each) for each in found[:6]] == [struct.pack("d", each) for each in x[:6]]
    assert 1.5 <= found[6] <= 3.5


def test_anything_but_a_number_is_missing_in_the_release() -> None:
    x = [1.0, 2.0, 3.0, 4.0, 5.0, float("nan")]
    cuts = OutlierCuts.of(np.array(x)[:, None], ["a"], {"a": 1.0}, 0.975)
    block = RowBlock(pa.record_batch({"a": x}), ids(6))
    made = stage("a").apply_block(block, plan_of(stage("a"), cuts, {"a": 1.0}), Draws(Seed.insecure(5), 0, "add_noise"))
    assert made.column("a").to_pylist() == [*x[:5], None]


def test_too_few_records_are_all_outliers(run: Any) -> None:
    (found,) = released(run, stage("a"), {"a": [1.0, 2.0, 3.0]})
    assert not set(found) & {1.0, 2.0, 3.0}
    missing = {"a": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "b": [1.0, 2.0, 3.0, 4.0, 5.0, None, None]}
    found, beside = released(run, stage("a", "b"), missing)
    assert not set(found) & set(missing["a"])
    assert beside[5:] == [None, None]
    assert released(run, stage("a"), {"a": pa.array([], pa.float64())}) == [[]]
    assert released(run, stage("a"), {"a": [3.0]}) == [[3.0]]


def test_a_column_of_mostly_equal_values_is_measured_by_its_deviation(run: Any) -> None:
    a = [0.0] * 30 + [1.0, 2.0, 50.0]
    b = np.random.default_rng(1).normal(size=33).tolist()
    found, _ = released(run, stage("a", "b"), {"a": a, "b": b})
    assert found[32] != 50.0
    assert sum(one != other for one, other in zip(found, a, strict=True)) < 8


def test_strata_have_cuts_of_their_own(run: Any) -> None:
    a = [1.0, 2.0, 3.0, 4.0, 5.0, 100.0, 101.0, 102.0, 103.0, 104.0, 3.5, 102.5]
    home = ["x"] * 5 + ["y"] * 5 + ["y", "x"]
    found, _ = released(run, stage("a", by=["home"]), {"a": a, "home": home})
    assert found[:10] == a[:10]
    assert found[10] != 3.5
    assert found[11] != 102.5


def test_large_tables_learn_from_the_records_of_smallest_id(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = two_columns()
    frame = pa.table({"a": a, "b": b, "row": range(len(a))})
    whole = run(stage("a", "b"), frame, record_id="row").plan.detail["outliers"]
    monkeypatch.setattr("privpipe.transforms.outliers.LARGEST_SAMPLE", 100)
    found = [
        run(stage("a", "b"), frame, record_id="row", parts=parts, shuffled=True).plan.detail["outliers"]
        for parts in (1, 5)
    ]
    assert found[0] == found[1] != whole
    assert LARGEST_SAMPLE == 20_000
    assert found[0]["bounds"]["a"] == pytest.approx(whole["bounds"]["a"], abs=1.0)


def test_two_plans_share_no_draw(run: Any) -> None:
    """A changed cut draws afresh: releases under one seed cannot be subtracted."""
    a, b = two_columns()
    plans = [run(stage("a", "b", outliers=q), {"a": a, "b": b}).plan for q in (0.975, 0.9)]
    shapes = [stage("a", "b").shaping(plan) for plan in plans]
    assert shapes[0] != shapes[1]
    assert CATALOGUE["add_noise"].public_detail(plans[0].detail) == {}
    assert any("released unchanged" in each for each in plans[0].detail["warnings"])


def test_a_frozen_plan_keeps_its_cuts_for_another_table() -> None:
    import pandas as pd

    a, b = two_columns()
    first = pd.DataFrame({"a": a, "b": b})
    other = first.copy()
    other.iloc[10] = [50.0, 50.0]
    fitted = stage("a", "b").fit(first, seed="9f2c41d7e0b85a6394c1f7d2083be65a")
    one, two = fitted.transform(first), fitted.transform(other)
    assert one.iloc[10].tolist() == first.iloc[10].tolist()
    assert (two.iloc[10] != other.iloc[10]).all()
    rest = [at for at in range(len(first)) if at != 10]
    assert one.iloc[rest].equals(two.iloc[rest])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "orthogonal"}, "outliers cannot be had with kind: orthogonal"),
        ({"kind": "correlated", "bias_correct": True}, "outliers cannot be had with bias_correct"),
        ({"same_within": "household_id"}, "outliers cannot be had with same_within"),
        ({"outliers": 0.4}, "outliers must be"),
        ({"outliers": 1.0}, "outliers must be"),
        ({"outliers": float("nan")}, "outliers must be"),
    ],
)
def test_what_cannot_be_asked_for(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        stage("a", **given)


def test_numbers_that_have_no_square_are_outliers(run: Any) -> None:
    a, b = two_columns()
    a[5], b[6] = 1e200, -1e180
    y, z = map(np.array, released(run, stage("a", "b"), {"a": a, "b": b}))
    assert y[5] != a[5]
    assert z[6] != b[6]
    assert (y != a).mean() < 0.12


def test_numbers_that_cannot_be_added_up_are_refused(run: Any) -> None:
    with pytest.raises(DataError, match="beyond 1e301"):
        run(stage("a"), {"a": [1.0, 1e305, 2.0, 3.0]})
