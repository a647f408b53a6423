"""Rank swapping: the multiset stays, no one moves further than the window, tails become means."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import Facts, Histogram
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.kernels.rank_swapping import swap_permutation
from privpipe.roles import Roles
from privpipe.tolerance import floor_share
from privpipe.transforms import RankSwap, exact_quantiles
from privpipe.transforms.base import StageContext
from privpipe.transforms.swapping import segment_swap
from privpipe.transforms.swapping.segment_swap import SortedValues, tails
from tests.tiers import at_most

BEYOND_DRIVER = "privpipe.transforms.swapping.rank_swap.is_beyond_driver"
MANY = settings(max_examples=at_most(60), suppress_health_check=[HealthCheck.function_scoped_fixture])


def aligned(run: Any, stage: RankSwap, values: Any, **options: Any) -> list[Any]:
    """Released values in the order of the given ones."""
    frame = pa.table({"x": values, "row": range(len(values))})
    found = run(stage, frame, record_id="row", **options).rows.sort_by("row")
    return found.column("x").to_pylist()  # type: ignore[no-any-return]


@MANY
@given(
    values=st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=60),
    p=st.sampled_from([0.05, 0.2, 0.5, 1.0]),
    partner=st.sampled_from(["unswapped", "content", "skip"]),
)
def test_window_and_multiset(run: Any, values: list[int | None], p: float, partner: Any) -> None:
    array = pa.array(values, pa.int64())
    known = [value for value in values if value is not None]
    w = floor_share(p, len(known))
    if known and w < 1:
        with pytest.raises(DataError, match="window of 0 ranks"):
            aligned(run, RankSwap(columns=["x"], p=p, partner=partner), array)
        return
    found = aligned(run, RankSwap(columns=["x"], p=p, partner=partner), array)
    assert Counter(found) == Counter(values)
    ordered = sorted(known)
    for before, after in zip(values, found, strict=True):
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            # A value stands at a run of ranks; the two runs come within w of each other.
            low, high = sorted((before, after))
            assert ordered.index(high) - (len(ordered) - 1 - ordered[::-1].index(low)) <= w


def test_who_gets_what_is_the_permutation_by_keyed_rank(run: Any, embedded: Engine) -> None:
    """The oracle: rank by (value, keyed order), then take the value of the partner's rank."""
    values = [int(value) for value in np.random.default_rng(1).integers(0, 30, 200)]
    found = aligned(run, RankSwap(columns=["x"], p=0.07), pa.array(values), seed=11)
    rows = pa.table({"row": range(200)})
    table = embedded.with_record_ids(embedded.scan(Source(data=rows)), "row", Seed.insecure(11))

    class Ids:
        def measure(self, block: Any, facts: Any) -> dict[int, list[int]]:
            return dict(zip(block.column("row").to_pylist(), block.record_ids.tolist(), strict=True))

        def merge(self, left: dict[int, Any], right: dict[int, Any]) -> dict[int, Any]:
            return left | right

    ids = embedded.reduce_rows(table, ["row"], Ids(), None)  # type: ignore[arg-type]
    assert ids is not None
    stream = Draws(Seed.insecure(11), 0, "rank_swap").of("x")
    order = stream.order(np.array([ids[row] for row in range(200)])).tolist()
    by_rank = sorted(range(200), key=lambda row: (values[row], order[row], ids[row]))
    pi = swap_permutation(200, 14, stream)
    wanted = [0] * 200
    for rank, row in enumerate(by_rank):
        wanted[row] = values[by_rank[pi[rank]]]
    assert found == wanted


def test_one_more_column_leaves_the_others_alone(run: Any, people: pa.Table) -> None:
    one = run(RankSwap(columns=["age"], p=0.1), people, seed=4)
    two = run(RankSwap(columns=["rent", "age"], p=0.1), people, seed=4)
    names = ["name", "age", "town", "illness", "seen"]
    ordered = [("name", "ascending"), ("seen", "ascending")]
    assert one.rows.select(names).sort_by(ordered).equals(two.rows.select(names).sort_by(ordered))


def test_unswapped_pairs_ranks(run: Any) -> None:
    values = [float(value) for value in range(500)]
    found = aligned(run, RankSwap(columns=["x"], p=0.05), pa.array(values))
    assert [found[int(value)] for value in found] == values
    assert sum(value == after for value, after in zip(values, found, strict=True)) < 10


def test_segments_are_never_crossed(run: Any) -> None:
    found = aligned(run, RankSwap(columns=["x"], p=0.5, segment=10), pa.array(range(100)))
    assert all(value // 10 == after // 10 for value, after in enumerate(found))
    whole = aligned(run, RankSwap(columns=["x"], p=0.5, segment=None), pa.array(range(100)))
    assert any(value // 10 != after // 10 for value, after in enumerate(whole))


def test_tails_become_their_means(run: Any) -> None:
    values = [*range(1, 11), 10, 10]
    found = aligned(run, RankSwap(columns=["x"], p=0.3, top=0.1, bottom=0.2), pa.array(values))
    # floor(.2 x 12) = 2 smallest; floor(.1 x 12) = 1 largest, which its two equals join.
    assert found[:2] == [1.5, 1.5]
    assert found[9:] == [10.0] * 3
    assert sorted(found[2:9]) == [float(value) for value in range(3, 10)]
    assert math.fsum(found) == sum(values)


def test_tails_of_dates_and_decimals_keep_their_type(run: Any) -> None:
    days = [datetime.date(2000, 1, day) for day in (1, 2, 6, 10, 20)]
    dates = aligned(run, RankSwap(columns=["x"], p=0.5, bottom=0.4), pa.array(days))
    assert dates[:2] == [datetime.date(2000, 1, 2)] * 2  # 1.5, half to even
    assert sorted(dates[2:]) == days[2:]
    cents = [Decimal("0.10"), Decimal("0.20"), Decimal("5.00"), Decimal("99999999999999.99")]
    found = aligned(run, RankSwap(columns=["x"], p=0.5, bottom=0.49), pa.array(cents))
    assert found[0] == Decimal("0.10")
    assert sorted(found[1:]) == cents[1:]
    moments = [datetime.datetime(2000, 1, 1, hour) for hour in (0, 2, 9)]
    seen = aligned(run, RankSwap(columns=["x"], p=1.0, bottom=0.49), pa.array(moments, pa.timestamp("us")))
    assert seen[0] == moments[0]


def test_everything_in_the_tails(run: Any) -> None:
    assert aligned(run, RankSwap(columns=["x"], p=1.0, top=0.4), pa.array([3, 3, 3])) == [3.0] * 3


def test_few_records(run: Any) -> None:
    assert aligned(run, RankSwap(columns=["x"], p=1.0), pa.array([5])) == [5]
    assert aligned(run, RankSwap(columns=["x"], p=0.1), pa.array([None, None], pa.int64())) == [None, None]
    assert aligned(run, RankSwap(columns=["x"], p=0.5), pa.array([2, 2, 2, 2])) == [2] * 4
    assert aligned(run, RankSwap(columns=["x"], p=0.1), pa.array([], pa.float64())) == []


def test_nan_is_missing_and_infinity_is_refused(run: Any) -> None:
    found = aligned(run, RankSwap(columns=["x"], p=0.5), pa.array([1.0, math.nan, 2.0, -0.0]))
    assert found[1] is None
    with pytest.raises(DataError, match=r"'x' holds 2 infinite"):
        aligned(run, RankSwap(columns=["x"], p=0.5), pa.array([1.0, math.inf, math.inf]))
    with pytest.raises(DataError, match=r"'x' has 1 missing values"):
        aligned(run, RankSwap(columns=["x"], p=0.5, nulls="refuse"), pa.array([1.0, None, 2.0]))
    with pytest.raises(DataError, match="'town' is text"):
        run(RankSwap(columns=["town"], p=0.5), {"town": ["a", "b"]})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 5}, r"fraction of the records in \(0, 1\], got 5; 5 % is p: 0.05"),
        ({"p": 0}, "p must be"),
        ({"p": True}, "p must be"),
        ({"p": 0.1, "top": 0.5}, "top must be"),
        ({"p": 0.1, "bottom": -0.1}, "bottom must be"),
        ({"p": 0.1, "partner": "unswaped"}, "did you mean 'unswapped'"),
        ({"p": 0.1, "kind": "bucket"}, "did you mean 'buckets'"),
        ({}, "give p, keep_correlation or keep_mean"),
        ({"kind": "distribution"}, "give p, keep_correlation or keep_mean"),
        ({"kind": "buckets", "buckets": 1}, r"buckets must be an integer in \[2, 1000\]"),
        ({"p": 0.1, "keep_mean": 0.1}, "give one of p, keep_correlation and keep_mean"),
        ({"keep_correlation": 0.9, "keep_mean": 0.1}, "give one of p, keep_correlation and keep_mean"),
        ({"keep_correlation": 0.9, "kind": "distribution"}, "keep_correlation requires kind: window"),
        ({"keep_mean": 0.1, "kind": "buckets"}, "keep_mean requires kind: window"),
        ({"keep_mean": 0.1, "by": ["town"]}, "and no by"),
        ({"keep_correlation": 1.0}, "keep_correlation must be"),
        ({"keep_mean": 0}, "keep_mean must be"),
        ({"p": 0.1, "by": ["x"]}, "masks itself"),
        ({"p": 0.1, "nulls": "own_group"}, "nulls must be one of"),
        ({"p": 0.1, "segment": 1}, "segment must be an integer >= 2"),
        ({"p": 0.1, "columns": []}, "at least one column"),
        ({"p": 0.1, "columns": ["x", "x"]}, "twice"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RankSwap(**{"columns": ["x"], **parameters})


def test_ties_at_the_border_join_the_tail() -> None:
    histogram = Histogram(pa.array([1, 2, 3, None]), np.array([2, 5, 2, 4]))
    assert tails(histogram, 0, 0) == (0, 0)
    assert tails(histogram, 3, 1) == (7, 2)
    assert tails(histogram, 8, 8) == (9, 0)
    assert SortedValues.of(histogram).at(np.array([0, 1, 2, 8, -1])).to_pylist() == [1, 1, 2, 3, None]
    assert SortedValues.of(histogram).mean(1, 8) == pytest.approx((1 + 10 + 3) / 7)


@MANY
@given(
    values=st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=60),
    kind=st.sampled_from(["buckets", "distribution"]),
)
def test_the_other_kinds_keep_the_multiset_too(run: Any, values: list[int | None], kind: Any) -> None:
    known = sum(value is not None for value in values)
    if kind == "distribution" and known < 4:
        return
    found = aligned(run, RankSwap(columns=["x"], p=0.25, kind=kind, buckets=4), pa.array(values, pa.int64()))
    assert Counter(found) == Counter(values)
    assert [value is None for value in found] == [value is None for value in values]


def test_any_rank_is_reached_and_the_plan_says_how_far(run: Any) -> None:
    """No window: with 5 buckets a value moves over the whole file; the plan gives the mean displacement."""
    n = 4000
    found = np.array(aligned(run, RankSwap(columns=["x"], kind="buckets", buckets=5), pa.array(range(n))))
    moved = np.abs(found - np.arange(n))
    assert moved.max() > 0.8 * n
    rows = {"x": list(range(n))}
    stated = run(RankSwap(columns=["x"], kind="buckets", buckets=5), rows).plan.detail["columns"]["x"]
    assert stated["expected_displacement"] == pytest.approx(moved.mean(), rel=0.1)
    wide = np.abs(
        np.array(aligned(run, RankSwap(columns=["x"], kind="distribution", p=0.1), pa.array(range(n)))) - np.arange(n)
    )
    stated = run(RankSwap(columns=["x"], kind="distribution", p=0.1), rows).plan.detail["columns"]["x"]
    assert stated["expected_displacement"] == pytest.approx(wide.mean(), rel=0.1)
    assert wide.max() > 0.1 * n


def test_strata_swap_within_themselves(run: Any) -> None:
    groups = ["a"] * 40 + ["b"] * 60
    rows = pa.table({"g": groups, "x": [*range(40), *range(1000, 1060)], "row": range(100)})
    for kind in ("window", "buckets", "distribution"):
        stage = RankSwap(columns=["x"], p=0.1, kind=kind, by=["g"])  # type: ignore[arg-type]
        outcome = run(stage, rows, record_id="row")
        found = outcome.rows.sort_by("row").column("x").to_pylist()
        assert sorted(found[:40]) == list(range(40))
        assert sorted(found[40:]) == list(range(1000, 1060))
        if kind == "window":
            assert sorted(outcome.plan.detail["columns"]["x"]["window"]) == [4, 6]
            moved = np.abs(np.array(found) - np.array(rows.column("x")))
            assert moved[:40].max() <= 4
            assert 0 < moved[40:].max() <= 6
    tails_of = RankSwap(columns=["x"], p=0.1, by=["g"], top=0.1)
    found = run(tails_of, rows, record_id="row").rows.sort_by("row").column("x").to_pylist()
    assert sorted(found)[36:40] == [37.5] * 4
    assert sum(found) == pytest.approx(sum(rows.column("x").to_pylist()))


def test_segments_where_the_rows_are_give_the_same_answer(
    engine: Engine, run_on: Any, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A near-unique column goes to no driver; what it becomes does not depend on that."""
    rng = np.random.default_rng(5)
    x = pa.array(np.round(rng.normal(size=300), 1), mask=rng.random(300) < 0.1)
    rows = pa.table({"x": x, "row": range(300)})
    for partner, tail in (("unswapped", 0.0), ("content", 0.07)):
        stage = RankSwap(columns=["x"], p=0.02, partner=partner, segment=40, top=tail)  # type: ignore[arg-type]
        with monkeypatch.context() as patched:
            patched.setattr(BEYOND_DRIVER, lambda *_: False)
            patched.setattr(embedded, "ranks_held", 0)
            wanted = run_on(embedded, stage, rows, record_id="row")
        monkeypatch.setattr(BEYOND_DRIVER, lambda *_: True)
        found = run_on(engine, stage, rows, record_id="row", parts=3, shuffled=True)
        assert found.rows.sort_by("row").equals(wanted.rows.sort_by("row"))
        assert found.plan == wanted.plan


TAILED = {
    "numbers": pa.array([*range(40), *[17.25] * 20, *[1e300, -1e300] * 5, -0.0, math.nan, *[0.1] * 9]),
    "integers": pa.array([*range(-5, 40), *[2**53 + 1] * 5, *[-(2**53) - 1] * 3, None]),
    "decimals": pa.array([Decimal(each) / 4 for each in range(60)], pa.decimal128(10, 2)),
    "dates": pa.array([*range(70)], pa.int32()).cast(pa.date32()),
    "instants": pa.array([None, *range(-3, 60)], pa.timestamp("us")),
    "one value": pa.array([3] * 30),
}


@pytest.mark.parametrize(
    ("top", "bottom", "sampled"), [(0.1, 0.0, 4), (0.0, 0.25, 4), (0.45, 0.49, 4), (0.1, 0.3, 1 << 15)]
)
@pytest.mark.parametrize("values", TAILED.values(), ids=TAILED)
def test_tails_without_a_histogram_are_those_with_one(
    embedded: Engine, run_on: Any, values: Any, top: float, bottom: float, sampled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sample of four values brackets take several passes to become short."""
    monkeypatch.setattr(exact_quantiles, "SAMPLED", sampled)
    monkeypatch.setattr(exact_quantiles, "COLLECTED", sampled)
    rows = pa.table({"x": values, "row": range(len(values))})
    stage = RankSwap(columns=["x"], p=0.1, top=top, bottom=bottom)
    found = {}
    for near in (True, False):
        monkeypatch.setattr(BEYOND_DRIVER, lambda *_, near=near: near)
        made = run_on(embedded, stage, rows, record_id="row")
        found[near] = made.plan, made.rows.sort_by("row")
    assert found[True] == found[False]


@pytest.mark.spark
def test_values_that_move_any_distance_go_to_no_driver(
    spark_engine: Engine, run_on: Any, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpipe.engines.distributed import rank_exchange

    rng = np.random.default_rng(5)
    x = pa.array(np.round(rng.normal(size=300), 1), mask=rng.random(300) < 0.1)
    rows = pa.table({"x": x, "row": range(300), "y": rng.normal(size=300)})
    stages = (
        RankSwap(columns=["x", "y"], kind="buckets", bottom=0.05),
        RankSwap(columns=["x"], p=0.3, kind="distribution"),
        RankSwap(columns=["y"], p=0.4, partner="content", segment=170),
    )
    for stage in stages:
        with monkeypatch.context() as patched:
            patched.setattr(BEYOND_DRIVER, lambda *_: False)
            wanted = run_on(embedded, stage, rows, record_id="row")
        with monkeypatch.context() as patched:
            patched.setattr(BEYOND_DRIVER, lambda *_: True)
            patched.setattr(rank_exchange, "ROWS_PER_RANGE", 90)
            patched.setattr(rank_exchange, "LEAST_ROWS", 90)
            found = run_on(spark_engine, stage, rows, record_id="row", parts=3, shuffled=True)
        assert found.rows.sort_by("row").equals(wanted.rows.sort_by("row"))
        assert found.plan == wanted.plan


def test_values_pass_from_one_batch_of_rows_to_another(
    run_on: Any, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows wait for values that are read later, across batches and segments; nulls and zeros as over a histogram."""
    rng = np.random.default_rng(6)
    n = 300_000
    x = np.where(rng.random(n) < 0.01, -0.0, rng.normal(size=n).round(4))
    rows = pa.table({"x": pa.array(x, mask=rng.random(n) < 0.01), "row": range(n)})
    for segment in (None, 70_001):
        stage = RankSwap(columns=["x"], p=0.3, segment=segment)
        with monkeypatch.context() as patched:
            patched.setattr(embedded, "ranks_held", 0)
            wanted = run_on(embedded, stage, rows, record_id="row").rows.sort_by("row")
        found = run_on(embedded, stage, rows, record_id="row").rows.sort_by("row")
        assert found.equals(wanted)
        assert not np.signbit(found.column("x").to_numpy()[found.column("x").to_numpy() == 0]).any()


def test_distinct_values_are_estimated_from_the_least_hashes(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_swap, "MOST_VALUES", 20_000)
    for distinct, said in ((50_000, True), (10_000, False), (5, False)):
        rows = pa.table({"x": np.arange(60_000) % distinct})
        assert segment_swap.is_beyond_driver(embedded, embedded.scan(Source(data=rows)), "x", 60_000) is said


def test_ranks_do_not_slow_down_on_skewed_data(run: Any) -> None:
    """Hash-bucket ranks elsewhere turn quadratic on skewed values: here one value holds most of the column."""
    x = np.concatenate([np.zeros(60_000), np.arange(1000) ** 9])
    found = aligned(run, RankSwap(columns=["x"], p=0.05), pa.array(x))
    assert Counter(found) == Counter(x.tolist())


def planned(stage: RankSwap, records: int) -> dict[str, Any]:
    """The plan of a column of so many integers, none of which exists."""
    context = StageContext(roles=Roles(), schema=pa.schema([("x", pa.int64())]))
    found: dict[str, Any] = stage.plan(Facts(records=records, nulls={"x": 0}), context).detail["columns"]["x"]
    return found


@settings(max_examples=at_most(200))
@given(records=st.integers(500_000_001, 10**12), p=st.floats(1e-7, 1), segment=st.sampled_from(["auto", None]))
def test_a_segment_that_is_too_long_is_refused_with_a_window_that_is_served(
    records: int, p: float, segment: Any
) -> None:
    stage, widest = RankSwap(columns=["x"], p=p, segment=segment), 500_000_000 // 64
    if segment == "auto" and floor_share(p, records) <= widest:
        assert planned(stage, records)["window"] == floor_share(p, records)
        return
    with pytest.raises(UnsupportedError, match=r"p of at most 0\.\d+") as refused:
        planned(stage, records)
    served = float(re.search(r"at most (0\.\d+)", str(refused.value))[1])  # type: ignore[index]
    assert 1 <= planned(RankSwap(columns=["x"], p=served), records)["window"] <= widest
    with pytest.raises(UnsupportedError):
        planned(RankSwap(columns=["x"], p=served * 1.002), records)


@pytest.mark.parametrize(
    ("stage", "remedy"),
    [
        (RankSwap(columns=["x"], p=0.01), "; take p of at most 0.007812, or strata"),
        (RankSwap(columns=["x"], p=0.001, segment=None), "; take segment: auto with p of at most 0.007812, or"),
        (RankSwap(columns=["x"], p=0.001, segment=600_000_000), "; take a segment of at most 500,000,000, or"),
        (RankSwap(columns=["x"], kind="buckets"), "; take kind: window with p of at most 0.007812, or"),
        (RankSwap(columns=["x"], kind="distribution", p=0.1), "; take kind: window with p of at most 0.007812"),
    ],
)
def test_the_remedy_fits_the_kind(stage: RankSwap, remedy: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(remedy)):
        planned(stage, 10**9)


def test_the_limit_itself_is_served() -> None:
    assert planned(RankSwap(columns=["x"], kind="buckets"), 500_000_000)["records"] == 500_000_000
    with pytest.raises(UnsupportedError, match=r"500,000,001 values of 'x' swap over segments of 500,000,001 ranks"):
        planned(RankSwap(columns=["x"], kind="buckets"), 500_000_001)
