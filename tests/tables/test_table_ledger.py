"""Releases of tables that a ledger follows: attacks over two releases are refused; the ledger moves with the sink."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, EngineError, NoSolutionError, PolicyError, Refused, UnsupportedError
from privpipe.judging.release_memory import LedgerUnit
from privpipe.ledger import Ledger
from privpipe.record import history, verify
from privpipe.running.frame_policies import hierarchy_specs
from privpipe.running.leaf_memory import table_memory
from privpipe.running.table_release import EARLIER
from privpipe.running.table_validation import NO_PERSONS, validate_tables
from privpipe.sinks.target import LocalTarget
from tests.tables.ledger_cases import KEY, VARIABLE, Place, people

EVERYONE = people(
    {("N", "f", 22, 5): 6, ("N", "m", 30, 7): 6, ("S", "f", 17, 4): 5, ("S", "m", 40, 6): 5, ("N", "f", 15, 9): 4}
)
JOINER = people({("N", "f", 22, 3): 1}, start=100)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv(VARIABLE, KEY)
    made = Place(tmp_path)
    made.write(EVERYONE)
    return made


def remembered(place: Place) -> int:
    assert not list(place.ledger.glob("*/pending-*"))
    return len(list(place.ledger.glob("*/[0-9]*-*.entry")))


def published(result: Any, table: str = "table") -> pd.DataFrame:
    return pq.read_table(Path(result.path) / f"{table}.parquet").to_pandas()


def refused(policy: Mapping[str, Any]) -> dict[str, Any]:
    """By guarantee, the verdicts of a release that must be refused."""
    with pytest.raises(Refused) as error:
        pp.release(dict(policy))
    return {verdict.entry.name(): verdict for verdict in error.value.assessment.verdicts}


def test_the_same_table_once_more(place: Place) -> None:
    for number in (1, 2, 3):
        result = pp.release(place.policy(["region", "sex"]))
        assert EARLIER not in result.assessment.notes
        assert remembered(place) == number
    assert "together with 2 earlier releases" in result.assessment.verdicts[1].reason
    assert EARLIER in pp.release(place.policy(sink="other", ledger=False)).assessment.notes


def test_a_single_joiner_between_two_months(place: Place) -> None:
    first = pp.release(place.policy(["region"]))
    place.write([*EVERYONE, *JOINER])
    verdicts = refused(place.policy(["region"]))
    assert (verdicts["minimum_frequency"].outcome, verdicts["table_audit"].outcome) == ("pass", "fail")
    assert remembered(place) == 1
    found = published(pp.release(place.policy(["region"], hide=True)))
    # All figures that the joiner is in are hidden: what is left differs from the month before by no one.
    assert found["count"].isna().tolist() == [True, True, False]
    before = published(first)
    assert (found["count"] - before["count"]).dropna().tolist() == [0]


def test_a_single_leaver_and_withdrawal(place: Place) -> None:
    pp.release(place.policy(["region"]))
    place.write(EVERYONE[1:])  # erased on request: the release that is out stays out
    assert refused(place.policy(["region"]))["table_audit"].outcome == "fail"
    found = published(pp.release(place.policy(["region"], hide=True)))
    assert found["count"].isna().tolist() == [True, True, False]


def test_enough_joiners_are_a_population_that_may_be_known(place: Place) -> None:
    pp.release(place.policy(["region"]))
    place.write([*EVERYONE, *people({("N", "f", 22, 3): 3}, start=100)])
    assert pp.release(place.policy(["region"])).assessment.passed


def test_joiners_and_leavers_of_one_cell_are_not_a_population(place: Place) -> None:
    pp.release(place.policy(["region"]))
    place.write([*EVERYONE[1:], *JOINER])
    assert pp.release(place.policy(["region"])).assessment.passed


@pytest.mark.parametrize("guarantee", ["table_audit", "differencing"])
def test_cuts_of_two_policies_give_the_strip_between_them(place: Place, guarantee: str) -> None:
    strip = people({("N", "f", 21, 3): 2, ("N", "f", 30, 3): 9, ("N", "f", 15, 3): 9})
    place.write(strip)
    ages = sorted({row["age"] for row in strip})

    def cut(at: int) -> dict[str, Any]:
        below, above = [str(age) for age in ages if age < at], [str(age) for age in ages if age >= at]
        policy = place.policy(
            ["age"],
            f"cut{at}",
            hierarchies={"age": {"tree": {"young": below, "old": above}}},
            guarantees=[{"differencing": {"at_least": 3}}],
        )
        policy["transform"][0]["aggregate"]["levels"] = {"age": [1]}
        if guarantee == "differencing":
            followed = policy["guarantees"].pop(1)["table_audit"]
            policy["guarantees"][1]["differencing"].update(followed)
        return policy

    pp.release(cut(20))
    verdicts = refused(cut(25))
    assert verdicts[guarantee].outcome == "fail"
    assert remembered(place) == 1


def test_subgroups_by_only(place: Place) -> None:
    place.write(people({("N", "f", 30, 1): 9, ("N", "m", 30, 1): 1, ("S", "f", 30, 1): 5, ("S", "m", 30, 1): 5}))
    pp.release(place.policy(["region"]))
    women = place.policy(tables={"women": {"by": ["region"], "responses": ["count"], "only": {"sex": "f"}}})
    assert refused(women)["table_audit"].outcome == "fail"


def test_a_figure_that_was_published_cannot_be_hidden(place: Place) -> None:
    place.write(people({("N", "f", 30, 1): 2, ("S", "f", 30, 1): 9, ("W", "m", 30, 1): 9}))
    pp.release(place.policy(["region"], at_least=1))
    with pytest.raises(NoSolutionError, match="1 unsafe cells are of persons whose figure an earlier"):
        pp.release(place.policy(["region"], at_least=3, hide=True))
    assert remembered(place) == 1


def test_what_is_hidden_respects_what_was_published(place: Place) -> None:
    rows = people(
        {("N", "f", 30, 1): 2, ("N", "m", 30, 1): 9, ("S", "f", 30, 1): 9, ("S", "m", 30, 1): 8, ("W", "f", 30, 1): 7}
        | {("W", "m", 30, 1): 6}
    )
    place.write(rows)
    first = published(pp.release(place.policy(["region"])))
    assert not first["count"].isna().any()
    # Alone, the table could hide a total of a region; next to the first one that hides nothing.
    second = published(pp.release(place.policy(["region", "sex"], hide=True))).set_index(["region", "sex"])["count"]
    assert second[:, "Total"].notna().all()
    assert pd.isna(second["N", "f"])
    assert pd.isna(second["N", "m"])


def test_sums_are_judged_over_releases(place: Place) -> None:
    rows = people({("N", "f", 30, 10): 12, ("S", "m", 30, 10): 12})
    giant = people({("N", "f", 30, 900): 1, ("N", "f", 30, 3): 3}, start=50)
    place.write(rows)
    asked = {"responses": ["count", {"sum": "cost"}], "guarantees": [{"p_percent": {"at_least": 10}}]}
    pp.release(place.policy(["region"], **asked))
    place.write([*rows, *giant])
    # Four joiners are enough of them, and all but 1 % of what they add is the giant's; with the others it would pass.
    verdicts = refused(place.policy(["region"], **asked))
    assert (verdicts["p_percent"].outcome, verdicts["table_audit"].outcome) == ("pass", "fail")
    place.write([*rows, *people({("N", "f", 30, 900): 4}, start=50)])
    assert pp.release(place.policy(["region"], **asked)).assessment.passed


def test_a_column_that_no_earlier_release_added_up(place: Place) -> None:
    pp.release(place.policy(["region"]))
    place.write([*EVERYONE, *JOINER])
    policy = place.policy(["region"], sink="two", responses=[{"mean": "cost"}])
    assert refused(policy)["table_audit"].outcome == "fail"
    place.write(EVERYONE)
    assert pp.release(policy).assessment.passed


@pytest.mark.parametrize("agreed", [True, False])
def test_who_waives_protection_does_so_in_differences_of_releases(place: Place, agreed: bool) -> None:
    """Three joiners of 3 each are safe next to one of 900 that waives its protection, and that one is not without."""
    rows = [{**row, "agreed": False} for row in people({("N", "f", 30, 10): 12, ("S", "m", 30, 10): 12})]
    joiners = people({("N", "f", 30, 900): 1, ("N", "f", 30, 3): 3}, start=50)
    asked = place.policy(["region"], responses=["count", {"sum": "cost"}], guarantees=[{"p_percent": {"at_least": 10}}])
    asked["columns"]["agreed"] = {"role": "insensitive"}
    asked["transform"][0]["aggregate"]["waived"] = "agreed"
    place.write(rows)
    assert pp.release(asked).assessment.passed
    place.write([*rows, *({**row, "agreed": agreed and row["cost"] == 900} for row in joiners)])
    if agreed:
        assert pp.release(asked).assessment.passed
    else:
        assert refused(asked)["table_audit"].outcome == "fail"


def test_a_record_that_one_table_leaves_out(place: Place) -> None:
    """No one joins or leaves, and still the difference of two sums is what one visit cost."""
    rows = people({("N", "f", 30, 10): 12, ("S", "m", 30, 10): 12})
    place.write([*rows, {**rows[0], "sex": "m", "cost": 77}])
    asked = {"responses": ["count", {"sum": "cost"}]}
    pp.release(place.policy(["region"], **asked))
    only = {"sex": "f", "region": "N"}
    part = place.policy(tables={"part": {"by": ["age"], "only": only, **asked}})
    assert refused(part)["table_audit"].outcome == "fail"
    del part["transform"][0]["aggregate"]["tables"]["part"]["responses"][1]
    assert pp.release(part).assessment.passed


def test_too_many_classes_are_an_error(place: Place) -> None:
    pp.release(place.policy(["region"]))
    verdict = refused(place.policy(["sex"], audit={"max_atoms": 3}))["table_audit"]
    assert verdict.outcome == "error"
    assert "4 combinations of cells of 2 tables, more than `max_atoms` (3)" in verdict.reason


def test_frames_are_judged_by_the_ledger_and_not_remembered(place: Place) -> None:
    pp.release(place.policy(["region"]))
    policy = pp.Policy.from_dict(place.policy(["region"]))
    frame = pd.DataFrame([*EVERYONE, *JOINER])
    with pytest.raises(Refused):
        policy.apply(frame)
    assert len(policy.apply(pd.DataFrame(EVERYONE))) == 3
    assert remembered(place) == 1


def test_a_ledger_outside_a_run_is_an_error(place: Place) -> None:
    table = pp.tables.Aggregate(by=["region"], responses=["count"]).apply(pd.DataFrame(EVERYONE))
    followed = {"ledger": str(place.ledger), "key": {"from_env": VARIABLE}}
    with pytest.raises(Refused) as error:
        pp.check(table, [pp.tables.MinimumFrequency(at_least=3), pp.tables.TableAudit(**followed)])
    assert [verdict.outcome for verdict in error.value.assessment.verdicts] == ["pass", "error"]
    found = pp.Policy.from_dict(place.policy(["region"]))
    place.path.joinpath("table.csv").write_text(table.public().to_csv(index=False))
    assert NO_PERSONS in validate_tables(found, str(place.path / "table.csv")).notes


def test_a_dry_run_is_judged_and_not_remembered(place: Place) -> None:
    pp.release(place.policy(["region"]))
    place.write([*EVERYONE, *JOINER])
    with pytest.raises(Refused):
        pp.release(place.policy(["region"]), dry_run=True)
    assert remembered(place) == 1


def test_ledger_and_publication_agree_after_a_kill(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, settle = place.policy(["region"]), Ledger.settle

    for step in ("write", "judge", "publish"):

        def tell(now: str, step: str = step) -> None:
            if now == step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pp.release(policy, progress=tell)
        assert remembered(place) == 0
    with monkeypatch.context() as patched:  # withdrawn: published files that do not read back
        patched.setattr(LocalTarget, "published", lambda self, run: place.path / "nothing")
        with pytest.raises((EngineError, DataError, TypeError, OSError)):
            pp.release(policy)
    assert remembered(place) == 0

    def lost(self: Ledger) -> None:
        if getattr(self._chain, "pending", ()):
            raise SystemExit(9)
        settle(self)

    with monkeypatch.context() as patched:  # killed between the rename that publishes and the ledger's own
        patched.setattr(Ledger, "settle", lost)
        with pytest.raises(SystemExit):
            pp.release(policy)
    assert (place.path / "published" / "one").exists()
    assert len(list(place.ledger.glob("*/pending-*"))) == 1
    place.write([*EVERYONE, *JOINER])
    assert refused(place.policy(["region"], "two"))["table_audit"].outcome == "fail"
    assert remembered(place) == 1


def test_a_ledger_of_tables_shows_nothing_without_its_key(place: Place) -> None:
    rows = [{**row, "cost": 915148800 + at} for at, row in enumerate(EVERYONE)]
    place.write(rows)
    pp.release(place.policy(["region"], responses=["count", {"sum": "cost"}]))
    files = [path for path in place.ledger.rglob("*") if path.is_file()]
    held = b"".join(path.read_bytes() for path in files)
    assert not [word for word in (b"region", b"sum_cost", KEY.encode(), b"leaves") if word in held]
    assert (915148800).to_bytes(8, "little") not in held
    assert {oct(path.stat().st_mode)[-3:] for path in files} == {"600"}
    with Ledger(place.ledger, {"from_env": VARIABLE}) as opened:
        [entry] = opened.releases()
    assert entry.tables is not None
    assert 915148800 in entry.tables.values
    [definition] = entry.tables.definitions
    assert (definition["name"], [each["name"] for each in definition["dimensions"]]) == ("table", ["region"])


def test_no_public_document_shows_where_the_ledger_is(place: Place) -> None:
    result = pp.release(place.policy(["region"]))
    for file in Path(result.path).rglob("*"):
        assert file.is_dir() or str(place.path).encode() not in file.read_bytes(), file.name


def test_suppressed_figures_are_remembered_as_hidden(place: Place) -> None:
    place.write(people({("N", "f", 30, 1): 2, ("S", "f", 30, 1): 9, ("W", "m", 30, 1): 4}))
    pp.release(place.policy(["region"], hide=True))
    with Ledger(place.ledger, {"from_env": VARIABLE}) as opened:
        [entry] = opened.releases()
    assert entry.tables is not None
    [cells] = entry.tables.cells
    assert cells["count:hidden"].tolist() == [0, 1, 0, 1]
    assert cells["count:shown"].tolist() == [15, 0, 9, 0]
    assert cells["count:total"].tolist() == cells["count:contributors"].tolist() == [15, 2, 9, 4]


def test_history_and_verify(place: Place) -> None:
    policy = place.policy(["region"])
    for _ in range(2):
        pp.release(policy)
    sink = str(place.path / "published" / "one")
    listed = history(sink)
    assert [row["verdict"] for row in listed.releases] == ["passed", "passed"]
    assert not listed.problems
    found = verify(sink, policy=pp.Policy.from_dict(policy))
    assert found.sound, found.broken


def test_the_commands_of_ledgers(place: Place) -> None:
    file = place.path / "tables.json"
    file.write_text(json.dumps(place.policy(["region"])))
    for _ in range(2):
        pp.release(str(file))
    run = CliRunner().invoke
    assert run(app, ["ledger", "check", str(file)]).exit_code == 0
    shown = json.loads(run(app, ["ledger", "show", str(file), "--json"]).stdout)
    assert [(row["records"], row["persons"]) for row in shown["entries"]] == [(26, 26), (26, 26)]
    last = sorted(place.ledger.glob("*/0000?-*.entry"))[0]
    last.unlink()
    with pytest.raises(DataError, match="the ledger is damaged"):
        pp.release(str(file))
    assert run(app, ["ledger", "repair", str(file), "--accept-loss"]).exit_code == 0
    # What is left was sealed again, and is judged.
    place.write([*EVERYONE, *JOINER])
    with pytest.raises(Refused) as error:
        pp.release(str(file))
    assert any("lost history" in note for note in error.value.assessment.notes)


def test_records_and_tables_in_one_ledger_are_not_judged_together(place: Place) -> None:
    pp.release(place.policy(["region"]))
    document = place.policy(["region"], "records")
    followed = {"ledger": str(place.ledger), "key": {"from_env": VARIABLE}}
    document["columns"]["region"]["role"] = "quasi_identifier"
    document["transform"] = []
    document["guarantees"] = [{"k_anonymity": {"k": 2}}, {"complementary_release": {**followed, "k": 2}}]
    result = pp.release(document)
    assert result.assessment.verdicts[1].observed["releases"] == 1
    assert any("remembers 1 releases of tables" in note for note in result.assessment.notes)
    again = pp.release(place.policy(["region"]))
    assert any("remembers 1 releases of records" in note for note in again.assessment.notes)


def test_what_a_policy_with_a_ledger_must_hold(place: Place) -> None:
    def problems(policy: Mapping[str, Any]) -> str:
        with pytest.raises(PolicyError) as wrong:
            pp.Policy.from_dict(dict(policy))
        return str(wrong.value)

    nobody = place.policy(["region"])
    del nobody["person_id"]
    assert "declare one, or leave the ledger out" in problems(nobody)
    keyless = place.policy(["region"])
    del keyless["guarantees"][1]["table_audit"]["key"]
    assert "belong together" in problems(keyless)
    other = {"differencing": {"at_least": 3, "ledger": "other", "key": {"from_env": VARIABLE}}}
    assert "keeps one ledger" in problems(place.policy(["region"], guarantees=[other]))
    bounded = place.policy(["region"])
    bounded["transform"][0]["aggregate"]["contribution_bound"] = 1
    with pytest.raises(UnsupportedError, match="does not follow tables with `contribution_bound`"):
        pp.release(bounded)
    inside = place.policy(["region"])
    inside["guarantees"][1]["table_audit"]["ledger"] = str(place.path / "published" / "one" / "ledger")
    with pytest.raises(pp.errors.UsageError, match="is inside the sink"):
        pp.release(inside)


def test_every_engine_remembers_the_same(engine: Engine, embedded: Engine, place: Place) -> None:
    rows = [*EVERYONE, {**EVERYONE[0], "region": "S", "cost": None}, {**EVERYONE[1], "sex": None}]
    place.write([{**row, "agreed": (None, True, False)[at % 3]} for at, row in enumerate(rows)])
    seed, kept = Seed.insecure("a ledger's key"), []
    stage = pp.tables.Aggregate(
        tables={
            "all": {"by": ["region", "age"], "responses": ["count", {"sum": "cost"}], "levels": {"age": [1]}},
            "women": {"by": ["region"], "responses": ["count"], "only": {"sex": "f"}},
        },
        waived="agreed",
    )
    trees = hierarchy_specs({"age": {"tree": {"young": ["15", "17"], "old": ["22", "30", "40"]}}})
    for running in (engine, embedded):
        scanned = running.scan(Source(data=str(place.path / "people.parquet"), format="parquet"))
        records = running.with_record_ids(scanned, None, seed)
        made = stage.tables_over(running, records, person="person", seed=seed, hierarchies=trees)
        unit = LedgerUnit(("person",), seed, True)
        kept.append(table_memory(running, records, records, made.tables, unit=unit, person="person", hierarchies=trees))
    for name in ("units", "records", "folds"):
        assert getattr(kept[0], name).tolist() == getattr(kept[1], name).tolist()
    first, second = (each.tables for each in kept)
    assert first is not None
    assert second is not None
    for name in ("persons", "leaves", "values", "present"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert first.definitions == second.definitions
    assert (len(kept[0]), len(first), first.columns) == (26, 28, ("cost",))
    assert (first.leaves[:, 1] >= 0).sum() == 16
    assert np.bincount(first.present[:, 0]).tolist() == [1, 18, 9]
