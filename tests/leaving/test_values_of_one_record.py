"""No figure and no label is the value of a single record, or the verdict notes which may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpipe as pp
from privpipe.engines import Engine
from privpipe.hierarchies.interval_levels import interval_ends
from privpipe.transforms import CATALOGUE
from privpipe.transforms.microaggregation.parameters import Groups

INCOMES = [23_417 + 1_311 * at + 17 * (at * at % 89) for at in range(120)]


def released(tmp_path: Path, engine: Engine | None = None, **sections: Any) -> tuple[pa.Table, pp.Assessment]:
    pq.write_table(pa.table({"zip": ["a"] * 120, "income": INCOMES}), tmp_path / "in.parquet")
    columns = {"zip": {"role": "quasi_identifier"}, "income": {"role": "insensitive"}}
    policy = {
        "source": {"path": str(tmp_path / "in.parquet")},
        "columns": {**columns, **sections.pop("columns", {})},
        "guarantees": [{"k_anonymity": {"k": 3}}],
        "sink": {"path": str(tmp_path / "out")},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        **sections,
    }
    made = pp.release(policy, engine=engine)
    return pq.read_table(made.path, partitioning=None), made.assessment


def shown(judged: pp.Assessment) -> list[str]:
    return [note for note in judged.notes if "shows values of single records" in note]


def with_hierarchy(builder: dict[str, Any]) -> dict[str, Any]:
    return {
        "columns": {"income": {"role": "quasi_identifier", "type": "integer", "hierarchy": builder}},
        "transform": [{"generalize": {"levels": {"zip": 0, "income": 1}, "columns": ["income"]}}],
    }


def test_cuts_of_quantiles(engine: Engine, tmp_path: Path) -> None:
    sections = with_hierarchy({"quantiles": {"counts": [8, 4]}})
    sections["transform"] = [{"generalize": {"levels": {"income": 1}}}]
    table, judged = released(tmp_path, engine, **sections)
    labels = set(table["income"].to_pylist())
    assert len(labels) == 8
    ends = {int(end) for label in labels for end in (interval_ends(label) or ())[:2] if end}
    assert not ends & set(INCOMES)
    assert shown(judged) == []


def test_a_hierarchy_whose_cuts_are_values_is_noted(tmp_path: Path) -> None:
    for builder, noted in (({"equal_count": {"sizes": [40]}}, True), ({"bands": {"steps": [100_000]}}, False)):
        sections = with_hierarchy(builder)
        sections["transform"] = [{"generalize": {"levels": {"income": 1}}}]
        _, judged = released(tmp_path, **sections)
        assert (shown(judged) != []) == noted
        assert not noted or shown(judged)[0].startswith("the hierarchy of 'income' shows values")


@pytest.mark.parametrize(
    ("stage", "noted"),
    [
        ({"microaggregate": {"columns": ["income"], "k": 3, "aggregate": "median"}}, False),
        ({"microaggregate": {"columns": ["income"], "k": 3, "aggregate": "trimmed_mean", "trim": 0.4}}, False),
        ({"microaggregate": {"columns": ["income"], "k": 3, "aggregate": "mode"}}, True),
        ({"microaggregate": {"columns": ["income"], "k": 3, "aggregate": "medoid"}}, True),
        ({"top_code": {"columns": ["income"], "quantile": 0.9}}, True),
        ({"top_code": {"columns": ["income"], "quantile": 0.9, "replace": "mean"}}, False),
        ({"top_code": {"columns": ["income"], "at": 150_000}}, False),
    ],
)
def test_stages_release_no_value_of_one_record_or_it_is_noted(
    stage: dict[str, Any], noted: bool, tmp_path: Path
) -> None:
    table, judged = released(tmp_path, transform=[stage])
    assert (shown(judged) != []) == noted
    if "microaggregate" in stage:
        assert bool(set(table["income"].to_pylist()) & set(INCOMES)) == noted


@given(st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=9), min_size=1, max_size=5))
def test_a_median_is_the_mean_of_two_middle_values(groups: list[list[int]]) -> None:
    values = np.array([float(value) for each in groups for value in each])
    labels = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    found = Groups(labels, np.arange(len(values))).numbers(values, "median").tolist()
    for each, median in zip(groups, found, strict=True):
        ordered, middle = sorted(each), len(each) // 2
        if len(each) % 2 == 0:
            assert median == (ordered[middle - 1] + ordered[middle]) / 2
        else:
            below, here, above = ordered[middle - 1 : middle + 2]
            assert median == (below + here if here - below <= above - here else here + above) / 2
        assert each.count(median) != 1


def test_entries_that_show_values_say_so_in_a_sentence() -> None:
    told = {name: each.shows_values for name in CATALOGUE for each in CATALOGUE[name].examples()}
    shown = {name for name, text in told.items() if text}
    assert shown <= {"microaggregate", "fuzzy_microaggregate", "mondrian", "top_code", "bottom_code"}
    assert all(text == text.strip() and not text.endswith(".") for text in told.values())
