"""Levels that other columns of the table tell: read by the run, on every engine, named by no policy."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import DataError, HierarchyError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.hierarchies.sources import FromColumns

TOWNS = {"Asti": "Piedmont", "Turin": "Piedmont", "Rome": "Lazio", "Latina": "Lazio"}


def table(towns: dict[str, str] = TOWNS, each: int = 4) -> pa.Table:
    rows = [(town, region) for town, region in towns.items() for _ in range(each)]
    return pa.table(
        {
            "town": [town for town, _ in rows],
            "region": [region for _, region in rows],
            "ill": ["no" if at % 3 else "yes" for at in range(len(rows))],
        }
    )


def policy(k: int = 6, columns: list[str] | None = None) -> dict[str, Any]:
    return {
        "version": 1,
        "columns": {
            "town": {"role": "quasi_identifier", "hierarchy": {"from_columns": {"columns": columns or ["region"]}}},
            "region": {"role": "identifier"},
            "ill": {"role": "insensitive"},
        },
        "transform": [{"generalize": {"search": "optimal"}}],
        "guarantees": [{"k_anonymity": {"k": k}}],
    }


@pytest.mark.parametrize(
    "engine",
    ["embedded", pytest.param("dask", marks=pytest.mark.dask), pytest.param("spark", marks=pytest.mark.spark)],
)
def test_a_column_that_is_not_released_is_a_level_of_the_finer_one(engine: str) -> None:
    made = pp.Policy.from_dict(policy()).apply(table(), engine=engine)
    assert made.column_names == ["town", "ill"]
    assert sorted(made["town"].to_pylist()) == ["Lazio"] * 8 + ["Piedmont"] * 8


def test_a_plan_says_which_columns_and_no_value() -> None:
    plan = pp.plan(table(), policy())
    text = plan.to_json()
    assert "from_columns" in text
    assert not any(word in text for word in (*TOWNS, *TOWNS.values()))
    assert plan.stages[0].detail["data_dependent"] == ["town"]


def test_a_frozen_plan_does_not_serve_a_table_in_which_towns_lie_elsewhere() -> None:
    plan = pp.plan(table(), policy())
    assert sorted(set(pp.transform(table(), plan)["town"].to_pylist())) == ["Lazio", "Piedmont"]
    moved = {**TOWNS, "Asti": "Lazio", "Rome": "Piedmont"}
    with pytest.raises((DataError, HierarchyError, UsageError)):
        pp.transform(table(moved), plan)


def test_what_no_table_can_mean_is_reported_with_numbers_and_no_value() -> None:
    both = pa.concat_tables([table(), table({"Asti": "Lazio"})])
    with pytest.raises(HierarchyError, match="not functional: 1 values go with several values of 'region'") as caught:
        pp.plan(both, policy())
    assert "Asti" not in str(caught.value)
    with pytest.raises(DataError, match="'regoin' is not in the data; did you mean 'region'"):
        pp.plan(table(), policy(columns=["regoin"]))


@pytest.mark.parametrize("wrong", [{}, {"columns": []}, {"columns": ["a", "a"]}, {"column": "a"}, {"columns": "a"}])
def test_wrong_parameters_are_reported_when_the_policy_is_read(wrong: Any) -> None:
    with pytest.raises(UsageError, match="from_columns"):
        HierarchySpec.from_mapping({"from_columns": wrong}, column="town")


def test_a_column_is_not_a_level_of_its_own() -> None:
    with pytest.raises(UsageError, match="cannot be a level of its own hierarchy"):
        HierarchySpec.from_mapping({"from_columns": {"columns": ["town"]}}, column="town").check_type("text")


def test_without_its_table_it_says_what_it_needs() -> None:
    with pytest.raises(UsageError, match="needs the source, whose 'region' it reads"):
        HierarchySpec.from_mapping({"from_columns": {"columns": ["region"]}}, column="town").build(["Asti"])


def test_a_value_that_goes_with_none_is_missing_there_and_a_new_one_outside() -> None:
    read = FromColumns(columns=("region",)).read({"Asti": [(None,)], "Rome": [("Lazio",), (None,)]}, "town")
    assert read.draft(["Rome", "Asti", "Bonn"], None, "text", "town").levels.labels[1] == ("Lazio", "missing")
    assert read.draft(["Rome", "Asti", "Bonn"], None, "text", "town").outside == (2,)
    assert read.unread() == FromColumns(columns=("region",))
