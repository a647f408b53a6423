"""A row that a stage of one table removes takes the rows below it; rows that never had a person are refused."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError

PATIENTS = pd.DataFrame({"patient": [1, 2, 3, 4, 5], "town": ["a", "a", "b", "b", "z"]})
VISITS = pd.DataFrame(
    {
        "visit": [10, 20, 30, 40, 50, 51, 11],
        "patient": [1, 2, 3, 4, 5, 5, 1],
        "ward": ["x", "x", "x", "x", "x", "x", "y"],
    }
)
DRUGS = pd.DataFrame({"visit": [10, 20, 30, 40, 50, 51, 11], "shop": ["s"] * 7, "of": [1, 2, 3, 4, 5, 5, 6]})


def released(orphans: str = "refuse", **frames: pd.DataFrame) -> Any:
    """The clinic after each of two tables has removed the records that are alone in it."""
    alone = {
        "transform": [{"suppress_records": {"suppress_at_most": 0.5}}],
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }
    policy = pp.Policy.from_dict(
        {
            "version": 1,
            "tables": {
                "patients": {
                    "source": {"path": "patients.parquet"},
                    "key": "patient",
                    "columns": {"patient": {"role": "identifier"}, "town": {"role": "quasi_identifier"}},
                    **alone,
                },
                "visits": {
                    "source": {"path": "visits.parquet"},
                    "key": "visit",
                    "columns": {
                        "visit": {"role": "identifier"},
                        "patient": {"role": "identifier"},
                        "ward": {"role": "quasi_identifier"},
                    },
                    **alone,
                },
                "drugs": {
                    "source": {"path": "drugs.parquet"},
                    "columns": {
                        "visit": {"role": "identifier"},
                        "shop": {"role": "quasi_identifier"},
                        "of": {"role": "insensitive"},
                    },
                },
            },
            "relations": [{"from": "visits.patient", "to": "patients"}, {"from": "drugs.visit", "to": "visits"}],
            "orphans": orphans,
            "guarantees": [{"joint_k_anonymity": {"k": 2}}],
        }
    )
    return policy.apply({"patients": PATIENTS, "visits": VISITS, "drugs": DRUGS, **frames})


def test_what_a_table_removes_takes_its_rows_in_all_tables() -> None:
    """Patient 5 is alone in town z and visit 11 alone in ward y: their visits and drugs go too."""
    left = released()
    assert sorted(left["patients"]["town"]) == ["a", "a", "b", "b"]
    assert len(left["visits"]) == 4
    assert sorted(left["drugs"]["of"]) == [1, 2, 3, 4]


@pytest.mark.parametrize("table", ["visits", "drugs"])
def test_rows_that_never_had_a_person_are_refused_all_the_same(table: str) -> None:
    more = {
        "visits": pd.concat([VISITS, pd.DataFrame({"visit": [90], "patient": [9], "ward": ["x"]})]),
        "drugs": pd.concat([DRUGS, pd.DataFrame({"visit": [90], "shop": ["s"], "of": [9]})]),
    }
    with pytest.raises(DataError, match=f"table '{table}': 1 record belongs to no record of 'patients'"):
        released(**{table: more[table]})
    assert sorted(released("drop", **{table: more[table]})["drugs"]["of"]) == [1, 2, 3, 4]
