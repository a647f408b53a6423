"""A policy of Python objects: the checks, the digest and the release of one that is in a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from ruamel.yaml import YAML

import privpipe as pp
from privpipe.errors import PolicyError, Refused, UsageError
from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.transforms import CATALOGUE, AddNoise, Generalize, RankSwap, Round, TopCode

SEED = bytes(range(32))
SECRET = "8f1c2b7a93e04d56b7a1c9d2e3f405162738495a6b7c8d9eafb0c1d2e3f40516"


def visits(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "name": [f"p{at}" for at in range(rows)],
            "age": rng.integers(0, 90, rows),
            "zip": rng.choice(["081", "082"], rows),
            "illness": rng.choice(["flu", "cold", "gout"], rows),
            "cost": rng.normal(100, 20, rows),
        }
    )


def arguments(**other: Any) -> dict[str, Any]:
    roles = pp.Roles(identifiers=["name"], quasi_identifiers=["age", "zip"], sensitive=["illness"])
    return {
        "name": "visits",
        "roles": roles,
        "hierarchies": {
            "age": {"intervals": {"start": 0, "widths": [5, 10, 20, 40]}},
            "zip": {"redact": {"keep": "left"}},
        },
        "transform": [AddNoise(columns=["cost"], variance_ratio=0.1), Generalize(search="optimal")],
        "guarantees": [KAnonymity(k=5), DistinctLDiversity(column="illness", l=2)],
        "seed": SEED,
        **other,
    }


def test_a_frame_passes_the_gate_without_its_identifiers() -> None:
    frame = visits()
    before = frame.copy(deep=True)
    out = pp.Policy(**arguments()).apply(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert list(out) == ["age", "zip", "illness", "cost"]
    assert pp.k_anonymity(out, ["age", "zip"]) >= 5
    assert sorted(out["illness"]) == sorted(frame["illness"])


def test_a_frame_that_fails_does_not_come_back() -> None:
    with pytest.raises(Refused, match="Nothing was given back") as caught:
        pp.Policy(**arguments(transform=[])).apply(visits().drop(columns="cost"))
    assert not caught.value.assessment.passed
    assert "081" not in str(caught.value)


def test_it_is_the_release_that_the_document_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = pp.Policy(**arguments())
    (tmp_path / "visits.yaml").write_text(policy.to_yaml())
    monkeypatch.setenv("PRIVPIPE_SEED", SECRET)
    held = pp.Policy(**arguments(seed=SECRET.encode()))
    assert pp.Policy.load(tmp_path / "visits.yaml").digest() == policy.digest() == held.digest()
    visits().to_parquet(tmp_path / "visits.parquet")
    written = pp.Policy.load(tmp_path / "visits.yaml")
    ours = held.release(visits(), str(tmp_path / "ours"))
    theirs = written.release(tmp_path / "visits.parquet", tmp_path / "theirs")  # a path serves as well as its text
    assert _rows(ours.path) == _rows(theirs.path)
    assert _rows(ours.path) == sorted(held.apply(visits()).itertuples(index=False, name=None))


def test_no_document_holds_the_seed(tmp_path: Path) -> None:
    policy = pp.Policy(**arguments())
    result = policy.release(visits(), str(tmp_path / "out"))
    shown = [policy.to_yaml(), repr(policy), repr(policy.seed), result.plan.to_json()]
    shown += [path.read_text(errors="ignore") for path in tmp_path.rglob("*.json")]
    assert len(shown) > 5
    assert not any(SEED.hex() in text or str(SEED) in text for text in shown)


def test_an_insecure_seed_is_refused_as_in_a_release() -> None:
    with pytest.raises(UsageError, match="insecure"):
        pp.Policy(**arguments(seed={"insecure": 7})).apply(visits())


@pytest.mark.parametrize("name", CATALOGUE.built_in)
def test_every_stage_has_the_same_digest_in_the_document(name: str) -> None:
    for stage in CATALOGUE[name].examples():
        columns = ["zip", *stage.named_columns()]  # type: ignore[attr-defined]
        document = {"transform": [stage], "columns": {}, "guarantees": [KAnonymity(k=2)]}
        document["columns"] = {column: {"role": "quasi_identifier"} for column in columns}
        try:
            policy = pp.Policy.from_dict(document)
        except PolicyError:
            continue  # it asks for what this table does not have, and says so whoever writes it
        again = pp.Policy.from_dict(YAML(typ="safe").load(policy.to_yaml()))
        assert again.digest() == policy.digest()
        assert again.transform == (stage,)


def test_a_hierarchy_made_in_python_is_in_the_document() -> None:
    hierarchy = pp.Hierarchy.from_rows([["081", "08*", "*"], ["082", "08*", "*"]], unknown="root", max_level=1)
    policy = pp.Policy(**arguments(hierarchies={"zip": hierarchy}))
    again = pp.Policy.from_dict(YAML(typ="safe").load(policy.to_yaml()))
    assert again.digest() == policy.digest()
    built = again.hierarchies["zip"].build(["081", "082"])
    assert built.texts(1) == hierarchy.texts(1)
    assert again.hierarchies["zip"].options.unknown == "root"
    assert "081" not in str(again.hierarchies["zip"].recorded())


def test_a_hierarchy_may_be_the_path_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "zip.csv"
    file.write_text("081;08*;*\n082;08*;*\n")
    wanted = pp.Policy(**arguments(hierarchies={"zip": {"file": str(file)}}))
    for given in (file, str(file)):
        assert pp.Policy(**arguments(hierarchies={"zip": given})).digest() == wanted.digest()


def test_entries_may_stand_in_a_mapping() -> None:
    document = {
        "columns": {"zip": {"role": "quasi_identifier"}, "cost": {"role": "insensitive"}},
        "transform": [RankSwap(columns=["cost"], p=0.05), {"top_code": {"columns": ["cost"], "at": 150}}],
        "guarantees": [KAnonymity(k=2)],
    }
    policy = pp.Policy.from_dict(document)
    assert policy.transform == (RankSwap(columns=["cost"], p=0.05), TopCode(columns=["cost"], at=150))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"guarantees": []}, "guarantees: at least one guarantee is needed"),
        ({"guarantees": KAnonymity(k=2)}, "guarantees: must be a list"),
        ({"guarantees": [KAnonymity(k=2)]}, "roles.illness: is sensitive and no guarantee judges it"),
        ({"guarantees": [KAnonymity()]}, r"guarantees\[0\].k_anonymity.k: a guarantee needs its threshold"),
        ({"transform": [RankSwap]}, r"transform\[0\]: RankSwap is a class: call it, as in RankSwap\(columns=\["),
        ({"transform": [KAnonymity(k=2)]}, r"transform\[0\]: must be a transformer, not k_anonymity"),
        ({"roles": {"age": "quasi"}}, "roles: 'age' has a role that does not exist"),
        ({"roles": ["age"]}, r"roles: must be a privpipe\.Roles or a mapping"),
        ({"hierarchies": {"age": {"interval": {}}}}, "hierarchies.age.*unknown key 'interval'; did you mean"),
        ({"rolls": 1}, "rolls: unknown argument"),
        ({"sink": {"pth": "x"}}, "sink.pth: unknown key; did you mean 'path'"),
        ({"nulls": "keep"}, "nulls: must be one of own_value, wildcard, refuse"),
        ({"record_id": "nme"}, "record_id: 'nme' is not among"),
        ({"types": {"age": "int"}}, "types.age: must be one of"),
        ({"seed": b"short"}, "needs 128"),
    ],
)
def test_what_is_wrong_is_reported_by_its_argument(other: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        pp.Policy(**arguments(**other))


def test_everything_wrong_is_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        pp.Policy(**arguments(nulls="keep", record_id="nme", sink={"pth": "x"}))
    assert len(caught.value.problems) >= 3


def test_a_polars_frame_gives_one_back() -> None:
    assert isinstance(pp.Policy(**arguments()).apply(pl.from_pandas(visits())), pl.DataFrame)


def test_stages_run_one_after_the_other_as_in_a_policy() -> None:
    frame = visits().drop(columns=["name", "illness"])
    stages = [TopCode(columns=["cost"], at=120), Round(columns=["cost"], base=7)]
    roles = pp.Roles(quasi_identifiers=["age", "zip"])
    policy = pp.Policy(roles=roles, transform=stages, guarantees=[KAnonymity(k=1)], seed=SEED)
    wanted = pp.transform(frame, pp.plan(frame, policy))
    found = pp.transform(frame, stages, roles=roles, seed=SEED)
    assert sorted(found.itertuples(index=False)) == sorted(wanted.itertuples(index=False))
    assert list(found.index) == list(frame.index)
    with pytest.raises(UsageError, match="give a plan, a stage, or a list of stages"):
        pp.transform(frame, [5])  # type: ignore[list-item]


@pytest.mark.dask
def test_a_dask_frame_is_released() -> None:
    dd = pytest.importorskip("dask.dataframe")
    policy = pp.Policy(**arguments())
    out = policy.apply(dd.from_pandas(visits(), npartitions=3)).compute()
    assert _compared(out) == _compared(policy.apply(visits()))


@pytest.mark.spark
def test_a_spark_frame_is_released(spark_engine: Any, tmp_path: Path) -> None:
    policy = pp.Policy(**arguments())
    lazy = spark_engine.session.createDataFrame(visits())
    result = policy.release(lazy, str(tmp_path / "out"))
    wanted = _compared(policy.apply(visits()))
    assert _compared(pd.read_parquet(result.path)) == wanted
    assert _compared(policy.apply(lazy).toPandas()) == wanted


def _rows(path: str) -> list[tuple[Any, ...]]:
    return sorted(pd.read_parquet(os.path.realpath(path)).itertuples(index=False, name=None))


def _compared(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(frame.astype({"cost": float}).itertuples(index=False, name=None))
