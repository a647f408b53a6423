"""Noise: the formulas, their moments, and what stays unchanged."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import Facts, Moments, RowBlock
from privpipe.draws import Draws, Seed
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.kernels.ids.value_draws import value_normals
from privpipe.transforms import AddNoise
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.numeric_columns import covariance_factor
from tests.tiers import at_most, deep_beyond

N = 60_000


def noisy(run: Any, stage: AddNoise, columns: dict[str, Any], **options: Any) -> list[Any]:
    """Released columns in the order of the given rows."""
    frame = pa.table({**columns, "row": range(len(next(iter(columns.values()))))})
    found = run(stage, frame, record_id="row", **options).rows.sort_by("row")
    return [found.column(name).to_pylist() for name in columns]


def applied(stage: AddNoise, columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """On rows at hand, with facts by numpy."""
    names = list(columns)
    x = np.stack([columns[name] for name in names])
    moments = {
        name: Moments(x.shape[1], 0, float(row.mean()), float(row.std(ddof=1)), float(row.min()), float(row.max()))
        for name, row in zip(names, x, strict=True)
    }
    facts = Facts(records=x.shape[1], moments=moments, covariance=np.atleast_2d(np.cov(x)))
    plan = stage.plan(facts, StageContext(roles=None, schema=None))  # type: ignore[arg-type]
    ids = np.stack([np.arange(x.shape[1]), np.zeros(x.shape[1], np.int64)], axis=1)
    rows = RowBlock(pa.record_batch(columns), ids)
    found = stage.apply_block(rows, plan, Draws(Seed.insecure(5), 0, "add_noise"))
    return {name: found[name] for name in names}


def test_noise_is_keyed_by_record_and_column(run: Any) -> None:
    """The oracle: y = x + sqrt(k) sd z, z from the column's stream, the record's id and the value."""
    x = [1.0, 5.0, 9.0, 2.0]
    stage = AddNoise(columns=["a"], variance_ratio=0.25)
    ids = np.array([[at, 0] for at in range(4)])
    rows = RowBlock(pa.record_batch({"a": x}), ids)
    z = value_normals(Draws(Seed.insecure(5), 0, "add_noise").of("a"), rows, ["a"])
    wanted = np.array(x) + 0.5 * np.std(x, ddof=1) * z
    assert applied(stage, {"a": np.array(x)})["a"].tolist() == wanted.tolist()
    alone = noisy(run, stage, {"a": x})
    (beside, _) = noisy(run, AddNoise(columns=["b", "a"], variance_ratio=0.25), {"a": x, "b": x})
    assert alone[0] == beside


def sample() -> np.ndarray[Any, Any]:
    return np.random.default_rng(8).gamma(2.0, 3.0, N) + 1.0


def test_moments_of_uncorrelated_noise() -> None:
    x = sample()
    y = applied(AddNoise(columns=["a"], variance_ratio=0.3), {"a": x})["a"]
    sd = x.std() * math.sqrt(0.3 / N)
    assert abs(y.mean() - x.mean()) <= 5 * sd
    assert y.var() / (1.3 * x.var()) == pytest.approx(1.0, abs=5 * math.sqrt(2 * 4 / N))


def test_moments_of_multiplicative_noise() -> None:
    """Var(Y) = (1 + k) Var(X) + k m^2, signs and zeros stay."""
    x = np.where(np.arange(N) % 7 == 0, 0.0, sample())
    y = applied(AddNoise(columns=["a"], relative_sd=0.4, kind="multiplicative"), {"a": x})["a"]
    k = 0.16
    assert ((y == 0) == (x == 0)).all()
    assert (y >= 0).all()
    assert y.mean() == pytest.approx(x.mean(), rel=5 * math.sqrt((k + 1) / N))
    assert y.var() == pytest.approx((1 + k) * x.var() + k * x.mean() ** 2, rel=0.05)


def test_correlated_noise_keeps_correlations_and_collinear_sums() -> None:
    a = sample()
    b = a * 0.5 + np.random.default_rng(9).normal(size=N)
    stage = AddNoise(columns=["a", "b", "c"], kind="correlated", variance_ratio=0.5)
    y = applied(stage, {"a": a, "b": b, "c": a + b})
    assert np.corrcoef(y["a"], y["b"])[0, 1] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=0.01)
    assert np.abs(y["a"] + y["b"] - y["c"]).max() < 1e-9
    assert y["a"].var() == pytest.approx(1.5 * a.var(), rel=0.05)
    shrunk = AddNoise(columns=["a", "b", "c"], kind="correlated", variance_ratio=0.5, bias_correct=True)
    assert applied(shrunk, {"a": a, "b": b, "c": a + b})["a"].var() == pytest.approx(a.var(), rel=0.05)


@settings(max_examples=at_most(80))
@given(st.lists(st.lists(st.integers(-5, 5), min_size=3, max_size=3), min_size=2, max_size=8))
def test_the_factor_gives_the_covariance_back(rows: list[list[int]]) -> None:
    covariance = np.cov(np.array(rows, dtype=float).T)
    factor = covariance_factor(covariance)
    assert np.abs(factor @ factor.T - covariance).max() <= 1e-9 * max(1.0, np.abs(covariance).max())
    assert not factor[np.diag(covariance) == 0].any()


def test_a_record_that_misses_one_value_is_masked_in_the_others(run: Any) -> None:
    a, b = noisy(
        run,
        AddNoise(columns=["a", "b"], kind="correlated", variance_ratio=0.5),
        {"a": [1.0, 2.0, 4.0, None, 8.0], "b": [2.0, 1.0, 5.0, 7.0, None]},
    )
    assert a[3] is None
    assert b[4] is None
    assert not {1.0, 2.0, 4.0, 8.0} & set(a)
    assert not {2.0, 1.0, 5.0, 7.0} & set(b)


def test_no_correlation_without_two_complete_records(run: Any) -> None:
    stage = AddNoise(columns=["a", "b"], kind="correlated", variance_ratio=0.5)
    with pytest.raises(DataError, match="fewer than two records"):
        noisy(run, stage, {"a": [1.0, 2.0, None], "b": [None, None, 3.0]})
    assert noisy(run, stage, {"a": [1.0], "b": [2.0]}) == [[1.0], [2.0]]


def test_constant_columns_and_single_records_stay(run: Any) -> None:
    for kind in ("uncorrelated", "multiplicative"):
        stage = AddNoise(columns=["a"], variance_ratio=0.5, kind=kind)  # type: ignore[arg-type]
        assert noisy(run, stage, {"a": [3, 3, 3]}) == [[3.0] * 3]
        assert noisy(run, stage, {"a": [3.5]}) == [[3.5]]
    both = noisy(
        run, AddNoise(columns=["a", "b"], variance_ratio=0.5, kind="correlated"), {"a": [3, 3], "b": [1.0, 2.0]}
    )
    assert both[0] == [3.0, 3.0]
    assert both[1] != [1.0, 2.0]


def test_an_empty_table_stays_empty(run: Any) -> None:
    assert noisy(run, AddNoise(columns=["a"], variance_ratio=0.5), {"a": pa.array([], pa.float64())}) == [[]]
    assert noisy(run, AddNoise(columns=["a"], variance_ratio=0.5), {"a": pa.nulls(2, pa.float64())}) == [[None, None]]


def test_zeros_clips_and_whole_numbers(run: Any) -> None:
    x = [0, 10, 20, 0, 40]
    (kept,) = noisy(run, AddNoise(columns=["a"], variance_ratio=4, keep_zeros=True, clip=[1, 39]), {"a": x})
    assert all(1 <= value <= 39 for value in kept)
    (zeros,) = noisy(run, AddNoise(columns=["a"], variance_ratio=4, keep_zeros=True), {"a": x})
    assert [value == 0 for value in zeros] == [value == 0 for value in x]
    outcome = run(AddNoise(columns=["a"], variance_ratio=9, clip="domain", round=True), {"a": x})
    assert set(outcome["a"]) <= set(range(41))
    assert "discloses" in outcome.plan.detail["warning"]
    assert outcome.rows.schema.field("a").type == pa.int64()


def test_dates_timestamps_and_decimals_come_back_as_such(run: Any) -> None:
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(days=at * 30) for at in range(9)]
    (dates,) = noisy(run, AddNoise(columns=["a"], variance_ratio=0.1), {"a": days})
    assert all(isinstance(day, datetime.date) for day in dates)
    assert dates != days
    cents = [Decimal(at) / 100 for at in range(0, 900, 100)]
    (money,) = noisy(run, AddNoise(columns=["a"], variance_ratio=0.1), {"a": pa.array(cents, pa.decimal128(10, 2))})
    assert all(value.as_tuple().exponent == -2 for value in money)


def test_results_beyond_the_type_are_an_error_without_a_value(run: Any) -> None:
    days = pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(5000, 1, 1)])
    with pytest.raises(DataError, match=r"masking carries \d cells of column 'a' beyond what date32") as raised:
        noisy(run, AddNoise(columns=["a"], variance_ratio=50), {"a": days})
    assert "9999" not in str(raised.value)


def test_nulls_may_be_refused_and_infinities_are(run: Any) -> None:
    with pytest.raises(DataError, match=r"'a' has 1 missing values"):
        noisy(run, AddNoise(columns=["a"], variance_ratio=1, nulls="refuse"), {"a": [1.0, None]})
    with pytest.raises(DataError, match=r"'a' holds 1 infinite"):
        noisy(run, AddNoise(columns=["a"], variance_ratio=1), {"a": [1.0, math.inf]})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "one of the two"),
        ({"variance_ratio": 0.1, "relative_sd": 0.1}, "one of the two"),
        ({"variance_ratio": 0}, "variance_ratio must be"),
        ({"relative_sd": math.nan}, "relative_sd must be"),
        ({"variance_ratio": 1, "kind": "corelated"}, "did you mean 'correlated'"),
        ({"variance_ratio": 1, "nulls": "drop"}, "nulls must be"),
        ({"variance_ratio": 1, "clip": [2, 1]}, "lo below hi"),
        ({"variance_ratio": 1, "clip": [1]}, "clip must be"),
        ({"variance_ratio": 1, "clip": "range"}, "clip must be"),
        ({"variance_ratio": 1, "clip": [0, math.inf]}, "clip must be"),
        ({"variance_ratio": 1, "bias_correct": True}, "requires kind: correlated"),
        ({"variance_ratio": 1, "columns": "a"}, "list of at least one"),
        ({"variance_ratio": 1, "by": ["a"]}, "masks itself"),
        ({"variance_ratio": 1, "kind": "orthogonal", "block": 7}, r"block must be an integer in \[8, 512\]"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AddNoise(**{"columns": ["a"], **parameters})


def test_a_plan_knows_no_ends() -> None:
    facts = Facts(records=3, moments={"a": Moments(3, 0, 5.0, 2.0, -77.25, 99.5)})
    context = StageContext(roles=None, schema=None)  # type: ignore[arg-type]
    plan: StagePlan = AddNoise(columns=["a"], variance_ratio=1, clip="domain").plan(facts, context)
    assert "99.5" not in str(plan)
    assert "77.25" not in str(plan)


def census(shared: Any, columns: list[str]) -> dict[str, Any]:
    import pyarrow.csv

    table = pyarrow.csv.read_csv(shared / "data" / "casc" / "census.csv")
    return {name: table.column(name).to_pylist() for name in columns}


@pytest.mark.deep
def test_orthogonal_noise_keeps_sums_and_covariance_of_census_exactly(run: Any, shared: Any) -> None:
    """Census is exactly collinear, where Mahalanobis and robust variants elsewhere stop; 1e-9 relative."""
    names = ["AFNLWGT", "AGI", "FEDTAX", "STATETAX", "TAXINC", "INTVAL", "PEARNVAL", "POTHVAL", "PTOTVAL"]
    x = census(shared, names)
    before = np.array([x[name] for name in names], float)
    for block in (64, 500):
        stage = AddNoise(columns=names, kind="orthogonal", variance_ratio=0.1, block=block)
        after = np.array(noisy(run, stage, x))
        assert (np.abs(after - before).max(axis=1) > 0.01 * before.std(axis=1)).all()
        assert after.sum(axis=1) == pytest.approx(before.sum(axis=1), rel=1e-9)
        scale = np.sqrt(np.outer(np.diag(np.cov(before)), np.diag(np.cov(before))))
        assert (np.abs(np.cov(after) - np.cov(before)) / scale).max() <= 1e-9
        # Linear identities stay: PTOTVAL = PEARNVAL + POTHVAL.
        assert np.abs(after[8] - after[6] - after[7]).max() <= 1e-6


@pytest.mark.parametrize("block", [8, 64])
@pytest.mark.parametrize("ratio", deep_beyond(2, (0.001, 1.6, 0.1)))
def test_orthogonal_noise_has_the_variance_that_was_asked_for(run: Any, block: int, ratio: float) -> None:
    """A skewed column and a normal one; 4 % is five standard errors of the largest figure."""
    rng = np.random.default_rng(6)
    x = np.stack([rng.lognormal(size=40_000), rng.normal(1e6, 3.0, size=40_000)])
    stage = AddNoise(columns=["a", "b"], kind="orthogonal", variance_ratio=ratio, block=block)
    y = np.array(noisy(run, stage, {"a": x[0], "b": x[1]}))
    assert ((y - x) ** 2).mean(axis=1) / x.var(axis=1) == pytest.approx([ratio, ratio], rel=0.04)
    root = AddNoise(columns=["a", "b"], kind="orthogonal", relative_sd=ratio**0.5, block=block)
    assert np.array(noisy(run, root, {"a": x[0], "b": x[1]})) == pytest.approx(y, rel=1e-4)


def test_orthogonal_noise_cannot_move_records_further_than_an_exchange(run: Any) -> None:
    with pytest.raises(UsageError, match=r"at most 1\.6: it keeps the covariance"):
        AddNoise(columns=["a"], kind="orthogonal", relative_sd=1.3)
    AddNoise(columns=["a"], variance_ratio=5)


def test_correlated_noise_serves_collinear_census(run: Any, shared: Any) -> None:
    names = ["PEARNVAL", "POTHVAL", "PTOTVAL"]
    x = census(shared, names)
    y = np.array(noisy(run, AddNoise(columns=names, kind="correlated", variance_ratio=0.1), x))
    assert np.abs(y[2] - y[0] - y[1]).max() <= 1e-6


def test_records_that_miss_the_same_values_share_blocks(run: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=300), rng.normal(size=300)
    hole = np.arange(300) % 10 == 0
    x = {"a": pa.array(a, mask=hole), "b": b, "c": [7.5] * 300}
    stage = AddNoise(columns=["a", "b", "c"], kind="orthogonal", variance_ratio=0.5, block=8)
    y = noisy(run, stage, x)
    assert [value is None for value in y[0]] == hole.tolist()
    for part in (hole, ~hole):
        assert np.array(y[1])[part].sum() == pytest.approx(b[part].sum(), abs=1e-9)
        assert np.array(y[1])[part].var() == pytest.approx(b[part].var(), rel=1e-9)
        assert not (np.array(y[1])[part] == b[part]).any()
    assert y[2] == [7.5] * 300
    with pytest.raises(NoSolutionError, match=r"2 records miss values of 'a', 'b' in a way that fewer than 3"):
        noisy(
            run,
            AddNoise(columns=["a", "b"], kind="orthogonal", variance_ratio=1),
            {"a": [1.0, 2, None, None, 3, 4], "b": [1.0, 5, 3, 4, 2, 9]},
        )
    nothing = {"a": pa.array([], pa.float64())}
    assert noisy(run, AddNoise(columns=["a"], kind="orthogonal", variance_ratio=1), nothing) == [[]]
    assert noisy(run, AddNoise(columns=["a"], kind="orthogonal", variance_ratio=1), {"a": [5.0]}) == [[5.0]]


def test_blocks_follow_the_keyed_order_alone(run: Any) -> None:
    """Other values, same records: the same rotation, so the noise of a sum is the sum of the noises."""
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=9000), rng.normal(size=9000)
    stage = AddNoise(columns=["x"], kind="orthogonal", variance_ratio=0.2, block=8)
    made = [np.array(noisy(run, stage, {"x": x})[0]) for x in (a, b, a + b)]
    assert np.abs(made[0] + made[1] - made[2]).max() < 1e-9


def test_strata_have_scales_of_their_own(run: Any) -> None:
    n = 4000
    x = np.where(np.arange(n) % 2 == 0, 1.0, 1000.0) * np.random.default_rng(6).normal(size=n)
    columns = {"x": x, "g": ["a", "b"] * (n // 2)}
    for kind in ("uncorrelated", "correlated", "orthogonal"):
        frame = pa.table({**columns, "row": range(n)})
        stage = AddNoise(columns=["x"], variance_ratio=0.25, kind=kind, by=["g"])  # type: ignore[arg-type]
        outcome = run(stage, frame, record_id="row")
        moved = np.array(outcome.rows.sort_by("row").column("x").to_pylist()) - x
        if kind != "orthogonal":
            assert moved[::2].std() == pytest.approx(0.5 * x[::2].std(), rel=0.1)
            assert moved[1::2].std() == pytest.approx(0.5 * x[1::2].std(), rel=0.1)
        else:
            y = x + moved
            assert y[::2].var() == pytest.approx(x[::2].var(), rel=1e-9)
            assert y[1::2].sum() == pytest.approx(x[1::2].sum(), rel=1e-9)
        assert sorted(each["sd"]["x"] for each in outcome.plan.detail["by_stratum"]) == pytest.approx(
            [x[::2].std(ddof=1), x[1::2].std(ddof=1)]
        )
    with pytest.raises(NoSolutionError, match="1 of 2 strata by 'g', 1 records, have fewer than 2"):
        run(AddNoise(columns=["x"], variance_ratio=1, by=["g"]), {"x": [1.0, 2.0, 3.0], "g": ["a", "a", "b"]})


def test_partitions_get_no_equal_noise(run: Any) -> None:
    """Sequential seeds per partition elsewhere give two partitions the same noise; ours belongs to the record."""
    y = np.array(noisy(run, AddNoise(columns=["a"], variance_ratio=1), {"a": [0.0, 1.0] * 500})[0])
    noise = y - np.array([0.0, 1.0] * 500)
    assert len(np.unique(noise)) == 1000


def test_the_frame_handed_in_stays_as_it_was(run: Any) -> None:
    """Editing the caller's frame in place is a defect seen elsewhere."""
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0, 5.0, -999.0]})
    copy = frame.copy()
    run(AddNoise(columns=["a"], variance_ratio=1), pa.Table.from_pandas(frame))
    assert frame.equals(copy)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_correlated_noise_of_squares_that_no_double_holds_is_refused(run: Any, scale: float) -> None:
    """The covariance would be infinite, or nothing at all: cells lost, or released unchanged."""
    columns = {"a": [scale * at for at in (1.0, 2.0, 4.0)], "b": [3.0, 1.0, 2.0]}
    with pytest.raises(DataError, match="'a' has no variance that float64 holds"):
        noisy(run, AddNoise(columns=["a", "b"], variance_ratio=0.1, kind="correlated"), columns)
    plain = noisy(run, AddNoise(columns=["a"], variance_ratio=0.1), {"a": columns["a"]})[0]
    assert all(math.isfinite(y) and y != x for x, y in zip(columns["a"], plain, strict=True))


def test_no_value_stays_as_it_is_because_complete_records_are_alike(run: Any) -> None:
    """`a` varies, but not among the records that have a `b` too: correlated noise would have no scale for it."""
    columns = {"a": [5.0, 5.0, 5.0, 7.0, 9.0], "b": [1.0, 2.0, 3.0, None, None]}
    with pytest.raises(DataError, match="'a' has no variance"):
        noisy(run, AddNoise(columns=["a", "b"], variance_ratio=0.1, kind="correlated"), columns)


def test_noise_beyond_the_largest_double_is_an_error(run: Any) -> None:
    with pytest.raises(DataError, match="cells of column 'x' beyond what double holds"):
        noisy(run, AddNoise(columns=["x"], variance_ratio=9.0), {"x": [1.7e308, -1.7e308] * 8})


def test_orthogonal_noise_of_numbers_that_cannot_be_added_up_is_refused(run: Any) -> None:
    """Their sums are infinite, and every cell would be lost."""
    with pytest.raises(DataError, match="'x' holds numbers beyond 1e301"):
        noisy(run, AddNoise(columns=["x"], variance_ratio=0.5, kind="orthogonal"), {"x": [1e308, 1e308, -1e308]})
