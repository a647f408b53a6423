"""Hierarchies of more levels than fit a byte: every way of choosing levels and labels takes them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import privpipe as pp

LENGTHS = (126, 127, 128, 129, 300, 1000)
WAYS: dict[str, dict[str, Any]] = {
    "optimal": {"generalize": {"search": "optimal"}},
    "optimal with suppression": {"generalize": {"search": "optimal", "suppress_at_most": 0.2}},
    "minimal": {"generalize": {"search": "minimal"}},
    "datafly": {"generalize": {"search": "datafly"}},
    "genetic": {"generalize": {"search": "genetic", "budget": {"nodes": 50}}},
    "top down": {"generalize": {"search": "top_down", "budget": {"nodes": 50}}},
    "local recoding": {"local_recoding": {}},
    "mondrian": {"mondrian": {}},
    "cell suppression": {"suppress_cells": {}},
}


def records(length: int) -> pd.DataFrame:
    """Two texts that one level distinguishes: their first letters differ, so only the root joins them."""
    texts = ["a"] * 5 + ["x" * length] * 5 + ["y" + "z" * (length - 1)]
    return pd.DataFrame({"t": texts, "home": ["here"] * len(texts)})


def policy(stage: dict[str, Any]) -> dict[str, Any]:
    hierarchy = {"redact": {"keep": "left"}}
    return {
        "columns": {
            "t": {"role": "quasi_identifier", "hierarchy": hierarchy},
            "home": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left", "length": 4}}},
        },
        "transform": [stage],
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }


@pytest.mark.parametrize("length", LENGTHS)
def test_the_level_found_is_the_one_that_joins_the_values(length: int) -> None:
    plan = pp.plan(records(length), policy(WAYS["optimal"]))
    assert plan.levels == {"t": length, "home": 0}
    assert pp.transform(records(length), plan)["t"].unique().tolist() == ["*"]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_takes_300_levels(way: str) -> None:
    plan = pp.plan(records(300), policy(WAYS[way]))
    assert pp.assess(pp.transform(records(300), plan), plan.policy).passed


def test_given_levels_beyond_a_byte_give_their_labels() -> None:
    plan = pp.plan(records(300), policy({"generalize": {"levels": {"t": 299, "home": 0}}}))
    assert sorted(pp.transform(records(300), plan)["t"].unique()) == [letter + "*" * 299 for letter in "axy"]


def test_labels_that_no_memory_holds_are_refused_with_their_number() -> None:
    with pytest.raises(pp.errors.HierarchyError, match="a level for each of 40,000 characters of 3 values"):
        pp.plan(records(40_000), policy(WAYS["optimal"]))
