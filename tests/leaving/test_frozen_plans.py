"""A frozen plan: checked against the policy, carried over to another source or refused."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.running.attached_source import attach
from privpipe.running.plan import canonical_json, document_digest
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from tests.tiers import on_engines

STRONG = {"from_env": "PRIVPIPE_TEST_SEED"}
N = 200
COLUMNS: dict[str, Any] = {
    "name": {"role": "identifier"},
    "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"length": 3}}},
    "age": {
        "role": "quasi_identifier",
        "type": "integer",
        "hierarchy": {"intervals": {"start": 0, "widths": [10, 50]}},
    },
    "tag": {"role": "insensitive"},
    "seen": {"role": "insensitive"},
    "illness": {"role": "insensitive"},
    "income": {"role": "insensitive"},
}


def people(first: int = 0, last: int = N) -> pd.DataFrame:
    rng, n = np.random.default_rng(3), 2 * N
    everybody = pd.DataFrame(
        {
            "name": [f"person {at:04d}" for at in range(n)],
            "zip": rng.choice(["100", "101", "200"], n),
            "age": rng.integers(20, 60, n),
            "tag": np.arange(n),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
            "illness": rng.choice(["flu", "cold", "gout"], n),
            "income": rng.lognormal(10, 1, n).round(2),
        }
    ).astype({"seen": "datetime64[us]"})
    return everybody.iloc[first:last].reset_index(drop=True)


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("FROZEN_KEY", "8e1d" * 16)
    document = {
        "columns": COLUMNS,
        "source": {"path": str(tmp_path / "people.parquet")},
        "record_id": "name",
        "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": []}}],
        "sink": {"path": str(tmp_path / "out")},
        "seed": STRONG,
    }
    stored(document, people())
    return document


def stored(document: dict[str, Any], rows: pd.DataFrame) -> None:
    """The rows as the policy's source, in a file of their own: a Spark session may remember what it read of another."""
    folder = Path(document["source"]["path"]).parent
    path = folder / f"people {len(list(folder.glob('people *')))}.parquet"
    rows.to_parquet(path, index=False)
    document["source"] = {"path": str(path)}


def later(document: dict[str, Any], change: Callable[[pd.DataFrame], pd.DataFrame] | None = None) -> None:
    """Another month: a person more and one less, and what a test changes; else every third has a raise."""
    rows = people(1, N + 1)
    rows["income"] *= np.where(rows["tag"] % 3, 1.0, 1.1)
    stored(document, change(rows) if change else rows)


def by_tag(folder: str) -> pd.DataFrame:
    parts = [pd.read_parquet(path) for path in sorted(Path(folder).glob("*.parquet"))]
    return pd.concat(parts).sort_values("tag", ignore_index=True)


KEYED = {"key": {"from_env": "FROZEN_KEY"}}
CARRIED: list[dict[str, Any]] = [
    {"add_noise": {"columns": ["income"], "relative_sd": 0.3}},
    {"add_noise": {"columns": ["income", "age"], "relative_sd": 0.3, "kind": "correlated", "bias_correct": True}},
    {"add_noise": {"columns": ["income"], "relative_sd": 0.3, "by": ["zip"], "kind": "multiplicative"}},
    {"pram": {"columns": ["illness"]}},
    {"round": {"columns": ["income"], "base": 1000, "mode": "random"}},
    {"top_code": {"columns": ["income"], "quantile": 0.1}},
    {"top_code": {"columns": ["income"], "quantile": 0.5, "by": ["zip"]}},
    {"top_code": {"columns": ["income", "age"], "distance": 0.6}},
    {"bottom_code": {"columns": ["income"], "at": 5000, "replace": "mean", "at_least": 2}},
    {"generalize": {"levels": {"age": 1, "zip": 1}}},
    {"generalize": {"levels": {"age": 1}, "suppress_at_most": 0.5}},
    {"pseudonymise": {"columns": ["name"], "domain": "people", **KEYED}},
    {"shift_dates": {"columns": ["seen"], "days": 30, **KEYED}},
    {"mondrian": {}},
    {"drop_identifiers": {}},
]


@on_engines("embedded")
@pytest.mark.parametrize("stage", CARRIED, ids=lambda stage: "-".join([*stage, *map(str, stage[next(iter(stage))])]))
def test_plans_of_values_are_carried_to_another_source(
    stage: dict[str, Any], engine: Engine, document: dict[str, Any], tmp_path: Path
) -> None:
    document["transform"] = [stage]
    first = pp.release(document, engine=engine)
    before = by_tag(first.path)
    (tmp_path / "plan.json").write_text(first.plan.to_json())
    later(document)
    second = pp.release({**document, "plan": {"file": str(tmp_path / "plan.json")}}, engine=engine)
    after = by_tag(second.path)
    both = before.merge(after, on="tag", suffixes=("", "_later"))
    unchanged = both[both["tag"] % 3 > 0]
    assert len(unchanged) >= N // 3
    for column in before.columns.drop("tag"):
        assert unchanged[column].equals(unchanged[f"{column}_later"].rename(column)), column


@pytest.mark.parametrize(
    "stage",
    [
        {"rank_swap": {"columns": ["income"], "p": 0.1}},
        {"microaggregate": {"columns": ["income"], "k": 3}},
        {"add_noise": {"columns": ["income"], "relative_sd": 0.3, "kind": "orthogonal"}},
        {"shuffle": {"columns": ["income"]}},
        {"sample": {"records": 50}},
        {"suppress_cells": {"k": 2}},
    ],
    ids=lambda stage: next(iter(stage)),
)
def test_plans_of_records_serve_their_own_source_alone(
    stage: dict[str, Any], embedded: Engine, document: dict[str, Any], tmp_path: Path
) -> None:
    document["transform"] = [stage]
    first = pp.release(document, engine=embedded)
    before = {path.name: path.read_bytes() for path in Path(first.path).glob("*.parquet")}
    again = pp.release(document, engine=embedded, plan=pp.Plan.from_json(first.plan.to_json()))
    assert {path.name: path.read_bytes() for path in Path(again.path).glob("*.parquet")} == before
    later(document)
    with pytest.raises(DataError, match=r"transform\[0\].* records it was learnt from"):
        pp.release(document, engine=embedded, plan=first.plan)


def test_a_plan_is_that_of_the_policys_stages_parameters_and_seed(
    embedded: Engine, document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [{"round": {"columns": ["income"], "base": 10}}, {"pram": {"columns": ["illness"], "diagonal": 0.8}}]
    document["transform"] = stages
    plan = pp.release(document, engine=embedded).plan
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json())

    def refused(transform: list[Any], match: str) -> None:
        with pytest.raises(UsageError, match=match):
            pp.release({**document, "transform": transform}, engine=embedded, plan=str(file))

    refused(
        [stages[0], {"pram": {"columns": ["illness"], "diagonal": 0.7}}], r"transform\[1\].pram.diagonal is another"
    )
    refused([{"round": {"columns": ["income"], "base": 20}}, stages[1]], r"transform\[0\].round.base is another")
    refused([stages[1], stages[0]], r"transform\[0\].pram is round in the plan")
    refused(stages[:1], "2 stages, the policy 1")
    measured = {**document, "guarantees": [{"k_anonymity": {"k": 3, "quasi_identifiers": []}}]}
    assert pp.release(measured, engine=embedded, plan=plan).assessment.passed  # what is judged is not planned
    file.write_text(json.dumps({**plan.to_dict(), "plan_version": 99}))
    refused(stages, "version 99")
    file.write_text("[]")
    refused(stages, "not a privpipe plan")
    with pytest.raises(UsageError, match="cannot read the plan"):
        pp.release({**document, "plan": {"file": str(tmp_path / "none.json")}}, engine=embedded)
    bare = {**plan.to_dict(), "stages": [{**stage, "detail": {}} for stage in plan.to_dict()["stages"]]}
    file.write_text(json.dumps(bare))
    refused(stages, "damaged or was edited")
    del bare["checksum"]
    file.write_text(json.dumps({**bare, "checksum": document_digest(bare)}))
    refused(stages, r"transform\[1\].pram: the plan of this stage cannot be applied")
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", "c1" + "0123456789abcdef" * 4)
    with pytest.raises(UsageError, match="another seed"):
        pp.release(document, engine=embedded, plan=plan)


@pytest.mark.parametrize("change", [{"tag": "drop"}, {"tag": "sensitive"}, {"zip": "insensitive"}])
def test_a_plan_serves_one_set_of_columns_and_roles(
    embedded: Engine, document: dict[str, Any], change: dict[str, str]
) -> None:
    document["transform"] = [{"add_noise": {"columns": ["income"], "relative_sd": 0.3}}]
    plan = pp.release(document, engine=embedded).plan
    ((name, role),) = change.items()
    other = {**document, "columns": {**COLUMNS, name: {"role": role}}}
    other["guarantees"] = [*document["guarantees"], {"distinct_l_diversity": {"column": "tag", "l": 1}}]
    if role != "sensitive":
        other["guarantees"] = document["guarantees"]
    with pytest.raises(UsageError, match=f"column '{name}' is .* in the policy and .* in the plan"):
        pp.release(other, engine=embedded, plan=plan)
    with pytest.raises(UsageError, match=f"column '{name}' is .* in the policy and .* in the plan"):
        pp.transform(people(), plan, policy=pp.Policy.from_dict(other), engine=embedded)


def test_releases_under_a_plan_say_by_what_they_join(embedded: Engine, document: dict[str, Any]) -> None:
    document["transform"] = [{"add_noise": {"columns": ["income", "age"], "relative_sd": 0.3}}]
    first = pp.release(document, engine=embedded)
    assert not any("can be joined" in note for note in first.assessment.notes)
    later(document)
    second = pp.release(document, engine=embedded, plan=first.plan)
    (note,) = [note for note in second.assessment.notes if "can be joined" in note]
    assert note.startswith("transform[0].add_noise gives an unchanged record the same result in every release under")
    assert "'income'" in note
    assert "'age'" not in note  # a quasi-identifier joins anyway
    assert (first.plan.frozen, second.plan.frozen) == (False, True)
    third = pp.release(document, engine=embedded, plan=second.plan)  # of the release before, as well as of the first
    assert by_tag(second.path).equals(by_tag(third.path))


def test_plans_of_version_1_keep_their_draws(embedded: Engine, document: dict[str, Any]) -> None:
    """The key of a column hung on the seed and the stage alone: HMAC-SHA256(seed, ["privpipe/stage/2", ...])."""
    stage = {"add_noise": {"columns": ["income"], "relative_sd": 0.3}}
    document["transform"] = [stage]
    plan = pp.release(document, engine=embedded).plan
    old = {name: value for name, value in plan.to_dict().items() if name not in ("drawn", "columns", "frozen")}
    old = {**old, "plan_version": 1}
    old = {**old, "checksum": document_digest({name: old[name] for name in old if name != "checksum"})}
    read = pp.Plan.from_json(json.dumps(old))
    assert read.to_dict() == old
    seed = pp.Policy.from_dict(document).seed.resolve()  # type: ignore[union-attr]
    stated = old["stages"][0]["parameters"]
    shaping = pp.transforms.AddNoise(columns=["income"], relative_sd=0.3).shaping(plan.stages[0])
    bound = hashlib.sha256(canonical_json([stated, shaping, None]).encode()).hexdigest()
    message = json.dumps(["privpipe/stage/2", 0, "add_noise", "income", bound], separators=(",", ":"))
    key = hmac.new(seed.secret, message.encode(), hashlib.sha256).digest()
    policy = pp.Policy.from_dict(document)
    for source in (people(), people(1, N + 1)):
        context = RunContext(embedded, policy, seed)
        staged = run_stages(context, attach(context, Source(data=source)), plan=read, frozen=True)
        assert staged.draws[0].of("income").key == key[:16]
        assert staged.plan.version == 1  # so does the plan of a release under it


def test_what_a_stage_asks_of_its_columns_is_asked_again(
    embedded: Engine, document: dict[str, Any], tmp_path: Path
) -> None:
    def carried(stage: dict[str, Any], change: Callable[[pd.DataFrame], pd.DataFrame], match: str) -> None:
        stored(document, people())
        plan = pp.release({**document, "transform": [stage]}, engine=embedded).plan
        later(document, change)
        with pytest.raises(DataError, match=match):
            pp.release({**document, "transform": [stage]}, engine=embedded, plan=plan)

    noise = {"columns": ["income"], "relative_sd": 0.3, "nulls": "refuse"}
    carried(
        {"add_noise": noise}, lambda rows: rows.assign(income=rows["income"].where(rows["tag"] > 9)), "nulls: refuse"
    )
    rounding = {"columns": ["income"], "base": 10, "nulls": "refuse"}
    carried(
        {"round": rounding}, lambda rows: rows.assign(income=rows["income"].where(rows["tag"] > 9)), "nulls: refuse"
    )
    carried({"add_noise": noise}, lambda rows: rows.assign(income="much"), "'income' was double and is string")
    carried({"pram": {"columns": ["illness"]}}, lambda rows: rows.assign(illness="plague"), "categor")


def test_a_column_without_variance_is_not_carried_unmasked(embedded: Engine, document: dict[str, Any]) -> None:
    stored(document, people().assign(income=7.0))
    document["transform"] = [{"add_noise": {"columns": ["income"], "relative_sd": 0.3}}]
    plan = pp.release(document, engine=embedded).plan
    later(document)
    with pytest.raises(DataError, match="no variance when the plan was made"):
        pp.release(document, engine=embedded, plan=plan)


@pytest.mark.parametrize("tail", [{"at": 100_000}, {"quantile": 0.05}])
def test_a_tail_that_was_empty_is_coded_all_the_same(
    tail: dict[str, Any], engine: Engine, document: dict[str, Any]
) -> None:
    stored(document, people().assign(income=9_000.0))
    document["transform"] = [{"top_code": {"columns": ["income"], **tail}}]
    plan = pp.release(document, engine=engine).plan
    later(document, lambda rows: rows.assign(income=np.where(rows["tag"] > 9, 200_000.0, 8_000.0)))
    found = by_tag(pp.release(document, engine=engine, plan=plan).path)["income"]
    assert found.max() == (100_000 if "at" in tail else 9_000)


def test_values_that_a_hierarchy_of_definitions_has_not_seen_are_carried(
    embedded: Engine, document: dict[str, Any]
) -> None:
    document["transform"] = [{"generalize": {"levels": {"age": 1, "zip": 1}}}]
    plan = pp.release(document, engine=embedded).plan
    later(document, lambda rows: rows.assign(age=rows["age"] + 20, zip="777"))
    found = by_tag(pp.release(document, engine=embedded, plan=plan).path)
    assert set(found["zip"]) == {"77*"}
    ranked = {
        **COLUMNS,
        "zip": {"role": "quasi_identifier", "hierarchy": {"priority": {"levels": 2, "order": "frequency"}}},
    }
    stored(document, people())
    plan = pp.release({**document, "columns": ranked}, engine=embedded).plan
    later(document, lambda rows: rows.assign(zip="777"))
    with pytest.raises(DataError, match="the hierarchy of 'zip' is not the one"):
        pp.release({**document, "columns": ranked}, engine=embedded, plan=plan)


def test_the_command_line_takes_a_plan(document: dict[str, Any], tmp_path: Path) -> None:
    document["transform"] = [{"add_noise": {"columns": ["income"], "relative_sd": 0.3}}]
    (tmp_path / "release.yaml").write_text(json.dumps(document))
    runner = CliRunner()
    arguments = ["release", str(tmp_path / "release.yaml")]
    assert runner.invoke(app, ["plan", arguments[1], "--out", str(tmp_path / "plan.json")]).exit_code == 0
    assert runner.invoke(app, arguments).exit_code == 0
    before = by_tag(document["sink"]["path"])
    later(document)
    (tmp_path / "release.yaml").write_text(json.dumps(document))
    assert runner.invoke(app, [*arguments, "--plan", str(tmp_path / "plan.json")]).exit_code == 0
    both = before.merge(by_tag(document["sink"]["path"]), on="tag")
    assert ((both["income_x"] == both["income_y"]) == (both["tag"] % 3 > 0)).all()
    done = runner.invoke(app, [*arguments, "--plan", str(tmp_path / "none.json")])
    assert done.exit_code == 2
