"""Rounded and perturbed tables next to a ledger, finished tables and stored audits: intervals, never exact figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, UnsupportedError, UsageError
from privpipe.record.table_proofs import ProofFault, proved_again
from privpipe.tables.aggregation import COUNT
from privpipe.tables.families import Family
from privpipe.tables.primary_rules import MinimumFrequency, Settings
from privpipe.tables.table import Table
from privpipe.tables.union_families import UnionFamily, seen_together
from tests.tables.ledger_cases import KEY, VARIABLE, Place, people
from tests.tables.test_union_families import table_of, union

EVERYONE = people({("N", "f", 22, 5): 2, ("N", "m", 30, 7): 9, ("S", "f", 17, 4): 8, ("S", "m", 40, 6): 7})
NOISE = {"cell_key": {"D": 3, "V": 2}}
SEED = {"seed": {"insecure": "one"}, "allow_insecure_seed": True}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv(VARIABLE, KEY)
    made = Place(tmp_path)
    made.write(EVERYONE)
    return made


def noisy(place: Place, stage: Mapping[str, Any] = NOISE, **more: Any) -> dict[str, Any]:
    found = place.policy(["region", "sex"])
    found["transform"].append(dict(stage))
    return {**found, **SEED, **more}


def test_the_same_noise_is_not_news_and_other_noise_is_refused(place: Place) -> None:
    first = pp.release(noisy(place))
    again = pp.release(noisy(place))
    assert "together with 1 earlier release" in again.assessment.verdicts[1].reason
    with pytest.raises(UsageError, match="under another seed, purpose or parameters"):
        pp.release(noisy(place, seed={"insecure": "two"}))
    with pytest.raises(UsageError, match="under another seed, purpose or parameters"):
        pp.release(noisy(place, {"cell_key": {"D": 3, "V": 1}}))
    assert (Path(first.path) / "table.parquet").exists()
    assert len(list(place.ledger.glob("*/[0-9]*-*.entry"))) == 2


def test_differences_of_noisy_counts_are_not_populations_in_later_releases(place: Place) -> None:
    asked = noisy(place)
    asked["guarantees"].append(
        {"differencing": {"at_least": 3, "ledger": str(place.ledger), "key": {"from_env": VARIABLE}}}
    )
    for _ in range(2):
        with pytest.raises(pp.errors.Refused) as caught:
            pp.release(asked)
        verdict = {each.entry.name(): each for each in caught.value.assessment.verdicts}["differencing"]
        assert verdict.outcome == "error"
        assert "all counts have noise" in verdict.reason
        pp.release(noisy(place))


def perturbed(table: Table, away: int) -> Table:
    measure = table.measures[COUNT]
    low, high = np.maximum(measure.figures.totals - away, 0), measure.figures.totals + away
    return replace(table, measures={COUNT: replace(measure, low=low, high=high, status="perturbed")})


def test_what_noise_kept_apart_stays_so_over_releases() -> None:
    """An unsafe count that an earlier release showed with noise keeps a second value, also next to later figures."""
    earlier = perturbed(table_of(EVERYONE, ["region", "sex"]), 3)
    later = table_of(EVERYONE, ["region"])
    found = union([(EVERYONE, [earlier]), (EVERYONE, [later])], pp.tables.MinimumFrequency(at_least=3))
    family: Family
    (family,) = seen_together(found, found.tables)
    assert isinstance(family, UnionFamily)
    levels = family.levels({"table": [MinimumFrequency(at_least=3)]}, Settings())
    small = np.flatnonzero(family.true == 2)
    assert len(small)
    assert set(small.tolist()) <= set(levels.variables.tolist())
    assert pp.tables.TableAudit().judge(found).outcome == "pass"
    # What was published exactly before can no longer be protected.
    exact = union([(EVERYONE, [perturbed(earlier, 0)]), (EVERYONE, [later])], pp.tables.MinimumFrequency(at_least=3))
    (family,) = seen_together(exact, exact.tables)
    levels = family.levels({"table": [MinimumFrequency(at_least=3)]}, Settings())
    assert not set(np.flatnonzero(family.true == 2).tolist()) & set(levels.variables.tolist())


def private(place: Place) -> dict[str, Any]:
    found = place.policy(["region"])
    domain = {"region": ["N", "S"]}
    stage = {"epsilon": 1, "limit": 3, "ledger": str(place.path / "budget"), "contribution_bound": 1, "domain": domain}
    found["transform"].append({"private_table": stage})
    return found


def test_private_tables_are_in_no_ledger_of_true_figures(place: Place) -> None:
    with pytest.raises(PolicyError, match=r"table_audit does not apply to tables with noise of private_table"):
        pp.Policy.from_dict(private(place))
    asked = {**private(place), "guarantees": [{"differential_privacy": {"epsilon": 1, "delta": 1e-6}}]}
    assert pp.release(asked).published
    assert not place.ledger.exists()
    frame = pd.DataFrame(EVERYONE)
    noise = pp.tables.PrivateTable(
        epsilon=1, limit=3, ledger=str(place.path / "other"), contribution_bound=1, domain={"region": ["N", "S"]}
    )
    count = pp.tables.Aggregate(by=["region"], responses=["count"])
    made = replace(noise.apply(count.apply(frame, person_id="person", stages=[noise])), name="table")
    with pytest.raises(UsageError, match="no ledger keeps its true figures"):
        union([(EVERYONE, [made])])


def test_a_table_next_to_perturbed_ones_is_counted_without_keys() -> None:
    noise = pp.tables.CellKey(D=3, V=2, tables=["small"])
    tables = {"small": {"by": ["region"], "responses": ["count"]}, "large": {"by": ["region", "sex"]}}
    tables["large"]["responses"] = ["count"]
    made = pp.tables.Aggregate(tables=tables).apply(
        pd.DataFrame(EVERYONE), person_id="person", seed={"insecure": "one"}, stages=[noise]
    )
    assert made["small"].aggregated.keys
    assert not made["large"].aggregated.keys
    public = noise.apply(made)
    assert set(public["small"].public()["count_status"]) == {"perturbed"}
    assert public["large"].public()["count"].tolist()[0] == len(EVERYONE)


def test_noise_is_judged_by_holdings_too() -> None:
    noise = pp.tables.CellKey(D=3, V=2)
    rule = pp.tables.MinimumFrequency(at_least=3, holding="age")
    table = pp.tables.Aggregate(by=["region"], responses=["count"]).apply(
        pd.DataFrame(EVERYONE), person_id="person", seed={"insecure": "one"}, stages=[noise], guarantees=[rule]
    )
    verdict = pp.check(noise.apply(table), [rule]).verdicts[0]
    assert verdict.outcome == "pass"  # two holdings in each region, and several counts are possible
    with pytest.raises(pp.errors.Refused):
        pp.check(table, [rule])


FINISHED = pd.DataFrame({"region": ["Total", "N", "S"], "count": [20, 5, 15]})


def judging(*stages: Any, guarantees: Any = ({"minimum_frequency": {"at_least": 5}},)) -> dict[str, Any]:
    return {
        "version": 1,
        "columns": {"region": {"role": "insensitive"}},
        "transform": [{"aggregate": {"by": ["region"], "responses": ["count"]}}, *stages],
        "guarantees": list(guarantees),
        **SEED,
    }


@pytest.mark.parametrize("status", [None, "published", "perturbed"])
@pytest.mark.parametrize(
    "stage", [NOISE, {"round_table": {"base": 5, "method": "small_counts"}}], ids=["cell_key", "small_counts"]
)
def test_finished_tables_with_noise_are_refused(stage: Any, status: str | None) -> None:
    """A count of 5 may be 3 in truth, whatever the file says of it."""
    frame = FINISHED if status is None else FINISHED.assign(count_status=status)
    for original in (None, FINISHED.assign(count=[20, 3, 17])):
        with pytest.raises(UnsupportedError, match="judged where they are made"):
            pp.validate(frame, judging(stage), original=original)


@pytest.mark.parametrize("status", ["perturbed", "noisy", "rounded"])
def test_figures_that_say_they_are_changed_are_never_taken_for_exact(status: str) -> None:
    with pytest.raises(pp.errors.DataError, match="perturbed and noisy|no `round_table`"):
        pp.validate(FINISHED.assign(count_status=status), judging())


@pytest.mark.parametrize("status", ["perturbed", "noisy", "rounded"])
def test_no_interval_is_worked_out_of_changed_figures(status: str) -> None:
    frame = FINISHED.assign(count=FINISHED["count"].mask(FINISHED["region"] != "Total"), count_status=status)
    for each in (frame, frame.rename(columns={"count_status": "status"})):
        with pytest.raises(UsageError, match=f"are {status}"):
            pp.tables.audit(each, ["region"], response="count")


@pytest.mark.parametrize("method", ["nearest", "random", "controlled"])
@pytest.mark.parametrize(
    "guarantee",
    [
        {"minimum_frequency": {"at_least": 5}},
        {"differencing": {"at_least": 5}},
        {"group_disclosure": {"columns": ["region"]}},
    ],
    ids=lambda each: next(iter(each)),
)
def test_rounded_counts_are_not_populations(method: str, guarantee: Any) -> None:
    found = pp.validate(FINISHED, judging({"round_table": {"base": 5, "method": method}}, guarantees=[guarantee]))
    assert [each.outcome for each in found.verdicts] == ["error"]
    original = FINISHED.assign(count=[20, 3, 17])
    asked = judging({"round_table": {"base": 5, "method": method}}, guarantees=[{"minimum_frequency": {"at_least": 5}}])
    assert [each.outcome for each in pp.validate(FINISHED, asked, original=original).verdicts] == ["fail"]


@pytest.mark.parametrize(
    "stage",
    [NOISE, {"round_table": {"base": 3, "method": "small_counts"}}, {"round_table": {"base": 3, "method": "random"}}],
    ids=["cell_key", "small_counts", "random"],
)
def test_audits_of_changed_figures_are_proved_again(place: Place, stage: Any) -> None:
    asked = noisy(place, stage)
    asked["guarantees"] = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    if "random" in str(stage):
        asked["transform"].insert(1, {"suppress_table": {}})
    path = Path(pp.release(asked).path)
    document = json.loads(next(path.parent.glob(".*/records/*/proofs.json")).read_text())
    files = {each.name: each for each in path.iterdir() if each.is_file()}
    sensitive, audits = proved_again(document, files)
    assert audits == 1
    assert sensitive > 0
    shown = document["audits"][0]["tables"][0]["shown"].split()
    document["audits"][0]["tables"][0]["shown"] = " ".join([str(int(shown[0]) + 3), *shown[1:]])
    with pytest.raises(ProofFault, match="other figures"):
        proved_again(document, files)
