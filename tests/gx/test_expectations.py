"""The Adult suite passes on the release and fails on the raw table, on every kind of data, and shows no value."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.testing import GAPS

pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # after the check that great_expectations is there
from privpipe.gx.batch import listen
from tests.validated_frames import gate, passing, validated

pytestmark = [
    pytest.mark.gx,
    # Great Expectations' own progress bars and marshmallow models warn; what we raise is still an error.
    pytest.mark.filterwarnings("default"),
]
POLICY = "pipelines/adult/release.yaml"


@pytest.fixture(scope="module")
def policy(project: Path) -> Any:
    return pp.Policy.load(project / POLICY)


@pytest.fixture(scope="module")
def raw(project: Path) -> pd.DataFrame:
    return pd.read_csv(project / "pipelines/adult/data/adult.csv", sep=";", dtype=object)


@pytest.fixture(scope="module")
def released(policy: Any, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    result = pp.release(policy, target=str(tmp_path_factory.mktemp("gx") / "adult"))
    return pd.read_parquet(result.path)


def test_the_saved_suite_is_the_policy_s(project: Path, policy: Any, tmp_path: Path) -> None:
    made = ppgx.suite_of(policy.guarantees, policy.released_roles, name=policy.name, undeclared="refuse")
    ppgx.save_suite(made, tmp_path / "adult.json")
    fresh, saved = (
        json.loads(path.read_text()) for path in (tmp_path / "adult.json", project / "expectations/adult.json")
    )
    for document in (fresh, saved):
        document["meta"].pop("great_expectations_version", None)
    assert fresh == saved


def load(project: Path) -> Any:
    """A fresh copy: a suite that was added to one context stays its own."""
    return ppgx.load_suite(project / "expectations/adult.json")


def test_pandas_data_release_passes_and_raw_fails(project: Path, released: Any, raw: Any) -> None:
    assert validated(load(project), released).success
    result = validated(load(project), raw)
    assert [outcome.success for outcome in result.results] == [False, False, False]
    by_type = {outcome.expectation_config.type: outcome.result for outcome in result.results}
    assert by_type["expect_k_anonymity"]["observed_value"] == 1
    assert by_type["expect_k_anonymity"]["details"]["failing_records"] > 0


def test_dask_data_goes_through_a_handle(project: Path, released: Any, raw: Any, dask_engine: Engine) -> None:
    import dask.dataframe as dd

    assert validated(load(project), ppgx.handle(dd.from_pandas(released, npartitions=3))).success
    assert not validated(load(project), ppgx.handle(dd.from_pandas(raw, npartitions=3))).success


@pytest.mark.spark
def test_spark_data_release_passes_and_raw_fails(project: Path, released: Any, raw: Any, spark_engine: Engine) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    raw = raw.astype(object).where(raw.notna(), None)
    assert validated(load(project), session.createDataFrame(released), spark=True).success
    assert not validated(load(project), session.createDataFrame(raw), spark=True).success


def test_ten_expectations_over_the_same_columns_make_one_count(policy: Any, released: Any) -> None:
    guarantees = [
        *(pp.models.KAnonymity(k=k) for k in (1, 2, 3, 4, 5)),
        *(pp.models.DistinctLDiversity(column="occupation", l=l) for l in (1, 2, 3)),
        pp.models.EntropyLDiversity(column="occupation", l=1.5),
        pp.models.AverageRisk(at_most=0.5),
    ]
    counts: list[Any] = []
    stop = listen(counts.append)
    result = validated(ppgx.suite_of(guarantees, policy.roles, name="ten"), released)
    stop()
    assert len(result.results) == 10
    assert len(counts) == 1


def test_a_result_shows_no_value_of_the_table(project: Path, raw: pd.DataFrame) -> None:
    canary = "Zanzibarella"
    marked = raw.copy()
    marked.loc[3, ["occupation", "education"]] = canary
    result = validated(load(project), marked)
    assert canary not in json.dumps(result.to_json_dict())
    assert canary not in str(result)


def test_a_broken_batch_shows_no_value_either(project: Path, raw: pd.DataFrame) -> None:
    canary = "Zanzibarella"
    mixed = raw.astype({"age": object})
    mixed["age"] = [canary, *range(len(raw) - 1)]
    result = validated(load(project), mixed)
    assert not result.success
    assert canary not in json.dumps(result.to_json_dict())


def test_a_missing_column_fails_and_is_named(project: Path, released: pd.DataFrame) -> None:
    result = validated(load(project), released.drop(columns="race"))
    assert not result.success
    assert "'race'" in json.dumps(result.to_json_dict())


def test_an_empty_table_does_not_pass(project: Path, released: pd.DataFrame) -> None:
    assert not validated(load(project), released.iloc[:0]).success


def test_a_checkpoint_that_fails_raises(project: Path, released: Any, raw: Any) -> None:
    checkpoint = gate(load(project))
    assert passing(checkpoint, released).success
    with pytest.raises(pp.errors.Refused, match="expect_distinct_l_diversity .*; expect_k_anonymity"):
        passing(checkpoint, raw)


@pytest.mark.deep
def test_a_saved_suite_runs_in_a_fresh_process(project: Path, released: pd.DataFrame, tmp_path: Path) -> None:
    released.to_parquet(tmp_path / "released.parquet")
    code = (
        "import sys, pandas as pd, privpipe.gx as ppgx, great_expectations as gx\n"
        "suite = ppgx.load_suite(sys.argv[1])\n"
        "context = gx.get_context(mode='ephemeral')\n"
        "asset = context.data_sources.add_pandas('p').add_dataframe_asset('a')\n"
        "frame = pd.read_parquet(sys.argv[2])\n"
        "batch = asset.add_batch_definition_whole_dataframe('all').get_batch({'dataframe': frame})\n"
        "print('success', batch.validate(suite).success)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(project / "expectations/adult.json")]
    finished = subprocess.run(
        [*command, str(tmp_path / "released.parquet")], capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert "success True" in finished.stdout


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("k_anonymity", {"k": 0}),
        ("k_anonymity", {}),
        ("k_anonymity", {"k": True}),
        ("t_closeness", {"column": "occupation", "t": -0.1}),
        ("distinct_l_diversity", {"column": "occupation", "l": 2.5}),
        ("k_anonymity", {"kk": 3, "k": 3}),
        ("k_anonymity", {"k": 3, "nulls": "wildcard"}),
    ],
)
def test_parameters_are_checked_when_an_expectation_is_made(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ppgx.EXPECTATIONS[name](quasi_identifiers=["age"], **parameters)


def test_every_entry_is_an_expectation_or_a_gap_that_says_why() -> None:
    entries = {**pp.models.CATALOGUE, **pp.measures.CATALOGUE}
    assert sorted([*ppgx.EXPECTATIONS, *ppgx.REFUSED]) == sorted(entries)
    assert {("gx", name) for name in ppgx.REFUSED} == {key for key in GAPS if key[0] == "gx"}
    for name, made in ppgx.EXPECTATIONS.items():
        assert made.expectation_type == f"expect_{name}"
        assert getattr(ppgx, made.__name__) is made
    for name in ppgx.REFUSED:
        gap = GAPS["gx", name]
        for ask in (
            lambda name=name: ppgx.EXPECTATIONS[name],
            lambda name=name: getattr(ppgx, f"Expect{entries[name].__name__}"),
            lambda name=name: ppgx.suite_of([entries[name].examples()[0]], pp.Roles(), name="refused"),
        ):
            with pytest.raises(gap.raises, match=f"{name} is not an expectation"):
                ask()
    with pytest.raises(pp.errors.UsageError, match="k_anonymity"):
        ppgx.EXPECTATIONS["k_anonimity"]
