"""What an asset check shows of an assessment: plain JSON, and nothing that the public edition withholds."""

from __future__ import annotations

import json

import pandas as pd

import privpipe as pp
from privpipe.judging.assessment import check_metadata
from privpipe.scheduled.work import public_figures


def judged(sizes: dict[str, int], *guarantees: pp.models.KAnonymity) -> tuple[pp.Policy, pp.Assessment]:
    frame = pd.DataFrame({"zip": [name for name, size in sizes.items() for _ in range(size)]})
    policy = pp.Policy(roles=pp.Roles(quasi_identifiers=["zip"]), guarantees=[*guarantees])
    return policy, pp.validate(frame, policy)


def test_it_is_plain_json_with_a_row_a_guarantee() -> None:
    _, found = judged({"a": 7, "b": 9}, pp.models.KAnonymity(k=5))
    told = found.to_asset_check_metadata()
    assert json.loads(json.dumps(told)) == told
    assert {name: told[name] for name in ("records", "classes")} == {"records": 16, "classes": 2}
    row = next(row for row in told["guarantees"] if row["guarantee"] == "k_anonymity")
    assert row == {
        "guarantee": "k_anonymity",
        "parameters": "k=5",
        "asked": "5",
        "reached": "7",
        "margin": "2.0",
        "outcome": "pass",
    }


def test_it_is_what_dagster_makes_of_the_figures_of_an_ending() -> None:
    policy, found = judged({"a": 7, "b": 9}, pp.models.KAnonymity(k=5))
    assert found.to_asset_check_metadata() == check_metadata(public_figures(found, policy))


def test_few_records_are_not_counted_out() -> None:
    _, found = judged({"a": 2, "b": 900}, pp.models.KAnonymity(k=3))
    text = json.dumps(found.to_asset_check_metadata())
    assert "failing" not in text
    assert "fail" in text.replace("failing", "")


def test_persons_that_no_released_column_shows_keep_their_figures() -> None:
    frame = pd.DataFrame({"zip": ["a"] * 12, "who": [f"p{at // 2}" for at in range(12)]})
    roles = pp.Roles(quasi_identifiers=["zip"], identifiers=["who"])
    policy = pp.Policy(roles=roles, guarantees=[pp.models.KAnonymity(k=5)], person_id="who")
    found = pp.validate(frame, policy)
    assert found.verdicts[-1].observed == 6
    row = found.to_asset_check_metadata()["guarantees"][-1]
    assert (row["reached"], row["margin"]) == ("", "")


def test_an_assessment_made_by_hand_shows_no_figure() -> None:
    _, found = judged({"a": 7, "b": 9}, pp.models.KAnonymity(k=5))
    bare = type(found)(verdicts=found.verdicts, records=found.records)
    assert [row["reached"] for row in bare.to_asset_check_metadata()["guarantees"]] == [""] * len(bare.verdicts)


def test_warnings_are_reported() -> None:
    models = pp.models.KAnonymity(k=1), pp.models.KAnonymity(k=5, severity="warn")
    assert judged({"a": 1, "b": 9}, *models)[1].to_asset_check_metadata()["warnings"]
    assert "warnings" not in judged({"a": 9}, *models)[1].to_asset_check_metadata()
