"""Strata, aggregates, mixed types, sensitive conditions, kept ties, weights and the search of microaggregation."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.running.plan import canonical_json
from privpipe.transforms import Microaggregate
from tests.tiers import at_most

MANY = settings(max_examples=at_most(25), suppress_health_check=[HealthCheck.function_scoped_fixture])


def grouped(rows: pa.Table, by: list[str], column: str) -> dict[Any, list[Any]]:
    found = defaultdict(list)
    for row in rows.to_pylist():
        found[tuple(row[name] for name in by)].append(row[column])
    return found


def table(n: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "a": rng.normal(size=n),
            "b": rng.normal(size=n),
            "sex": rng.choice(["f", "m"], n),
            "ill": rng.choice(["flu", "cold", "gout"], n, p=[0.6, 0.3, 0.1]),
            "w": rng.integers(1, 9, n),
            "row": np.arange(n),
        }
    )


def test_strata_are_grouped_alone(run: Any) -> None:
    frame = table(200)
    found = run(Microaggregate(columns=["a", "b"], k=3, by=["sex"], refine="descent"), frame, record_id="row")
    for sex in ("f", "m"):
        mine = found.rows.filter(pa.compute.equal(found.rows["sex"], sex))
        alone = run(
            Microaggregate(columns=["a", "b"], k=3, refine="descent"),
            frame.filter(pa.compute.equal(frame["sex"], sex)),
            record_id="row",
        )
        sizes = Counter(zip(mine["a"].to_pylist(), mine["b"].to_pylist(), strict=True)).values()
        assert min(sizes) >= 3
        assert math.fsum(mine["a"].to_pylist()) == pytest.approx(math.fsum(alone["a"]), abs=1e-9)
        # Facts are those of the stratum: the same groups as of a table that holds nothing else.
        assert Counter(np.round(mine["a"].to_pylist(), 9)) == Counter(np.round(alone["a"], 9))
    scales = found.plan.detail["groups"][0]["scale"]
    assert len(scales) == 2
    assert scales[0] != scales[1]


def test_small_strata(run: Any) -> None:
    frame = pa.table({"a": [1.0, 2, 3, 4, 5, 6, 7, 8], "s": ["x"] * 4 + ["y", "y", "z", None]})
    with pytest.raises(NoSolutionError, match="3 of 4 strata by 's', 4 records, have fewer than 3"):
        run(Microaggregate(columns=["a"], k=3, by=["s"]), frame)
    gone = run(Microaggregate(columns=["a"], k=3, by=["s"], small_strata="suppress"), frame)
    assert Counter(gone["s"]) == {"x": 4}
    assert any("4 records of strata" in text for text in gone.plan.detail["warnings"])
    assert Microaggregate(columns=["a"], k=3, by=["s"], small_strata="suppress").suppresses
    assert not Microaggregate.suppresses
    merged = run(Microaggregate(columns=["a"], k=3, by=["s"], small_strata="merge"), frame)
    assert Counter(merged["a"]) == {2.5: 4, 6.5: 4}
    assert any("3 strata" in text for text in merged.plan.detail["warnings"])


@MANY
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=20),
    st.sampled_from(["mean", "median", "trimmed_mean", "weighted_mean", "mode", "medoid"]),
)
def test_a_group_releases_the_aggregate_of_its_values(run: Any, rows: Any, aggregate: Any) -> None:
    """One group of all records."""
    a, b = ([row[j] for row in rows] for j in (0, 1))
    n = len(rows)
    weights = list(range(1, n + 1))
    stage = Microaggregate(
        columns=["a", "b"],
        k=(n // 2) + 1 if n > 2 else 2,
        aggregate=aggregate,
        trim=0.2,
        weight="w" if aggregate == "weighted_mean" else None,
    )
    found = run(stage, pa.table({"a": a, "b": b, "w": weights, "row": list(range(n))}))
    if aggregate == "medoid":
        released = set(zip(found["a"], found["b"], strict=True))
        assert len(released) == 1
        assert released <= set(rows)
        assert found.rows.schema.field("a").type == pa.int64()
        assert "real record" in found.plan.detail["warnings"][0]
        return
    for name, values in (("a", a), ("b", b)):
        ordered, drop, half = sorted(values), math.floor(0.2 * n + 1e-9), n // 2
        inner = ordered[half - 1 : half + 1]
        if n % 2 and ordered[half + 1] - ordered[half] < ordered[half] - ordered[half - 1]:
            inner = ordered[half : half + 2]
        wanted = {
            "mean": sum(values) / n,
            "median": sum(inner) / 2,
            "trimmed_mean": sum(ordered[drop : n - drop]) / (n - 2 * drop),
            "weighted_mean": sum(x * w for x, w in zip(values, weights, strict=True)) / sum(weights),
            "mode": min(Counter(values).items(), key=lambda item: (-item[1], item[0]))[0],
        }[aggregate]
        assert found[name] == pytest.approx([wanted] * n, abs=1e-9)
        whole = aggregate == "mode" or len(set(values)) == 0
        assert (found.rows.schema.field(name).type == pa.int64()) == whole


def test_equal_values_stay_together(run: Any) -> None:
    values = [1.0, 1, 1, 1, 2, 2, 2, 9]
    loose = run(Microaggregate(columns=["a"], k=3, method="fixed"), {"a": values})
    assert len(set(loose["a"])) == 2
    frame = pa.table({"a": values, "row": list(range(8))})
    kept = run(Microaggregate(columns=["a"], k=3, method="fixed", keep_ties=True), frame, record_id="row")
    by_value = grouped(pa.table({"x": sorted(values), "y": sorted(kept["a"])}), ["x"], "y")
    assert all(len(set(released)) == 1 for released in by_value.values())
    large = np.round(np.random.default_rng(3).normal(size=900), 1)
    k60 = run(Microaggregate(columns=["a"], k=60, method="univariate"), {"a": large})  # the method for large k
    assert min(Counter(k60["a"]).values()) >= 60


def test_every_group_meets_the_sensitive_condition(run: Any) -> None:
    frame = table(400)
    shares = {value: count / 400 for value, count in Counter(frame["ill"].to_pylist()).items()}

    def apart(values: list[str]) -> float:
        return sum(abs(values.count(v) / len(values) - share) for v, share in shares.items()) / 2

    for rule, options in (
        ({"column": "ill", "l": 3}, {}),
        ({"column": "ill", "l": 2}, {"block": 40}),
        ({"column": "ill", "t": 0.2}, {"refine": "descent"}),
        ({"column": "ill", "l": 2}, {"by": ["sex"], "refine": "search", "iterations": 500}),
        ({"column": "ill", "l": 2}, {"method": "v_mdav", "gamma": 1.0}),
    ):
        stage = Microaggregate.build({"columns": ["a", "b"], "k": 4, "sensitive": rule, **options})
        found = run(stage, frame)
        for values in grouped(found.rows, ["a", "b"], "ill").values():
            assert len(values) >= 4
            assert len(set(values)) >= rule.get("l", 1)
            assert apart(values) <= rule.get("t", 1) + 1e-9
        canonical_json(found.plan.parameters)
        assert "flu" not in canonical_json(found.plan.detail)
    one = run(Microaggregate(columns=["a"], k=3, method="fixed", sensitive={"column": "ill", "l": 2}), frame)
    assert all(len(set(values)) > 1 for values in grouped(one.rows, ["a"], "ill").values())
    with pytest.raises(NoSolutionError, match="3 distinct values, fewer than l = 4"):
        run(Microaggregate(columns=["a", "b"], k=4, sensitive={"column": "ill", "l": 4}), frame)
    split = frame.append_column("s", pa.array(["x"] * 200 + ["y"] * 200)).set_column(
        3, "ill", pa.array(["u"] * 200 + ["v"] * 200)
    )
    with pytest.raises(NoSolutionError, match="200 records together do not meet"):
        run(Microaggregate(columns=["a", "b"], k=4, by=["s"], sensitive={"column": "ill", "l": 2}), split)


MIXED = pa.table(
    {
        "age": [20, 21, 22, 60, 61, 62, None],
        "town": ["A", "A", "B", "C", "C", None, "C"],
        "grade": ["low", "mid", "mid", "high", "high", "high", "mid"],
        "member": [True, True, False, False, False, False, None],
    }
)


@pytest.mark.deep
def test_mixed_types_by_gower(run: Any) -> None:
    stage = Microaggregate(
        columns=["age", "town", "grade", "member"],
        k=3,
        distance="gower",
        order={"grade": ["low", "mid", "high"]},
        nulls="keep",
    )
    found = run(stage, MIXED)
    assert found.rows.schema.field("town").type == pa.string()
    assert found.rows.schema.field("member").type == pa.bool_()
    rows = Counter(tuple(row.values()) for row in found.rows.to_pylist())
    assert rows[21.0, "A", "mid", True] == 3
    assert rows[61.0, "C", "high", False] == 2
    assert found["age"].count(None) == 1
    assert found["town"].count(None) == 1
    with pytest.raises(DataError, match="'age' has 1 missing"):
        run(Microaggregate(columns=["age", "town"], k=3, distance="gower"), MIXED)
    with pytest.raises(DataError, match="4 values of column 'grade' are not in its declared `order`"):
        run(
            Microaggregate(columns=["grade"], k=3, distance="gower", order={"grade": ["low", "high"]}),
            MIXED.set_column(2, "grade", pa.array(["x"] * 4 + ["low"] * 3)),
        )
    medoid = run(
        Microaggregate(columns=["town", "grade"], k=3, distance="gower", aggregate="medoid", nulls="keep"), MIXED
    )
    assert set(zip(medoid["town"], medoid["grade"], strict=True)) & set(
        zip(MIXED["town"].to_pylist(), MIXED["grade"].to_pylist(), strict=True)
    )


def test_a_hierarchy_makes_names_near(run: Any) -> None:
    """Without it all towns are equally far apart; with it those of one county go together."""
    towns = ["Ash", "Bow", "Ash", "Bow", "Xen", "Yew", "Xen", "Yew"]
    county = {"Ash": "north", "Bow": "north", "Xen": "south", "Yew": "south"}
    tree = {"*": {"north": ["Ash", "Bow"], "south": ["Xen", "Yew"]}}
    frame = pa.table({"town": towns, "row": list(range(8))})
    stage = Microaggregate(columns=["town"], k=4, distance="gower")
    found = run(stage, frame, record_id="row", hierarchies={"town": {"tree": tree}}).rows
    pairs = zip(found["row"].to_pylist(), found["town"].to_pylist(), strict=True)
    assert all(county[towns[row]] == county[town] for row, town in pairs)


def test_weights(run: Any) -> None:
    stage = Microaggregate(columns=["a"], k=2, aggregate="weighted_mean", weight="w")
    assert run(stage, {"a": [1.0, 4.0], "w": [2, 1]})["a"] == [2.0, 2.0]
    for bad in ([0, 1], [None, 1]):
        with pytest.raises(DataError, match="weights in column 'w' must all be above 0"):
            run(stage, {"a": [1.0, 4.0], "w": bad})
    heavy = Microaggregate(columns=["a", "b"], k=2, distance="gower", weights={"a": 100.0})
    found = run(heavy, {"a": [0.0, 0.1, 1.0, 0.9], "b": [0.0, 1.0, 0.0, 1.0]})
    assert sorted(round(value, 6) for value in found["a"]) == [0.05, 0.05, 0.95, 0.95]


@pytest.mark.deep
def test_blocks_of_any_size_keep_sums_and_groups(run: Any) -> None:
    """Border passes, heavy tails, nulls without any value, several lists: groups hold k and columns their sums."""
    rng = np.random.default_rng(8)
    x = np.exp(2 * rng.normal(size=(800, 3)))
    gaps = rng.random(800) < 0.05
    frame = pa.table({"a": pa.array(x[:, 0], mask=gaps), "b": pa.array(x[:, 1], mask=gaps), "c": x[:, 2]})
    stage = Microaggregate(columns=[["a", "b"], ["c"]], k=[3, 5], block=60, nulls="keep", method="v_mdav")
    found = run(stage, frame)
    assert len(found.plan.detail["groups"][0]["parts"][0]["trees"]) == 2
    for names, k in ((["a", "b"], 3), (["c"], 5)):
        rows = Counter(zip(*(found[name] for name in names), strict=True))
        rows.pop((None, None), None)
        assert k <= min(rows.values())
        for name in names:
            before = [value for value in frame[name].to_pylist() if value is not None]
            after = [value for value in found[name] if value is not None]
            assert len(before) == len(after)
            assert math.fsum(after) == pytest.approx(math.fsum(before), rel=1e-9)
    for refine in ({"refine": "none"}, {"refine": "search", "iterations": 100}):
        short = Microaggregate(columns=["c", "a"], k=2, block=50, nulls="own_group", **refine)
        assert min(Counter(zip(*(run(short, frame)[name] for name in ("a", "c")), strict=True)).values()) >= 2


def loss(original: pa.Table, released: pa.Table, columns: list[str]) -> float:
    x, y = (
        np.array([each.column(name).to_numpy() for name in columns], float)
        for each in (original, released.sort_by("row"))
    )
    spread = x.std(axis=1, ddof=1)
    return float(100 * (((x - y) / spread[:, None]) ** 2).sum() / ((x.shape[1] - 1) * len(columns)))


@pytest.mark.deep
def test_descent_is_the_default_and_ties_may_go_by_position(run: Any, shared: Path) -> None:
    """Sources: masking specification, section 14, and reference/sdcmicro.json (mdav.eia11.k3, mdav.census.k3)."""
    cases = {case["id"]: case for case in json.loads((shared / "reference/sdcmicro.json").read_text())["cases"]}
    census = pyarrow.csv.read_csv(shared / "data/casc/census.csv")
    census = census.append_column("row", pa.array(range(len(census))))
    columns = cases["mdav.census.k3"]["columns"]
    for refine, limit in ((None, 5.35), ("search", 4.83)):
        found = run(Microaggregate(columns=columns, k=3, refine=refine), census, record_id="row")
        assert loss(census, found.rows, columns) <= limit
    by_name = run(Microaggregate(columns=columns, k=3, refine="descent"), census, record_id="row")
    by_default = run(Microaggregate(columns=columns, k=3), census, record_id="row")
    assert by_name.rows.equals(by_default.rows)
    expected = cases["mdav.census.k3"]["expected"]
    plain = run(Microaggregate(columns=columns, k=3, refine="none", ties="position"), census, record_id="row")
    assert loss(census, plain.rows, columns) == pytest.approx(expected["IL_SSE_over_SST_pct"], abs=1e-4)
    sums = {name: sum(plain[name]) for name in columns}
    assert sums == pytest.approx(expected["col_sums"], rel=1e-9)
    sizes = Counter(Counter(zip(*(plain[name] for name in columns), strict=True)).values())
    assert {str(size): count for size, count in sizes.items()} == expected["group_size_hist"]
    case = cases["mdav.eia11.k3"]
    eia = pyarrow.csv.read_csv(shared / "data/casc/eia.csv")
    eia = eia.append_column("row", pa.array(range(len(eia))))
    for ties in ("keyed", "position"):
        plain = run(Microaggregate(columns=case["columns"], k=3, refine="none", ties=ties), eia, record_id="row")
        assert loss(eia, plain.rows, case["columns"]) == pytest.approx(
            case["expected"]["IL_SSE_over_SST_pct"], abs=1e-4
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": -1}, "gamma must be a number >= 0"),
        ({"trim": 0.5}, "trim must be a number"),
        ({"passes": 3}, r"passes must be an integer in \[0, 2\]"),
        ({"iterations": -1}, "iterations must be an integer >= 0"),
        ({"iterations": 100}, "iterations are steps of the search; add refine: search"),
        ({"aggregate": "weighted_mean"}, "weight and the aggregate weighted_mean go together"),
        ({"weight": "w"}, "go together"),
        ({"keep_ties": True}, "keep_ties requires"),
        ({"distance": "gower", "refine": "search"}, "refine is descent or none"),
        ({"distance": "gower", "refine": "proof"}, "refine is descent or none"),
        ({"method": "fixed", "refine": "descent"}, "refine serves mdav"),
        ({"distance": "gower", "method": "v_mdav"}, "gower requires the method mdav"),
        ({"order": {"a": ["x", "y"]}}, "order requires the distance gower"),
        ({"distance": "gower", "order": {"z": ["x", "y"]}}, "not among columns"),
        ({"distance": "gower", "order": {"a": ["x"]}}, "two or more values"),
        ({"distance": "gower", "weights": {"a": 0}}, "weights.a must be a number > 0"),
        ({"sensitive": {"column": "ill"}}, "one of l and t"),
        ({"sensitive": {"column": "a", "l": 2}}, "masks itself"),
        ({"sensitive": {"column": "ill", "l": 1}}, "must be an integer >= 2"),
        ({"by": ["a"]}, "masks itself"),
        ({"small_strata": "merge"}, "small_strata requires by"),
        ({"ties": "file"}, "ties must be one of"),
    ],
)
def test_what_does_not_go_together(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Microaggregate(columns=["a", "b"], k=3, **parameters)
    assert Microaggregate.problems({"columns": ["a", "b"], "k": 3, **parameters})


def test_edges(run: Any) -> None:
    """Section 14: no records, one record, all equal, twins, n = k .. 3k - 1, large numbers, -0.0, integers."""
    for method in ("mdav", "v_mdav", "univariate", "fixed"):
        for n in (3, 5, 6, 8):
            found = run(Microaggregate(columns=["a"], k=3, method=method), {"a": [float(at * at) for at in range(n)]})
            assert min(Counter(found["a"]).values()) >= 3
        with pytest.raises(NoSolutionError):
            run(Microaggregate(columns=["a"], k=3, method=method), {"a": [1.0]})
        with pytest.raises(NoSolutionError):
            run(Microaggregate(columns=["a"], k=3, method=method), {"a": pa.array([], pa.float64())})
        assert run(Microaggregate(columns=["a"], k=3, method=method), {"a": [4] * 5})["a"] == [4.0] * 5
        large = run(Microaggregate(columns=["a"], k=2, method=method), {"a": [1e15, 1e15 + 2, 5e15, 5e15 + 2]})["a"]
        assert sorted(large) == [1e15 + 1] * 2 + [5e15 + 1] * 2
        zeros = run(Microaggregate(columns=["a"], k=2, method=method), {"a": [-0.0, 0.0, 1.0, 1.0]})["a"]
        assert all(math.copysign(1, value) == 1 for value in zeros)
        marked = run(Microaggregate(columns=["a"], k=2, method=method), {"a": [-999.0, -999.0, 5.0, 7.0, None]})["a"]
        assert Counter(marked) == {-999.0: 2, 6.0: 2, None: 1}  # -999 is a value, and no mark of a missing one


def test_a_medoid_keeps_every_digit(run: Any) -> None:
    """Integers beyond 2^53 are taken from a record, not by way of a double."""
    x = [2**60 + each for each in (1, 1, 1, 900, 900, 900)]
    assert sorted(run(Microaggregate(columns=["x"], k=3, aggregate="medoid"), pa.table({"x": x}))["x"]) == x


@pytest.mark.parametrize("method", ["mdav", "univariate"])
def test_numbers_that_cannot_be_added_up_are_refused(run: Any, method: str) -> None:
    with pytest.raises(DataError, match="holds numbers beyond 1e301"):
        run(Microaggregate(columns=["x"], k=2, method=method), pa.table({"x": [1.7e308, -1.7e308, 1.6e308, 0.0]}))
