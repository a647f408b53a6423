"""Finished tables of anyone, judged by a policy; and what an attacker can say of blank cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError, UsageError

COUNTS = {"N": {"m": 6, "f": 2}, "S": {"m": 9, "f": 8}, "W": {"m": 1, "f": 12}}


def finished(*blank: tuple[str, str]) -> pd.DataFrame:
    """The table of some counts with all totals, some cells of it blank."""
    rows = [(region, sex, count) for region, sexes in COUNTS.items() for sex, count in sexes.items()]
    rows += [(region, "Total", sum(sexes.values())) for region, sexes in COUNTS.items()]
    rows += [("Total", sex, sum(sexes[sex] for sexes in COUNTS.values())) for sex in ("m", "f")]
    rows.append(("Total", "Total", sum(sum(sexes.values()) for sexes in COUNTS.values())))
    table = pd.DataFrame(rows, columns=["region", "sex", "count"])
    gone = pd.Series([(region, sex) in blank for region, sex in zip(table["region"], table["sex"], strict=True)])
    return table.assign(count=table["count"].astype("Int64").mask(gone))


def policy(*guarantees: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "columns": {"region": {"role": "quasi_identifier"}, "sex": {"role": "quasi_identifier"}},
        "transform": [{"aggregate": {"by": ["region", "sex"], "responses": ["count"]}}],
        "guarantees": list(guarantees),
    }


FREQUENCY, AUDIT = {"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}
SAFE = (("N", "f"), ("W", "m"), ("N", "m"), ("W", "f"))


def test_a_blank_cell_that_follows_from_its_row_fails() -> None:
    judged = pp.validate(finished(("N", "f"), ("W", "m")), policy(FREQUENCY, AUDIT))
    assert [verdict.outcome for verdict in judged.verdicts] == ["pass", "fail"]
    assert judged.verdicts[1].reason.startswith("2 can be computed from margins")


def test_blanks_that_protect_each_other_pass() -> None:
    judged = pp.validate(finished(*SAFE), policy(FREQUENCY, AUDIT), original=finished())
    assert judged.passed
    assert judged.notes == ()


def test_without_the_original_the_verdict_says_what_could_be_judged() -> None:
    judged = pp.validate(finished(*SAFE), policy(FREQUENCY, AUDIT))
    assert judged.passed
    assert judged.notes == ("without the true figures only blank cells could be judged; give the original",)


def test_a_small_published_count_fails() -> None:
    judged = pp.validate(finished(), policy(FREQUENCY))
    assert judged.verdicts[0].outcome == "fail"
    assert judged.verdicts[0].observed == 1


def test_rules_on_contributions_are_errors() -> None:
    judged = pp.validate(finished(*SAFE), policy(FREQUENCY, {"p_percent": {"at_least": 10}}))
    assert [verdict.outcome for verdict in judged.verdicts] == ["pass", "error"]
    assert not judged.passed


def test_a_folder_holds_one_file_per_table(tmp_path: Path) -> None:
    finished(*SAFE).to_csv(tmp_path / "table.csv", index=False)
    assert pp.validate(tmp_path / "table.csv", policy(AUDIT)).passed
    assert pp.validate(tmp_path, policy(AUDIT)).passed
    finished().to_csv(tmp_path / "more.csv", index=False)
    with pytest.raises(DataError, match="'more' is not in the policy"):
        pp.validate(tmp_path, policy(AUDIT))


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (finished().assign(count=lambda t: t["count"] + (t.index == 0)), DataError, "add up"),
        (pd.concat([finished(), finished().head(1)]), DataError, "occurs more than once"),
        (finished().drop(columns="sex"), DataError, "no column 'sex'"),
        (finished().assign(region=None), DataError, "have no label"),
        (finished().assign(count="many"), DataError, "not numbers"),
        (finished().rename(columns={"count": "n"}), DataError, "no column 'count'"),
    ],
)
def test_a_table_that_is_none_is_refused(table: pd.DataFrame, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pp.validate(table, policy(AUDIT))


def test_no_message_holds_a_label_of_a_blank_cell() -> None:
    table = finished(("N", "f")).replace({"region": {"N": "a rare disease"}})
    judged = pp.validate(table, policy(FREQUENCY, AUDIT))
    assert not any("rare" in verdict.reason for verdict in judged.verdicts)


def test_intervals_of_blank_cells() -> None:
    found = pp.tables.audit(finished(*SAFE), ["region", "sex"]).set_index(["region", "sex"])
    assert found.loc[("N", "f")].to_dict() == {
        "low": 1.0,
        "high": 8.0,
        "integer_low": 1,
        "integer_high": 8,
        "recomputable": False,
        "exact": False,
    }
    alone = pp.tables.audit(finished(("N", "f")), ["region", "sex"])
    assert alone[["integer_low", "integer_high", "exact"]].to_numpy().tolist() == [[2, 2, True]]


def test_intervals_by_prior_knowledge_need_the_original() -> None:
    with pytest.raises(UsageError, match="give `original`"):
        pp.tables.audit(finished(*SAFE), ["region", "sex"], prior=50)
    found = pp.tables.audit(finished(*SAFE), ["region", "sex"], prior=50, original=finished())
    cell = found.set_index(["region", "sex"]).loc[("N", "f")]
    # The one of the West is known to be within 0.5 and 1.5, and so to be 1 among whole numbers.
    assert (cell["low"], cell["high"]) == (1.5, 2.5)
    assert (cell["integer_low"], cell["integer_high"]) == (2, 2)
