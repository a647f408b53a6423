"""Targeted swapping of households: the areas keep their counts, the rare move, the rate is reached."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.draws import Draws, Seed
from privpipe.engines import Source
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.roles import Roles
from privpipe.transforms import RecordSwap
from privpipe.transforms.base import StageContext

AREAS = ("nuts1", "nuts2", "nuts3")


def census(households: int, seed: int = 1) -> pa.Table:
    """A table like the one on which sdcMicro's vignette shows `recordSwap`: uniform areas, sizes and features."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 7, households)
    home = np.repeat(np.arange(households), size)
    one, two, three = (rng.integers(1, top + 1, households) for top in (3, 5, 9))
    n = len(home)
    return pa.table(
        {
            "hid": home,
            "nuts1": one[home],
            "nuts2": (10 * one + two)[home],
            "nuts3": (100 * (10 * one + two) + three)[home],
            "htype": rng.integers(1, 11, households)[home],
            "hincome": rng.integers(1, 11, households)[home],
            "age": rng.integers(1, 7, n),
            "gender": rng.integers(1, 3, n),
            "national": rng.integers(1, 6, n),
            "row": np.arange(n),
        }
    )


def swapped(engine: Any, stage: RecordSwap, rows: pa.Table, seed: int = 7) -> tuple[dict[str, Any], pa.Table]:
    """What the plan reports after the run, and the rows in their order."""
    table = engine.with_record_ids(engine.scan(Source(data=rows)), "row", Seed.insecure(seed))
    context = StageContext(
        roles=Roles(insensitive=rows.column_names), schema=table.schema, place="transform[0]", household="hid"
    )
    plan = stage.learn(engine, table, context)
    draws = Draws(Seed.insecure(seed), 0, stage.name())
    found = engine.collect(stage.run(engine, table, plan, draws, context)).sort_by("row")
    return dict(stage.recorded(engine, table, plan, draws).detail), found


def moved_homes(rows: pa.Table, found: pa.Table, column: str = "nuts3") -> set[int]:
    before, after = rows[column].to_pylist(), found[column].to_pylist()
    return {home for home, a, b in zip(rows["hid"].to_pylist(), before, after, strict=True) if a != b}


@pytest.mark.parametrize(("households", "wanted"), [(10000, 500), (3000, 150)])
def test_the_rate_of_the_vignette_is_reached_exactly(embedded: Any, households: int, wanted: int) -> None:
    """sdcMicro's vignette of `recordSwap`: k_anonymity 0, swaprate .05, similar hsize: 500 of 10,000 households."""
    rows = census(households)
    stage = RecordSwap(areas=("nuts1", "nuts2"), k=1, risk_variables=["hincome", "age", "gender"], along=["nuts3"])
    detail, found = swapped(embedded, stage, rows)
    assert detail["swapped"]["households"] == wanted == detail["to_swap"]
    assert len(moved_homes(rows, found)) == wanted
    assert len(moved_homes(rows, found, "nuts2")) == wanted


def counted(rows: pa.Table, *columns: str) -> Counter[Any]:
    return Counter(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def test_areas_keep_their_households_records_sizes_and_profiles(embedded: Any) -> None:
    rows = census(2000)
    stage = RecordSwap(areas=AREAS, rate=0.2, similar=["htype"], risk_variables=["age", "national"], k=2)
    detail, found = swapped(embedded, stage, rows)
    assert detail["swapped"]["share"] >= 0.2 - detail["swapped"]["swaps_missing"] / 1000
    for level in range(1, 4):
        assert counted(found, *AREAS[:level]) == counted(rows, *AREAS[:level])
    per_home = [counted(each, *AREAS, "htype", "hid") for each in (rows, found)]
    one, other = (Counter((key[:-1], n) for key, n in homes.items()) for homes in per_home)
    assert one == other  # households of each size and type, area by area
    rest = [name for name in rows.column_names if name not in AREAS]
    assert found.select(rest).equals(rows.select(rest))
    assert all(len(set(areas)) == 1 for areas in homes_of(found).values())


def homes_of(rows: pa.Table) -> dict[int, list[Any]]:
    homes: dict[int, list[Any]] = {}
    columns = (rows[name].to_pylist() for name in AREAS)
    for home, *areas in zip(rows["hid"].to_pylist(), *columns, strict=True):
        homes.setdefault(home, []).append(tuple(areas))
    return homes


def test_rare_households_move_across_the_areas_they_are_rare_in(embedded: Any) -> None:
    """High risk straight from the definition: a member with fewer than k records alike in the area."""
    rows, k = census(1500, seed=3), (4, 3, 1)
    keys = ("age", "gender", "national", "hincome")
    stage = RecordSwap(areas=AREAS, rate=0.0, risk_variables=keys, k=k)
    detail, found = swapped(embedded, stage, rows)
    before, after = homes_of(rows), homes_of(found)
    high = []
    for level in range(3):
        cells = list(zip(*(rows[name].to_pylist() for name in (*AREAS[: level + 1], *keys)), strict=True))
        alike = Counter(cells)
        high.append({home for home, cell in zip(rows["hid"].to_pylist(), cells, strict=True) if alike[cell] < k[level]})
    assert detail["at_high_risk"] == list(map(len, high))
    assert detail["at_high_risk"][2] == 0
    lone = detail["swapped"]["without_donor"]
    assert sum(before[home][0][0] == after[home][0][0] for home in high[0]) == lone[0]
    assert sum(before[home][0][:2] == after[home][0][:2] for home in high[1] - high[0]) <= lone[1]
    assert detail["swapped"]["swaps_drawn"] == 0
    required = detail["swapped"]["required"]
    assert required[0] == len(high[0])


def test_a_given_risk_says_who_moves_and_who_never_does(embedded: Any) -> None:
    """sdcMicro's vignette: a household of risk 0 is never swapped, one above the threshold always."""
    rows = census(600)
    home = rows["hid"].to_numpy()
    risk = np.where(home < 20, 99.0, np.where(home < 300, 0.0, 1e-4))
    rows = rows.append_column("risk", pa.array(risk))
    detail, found = swapped(embedded, RecordSwap(areas=AREAS[:1], rate=0.1, risk="risk", threshold=0.9), rows)
    went = moved_homes(rows, found, "nuts1")
    assert set(range(20)) <= went
    assert not went & set(range(20, 300))
    assert len(went) == 60 == detail["swapped"]["households"]


def test_profiles_are_tried_in_their_order(embedded: Any) -> None:
    rows = census(1000)
    strict = RecordSwap(areas=AREAS, rate=0.6, similar=["htype", "hincome"], risk_variables=["gender"], k=1)
    loose = RecordSwap(areas=AREAS, rate=0.6, similar=[["htype", "hincome"], []], risk_variables=["gender"], k=1)
    one, two = (swapped(embedded, stage, rows)[0]["swapped"] for stage in (strict, loose))
    assert one["swaps_missing"] > 0
    assert two["swaps_missing"] <= 1  # whoever finds no free household left
    assert two["households"] == 600 - 2 * two["swaps_missing"]


def test_without_a_donor_the_household_stays_or_the_stage_refuses(embedded: Any) -> None:
    rows = census(300)
    stage = {"areas": AREAS[:1], "rate": 0.0, "similar": ["htype", "hincome"], "risk_variables": ["age", "national"]}
    detail, _ = swapped(embedded, RecordSwap(**stage, k=40), rows)
    assert detail["swapped"]["without_donor"][0] > 0
    with pytest.raises(NoSolutionError, match="find no donor"):
        swapped(embedded, RecordSwap(**stage, k=40, without_donor="refuse"), rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hid": [None, 1, 2, 2]}, "column 'hid' has 1 missing values"),
        ({"town": ["a", "b", "a", "b"]}, "differ in columns.*'town' in 1 of 3 households"),
        ({"town": [None, "b", "a", "a"]}, "column 'town' has 1 missing values"),
        ({"risk": [0.1, -1.0, 0.2, 0.3]}, "column 'risk' has 1 values that are not risks"),
    ],
)
def test_anything_but_a_household_is_refused(embedded: Any, change: dict[str, Any], message: str) -> None:
    rows = {"hid": [0, 1, 2, 2], "town": ["a", "b", "a", "a"], "risk": [0.1, 0.2, 0.3, 0.4], "row": [1, 2, 3, 4]}
    with pytest.raises(DataError, match=message):
        swapped(embedded, RecordSwap(areas=["town"], risk="risk"), pa.table({**rows, **change}))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": [3, 2]}, "k has 2 entries for 1 levels"),
        ({"rate": 1.5}, "rate"),
        ({"along": ["town"]}, "among areas already"),
        ({"risk_variables": ["town"]}, "names 'town', which is swapped"),
        ({"risk": "r", "risk_variables": ["age"]}, "not both"),
        ({"threshold": 0.5}, "threshold requires risk"),
        ({"similar": [["a"], "b"]}, "list of such lists"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RecordSwap(areas=["town"], **parameters)


def test_an_empty_table_and_a_single_area(embedded: Any) -> None:
    stage = RecordSwap(areas=AREAS, risk_variables=["age"], k=1, rate=0.5)
    detail, found = swapped(embedded, stage, census(50).slice(0, 0))
    assert detail["swapped"]["share"] == 0
    assert not found.num_rows
    rows = census(50).drop(["nuts1"]).append_column("nuts1", pa.array([1] * len(census(50))))
    detail, found = swapped(embedded, RecordSwap(areas=["nuts1"], risk_variables=["age"], k=1, rate=0.5), rows)
    assert (detail["swapped"]["households"], detail["swapped"]["swaps_missing"]) == (0, 12)


def test_a_policy_runs_it_and_publishes_no_count() -> None:
    rows = census(400)
    columns: dict[str, Any] = {name: {"role": "insensitive"} for name in rows.column_names}
    columns["hid"] = columns["row"] = {"role": "identifier"}
    columns["gender"] = {"role": "quasi_identifier"}
    policy = pp.Policy.from_dict(
        {
            "version": 1,
            "columns": columns,
            "record_id": "row",
            "household_id": "hid",
            "transform": [{"record_swap": {"areas": list(AREAS), "rate": 0.1, "similar": [["htype"], []]}}],
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "seed": {"insecure": 7},
        }
    )
    plan = pp.plan(rows, policy)
    table = pp.transform(rows, plan)
    assert "hid" not in table.column_names
    assert counted(table, *AREAS) == counted(rows, *AREAS)
    assert "swapped" in plan.stages[-1].detail
    assert "swaps" not in str(plan.public_dict())
