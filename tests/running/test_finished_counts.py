"""What a finished table does not show is never taken for known: contributors, and what quotients are made of."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError, UsageError

COUNTS = [("Total", 40), ("N", 20), ("S", 12), ("W", 8)]
SUMS = [100, 40, 30, 30]


def table(blank: tuple[str, ...] = (), **changes: Any) -> pd.DataFrame:
    frame = pd.DataFrame(COUNTS, columns=["region", "count"])
    frame["count"] = frame["count"].astype("Int64").mask(frame["region"].isin(blank))
    return frame.assign(**changes)


def policy(rule: dict[str, Any], *, sums: bool = False, **aggregate: Any) -> dict[str, Any]:
    roles = {"region": "quasi_identifier", "firm": "quasi_identifier", "cost": "insensitive", "w": "insensitive"}
    responses = ["count", {"sum": "cost"}] if sums else ["count"]
    return {
        "version": 1,
        "columns": {name: {"role": role} for name, role in roles.items()},
        "transform": [{"aggregate": {"by": ["region"], "responses": responses, **aggregate}}],
        "guarantees": [rule],
    }


def frequency(**rule: Any) -> dict[str, Any]:
    return {"minimum_frequency": {"at_least": 5, **rule}}


def outcome(frame: pd.DataFrame, asked: dict[str, Any], original: pd.DataFrame | None = None) -> str:
    return pp.validate(frame, asked, original=original).verdicts[0].outcome


def test_a_sum_without_its_count_is_of_unknown_contributors() -> None:
    assert outcome(table(sum_cost=SUMS), policy(frequency(), sums=True)) == "pass"
    assert outcome(table(("N", "S"), sum_cost=SUMS), policy(frequency(), sums=True)) == "error"
    assert outcome(table(("N", "S"), sum_cost=SUMS), policy(frequency(response="count"), sums=True)) == "pass"


def test_a_table_of_sums_next_to_one_of_counts_is_of_unknown_contributors() -> None:
    tables = {"a": {"by": ["region"], "responses": ["count"]}, "b": {"by": ["region"], "responses": [{"sum": "cost"}]}}
    asked = {**policy(frequency()), "transform": [{"aggregate": {"tables": tables}}]}
    sums = table(sum_cost=SUMS).drop(columns="count")
    assert pp.validate({"a": table(), "b": sums}, asked).verdicts[0].outcome == "error"


def test_holdings_are_not_counted_by_persons() -> None:
    assert outcome(table(), policy(frequency(holding="firm"))) == "error"


def test_contributions_other_than_0_are_not_counted_by_contributors() -> None:
    asked = policy(frequency(count="nonzero"), sums=True)
    frame = table(sum_cost=SUMS)
    assert outcome(frame, asked) == "error"
    assert outcome(frame, asked, frame) == "error"
    kept = {f"cost:largest_{at}": [30, 20, 10, 10] if at < 3 else [5, 0, 5, 0] for at in range(1, 6)}
    assert outcome(frame, asked, frame.assign(**kept)) == "fail"  # N and W: two contributions other than 0


def test_sums_of_weights_are_not_contributors() -> None:
    with pytest.raises(DataError, match="the original has no contributors"):
        pp.validate(table(), policy(frequency(), weight="w"), original=table())


@pytest.mark.parametrize(("weights", "expected"), [("replicate", "error"), ("known", "error"), ("sample", "pass")])
def test_contributions_without_their_weights_are_judged_as_those_of_the_sample(weights: str, expected: str) -> None:
    responses = [{"sum": "cost"}]
    asked = policy({"p_percent": {"at_least": 10, "weights": weights}}, weight="w", responses=responses)
    frame = table(sum_cost=SUMS).drop(columns="count")
    true = frame.assign(**{"count:contributors": [20, 8, 6, 6], "cost:largest_1": 10, "cost:largest_2": 5})
    assert outcome(frame, asked, true) == expected


def test_structural_zeros_may_be_published() -> None:
    frame = table(count=[32, 20, 12, 0])
    assert outcome(frame, policy(frequency(zeros="unsafe"))) == "fail"
    asked = policy(frequency(zeros="unsafe", structural=[{"region": "W"}]))
    assert outcome(frame, asked) == "pass"
    with pytest.raises(DataError, match="1 cells that `structural` declares always empty have counts"):
        pp.validate(table(), asked)


def test_the_strictest_of_several_frequency_rules_judges_blanks() -> None:
    rows = [("Total", 30), ("N", 22), ("S", None), ("W", None)]
    frame = pd.DataFrame(rows, columns=["region", "count"])
    asked = policy(frequency(at_least=3))
    asked["guarantees"] += [frequency(at_least=9), {"table_audit": {}}]
    assert pp.validate(frame, asked).verdicts[2].outcome == "fail"  # S and W are 8 together


@pytest.mark.parametrize("columns", [["regio"], ["region", "firm"]])
def test_an_attribute_that_no_table_has_is_refused(columns: list[str]) -> None:
    asked = policy({"group_disclosure": {"columns": columns}})
    with pytest.raises(UsageError, match="is not a dimension of a table that it judges"):
        pp.validate(table(), asked)
    guarantee = pp.tables.GroupDisclosure(columns=columns)
    made = pp.tables.Aggregate(by=["region"], responses=["count"]).apply(pd.DataFrame({"region": ["N", "S"]}))
    with pytest.raises(UsageError, match="is not a dimension of a table that it judges"):
        pp.check(made, [guarantee])


def test_a_response_that_no_table_has_is_refused() -> None:
    with pytest.raises(UsageError, match="no table has a response that it can judge"):
        pp.validate(table(), policy(frequency(response="sum_of_costs")))


def quotients(response: Any, stage: dict[str, Any] | None = None) -> dict[str, Any]:
    asked = policy(frequency(at_least=2), responses=["count", {"sum": "cost"}, response])
    asked["transform"] += [] if stage is None else [stage]
    return asked


def test_a_mean_of_other_parts_is_refused() -> None:
    frame = table(sum_cost=SUMS, mean_cost=[total / count for total, (_, count) in zip(SUMS, COUNTS, strict=True)])
    assert outcome(frame, quotients({"mean": "cost"})) == "pass"
    assert outcome(frame.assign(mean_cost=frame["mean_cost"].round(1)), quotients({"mean": "cost"})) == "pass"
    with pytest.raises(DataError, match="1 figures of 'mean_cost' are not the quotients of the published figures"):
        pp.validate(frame.assign(mean_cost=[2.6, *frame["mean_cost"][1:]]), quotients({"mean": "cost"}))


def test_exact_means_next_to_rounded_counts_are_refused() -> None:
    true, sums = [9, 4, 5], [90, 40, 50]
    frame = pd.DataFrame({"region": ["Total", "N", "S"], "count": [10, 5, 5], "sum_cost": sums})
    frame = frame.assign(count_status="rounded", sum_cost_status="rounded")
    rounded = quotients({"mean": "cost"}, {"round_table": {"base": 5}}) | {"guarantees": [{"table_audit": {}}]}
    assert pp.validate(frame.assign(mean_cost=frame["sum_cost"] / frame["count"]), rounded).passed
    with pytest.raises(DataError, match="2 figures of 'mean_cost' are not the quotients"):
        pp.validate(frame.assign(mean_cost=frame["sum_cost"] / pd.Series(true)), rounded)


def test_means_of_many_digits_are_read() -> None:
    frame = pd.DataFrame(
        {"region": ["Total", "N", "S"], "count": [30003, 3, 30000], "sum_cost": [3 * 10**9 + 1, 1, 3 * 10**9]}
    )
    assert outcome(frame.assign(mean_cost=frame["sum_cost"] / frame["count"]), quotients({"mean": "cost"})) == "pass"


def test_a_percentage_gives_its_base_away() -> None:
    share = {"percentage": "count", "of": ["region"], "digits": 0}
    asked = policy(frequency(), responses=["count", share])
    shares = pd.array([100, 50, 30, 20], dtype="Int64")
    assert outcome(table(percentage_count=shares), asked) == "pass"
    shares[[0, 2]] = None
    assert outcome(table(("Total", "S"), percentage_count=shares), asked) == "fail"  # 20 is 50 % of 40
    shares[[1, 3]] = None
    assert outcome(table(("Total", "S"), percentage_count=shares), asked) == "pass"
    with pytest.raises(DataError, match="not the quotients"):
        pp.validate(table(percentage_count=[100, 50, 30, 21]), asked)
