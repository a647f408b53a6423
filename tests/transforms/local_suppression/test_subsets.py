"""Cells blanked for subsets of the keys, for records at risk, and along with others."""

from __future__ import annotations

import csv
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.roles import Roles
from privpipe.transforms import SuppressCells
from tests.tiers import at_most

SEED = "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a"


def suppressed(rows: pa.Table, keys: tuple[str, ...], nulls: str, **parameters: Any) -> tuple[dict[str, Any], pa.Table]:
    """The plan's detail, and the rows that are left in their order."""
    frame = rows if "row" in rows.column_names else rows.append_column("row", pa.array(range(rows.num_rows)))
    roles = Roles(quasi_identifiers=keys, insensitive=[name for name in frame.column_names if name not in keys])
    stage = SuppressCells(**parameters)
    fitted = stage.fit(frame, roles=roles, record_id="row", nulls=nulls, seed=SEED)  # type: ignore[arg-type]
    return dict(fitted.plan)["stages"][0]["detail"], fitted.transform(frame).sort_by("row")


def survey(shared: Path, name: str) -> pa.Table:
    with (shared / "data/casc" / name).open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    columns = {key: [row[key] if row[key] not in ("NA", "") else None for row in rows] for key in rows[0]}
    return pa.table(columns)


def least_alike(rows: pa.Table, keys: tuple[str, ...], wildcard: bool) -> int:
    """From the definition: the fewest records that a record is like; who is blank in all is like those alone."""
    cells = list(zip(*(rows[key].to_pylist() for key in keys), strict=True))
    if not wildcard:
        return min((cells.count(cell) for cell in set(cells)), default=0)
    counts = {cell: cells.count(cell) for cell in set(cells)}
    blank = {cell: all(value is None for value in cell) for cell in counts}
    return min(
        sum(
            n
            for other, n in counts.items()
            if blank[cell] == blank[other]
            and all(a is None or b is None or a == b for a, b in zip(cell, other, strict=True))
        )
        for cell in counts
    )


@pytest.mark.deep
@pytest.mark.parametrize("nulls", ["wildcard", "own_value"])
def test_no_more_blanks_than_the_reference_tool(shared: Path, nulls: str) -> None:
    """sdcMicro 5.8.1, localSuppression(combs = c(3, 2), k = 3): 8 cells of the survey."""
    cases = json.loads((shared / "reference/sdcmicro.json").read_text(encoding="utf-8"))["cases"]
    [case] = [each for each in cases if each["id"] == "ls.testdata.k3.combs32"]
    keys = tuple(case["keys"])
    rows = survey(shared, case["data"]).select(list(keys))
    asked = [{"columns": size, "k": case["k"]} for size in case["combs"]]
    detail, found = suppressed(rows, keys, nulls, combinations=asked, suppress_at_most=0.01)
    assert detail["combinations_of_columns"] == 20
    for size in case["combs"]:
        for subset in combinations(keys, size):
            assert least_alike(found, subset, nulls == "wildcard") >= case["k"]
    assert found.num_rows == rows.num_rows
    blanked = sum(found[key].null_count - rows[key].null_count for key in keys)
    assert blanked == detail["blanked_cells"]
    assert blanked <= (case["expected"]["newSupps"] if nulls == "wildcard" else 15)


@pytest.mark.deep
@settings(max_examples=at_most(15), suppress_health_check=list(HealthCheck))
@given(
    cells=st.lists(st.tuples(*[st.sampled_from(["x", "y", "z", None])] * 3), min_size=6, max_size=25),
    nulls=st.sampled_from(["wildcard", "own_value"]),
    whole=st.booleans(),
)
def test_every_subset_holds_or_there_is_no_solution(cells: list[Any], nulls: str, whole: bool) -> None:
    keys = ("a", "b", "c")
    rows = pa.table({key: pa.array(column, pa.string()) for key, column in zip(keys, zip(*cells), strict=True)})  # noqa: B905
    asked = [{"columns": 2, "k": 2}, {"columns": ["c"], "k": 3}]
    try:
        _, found = suppressed(
            rows, keys, nulls, combinations=asked, suppress_at_most=1.0, **({"k": 2} if whole else {})
        )
    except NoSolutionError:
        return
    wildcard = nulls == "wildcard"
    if found.num_rows:
        assert least_alike(found, ("c",), wildcard) >= 3
        assert all(least_alike(found, pair, wildcard) >= 2 for pair in combinations(keys, 2))
        assert not whole or least_alike(found, keys, wildcard) >= 2
    kept = rows.append_column("row", pa.array(range(len(cells)))).filter(
        pa.array(np.isin(range(len(cells)), found["row"]))
    )
    for key in keys:
        pairs = zip(kept[key].to_pylist(), found[key].to_pylist(), strict=True)
        assert all(after in (before, None) for before, after in pairs)


FRANCDAT = {
    "Key1": [1, 1, 1, 3, 4, 4, 6, 1],
    "Key2": [2, 2, 2, 3, 3, 3, 2, 2],
    "Key3": [5, 1, 1, 1, 1, 1, 1, 5],
    "Key4": [1, 1, 1, 5, 4, 1, 5, 1],
    "Num1": [0.3, 0.12, 0.18, 1.9, 1.0, 1.0, 0.1, 0.15],
    "w": [18.0, 45.5, 39.0, 17.0, 541.0, 8.0, 5.0, 92.0],
}
KEYS = ("Key1", "Key2", "Key3", "Key4")


def test_records_at_risk_lose_the_cells_that_are_named() -> None:
    """sdcMicro 5.8.1, francdat: risks .0171 .0220 .0220 .1771 .0117 .2971 .4024 .0171, so two exceed .25."""
    rows = pa.table(FRANCDAT)
    asked = {"threshold": 0.25, "columns": ["Key2"], "weight": "w"}
    detail, found = suppressed(rows, KEYS, "wildcard", by_risk=asked, along={"Key2": ["Num1"]})
    assert detail["records_at_risk"] == 2
    assert [value is None for value in found["Key2"].to_pylist()] == [False] * 5 + [True, True, False]
    assert [value is None for value in found["Num1"].to_pylist()] == [False] * 5 + [True, True, False]
    assert found.select(["Key1", "Key3", "Key4"]).equals(rows.select(["Key1", "Key3", "Key4"]))
    detail, found = suppressed(rows, KEYS, "wildcard", by_risk={"threshold": 0.5, "columns": ["Key1", "Key4"]})
    assert detail["records_at_risk"] == 4  # alone, without weights
    assert found["Key1"].null_count == found["Key4"].null_count == 4


def test_a_weight_below_one_is_refused() -> None:
    rows = pa.table({**FRANCDAT, "w": [0.5] * 8})
    with pytest.raises(DataError, match="8 of 8 records have no usable weight in 'w'"):
        suppressed(rows, KEYS, "wildcard", by_risk={"threshold": 0.25, "columns": ["Key2"], "weight": "w"})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"combinations": [{"columns": 9, "k": 2}]}, "combinations of 9 columns"),
        ({"combinations": [{"columns": ["Key9"], "k": 2}]}, "did you mean 'Key"),
        ({"combinations": [{"columns": 2}]}, "mappings of `columns` and `k`"),
        ({"combinations": [{"columns": 2, "k": 1}]}, "k"),
        ({"combinations": [{"columns": 2, "k": 2}], "method": "optimal"}, "go with method greedy"),
        ({"by_risk": {"threshold": 0.2, "columns": ["Num1"]}}, "by_risk names 'Num1'"),
        ({"by_risk": {"threshold": 0.2, "columns": ["Key1"], "weight": "v"}}, "by_risk names 'v'"),
        ({"k": 2, "along": {"Key1": ["Key2"]}}, "cannot be blanked along"),
        ({"k": 2, "along": {"Num1": ["w"]}}, "whose cells are not blanked"),
        ({"k": 2, "along": {"Key1": ["Num9"]}}, "did you mean 'Num1'"),
    ],
)
def test_what_means_nothing_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        suppressed(pa.table(FRANCDAT), KEYS, "wildcard", suppress_at_most=1.0, **parameters)


def test_a_policy_writes_with() -> None:
    rows = pa.table(FRANCDAT)
    columns: dict[str, Any] = {name: {"role": "insensitive"} for name in FRANCDAT}
    columns |= {key: {"role": "quasi_identifier"} for key in KEYS}
    stage = {"combinations": [{"columns": 1, "k": 2}], "with": {"Key1": ["Num1"]}}
    policy = pp.Policy.from_dict(
        {
            "version": 1,
            "columns": columns,
            "nulls": "wildcard",
            "transform": [{"suppress_cells": stage}],
            "guarantees": [{"prosecutor_risk": {"at_most": 1.0}}],
            "seed": {"insecure": 7},
        }
    )
    found = pp.transform(rows, pp.plan(rows, policy))
    assert found["Num1"].null_count == found["Key1"].null_count > 0


def same_on(engine: Any) -> None:
    rows = pa.table({**FRANCDAT, "row": range(8)})
    stage = SuppressCells(
        by_risk={"threshold": 0.25, "columns": ["Key2"], "weight": "w"},  # type: ignore[arg-type]
        combinations=[{"columns": 1, "k": 2}],  # type: ignore[arg-type]
        along={"Key2": ("Num1",)},
    )
    roles = Roles(quasi_identifiers=KEYS, insensitive=["Num1", "w", "row"])
    found = [
        stage.apply(rows, roles=roles, record_id="row", nulls="wildcard", seed=SEED, engine=each).sort_by("row")
        for each in ("embedded", engine)
    ]
    assert found[0].equals(found[1])


@pytest.mark.dask
def test_dask_makes_the_same_of_it(dask_engine: Any) -> None:
    same_on(dask_engine)


@pytest.mark.spark
def test_spark_makes_the_same_of_it(spark_engine: Any) -> None:
    same_on(spark_engine)
