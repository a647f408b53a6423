"""Entries that read more than classes: the same verdicts as `assess`, one count, and no pass without what they need."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.blocks import Guarantee
from privpipe.draws import RunKey, Seed
from privpipe.engines import Source, open_engine
from privpipe.engines.base.contract import fingerprint
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules, assess
from tests.validated_frames import validated

gx = pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there
from privpipe.gx.batch import listen  # noqa: E402

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]

N = 24
KEYS = ["age", "zip"]
ROLES = pp.Roles(quasi_identifiers=KEYS, sensitive=["illness", "income"], insensitive=["who", "weight", "household"])
ORIGINAL = pd.DataFrame(
    {
        "who": range(N),
        "age": [20 + 2 * (at // 2) + at % 3 for at in range(N)],
        "zip": [81 + at % 4 for at in range(N)],
        "illness": [("flu", "gout", "cold")[at % 3] for at in range(N)],
        "income": [91827 + 37 * at for at in range(N)],
        "weight": [2.0 + at % 2 for at in range(N)],
        "household": [at // 2 for at in range(N)],
    }
)
RELEASED = ORIGINAL.assign(age=[20 + 10 * (at // 6) for at in range(N)])
POPULATION = pd.concat([RELEASED[KEYS]] * 3, ignore_index=True)
SEED = {"from_env": "PRIVPIPE_GX_TEST_SEED"}


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    ORIGINAL.assign(age=ORIGINAL["age"] + 1).to_csv("others.csv", index=False)  # the holdout of examples
    ORIGINAL.assign(age=ORIGINAL["age"] + 2).to_csv("more.csv", index=False)  # their reference
    monkeypatch.setenv(SEED["from_env"], "6f1d0c5b9e7a42c38d15f0a7b3e9c264")
    ppgx.hold("original", ORIGINAL)
    ppgx.hold("population", POPULATION)
    yield
    ppgx.let_go("original")
    ppgx.let_go("population")


BESIDE: dict[str, Any] = {
    "original_source": {"handle": "original"},
    "population_source": {"handle": "population"},
    "record_id": "who",
    "seed": SEED,
    "household_id": "household",
}


def suite_for(guarantees: list[Guarantee], **beside: Any) -> Any:
    return ppgx.suite_of(guarantees, ROLES, name="suite", **(beside or BESIDE))


def gates() -> list[Guarantee]:
    """Every gate among the examples of both catalogues that is an expectation."""
    entries = {**pp.models.CATALOGUE, **pp.measures.CATALOGUE}
    return [example for name in ppgx.EXPECTATIONS for example in entries[name].examples() if example.is_gate()]


def judged(guarantees: list[Guarantee]) -> list[tuple[Any, Any]]:
    """Observed figure and outcome by `assess`, each guarantee alone; an entry that cannot be judged is an error."""
    found: list[tuple[Any, Any]] = []
    seed = Seed.of("6f1d0c5b9e7a42c38d15f0a7b3e9c264")
    with open_engine("embedded") as engine:
        released, original, population = (engine.scan(Source(data=each)) for each in (RELEASED, ORIGINAL, POPULATION))
        pair = [engine.with_record_ids(each, "who", seed) for each in (released, original)]
        rules = JudgingRules(
            base=dict(engine.facts(original, _histogram("illness")).histograms),
            order=RunKey.of(seed, "great expectations", fingerprint(engine, original, seed)).attacks(),
            household="household",
        )
        for guarantee in guarantees:
            try:
                assessment = assess(
                    engine,
                    released,
                    guarantees=[guarantee],
                    roles=ROLES,
                    rules=rules,
                    original=pair[1],
                    released=pair[0],
                    population=population,
                )
                row = assessment.verdicts[0].to_dict()
                found.append((row["observed"], row["outcome"]))
            except pp.errors.PrivpipeError:
                found.append((None, "error"))
    return found


def _histogram(column: str) -> Any:
    from privpipe.blocks import FactsRequest

    return FactsRequest(histograms=(column,))


def results(suite: Any, frame: Any, **how: Any) -> list[tuple[Any, Any]]:
    found = validated(suite, frame, **how)
    return [(each.result.get("observed_value"), each.result["details"]["outcome"]) for each in _in_order(suite, found)]


def _in_order(suite: Any, found: Any) -> list[Any]:
    """Results in the order of the suite: Great Expectations gives them by domain."""
    by_id = {each.expectation_config.id: each for each in found.results}
    return [by_id[each.id] for each in suite.expectations]


def test_every_example_has_the_verdict_of_assess() -> None:
    guarantees = gates()
    suite = suite_for(guarantees)
    found, expected = results(suite, RELEASED), judged(guarantees)
    for guarantee, ours, theirs in zip(guarantees, found, expected, strict=True):
        assert ours == theirs, guarantee
    outcomes = [outcome for _, outcome in found]
    assert outcomes.count("pass") > 20
    assert outcomes.count("fail") > 20
    refused = [each for each, outcome in zip(guarantees, outcomes, strict=True) if outcome == "error"]
    unjudged = {"transparency_attack", "quality", "probabilistic_linkage", "downcoding", "minimality_attack"}
    unjudged |= {"k_concealment", "result_privacy"}  # ages without labels, and a column that is not in this table
    undefined = [each for each in refused if each.name() == "correct_attribution" and each.figure == "tcap"]
    elsewhere = [each for each in refused if "town" in (getattr(each, "columns", None) or ())]  # not in this table
    left = [each for each in refused if each not in (*undefined, *elsewhere)]
    assert {each.name() for each in left} <= unjudged, left


def test_without_what_it_needs_an_expectation_fails_and_says_why() -> None:
    asked = {
        "compares with the original": [
            pp.measures.RecordLinkage(at_most=1.0),
            pp.measures.TransparencyAttack(at_most=1.0),
        ],
        "compares with a population": [
            pp.models.KMap(k=1),
            pp.models.DeltaPresence(max=1.0),
            pp.measures.JournalistRisk(at_most=1.0),
            pp.measures.MarketerRisk(at_most=1.0, population=True),
        ],
    }
    guarantees = [each for every in asked.values() for each in every]
    suite = suite_for(guarantees, seed=SEED)
    found = validated(suite, RELEASED)
    assert [each.success for each in found.results] == [False] * len(guarantees)
    reasons = [each.result["details"]["reason"] for each in _in_order(suite, found)]
    expected = [text for text, every in asked.items() for _ in every]
    for reason, text in zip(reasons, expected, strict=True):
        assert text in reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"original_source": {"handle": "elsewhere"}}, "no data is held under 'elsewhere'"),
        ({"original_source": "nowhere/original.parquet"}, "nowhere/original.parquet"),
        ({"record_id": None}, "name the `record_id`"),
        ({"record_id": "whom"}, "column 'whom' is not in the batch; did you mean 'who'?"),
        ({"seed": {"from_env": "PRIVPIPE_NO_SUCH_SEED"}}, "no seed"),
        ({"plan": "nowhere/plan.json"}, "not the plan of a release"),
    ],
)
def test_what_is_beside_and_cannot_be_read_fails(changed: dict[str, Any], reason: str) -> None:
    suite = suite_for([pp.measures.RecordLinkage(at_most=1.0)], **{**BESIDE, **changed})
    found = validated(suite, RELEASED).results[0]
    assert not found.success
    assert found.result["details"]["outcome"] == "error"
    assert reason in found.result["details"]["reason"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"original_source": ORIGINAL},
        {"original_source": ORIGINAL.to_dict("list")},
        {"population_source": [1, 2, 3]},
        {"original_source": {"path": "a.csv", "handle": "original"}},
        {"original_source": {"path": "a.csv", "delimeter": ";"}},
        {"original_source": {"path": "a.csv", "types": {"age": "whole"}}},
        {"seed": 42},
        {"seed": {"literal": "42"}},
        {"hierarchies": {"age": {"intervalls": {}}}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_suite_takes_no_table_and_no_secret(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as told:
        ppgx.EXPECTATIONS["record_linkage"](quasi_identifiers=KEYS, at_most=0.5, **wrong)
    assert not any(value in str(told.value) for value in ("gout", "91864", "42"))


def test_a_table_given_afterwards_is_not_saved(tmp_path: Path) -> None:
    suite = suite_for([pp.measures.RecordLinkage(at_most=0.5)])
    suite.expectations[0].original_source = ORIGINAL
    with pytest.raises(pp.errors.UsageError, match="not DataFrame"):
        ppgx.save_suite(suite, tmp_path / "suite.json")
    assert not (tmp_path / "suite.json").exists()


def test_what_is_counted_together_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from privpipe.engines.embedded import EmbeddedEngine

    asked: list[str] = []
    for name in ("distinct", "reduce_pairs", "stack"):
        plain = getattr(EmbeddedEngine, name)

        def told(self: Any, *given: Any, name: str = name, plain: Any = plain) -> Any:
            asked.append(name)
            return plain(self, *given)

        monkeypatch.setattr(EmbeddedEngine, name, told)
    counts: list[Any] = []
    stop = listen(counts.append)
    guarantees = [
        *(pp.models.KAnonymity(k=k) for k in (1, 2, 3)),
        *(pp.models.KMap(k=k) for k in (1, 2, 3)),
        pp.models.DeltaPresence(max=1.0),
        pp.models.DistinctLDiversity(column="illness", l=1),
        *(pp.measures.RiskyCells(at_most=share) for share in (0.1, 0.5, 1.0)),
        pp.measures.SpecialUniques(at_most=1.0),
        *(pp.measures.Quality(name=name, at_most=1.0) for name in ("gcp", "discernibility")),
        pp.measures.RankIntervalDisclosure(at_most=1.0),
        pp.measures.SdIntervalDisclosure(at_most=1.0),
        pp.measures.RecordLinkage(at_most=1.0),
    ]
    found = validated(suite_for(guarantees), RELEASED)
    stop()
    assert len(found.results) == len(guarantees)
    assert len(counts) == 2  # classes of the batch; classes next to the population
    assert asked.count("stack") == 1
    assert asked.count("reduce_pairs") == 1
    assert asked.count("distinct") == 2  # the batch's combinations and the original's


@pytest.mark.deep
def test_suites_over_files_survive_a_fresh_process_and_hold_no_record(tmp_path: Path) -> None:
    for name, frame in (("original", ORIGINAL), ("population", POPULATION)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False, sep=";")
    RELEASED.to_parquet(tmp_path / "released.parquet")
    beside = {
        "original_source": {"path": str(tmp_path / "original.csv"), "delimiter": ";"},
        "population_source": {"path": str(tmp_path / "population.csv"), "delimiter": ";"},
        "record_id": "who",
        "household_id": "household",
        "seed": SEED,
    }
    beyond = [each for each in gates() if not each.way.classes_alone or each.needs_population]
    guarantees = list({each.name(): each for each in beyond}.values())
    suite = suite_for(guarantees, **beside)
    ppgx.save_suite(suite, tmp_path / "suite.json")
    saved = (tmp_path / "suite.json").read_text()
    assert not any(str(value) in saved for value in ORIGINAL["income"])
    code = (
        "import json, sys, pandas as pd, privpipe.gx as ppgx, great_expectations as gx\n"
        "suite = ppgx.load_suite(sys.argv[1])\n"
        "context = gx.get_context(mode='ephemeral')\n"
        "asset = context.data_sources.add_pandas('p').add_dataframe_asset('a')\n"
        "frame = pd.read_parquet(sys.argv[2])\n"
        "batch = asset.add_batch_definition_whole_dataframe('all').get_batch({'dataframe': frame})\n"
        "found = {each.expectation_config.type: each.result for each in batch.validate(suite).results}\n"
        "found = {name: [each['observed_value'], each['details']['outcome']] for name, each in found.items()}\n"
        "print('FOUND', json.dumps(found))\n"
    )
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        code,
        str(tmp_path / "suite.json"),
        str(tmp_path / "released.parquet"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    fresh = json.loads(ended.stdout.rpartition("FOUND ")[2].splitlines()[0])
    expected = {f"expect_{each.name()}": row for each, row in zip(guarantees, judged(guarantees), strict=True)}
    assert fresh == json.loads(json.dumps(expected))


def test_labels_are_read_by_hierarchies_as_in_a_policy() -> None:
    columns = {"zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left", "length": 2}}}}
    original, released = (pd.DataFrame({"zip": each}) for each in (["81", "82", "91"], ["8*", "8*", "91"]))
    ppgx.hold("original", original)
    policy = {"version": 1, "columns": columns, "guarantees": [{"quality": {"name": "gcp", "at_most": 0.5}}]}
    asked = ppgx.EXPECTATIONS["quality"](
        quasi_identifiers=["zip"],
        name="gcp",
        at_most=0.5,
        original_source={"handle": "original"},
        hierarchies={"zip": columns["zip"]["hierarchy"]},
    )
    found = validated(gx.ExpectationSuite(name="labels", expectations=[asked]), released).results[0]
    expected = pp.assess(released, policy, original=original).verdicts[0]
    assert expected.observed is not None
    assert found.result["observed_value"] == expected.observed


def test_an_attack_that_knows_the_plan_reads_it(tmp_path: Path) -> None:
    stage = {"name": "rank_swap", "parameters": {"columns": ["age"], "p": 0.5}, "detail": {}}
    (tmp_path / "plan.json").write_text(json.dumps({"stages": [stage]}), encoding="utf-8")
    attack = [pp.measures.TransparencyAttack(columns=("age",), at_most=1.0, p=0.5)]
    blind, knowing = (
        validated(suite_for(attack, **BESIDE, plan=plan), RELEASED).results[0]
        for plan in (None, str(tmp_path / "plan.json"))
    )
    assert blind.result["details"]["outcome"] == "error"
    assert knowing.result["details"]["outcome"] == "pass", knowing.result


def test_a_result_shows_no_value_of_any_table() -> None:
    canary = "Zanzibarella"
    ppgx.hold("original", ORIGINAL.assign(illness=canary, age=[canary, *ORIGINAL["age"][1:]]))
    ppgx.hold("population", POPULATION.assign(zip=canary))
    marked = RELEASED.assign(illness=canary)
    found = validated(suite_for(gates()), marked)
    assert canary not in json.dumps(found.to_json_dict())
    assert canary not in str(found)


def test_by_position_the_files_are_paired_as_they_lie() -> None:
    names = [name for name in ORIGINAL.columns if name != "who"]
    beside = {"original_source": {"handle": "original"}, "align": "position"}
    exact, shuffled = (
        validated(suite_for([pp.measures.SdIntervalDisclosure(columns=("age",), at_most=1.0)], **beside), frame[names])
        for frame in (RELEASED, RELEASED.iloc[::-1])
    )
    figures = [found.results[0].result["observed_value"] for found in (exact, shuffled)]
    assert figures[0] != figures[1]
    short = validated(suite_for([pp.measures.RecordLinkage(at_most=1.0)], **beside), RELEASED[names].iloc[1:])
    assert "cannot be aligned by position" in short.results[0].result["details"]["reason"]


SAMPLE: list[Guarantee] = [
    pp.models.KAnonymity(k=2),
    pp.models.KMap(k=2),
    pp.measures.MarketerRisk(at_most=0.5),
    pp.measures.RiskyCells(at_most=0.5),
    pp.measures.RecordLinkage(at_most=0.5),
    pp.measures.InformationLoss(columns=("age",), measure="il1s", at_most=0.1),
    pp.measures.Quality(name="gcp", at_most=1.0),
]


def test_dask_gives_the_same_through_a_handle(dask_engine: Any) -> None:
    import dask.dataframe as dd

    ppgx.hold("original", dd.from_pandas(ORIGINAL, npartitions=3))
    ppgx.hold("population", dd.from_pandas(POPULATION, npartitions=2))
    found = results(suite_for(SAMPLE), ppgx.handle(dd.from_pandas(RELEASED, npartitions=3)))
    assert found == judged(SAMPLE)


@pytest.mark.spark
def test_spark_gives_the_same(spark_engine: Any) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    ppgx.hold("original", session.createDataFrame(ORIGINAL))
    ppgx.hold("population", session.createDataFrame(POPULATION))
    assert results(suite_for(SAMPLE), session.createDataFrame(RELEASED), spark=True) == judged(SAMPLE)


def test_a_table_beside_is_described_by_the_keys_of_a_source(tmp_path: Path) -> None:
    from privpipe.gx.tables import OtherTable

    (tmp_path / "old.csv").write_bytes("Größe;n\n1,5;2\n".encode("windows-1252"))
    given = {"path": str(tmp_path / "old.csv"), "delimiter": ";", "encoding": "windows-1252", "decimal": ","}
    table = OtherTable.read("original_source", {**given, "types": {"Größe": "number"}})
    with open_engine("embedded") as engine:
        assert engine.collect(engine.scan(table.source())).to_pylist() == [{"Größe": 1.5, "n": "2"}]
    with sqlite3.connect(tmp_path / "visits") as lite:
        lite.execute("CREATE TABLE visits AS SELECT 7 AS n")
    lite.close()
    place = {"database": str(tmp_path / "visits"), "table": "visits"}
    with open_engine("embedded") as engine:
        assert engine.collect(engine.scan(OtherTable.read("original_source", place).source())).to_pylist() == [{"n": 7}]
    asked = [OtherTable.read("o", {"database": "a.db", "query": f"SELECT {n}"}) for n in (1, 2)]
    assert str(asked[0]) != str(asked[1])  # by which a batch keeps what it read
    for wrong in (
        {**given, "encoding": "ebcdic"},
        {**given, "sheet": "a"},
        {"database": "a.db"},
        {"query": "SELECT 1"},
    ):
        with pytest.raises(UsageError, match="original_source"):
            OtherTable.read("original_source", wrong)
