"""Rules whose contributors are holdings: several persons or branches that act as one."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError, Refused, UsageError

BRANCHES = pd.DataFrame(
    {
        "region": ["N"] * 6 + ["S"] * 6 + ["W"] * 6,
        "branch": range(18),
        "firm": [1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6, 7],
        "cost": [10, 11, 12, 10, 11, 12] + [10, 12, 9, 11, 10, 8] * 2,
    }
)
STAGE = pp.tables.Aggregate(by=["region"], responses=["count", {"sum": "cost"}])
BY_FIRM = pp.tables.PPercent(at_least=10, holding="firm")


def test_a_cell_of_one_holding_is_unsafe_though_it_has_many_branches() -> None:
    by_branch = pp.tables.PPercent(at_least=10)
    asked = [by_branch, BY_FIRM]
    table = STAGE.apply(BRANCHES, person_id="branch", guarantees=asked)
    assert pp.check(table, [by_branch]).passed
    with pytest.raises(Refused, match="1 of 4 published figures are unsafe"):
        pp.check(table, [BY_FIRM])


@pytest.mark.parametrize("person", [None, "branch", "firm"])
def test_it_is_hidden_and_the_audit_judges_by_holdings(person: str | None) -> None:
    asked = [BY_FIRM, pp.tables.MinimumFrequency(at_least=3, holding="firm"), pp.tables.TableAudit()]
    rows = BRANCHES
    table = STAGE.apply(rows, person_id=person, guarantees=asked)
    safe = pp.tables.SuppressTable().apply(table, guarantees=asked)
    assert pp.check(safe, asked).passed
    shown = safe.public().set_index("region")
    assert shown.loc["N", ["count", "sum_cost"]].isna().all()
    assert shown["sum_cost"].isna().sum() == 2
    # Hiding the one cell alone leaves it to be computed.
    alone = table.hiding(table.measures["cost"].figures.others["firm"].contributors == 1)
    with pytest.raises(Refused, match="can be computed"):
        pp.check(alone, asked)


def test_populations_that_margins_imply_are_judged_by_holdings() -> None:
    # Of two hidden cells both are of firm 1: their sum, which the margin shows, is its own.
    rows = BRANCHES.assign(firm=[1] * 12 + [2, 3, 4, 5, 6, 7])
    asked = [BY_FIRM, pp.tables.TableAudit()]
    table = STAGE.apply(rows, person_id="branch", guarantees=asked)
    names = [table.cells.dimensions[0].labels[code] for code in table.cells.codes[:, 0]]
    hidden = table.hiding(pd.Series(names).isin(["N", "S"]).to_numpy())
    with pytest.raises(Refused, match="populations implied by margins are unsafe"):
        pp.check(hidden, asked)
    assert pp.check(hidden, [pp.tables.PPercent(at_least=10), pp.tables.TableAudit()]).passed


@pytest.mark.parametrize(
    "rule",
    [
        pp.tables.PPercent(at_least=10, holding="firm", negative="absolute"),
        pp.tables.Dominance(contributors=1, at_most=0.9, holding="firm", negative="absolute"),
    ],
    ids=["p_percent", "dominance"],
)
def test_absolute_contributions_are_those_of_holdings(rule: Any) -> None:
    # Firm 1 contributes 100; the branches of firm 2 cancel out, so that it contributes 1 and not 101.
    rows = pd.DataFrame({"region": "N", "firm": [1, 2, 2], "branch": range(3), "cost": [100, 51, -50]})
    table = STAGE.apply(rows, person_id="branch", guarantees=[rule])
    with pytest.raises(Refused, match="2 of 2 published figures are unsafe"):
        pp.check(table, [rule])


def test_a_table_that_was_not_counted_by_holdings_is_refused() -> None:
    with pytest.raises(UsageError, match="give the guarantee to `aggregate` too"):
        pp.check(STAGE.apply(BRANCHES, person_id="branch"), [BY_FIRM])


@pytest.mark.parametrize(
    ("rows", "stage", "error", "message"),
    [
        (BRANCHES.assign(firm=None), STAGE, DataError, "missing|type"),
        (BRANCHES.drop(columns="firm"), STAGE, DataError, "'firm' is not in the table"),
        (
            BRANCHES,
            pp.tables.Aggregate(by=["region"], responses=["count", {"sum": "cost"}], contribution_bound=1),
            UsageError,
            "contribution_bound",
        ),
        (
            BRANCHES,
            pp.tables.Aggregate(by=["firm"], responses=["count", {"sum": "cost"}]),
            UsageError,
            "neither a dimension",
        ),
    ],
    ids=["no value", "no column", "a bound", "a dimension"],
)
def test_holdings_that_cannot_be_counted(rows: Any, stage: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        stage.apply(rows, person_id="branch", guarantees=[BY_FIRM])


def test_extremes_are_judged_by_persons() -> None:
    stage = pp.tables.Aggregate(by=["region"], responses=["count", {"maximum": "cost"}])
    asked = [pp.tables.MinimumFrequency(at_least=3, holding="firm")]
    with pytest.raises(UsageError, match="no binding minimum_frequency"):
        pp.check(stage.apply(BRANCHES, person_id="branch", guarantees=asked), asked)
