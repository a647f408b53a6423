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


SUMS = [
    ("N", 3, 109, 100, 5, "published"),
    ("S", 3, 105, 40, 35, "published"),
    ("W", 3, 125, 50, 45, "published"),
    ("Total", 9, 339, 100, 50, "published"),
]
SUM_COLUMNS = ["region", "n", "turnover", "top_1", "top_2", "state"]
TOPS = {"column": "turnover", "top_columns": ["top_1", "top_2"], "n_column": "n", "status_column": "state"}


def validated_sums(rows: list[tuple[Any, ...]], *expectations: Any) -> list[dict[str, Any]]:
    frame = pd.DataFrame(rows, columns=SUM_COLUMNS).astype({"turnover": "Int64"})
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("cells").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    suite = gx.ExpectationSuite(name="suite", expectations=list(expectations))
    return [each.to_json_dict() for each in batch.validate(suite).results]


RULES = [
    ppgx.ExpectPPercent(dims=["region"], at_least=10, **TOPS),
    ppgx.ExpectDominance(dims=["region"], contributors=1, at_most=0.8, **TOPS),
    ppgx.ExpectPriorPosterior(dims=["region"], p=10, q=50, **TOPS),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rules_on_the_largest_contributions(rule: Any) -> None:
    [found] = validated_sums(SUMS, rule)
    assert not found["success"]
    assert "1 of 4 published figures are unsafe" in found["result"]["details"]["reason"]
    hidden = [(*SUMS[0][:2], None, *SUMS[0][3:5], "c"), *SUMS[1:]]
    [found] = validated_sums(hidden, rule)
    assert found["success"], found
    assert "unexpected" not in str(found)
    left = [(*SUMS[0][:5], "c"), *SUMS[1:]]
    [found] = validated_sums(left, rule)  # marked as suppressed, and still there
    assert not found["success"]
    assert "still there" in found["result"]["details"]["reason"]


def test_fewer_contributions_than_a_rule_needs_are_an_error() -> None:
    rule = ppgx.ExpectPPercent(dims=["region"], at_least=10, **{**TOPS, "top_columns": ["top_1"]})
    [found] = validated_sums(SUMS, rule)
    assert not found["success"]
    assert found["result"]["details"]["outcome"] == "error"
    rule = ppgx.ExpectPPercent(dims=["region"], at_least=10, **{**TOPS, "top_columns": ["top_1", "top_3"]})
    [found] = validated_sums(SUMS, rule)
    assert not found["success"]


def test_differences_and_groups() -> None:
    rows = [("N", "m", 24), ("N", "f", 1), ("N", "Total", 25), ("S", "m", 9), ("S", "f", 8), ("S", "Total", 17)]
    rows += [("Total", "m", 33), ("Total", "f", 9), ("Total", "Total", 42)]
    asked = [
        ppgx.ExpectDifferencing(dims=["region", "sex"], at_least=3),
        ppgx.ExpectGroupDisclosure(dims=["region", "sex"], columns=["sex"], known=1),
        ppgx.ExpectGroupDisclosure(dims=["region", "sex"], columns=["sex"]),
    ]
    found = validated(rows, *asked)
    assert [each["success"] for each in found] == [False, False, True]
    assert [each["result"]["observed_value"] for each in found] == [2, 1, 0]


def test_columns_that_are_not_judged_are_named() -> None:
    [found] = validated_sums(SUMS, ppgx.ExpectMinimumFrequency(dims=["region"], n_column="n", at_least=3))
    assert found["success"]
    assert any("'top_1', 'top_2', 'state' were not judged" in note for note in found["result"]["details"]["notes"])


def test_there_is_an_expectation_for_each_guarantee_on_cells_that_a_finished_table_can_be_judged_by() -> None:
    from privpipe.tables import CELL_GUARANTEES

    assert set(ppgx.TABLE_EXPECTATIONS) <= set(CELL_GUARANTEES)
    for name, kind in ppgx.TABLE_EXPECTATIONS.items():
        assert kind.__name__ == f"Expect{''.join(part.title() for part in name.split('_'))}"
        assert kind.success_keys[:3] == ("dims", "total", "status_column")
