"""Dates: calendar units, ISO weeks, time zones, what does not nest."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import HierarchyError, PolicyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec


def build(dates: dict[str, Any], values: list[str], kind: str | None = "timestamp") -> Hierarchy:
    return HierarchySpec.from_mapping({"dates": dates}, column="seen").build(values, None, kind)


def test_every_unit_has_its_label() -> None:
    units = ["second", "minute", "hour", "day", "month", "quarter", "year", "decade", "century"]
    hierarchy = build({"levels": units}, ["2024-05-17T03:04:05.25"])
    assert [hierarchy.labels(level)[0] for level in range(hierarchy.height + 1)] == [
        "2024-05-17T03:04:05.25", "2024-05-17T03:04:05", "2024-05-17T03:04", "2024-05-17T03", "2024-05-17",
        "2024-05", "2024-Q2", "2024", "2020-2029", "2000-2099", "*",
    ]  # fmt: skip
    assert hierarchy.level_names == ("raw", *units, "*")


@pytest.mark.parametrize(
    ("day", "week"), [("2024-12-30", "2025-W01"), ("2021-01-03", "2020-W53"), ("2024-05-17", "2024-W20")]
)
def test_weeks_are_those_of_iso_8601(day: str, week: str) -> None:
    assert build({"levels": ["day", "week"]}, [day], "date").labels(2) == (week,)


@pytest.mark.parametrize("after", ["month", "quarter", "year", "decade", "century"])
def test_a_week_refines_into_no_calendar_unit(after: str) -> None:
    with pytest.raises(PolicyError, match=f"levels: not functional: a week does not refine into a {after}"):
        HierarchySpec.from_mapping({"dates": {"levels": ["day", "week", after]}})


def test_a_day_level_of_a_date_column_is_kept_and_warned_of() -> None:
    hierarchy = build({"levels": ["day", "month"]}, ["2024-05-17", "2024-06-01"], "date")
    assert hierarchy.height == 3
    assert any(text.startswith("not_refining: level 1") for text in hierarchy.warnings)


def test_values_are_in_order_of_time() -> None:
    hierarchy = build({"levels": ["year"]}, ["2024-01-01T00:00:00.5", "1999-12-31T00:00:00", "2024-01-01T00:00:00"])
    assert hierarchy.values == ("1999-12-31T00:00:00", "2024-01-01T00:00:00", "2024-01-01T00:00:00.5")


def test_the_time_zone_is_fixed_and_utc_unless_said() -> None:
    late = "2024-05-16T23:30:00"
    assert build({"levels": ["day"]}, [late]).labels(1) == ("2024-05-16",)
    assert build({"levels": ["hour", "day"], "timezone": "Europe/Rome"}, [late]).labels(1) == ("2024-05-17T01",)
    with pytest.raises(PolicyError, match="timezone: 'Mars/Base' is not an IANA time zone"):
        HierarchySpec.from_mapping({"dates": {"levels": ["day"], "timezone": "Mars/Base"}})


def test_dates_have_no_hours_and_no_zone() -> None:
    with pytest.raises(UsageError, match="levels: hour is for timestamps, and column 'seen' holds dates"):
        build({"levels": ["hour", "day"]}, ["2024-05-17"], "date")
    with pytest.raises(UsageError, match="timezone is for timestamps"):
        build({"levels": ["day"], "timezone": "Europe/Rome"}, ["2024-05-17"], "date")


def test_other_types_are_refused() -> None:
    for kind in ("text", "integer"):
        with pytest.raises(UsageError, match=f"has type {kind}; this builder needs date or timestamp"):
            build({"levels": ["year"]}, ["2024"], kind)


def test_anything_but_a_date_is_outside_when_the_type_is_unknown() -> None:
    assert build({"levels": ["year"]}, ["2024-05-17"], None).labels(1) == ("2024",)
    with pytest.raises(HierarchyError, match="1 distinct values") as caught:
        build({"levels": ["year"]}, ["2024-05-17", "soon"], None)
    assert caught.value.kind == "outside_range"


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        ({"levels": []}, "levels: must be a list with at least one entry"),
        ({}, "levels: must be a list with at least one entry"),
        ({"levels": ["mnoth"]}, "did you mean 'month'"),
        ({"levels": ["year", "month"]}, "levels: 'month' after 'year'; list each unit once, finest first"),
        ({"levels": ["year", "year"]}, "list each unit once"),
        ({"levels": ["year"], "zone": "UTC"}, "unknown key 'zone'"),
    ],
)
def test_parameters_are_checked(dates: Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping({"dates": dates})
    assert message in str(caught.value)


@given(st.lists(st.dates(date(1000, 1, 1)).map(date.isoformat), min_size=1, max_size=20, unique=True))
def test_calendar_units_nest(days: list[str]) -> None:
    hierarchy = build({"levels": ["day", "month", "quarter", "year", "decade", "century"]}, days, "date")
    assert hierarchy.values == tuple(sorted(days))
    assert all(hierarchy.mapping(4)[day] == day[:4] for day in days)
