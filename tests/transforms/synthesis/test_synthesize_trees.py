"""Synthetic records of sequential trees: relations kept, rare values never released, rules obeyed."""

from __future__ import annotations

import datetime
import json
import sys
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import RowBlock
from privpipe.draws import Draws, Seed
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.kernels.synthesis.copula import ValueRanks
from privpipe.kernels.synthesis.trees import CodeTree, category_order
from privpipe.kernels.synthesis.value_cells import ValueCells
from privpipe.transforms import Synthesize
from privpipe.transforms.synthesis.codebooks import Codebook
from privpipe.transforms.synthesis.drawn_records import TreeModel
from tests.tiers import at_most

N = 3000


def related() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    school = rng.integers(0, 5, N)
    # No order of the categories by frequency puts these means in a row: what the copula loses.
    income = np.exp(np.array([9.0, 10.5, 8.0, 10.0, 9.5])[school] + rng.normal(0, 0.3, N)).round()
    married = rng.random(N) < 0.5
    partner = pa.array(rng.integers(18, 80, N), mask=~married)
    return {
        "school": np.array(list("abcde"))[school],
        "income": income,
        "married": np.where(married, "yes", "no"),
        "partner": partner,
        "worked": np.where(rng.random(N) < 0.7, 0, rng.integers(1, 2000, N)),
    }


def test_relations_are_kept(run: Any) -> None:
    x = related()
    found = run(Synthesize(), x)
    made = np.array(found["income"], float)
    for school in "abcde":
        mean = x["income"][x["school"] == school].mean()
        assert made[np.array(found["school"]) == school].mean() == pytest.approx(mean, rel=0.1)
    assert made.mean() == pytest.approx(x["income"].mean(), rel=0.05)
    assert made.std() == pytest.approx(x["income"].std(), rel=0.1)
    # Gaps follow the column they depend on, and many zeros stay zeros.
    gaps = [partner is None for partner in found["partner"]]
    assert np.mean(gaps) == pytest.approx(x["partner"].null_count / N, abs=0.05)
    assert all(gap == (m == "no") for gap, m in zip(gaps, found["married"], strict=True))
    assert np.mean(np.array(found["worked"]) == 0) == pytest.approx(np.mean(x["worked"] == 0), abs=0.05)


@settings(max_examples=at_most(40))
@given(
    st.lists(st.integers(-50, 10_000) | st.integers(0, 6), min_size=1, max_size=200),
    st.integers(2, 7),
    st.booleans(),
)
def test_no_point_is_a_value_of_few_records(values: list[int], min_count: int, whole: bool) -> None:
    held = Counter(values)
    array = np.array(list(held), np.int64 if whole else np.float64)
    ranks = ValueRanks.of(array, np.array(list(held.values())))
    cells = ValueCells.of(ranks, 10, min_count, parted=min_count % 2 == 0)
    rare = {value for value, count in held.items() if count < min_count}
    points = {point for each in cells.points for point in each}
    within = np.array([value for value in range(min(values) + 1, max(values)) if value not in rare], np.int64)
    # A whole number that few records hold is released only where every one within 64 steps is such a number.
    step = int(np.gcd.reduce(np.sort(array.astype(np.int64)) - min(values))) or 1
    for point in points & rare:
        assert whole
        assert step == 1
        assert not (np.abs(within - point) <= 60).any()
    assert {value for value, count in held.items() if count >= min_count} <= points
    codes = cells.cells(array)
    assert ((codes >= 0) & (codes < len(cells))).all()
    assert ValueCells.from_dict(cells.to_dict()).points == cells.points
    if points:
        assert min(values) <= min(points) <= max(points) <= max(values)


def test_tails_keep_mean_and_deviation() -> None:
    x = np.random.default_rng(0).lognormal(10, 1.5, 5000)
    cells = ValueCells.of(ValueRanks.of(x, np.ones(5000, np.int64)), 100, 5, parted=True)
    held = np.bincount(cells.cells(x), minlength=len(cells))
    made = np.concatenate([np.resize(cells.points[cell], 60 * count) for cell, count in enumerate(held)])
    assert made.mean() == pytest.approx(x.mean(), rel=0.01)
    assert made.std() == pytest.approx(x.std(), rel=0.05)
    assert not np.isin(made, x).any()


@settings(max_examples=at_most(40))
@given(
    st.lists(st.integers(-50, 10_000) | st.sampled_from([0, 10**12]), min_size=1, max_size=300),
    st.integers(1, 60),
    st.integers(1, 7),
)
def test_cells_hold_enough_records_and_are_no_more_than_asked(values: list[int], bins: int, min_count: int) -> None:
    held = Counter(values)
    array = np.array(sorted(values), np.float64)
    ranks = ValueRanks.of(array, np.ones(len(array), np.int64))
    cells = ValueCells.of(ranks, bins, min_count, parted=True)
    codes = cells.cells(array)
    rare = np.array([held[int(value)] < min_count for value in array])
    if rare.sum() >= max(min_count, 5):
        assert len(cells.starts) <= bins
        assert np.unique(codes[rare], return_counts=True)[1].min() >= max(min_count, 5)
    assert (np.diff(codes[rare]) >= 0).all()


def test_a_long_tail_is_parted_and_keeps_what_it_tells() -> None:
    """Two incomes of a long tail: cells of equal counts lost a sixth of their covariance."""
    rng = np.random.default_rng(3)
    first = rng.lognormal(10, 1.0, 6000)
    second = first * rng.lognormal(0, 0.3, 6000)
    kept = np.ones(2)
    for at, x in enumerate((first, second)):
        cells = ValueCells.of(ValueRanks.of(x, np.ones(6000, np.int64)), 100, 5, parted=True)
        codes = cells.cells(x)
        held = np.bincount(codes)
        assert len(held) == 100
        assert held.min() >= 10
        assert held[-5:].max() < held[:40].min()
        other = second if at == 0 else first
        kept[at] = np.cov(cells.means[codes], other)[0, 1] / np.cov(x, other)[0, 1]
    assert (kept > 0.93).all()


def test_unique_values_never_appear(run: Any) -> None:
    """The attack: whoever looks for values that one person alone has finds none, in any of several releases."""
    rng = np.random.default_rng(9)
    x = {
        "pay": np.concatenate([rng.integers(0, 10**6, 300), np.repeat([500, 900], 40)]),
        "job": ["clerk"] * 200 + ["nurse"] * 176 + ["mayor"] * 4,
        "rate": np.concatenate([rng.normal(size=360), np.zeros(20)]),
    }
    for min_count in (2, 5, 50):
        held = {name: Counter(list(x[name])) for name in x}
        for seed in (1, 2):
            found = run(Synthesize(min_count=min_count, min_leaf=1, records=1000), x, seed=seed)
            for name in x:
                rare = {value for value, count in held[name].items() if count < min_count}
                assert not rare & set(found[name]), (name, min_count)


DENSE: dict[str, list[Any]] = {
    "running numbers": list(range(1, 101)),
    "negative ones": [-at for at in range(100)],
    "ages": [18 + at % 62 for at in range(100)],
    "days": [datetime.date(2020, 1, 1) + datetime.timedelta(days=at) for at in range(100)],
    "cents": [Decimal(at) / 100 for at in range(100)],
    "noons": [datetime.datetime(2020, 1, 1, 12) + datetime.timedelta(days=at) for at in range(100)],
    "tens": [10 * at for at in range(100)],
    "floats": [at / 1 for at in range(100)],
}


@pytest.mark.parametrize("min_count", [3, 5, 20])
@pytest.mark.parametrize("method", ["cart", "copula"])
def test_dense_rare_numbers_are_drawn_from_groups_of_enough_records(run: Any, method: Any, min_count: int) -> None:
    found = run(Synthesize(method=method, min_count=min_count, records=3000), DENSE)
    assert not [warning for warning in found.plan.detail["warnings"] if "missing" in warning]
    for name, values in DENSE.items():
        made = found.rows[name].to_pylist()
        assert None not in made, name
        # Neither end is one person's figure, and a number represents a group.
        assert min(values) < min(made) <= max(made) < max(values), name
        assert len(set(made)) <= len(values) // max(min_count, 5), name
        # The grid of the column: no time of day on a day, no half of a whole number.
        assert set(made) <= set(values), name


@pytest.mark.parametrize("method", ["cart", "copula"])
def test_of_few_values_one_between_them_or_the_rounded_mean_is_drawn(run: Any, method: Any) -> None:
    x = {"row": [0, 1] * 50, "three": [0, 10, 20, 10] * 25, "neither": [True, False] * 50}
    found = run(Synthesize(method=method, min_count=60), {**x, "half": [at / 1 for at in range(100)]})
    assert set(found["row"]) <= {0, 1}
    assert set(found["three"]) <= {5, 15}
    assert None not in found["half"]
    assert not [warning for warning in found.plan.detail["warnings"] if "missing" in warning]


def test_fewer_records_than_a_group_needs_are_missing_and_said_so(run: Any) -> None:
    found = run(Synthesize(), {"job": ["clerk", "nurse"] * 50, "pay": [7, 8, 9, *[None] * 97]})
    assert set(found["pay"]) == {None}
    assert [warning.split(":")[0] for warning in found.plan.detail["warnings"] if "missing" in warning] == ["'pay'"]


def test_a_column_without_values_is_nothing_to_warn_of(run: Any) -> None:
    found = run(Synthesize(), {"job": ["clerk", "nurse"] * 50, "pay": pa.array([None] * 100, pa.int64())})
    assert set(found["pay"]) == {None}
    assert not [warning for warning in found.plan.detail["warnings"] if "missing" in warning]


def test_a_leaf_holds_what_the_definition_says() -> None:
    """Counts by sklearn's own walk over the records, at least `min_leaf` in each."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 6, 500), rng.integers(0, 40, 500)
    target = (a * 7 + b // 10 + rng.integers(0, 2, 500)) % 4
    orders = {"a": category_order(a, 6, np.eye(4)[target]), "b": np.arange(40)}
    tree = CodeTree.grown(target, None, {"a": a, "b": b}, orders, 12)
    tree = CodeTree.from_dict(tree.to_dict())
    leaves = tree.leaves({"a": a, "b": b}, 500)
    running = np.concatenate([[0], tree.ends])
    for leaf in np.unique(leaves):
        held = Counter(target[leaves == leaf].tolist())
        assert held.total() >= 12
        counts = np.diff(running)[tree.offsets[leaf] : tree.offsets[leaf + 1]]
        assert (
            dict(zip(tree.codes[tree.offsets[leaf] : tree.offsets[leaf + 1]].tolist(), counts.tolist(), strict=True))
            == held
        )
        u = (np.arange(held.total()) + 0.5) / held.total()
        assert Counter(tree.drawn(np.full(len(u), leaf), u).tolist()) == held
    many = {"a": np.resize(a, 20_000), "b": np.resize(b, 20_000)}  # the compiled walk
    assert (tree.leaves(many, 20_000) == np.resize(leaves, 20_000)).all()


def test_what_no_one_has_no_one_gets(run: Any) -> None:
    rng = np.random.default_rng(1)
    sex = np.where(rng.random(800) < 0.5, "f", "m")
    ill = np.where((sex == "f") & (rng.random(800) < 0.2), "cervix", np.where(rng.random(800) < 0.5, "flu", "cold"))
    x = {"sex": sex, "ill": ill, "size": rng.normal(size=800)}
    # Leaves so large that no tree parts the sexes.
    found = run(Synthesize(min_leaf=500, order="table", records=2000), x)
    pairs = set(zip(found["sex"], found["ill"], strict=True))
    assert ("m", "cervix") not in pairs
    assert ("f", "cervix") in pairs
    anything = run(Synthesize(min_leaf=500, order="table", records=2000, zeros="declared"), x)
    assert ("m", "cervix") in set(zip(anything["sex"], anything["ill"], strict=True))


def test_rules_hold_whatever_the_leaves_say(run: Any) -> None:
    x = {name: related()[name] for name in ("married", "partner", "school")}
    rule = {"when": {"school": ["a", "b"]}, "then": {"married": ["no"], "partner": [None]}}
    found = run(Synthesize.build({"rules": [rule], "min_leaf": 100}), x)
    rows = list(zip(found["school"], found["married"], found["partner"], strict=True))
    assert all(row[1:] == ("no", None) for row in rows if row[0] in "ab")
    assert any(row[1] == "yes" for row in rows)
    order = found.plan.detail["models"][0]["order"]
    assert order.index("school") < order.index("married")
    back = {"when": {"married": ["no"]}, "then": {"school": ["a"]}}
    with pytest.raises(UsageError, match="in a circle"):
        run(Synthesize.build({"rules": [rule, back]}), x)
    with pytest.raises(DataError, match="none of the 1 values that `then` gives for 'school'"):
        run(Synthesize.build({"rules": [{**back, "then": {"school": ["nowhere"]}}]}), x)


def test_given_columns_stay_and_are_depended_on(run: Any) -> None:
    x = {**related(), "row": list(range(N))}
    stage = Synthesize(columns=["income"], given=["school"])
    found = run(stage, x, record_id="row").rows.sort_by("row")
    assert found["school"].to_pylist() == x["school"].tolist()
    made, school = found["income"].to_numpy(), x["school"]
    assert made[school == "b"].mean() > 5 * made[school == "c"].mean()
    alone = run(Synthesize(columns=["income"]), x, record_id="row").rows.sort_by("row")["income"].to_numpy()
    assert alone[school == "b"].mean() == pytest.approx(alone[school == "c"].mean(), rel=0.25)


def weak() -> dict[str, Any]:
    """Ten columns that each tell little of `pay`, and together three quarters; towns of which some are rare."""
    rng = np.random.default_rng(12)
    x: dict[str, Any] = {f"skill {at}": np.array(["no", "yes"])[rng.integers(0, 2, N)] for at in range(10)}
    x["town"] = np.array(list("abcdefg"))[rng.choice(7, N, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.03, 0.02])]
    pay = np.sum([x[name] == "yes" for name in x], axis=0) * 100 + 60 * (x["town"] >= "e") + rng.normal(0, 90, N)
    return {**x, "pay": pay.round()}


def test_weak_relations_that_add_up_are_kept(run: Any) -> None:
    """Each coefficient is 100; its standard error is 3.3, and that of its difference to a draw 4.7."""
    x = weak()
    found = run(Synthesize(order=["town"]), x)
    skills = [name for name in x if name.startswith("skill")]
    slopes = []
    for rows in (x, found):
        dummies = np.column_stack([np.ones(N), *(np.array(rows[name]) == "yes" for name in skills)])
        slopes.append(np.linalg.lstsq(dummies, np.array(rows["pay"], float), rcond=None)[0][1:])
    assert np.mean(np.abs(slopes[1] - slopes[0]) < 1.96 * 4.7) >= 0.8
    trees = found.plan.detail["models"][0]["trees"]
    assert trees["pay"]["scores"]


def test_scores_are_the_same_for_any_order_and_partitioning(run: Any) -> None:
    x = {**weak(), "row": list(range(N))}
    stage = Synthesize(columns=[name for name in x if name != "row"], learn_on=800)
    one, other = (run(stage, x, record_id="row", parts=parts, shuffled=parts > 1) for parts in (1, 4))
    assert json.dumps(one.plan.detail["models"]) == json.dumps(other.plan.detail["models"])
    assert one.plan.detail["models"][0]["trees"]["pay"]["scores"]
    assert one.rows.sort_by("row") == other.rows.sort_by("row")


def test_ties_too_weak_for_any_split_are_kept(run: Any) -> None:
    """Leaves of a quarter of the records: trees see one strong column, and coins bring back the others."""
    rng = np.random.default_rng(21)
    n = 6000
    x: dict[str, Any] = {"big": rng.integers(0, 2, n)}
    for at in range(4):
        x[f"skill {at}"] = np.array(["no", "yes"])[rng.integers(0, 2, n)]
    skills = np.sum([x[f"skill {at}"] == "yes" for at in range(4)], axis=0)
    x["pay"] = (1000 * x["big"] + 40 * skills + rng.normal(0, 100, n)).round()
    x["job"] = np.where(rng.random(n) < 0.2 + 0.1 * (x["skill 0"] == "yes"), "nurse", "clerk")
    order = ["big", *(f"skill {at}" for at in range(4)), "pay", "job"]
    found = run(Synthesize(min_leaf=1500, order=order, records=20_000), x)
    slopes = []
    for rows in (x, found):
        told = [np.array(rows["big"]) == 1, *(np.array(rows[f"skill {at}"]) == "yes" for at in range(4))]
        matrix = np.column_stack([np.ones(len(told[0])), *told])
        slopes.append(np.linalg.lstsq(matrix, np.array(rows["pay"], float), rcond=None)[0][2:])
    kept = slopes[1] / slopes[0]  # leaves alone keep a third: 0.15 to 0.45
    assert (kept > 0.65).all()
    assert 0.75 < kept.mean() < 1.1
    nurse, able = np.array(found["job"]) == "nurse", np.array(found["skill 0"]) == "yes"
    assert nurse[able].mean() - nurse[~able].mean() == pytest.approx(0.1, abs=0.035)


def test_a_tie_of_two_values_is_kept_where_no_leaf_may_be_split(run: Any) -> None:
    """Every leaf holds all records and both codes: without a coin the two would be drawn apart."""
    rng = np.random.default_rng(22)
    n = 6000
    able = rng.random(n) < 0.5
    nurse = rng.random(n) < 0.2 + 0.3 * able
    x = {"skill": np.where(able, "yes", "no"), "job": np.where(nurse, "nurse", "clerk")}
    found = run(Synthesize(min_leaf=4000, order=["skill", "job"], records=20_000), x)
    nurse, able = np.array(found["job"]) == "nurse", np.array(found["skill"]) == "yes"
    assert nurse[able].mean() - nurse[~able].mean() == pytest.approx(0.3, abs=0.06)


def test_a_plan_of_before_tilts_draws_as_ever_and_keys_may_be_sorted(run: Any) -> None:
    x = weak()
    detail = run(Synthesize(columns=[name for name in x if name != "town"], given=["town"]), x).plan.detail
    table = pa.table(x)
    rows = RowBlock(table.combine_chunks().to_batches()[0], np.column_stack([np.arange(N), np.zeros(N, np.int64)]))
    draws = Draws(Seed.insecure(1), 0, "synthesize")

    def drawn(models: list[dict[str, Any]], text: str) -> dict[str, list[Any]]:
        model = TreeModel.of({**json.loads(text), "models": models}, table.schema, draws)
        found = model.drawn(rows.record_ids, np.zeros(N, np.int64), rows)
        return {name: each.to_pylist() for name, each in found.items()}

    text = json.dumps(detail, sort_keys=True)
    now = drawn(list(detail["models"]), text)
    assert drawn(json.loads(text)["models"], text) == now
    [model] = json.loads(text)["models"]
    assert set(model["tilts"]) == set(model["trees"])
    old = drawn([{name: each for name, each in model.items() if name not in ("tilts", "features")}], text)
    first = model["order"][0]
    book, tree = Codebook.from_dict(model["codebooks"][first]), CodeTree.from_dict(model["trees"][first])
    town = Codebook.from_dict(model["codebooks"]["town"]).codes(rows.column("town"), "town")
    codes = tree.drawn(tree.leaves({"town": town}, N), draws.of(first).uniform(rows.record_ids))
    assert old[first] == book.values(codes, np.zeros(N), table.schema.field(first).type).to_pylist()
    assert old["pay"] != now["pay"]
    of_nobody = {**model["tilts"], "nobody": model["tilts"][first]}
    damaged = ({"features": model["features"][1:]}, {"features": []}, {"tilts": of_nobody})
    for each in damaged:
        with pytest.raises(UsageError, match="make a new plan"):
            drawn([{**model, **each}], text)


def test_a_plan_of_before_scores_draws_as_ever() -> None:
    rng = np.random.default_rng(5)
    a, target = rng.integers(0, 6, 300), rng.integers(0, 3, 300)
    tree = CodeTree.grown(np.maximum(target, a // 2), None, {"a": a}, {"a": np.arange(6)}, 10)
    old = {name: each for name, each in tree.to_dict().items() if name != "scores"}
    assert CodeTree.from_dict(old).leaves({"a": a}, 300).tolist() == tree.leaves({"a": a}, 300).tolist()


def test_a_leaf_of_scores_holds_what_the_definition_says() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 6, 500), rng.integers(0, 4, 500)
    target = np.clip(a + b + rng.integers(-1, 2, 500), 0, 9)
    score = {"a": np.arange(6) * 7 - 20, "b": np.arange(4) * 7}
    columns = {"a": a, "b": b}
    orders = {"a": np.zeros(6, np.int64), "b": np.zeros(4, np.int64)}  # of no use: the tree splits by the score alone
    tree = CodeTree.from_dict(CodeTree.grown(target, None, columns, orders, 12, [score]).to_dict())
    assert not tree.orders
    [kept] = tree.scores
    assert {name: each.tolist() for name, each in kept.items()} == {n: each.tolist() for n, each in score.items()}
    leaves, sums = tree.leaves(columns, 500), 7 * (a + b) - 20
    running = np.concatenate([[0], tree.ends])
    for leaf in np.unique(leaves):
        held = Counter(target[leaves == leaf].tolist())
        assert held.total() >= 12
        assert running[tree.offsets[leaf + 1]] - running[tree.offsets[leaf]] == held.total()
        inside = (sums >= sums[leaves == leaf].min()) & (sums <= sums[leaves == leaf].max())
        assert (leaves[inside] == leaf).all()


def test_orders(run: Any) -> None:
    x = related()
    assert run(Synthesize(order="table"), x).plan.detail["models"][0]["order"] == list(x)
    named = run(Synthesize(order=["worked", "school"]), x).plan.detail["models"][0]["order"]
    assert named[:2] == ["worked", "school"]
    assert sorted(named) == sorted(x)
    gain = run(Synthesize(order="gain"), x).plan.detail["models"][0]["order"]
    assert abs(gain.index("income") - gain.index("school")) == 1
    least_first = ["married", "worked", "school", "partner", "income"]  # of two values, of mostly zeros, of five, ...
    assert run(Synthesize(), x).plan.detail["models"][0]["order"] == least_first
    named = run(Synthesize(order=["income"]), x).plan.detail["models"][0]["order"]
    assert named == ["income", *least_first[:-1]]


def test_fewer_records_than_the_trees_may_see(run: Any) -> None:
    x = related()
    found = run(Synthesize(learn_on=500, min_leaf=20), x)
    assert sum(np.diff([0, *_ends(found)])) == 500
    assert len(found["income"]) == N


def _ends(found: Any) -> list[int]:
    from privpipe.kernels.synthesis.trees import unpacked

    model = found.plan.detail["models"][0]
    return list(unpacked(model["trees"][model["order"][0]]["ends"]))


def test_edges(run: Any) -> None:
    assert run(Synthesize(), {"x": pa.array([], pa.float64())})["x"] == []
    assert run(Synthesize(records=9), {"x": pa.nulls(60, pa.float64())})["x"] == [None] * 9
    assert set(run(Synthesize(), {"x": [7] * 30, "y": ["a"] * 30})["x"]) == {7}
    lonely = run(Synthesize(records=20), {"x": [f"only {at}" for at in range(4)]})
    assert lonely["x"] == [None] * 20
    with pytest.raises(DataError, match="no records to learn"):
        run(Synthesize(records=5), {"x": pa.array([], pa.float64())})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nulls": "keep"}, "of `method: copula`"),
        ({"method": "copula", "min_leaf": 3}, "min_leaf requires `method: cart`"),
        ({"given": ["a"]}, "given names columns that stay"),
        ({"method": "forest"}, "method: Input should be"),
        ({"rules": [{"when": {"a": ["x"]}, "then": {"a": ["y"]}}]}, "both `when` and `then`"),
        ({"rules": [{"when": {}, "then": {"a": ["y"]}}]}, "`when` must name a column"),
    ],
)
def test_what_cannot_be_asked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Synthesize.build(parameters)


def test_columns_that_are_not_drawn(run: Any) -> None:
    for parameters in ({"order": ["z"]}, {"rules": [{"when": {"x": ["1"]}, "then": {"z": ["y"]}}]}):
        with pytest.raises(UsageError, match="'z' is not drawn"):
            run(Synthesize.build(parameters), {"x": [1] * 9})


def test_without_scikit_learn_the_error_names_the_extra(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(UnsupportedError, match=r"privpipe\[utility\].*method: copula"):
        run(Synthesize(), {"x": [1] * 90})


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_every_seed_draws_what_is_allowed(run: Any, seed: int) -> None:
    x = {"a": ["x"] * 40 + ["y"] * 40 + ["z"], "b": [1] * 40 + [None] * 40 + [3]}
    found = run(Synthesize(), x, seed=seed)
    assert set(zip(found["a"], found["b"], strict=True)) <= {
        ("x", 1),
        ("y", None),
        ("y", 1),
        ("x", None),
        (None, 1),
        (None, None),
    }
