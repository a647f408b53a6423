"""Pipelines of Spark ML: fitted, saved, loaded elsewhere and applied again; and gates among their stages."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import StringIndexer, VectorAssembler

import privpipe as pp
import privpipe.spark as pps
from privpipe.errors import DataError, Refused, UnsupportedError, UsageError
from privpipe.measures import ProsecutorRisk
from privpipe.models import KAnonymity
from privpipe.transforms import RankSwap

pytestmark = pytest.mark.spark

AGES = {"age": {"intervals": {"widths": [20]}}}
ROLES = {"quasi_identifiers": ["age"], "sensitive": ["illness"]}
AGAIN = """
import json, sys
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession
made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = made.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC").getOrCreate()
model = PipelineModel.load(sys.argv[1])
frame = session.read.parquet(sys.argv[2])
rows = [json.dumps([*row[:5], row["features"].toArray().tolist()]) for row in model.transform(frame).collect()]
print(json.dumps(sorted(rows)))
"""


def rows_of(frame: Any) -> list[Any]:
    return sorted(map(tuple, frame.collect()), key=repr)


@pytest.fixture(scope="module")
def fitted(people: Any, seed: dict[str, str]) -> Any:
    """The pipeline of the specification over the people, fitted."""
    return Pipeline(
        stages=[
            pps.RankSwap(inputCols=["income"], p=0.1, seed=seed),
            pps.Generalize(levels={"age": 1}, roles=ROLES, hierarchies=AGES, seed=seed),
            StringIndexer(inputCol="illness", outputCol="code"),
            VectorAssembler(inputCols=["income", "code"], outputCol="features"),
        ]
    ).fit(people)


def test_a_pipeline_applied_again_in_another_process_gives_equal_rows(fitted: Any, people: Any, tmp_path: Path) -> None:
    folder, data = tmp_path / "model", tmp_path / "people"
    people.write.parquet(str(data))
    fitted.write().overwrite().save(folder.as_uri())
    found = fitted.transform(people)
    assert found.columns == ["age", "zip", "income", "illness", "code", "features"]
    wanted = sorted(json.dumps([*row[:5], row["features"].toArray().tolist()]) for row in found.collect())
    incomes = sorted(row["income"] for row in people.collect())
    assert sorted(json.loads(row)[2] for row in wanted) == incomes, "swapped, none lost"
    command = [sys.executable, "-c", AGAIN, folder.as_uri(), str(data)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=dict(os.environ))
    assert run.returncode == 0, run.stderr[-3000:]
    assert json.loads(run.stdout.splitlines()[-1]) == wanted


def test_what_is_saved_holds_no_secret_and_no_value_and_is_json(
    fitted: Any, tmp_path: Path, people: Any, secret: str, canary: str
) -> None:
    fitted.write().overwrite().save(str(tmp_path / "model"))
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    incomes = [str(row["income"]) for row in people.collect() if row["income"] > 10]
    for file in files:
        text = file.read_bytes().decode("utf-8", "replace")
        if "StringIndexer" not in str(file):  # Spark's own, which keeps the labels it indexed
            assert canary not in text
            assert not [income for income in incomes if f'"{income}"' in text or f" {income}," in text]
        assert secret not in text
    plans = [file for file in files if file.name == "plan.json"]
    assert len(plans) == 2
    for plan in plans:
        assert stat.S_IMODE(plan.stat().st_mode) == 0o600
        assert json.loads(plan.read_text(encoding="utf-8"))["privpipe_stage"] == 1
    [swap] = tmp_path.glob("model/stages/0_RankSwap*/metadata/part-*")
    told = json.loads(swap.read_text(encoding="utf-8"))
    assert (told["class"], told["paramMap"]["seed"]) == (
        "privpipe.spark.RankSwapModel",
        {"from_env": "PRIVPIPE_TEST_SEED"},
    )
    assert {"timestamp", "sparkVersion", "uid", "defaultParamMap"} <= told.keys()
    loaded = PipelineModel.load(str(tmp_path / "model"))
    assert [stage.uid for stage in loaded.stages] == [stage.uid for stage in fitted.stages]
    assert loaded.stages[0].plan["digest"] == fitted.stages[0].plan["digest"]


def test_a_stage_gives_the_rows_that_it_gives_alone(people: Any, seed: dict[str, str]) -> None:
    model = pps.RankSwap(inputCols=["income"], p=0.1, seed=seed).fit(people)
    assert rows_of(model.transform(people)) == rows_of(RankSwap(columns=["income"], p=0.1).apply(people, seed=seed))


def test_a_plan_about_these_records_refuses_others(people: Any, seed: dict[str, str]) -> None:
    model = pps.RankSwap(inputCols=["income"], p=0.1, seed=seed).fit(people)
    assert model.repeatable
    assert model.transform(people.repartition(3)).count() == 60, "known by its content, not by its order"
    with pytest.raises(DataError, match="refers to the records it was learnt from"):
        model.transform(people.limit(50))


def test_a_plan_of_values_is_applied_to_other_rows_and_a_changed_param_is_refused(people: Any) -> None:
    model = pps.TopCode(inputCols=["income"], at=30, atLeast=1).fit(people)
    assert max(row["income"] for row in model.transform(people.limit(30)).collect()) <= 30
    with pytest.raises(UsageError, match="TopCodeModel: at was another when it was fitted; fit again"):
        model.transform(people, {model.at: 20})
    assert model.copy().transform(people).count() == 60


def test_an_estimator_and_a_pipeline_come_back_as_they_were(people: Any, seed: dict[str, str], tmp_path: Path) -> None:
    swap = pps.RankSwap(inputCols=["income"], p=0.1, segment=None, seed=seed)
    Pipeline(stages=[swap]).save(str(tmp_path / "pipeline"))
    [loaded] = Pipeline.load(str(tmp_path / "pipeline")).getStages()
    assert loaded.explainParams() == swap.explainParams()
    assert (type(loaded), loaded.uid) == (pps.RankSwap, swap.uid)
    swap.save(str(tmp_path / "swap"))
    with pytest.raises(UsageError, match=r"is there already; `write\(\)\.overwrite\(\)"):
        swap.save(str(tmp_path / "swap"))
    with pytest.raises(UsageError, match=r"holds a privpipe\.spark\.RankSwap, not a privpipe\.spark\.AddNoise"):
        pps.AddNoise.load(str(tmp_path / "swap"))


def test_another_seed_than_the_one_fitted_with_is_not_a_seed(
    people: Any, seed: dict[str, str], secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "swap")
    pps.RankSwap(inputCols=["income"], p=0.1, seed=seed).fit(people).save(path)
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", secret[::-1])
    with pytest.raises(UsageError, match="was fitted with another seed") as caught:
        pps.RankSwapModel.load(path)
    assert path in str(caught.value)
    assert secret not in str(caught.value)


@pytest.mark.usual
def test_a_gate_lets_through_what_holds_and_ends_the_pipeline_otherwise(people: Any, tmp_path: Path) -> None:
    roles = {"quasi_identifiers": ["zip"], "sensitive": ["illness"], "insensitive": ["age", "income"]}
    gate = pps.ReleaseGate(guarantees=[KAnonymity(k=2), ProsecutorRisk(at_most=0.5)], roles=roles)
    model = gate.fit(people)
    assert sorted(model.transform(people).collect()) == sorted(people.collect())
    model.save(str(tmp_path / "gate"))
    again = pps.ReleaseGateModel.load(str(tmp_path / "gate"))
    assert sorted(again.transform(people).collect()) == sorted(people.collect())
    few = people.limit(1)
    for refused in (lambda: gate.fit(few), lambda: again.transform(few), lambda: Pipeline(stages=[gate]).fit(few)):
        with pytest.raises(Refused, match="KAnonymity") as caught:
            refused()
        assert caught.value.assessment is not None
        assert not caught.value.assessment.passed
    with pytest.raises(UsageError, match="guarantees is required"):
        pps.ReleaseGate(roles=roles).fit(people)
    with pytest.raises(UsageError, match="k was another|guarantees was another"):
        again.transform(few, {again.guarantees: [KAnonymity(k=1)]})


def test_a_gate_lets_an_empty_batch_through_where_it_is_asked(people: Any) -> None:
    roles = {"quasi_identifiers": ["zip"], "sensitive": ["illness"], "insensitive": ["age", "income"]}
    nothing, guarantees = people.limit(0), [KAnonymity(k=2)]
    with pytest.raises(DataError, match="no records"):
        pps.ReleaseGate(guarantees=guarantees, roles=roles).fit(nothing)
    gate = pps.ReleaseGate(guarantees=guarantees, roles=roles, empty="pass")
    assert gate.fit(nothing).transform(nothing).schema == nothing.schema
    with pytest.raises(UsageError, match="empty must be one of"):
        pps.ReleaseGate(guarantees=guarantees, roles=roles, empty="yes")


def test_a_whole_policy_is_a_stage(people: Any, seed: dict[str, str], tmp_path: Path) -> None:
    closeness = {"t_closeness": {"column": "illness", "t": 0.9}}
    policy = {
        "columns": {
            "age": {"role": "quasi_identifier", "hierarchy": AGES["age"]},
            "zip": {"role": "insensitive"},
            "income": {"role": "insensitive"},
            "illness": {"role": "sensitive"},
        },
        "transform": [{"rank_swap": {"columns": ["income"], "p": 0.1}}, {"generalize": {"levels": {"age": 1}}}],
        "guarantees": [{"k_anonymity": {"k": 2}}, closeness],
        "seed": seed,
    }
    model = pps.Release(policy=policy).fit(people)
    wanted = rows_of(pp.transform(people, pp.plan(people, policy)))
    assert rows_of(model.transform(people)) == wanted
    model.save(str(tmp_path / "release"))
    again = pps.ReleaseModel.load(str(tmp_path / "release"))
    assert rows_of(again.transform(people)) == wanted
    with pytest.raises(DataError, match="refers to the records"):
        again.transform(people.limit(40))
    with pytest.raises(Refused, match="KAnonymity"):
        pps.Release(policy={**policy, "guarantees": [{"k_anonymity": {"k": 50}}, closeness]}).fit(people)


def test_rows_of_tomorrow_are_judged_before_they_come_back(people: Any, seed: dict[str, str]) -> None:
    columns = {name: {"role": "insensitive"} for name in people.columns}
    columns["age"] = {"role": "quasi_identifier", "hierarchy": AGES["age"]}  # type: ignore[dict-item]
    transform = [{"generalize": {"levels": {"age": 1}}}]
    policy = {"columns": columns, "transform": transform, "guarantees": [{"k_anonymity": {"k": 2}}], "seed": seed}
    model = pps.Release(policy=policy).fit(people)
    assert model.transform(people.limit(50)).count() == 50
    with pytest.raises(Refused, match="KAnonymity"):
        model.transform(people.limit(1))


def test_a_stream_is_refused_and_the_message_shows_the_way(session: Any, people: Any, tmp_path: Path) -> None:
    people.write.parquet(str(tmp_path / "people"))
    stream = session.readStream.schema(people.schema).parquet(str(tmp_path / "people"))
    model = pps.TopCode(inputCols=["income"], at=30, atLeast=1).fit(people)
    for refused in (lambda: pps.RankSwap(inputCols=["income"], p=0.1).fit(stream), lambda: model.transform(stream)):
        with pytest.raises(UnsupportedError, match="foreachBatch"):
            refused()
