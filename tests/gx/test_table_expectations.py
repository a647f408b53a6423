"""Expectations on finished tables: what fails a suite, and that no result lists a value."""

from __future__ import annotations

from typing import Any

import great_expectations as gx
import pandas as pd
import pytest

import privpipe.gx as ppgx

ROWS = [
    ("N", "m", 6),
    ("N", "f", None),
    ("N", "Total", 8),
    ("S", "m", 9),
    ("S", "f", 8),
    ("S", "Total", 17),
    ("Total", "m", 15),
    ("Total", "f", 10),
    ("Total", "Total", 25),
]


def validated(rows: list[tuple[str, str, int | None]], *expectations: Any) -> list[dict[str, Any]]:
    """The results of expectations on a table."""
    frame = pd.DataFrame(rows, columns=["region", "sex", "count"]).astype({"count": "Int64"})
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("cells").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    suite = gx.ExpectationSuite(name="suite", expectations=list(expectations))
    return [each.to_json_dict() for each in batch.validate(suite).results]


def test_a_blank_cell_that_follows_from_its_row_fails_the_suite() -> None:
    [found] = validated(ROWS, ppgx.ExpectTableAudit(dims=["region", "sex"]))
    assert not found["success"]
    assert found["result"]["observed_value"] == 1
    assert "can be computed from margins" in found["result"]["details"]["reason"]
    assert "unexpected" not in str(found)


def test_a_table_whose_blanks_protect_each_other_passes() -> None:
    blank = {("N", "m"), ("N", "f"), ("S", "m"), ("S", "f")}
    rows = [(region, sex, None if (region, sex) in blank else count) for region, sex, count in ROWS]
    [found] = validated(rows, ppgx.ExpectTableAudit(dims=["region", "sex"], at_least=3))
    assert found["success"], found


@pytest.mark.parametrize(("at_least", "passes"), [(6, True), (7, False)])
def test_the_least_published_count_is_judged(at_least: int, passes: bool) -> None:
    [found] = validated(ROWS, ppgx.ExpectMinimumFrequency(dims=["region", "sex"], at_least=at_least))
    assert found["success"] is passes
    assert found["result"]["observed_value"] == 6


def test_what_cannot_be_judged_fails_with_the_reason() -> None:
    [found] = validated([*ROWS[:-1], ("Total", "Total", 26)], ppgx.ExpectTableAudit(dims=["region", "sex"]))
    assert not found["success"]
    assert "add up" in found["result"]["details"]["reason"]
    [found] = validated(ROWS, ppgx.ExpectTableAudit(dims=["region", "age"]))
    assert "no column 'age'" in found["result"]["details"]["reason"]
