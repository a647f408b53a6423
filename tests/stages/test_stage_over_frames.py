"""A transformer as a stage: the kind of frame that goes in comes out, its rows where they lay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import DataError, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import (
    AddNoise,
    DropIdentifiers,
    Generalize,
    Microaggregate,
    RankSwap,
    Sample,
    Synthesize,
    TopCode,
)

SEED = bytes(range(32))
ROLES = pp.Roles(quasi_identifiers=["age", "zip"])
HIERARCHIES = {"age": {"intervals": {"widths": [10, 20, 40]}}, "zip": {"redact": {"keep": "left", "length": 3}}}


def people(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "zip": rng.choice(["081", "082"], rows),
            "income": rng.normal(50, 10, rows),
            "kind": pd.Categorical(rng.choice(["a", "b"], rows)),
            "small": rng.normal(size=rows).astype("float32"),
        },
        index=np.arange(rows)[::-1] + 1000,
    )


def test_rows_of_a_pandas_frame_keep_place_index_and_types() -> None:
    frame = people()
    before = frame.copy(deep=True)
    out = RankSwap(columns=["income"], p=0.2).apply(frame, seed=SEED)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(out.drop(columns="income"), frame.drop(columns="income"))
    assert sorted(out["income"]) == sorted(frame["income"])
    assert not out["income"].equals(frame["income"])


def test_every_way_to_say_it_gives_the_same_rows() -> None:
    frame, stage = people(), RankSwap(columns=["income"], p=0.2)
    wanted = stage.apply(frame, seed=SEED)
    for said in (stage.transform, stage.fit_transform, stage):
        pd.testing.assert_frame_equal(frame.pipe(said, seed=SEED), wanted)
    pd.testing.assert_frame_equal(stage.fit(frame, seed=SEED).transform(frame), wanted)


def test_equal_rows_each_come_back_once() -> None:
    frame = pd.DataFrame({"age": [1, 1, 1, 2], "income": [5.0, 5.0, 5.0, 7.0]}, index=list("wxyz"))
    out = AddNoise(columns=["income"], variance_ratio=0.1).apply(frame, seed=SEED)
    assert list(out.index) == list("wxyz")
    assert len(set(out["income"])) == 4


def test_rows_that_go_are_absent_and_the_others_stay_in_order() -> None:
    frame = people()
    out = Sample(fraction=0.5).apply(frame, seed=SEED)
    assert 0 < len(out) < len(frame)
    pd.testing.assert_frame_equal(out, frame.loc[out.index])
    assert list(out.index) == [label for label in frame.index if label in set(out.index)]


def test_a_search_works_for_guarantees_and_leaves_the_rest_alone() -> None:
    frame = people(400)
    stage = Generalize(search="optimal", suppress_at_most=0.05)
    out = stage.apply(frame, roles=ROLES, hierarchies=HIERARCHIES, guarantees=[KAnonymity(k=5)], seed=SEED)
    assert out.groupby(["age", "zip"]).size().min() >= 5
    pd.testing.assert_series_equal(out["income"], frame.loc[out.index, "income"])


@pytest.mark.parametrize(
    "kind", [pl.from_pandas, pa.Table.from_pandas, lambda frame: pa.RecordBatch.from_pandas(frame)]
)
def test_other_frames_come_back_as_they_went_in(kind: Any) -> None:
    frame = kind(people().reset_index(drop=True))
    out = TopCode(columns=["age"], at=60).apply(frame)
    assert type(out) is type(frame)
    assert pd.Series(out["age"].to_numpy()).equals(pd.Series(frame["age"].to_numpy()).clip(upper=60))


def test_a_polars_frame_keeps_its_own_types() -> None:
    frame = pl.from_pandas(people())
    assert frame.pipe(TopCode(columns=["age"], at=60).apply).schema == frame.schema


def test_a_relation_gives_a_relation() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = people()
    out = TopCode(columns=["age"], at=60).apply(duckdb.from_df(frame))
    assert type(out) is duckdb.DuckDBPyRelation
    assert sorted(out.df()["age"]) == sorted(frame["age"].clip(upper=60))


def test_a_path_gives_an_arrow_table(tmp_path: Path) -> None:
    people().to_parquet(tmp_path / "people.parquet")
    assert isinstance(TopCode(columns=["age"], at=60).apply(tmp_path / "people.parquet"), pa.Table)


def test_new_rows_have_no_old_index() -> None:
    frame = people(200)
    out = Synthesize(columns=["age", "income"]).apply(frame[["age", "income"]], seed=SEED)
    assert len(out)
    assert not set(out.index) & {*frame.index, *range(200)}


def test_identifiers_stay_unless_the_stage_is_about_them() -> None:
    frame = people().assign(name=[f"p{at}" for at in range(60)])
    roles = pp.Roles(identifiers=["name"])
    assert "name" in TopCode(columns=["age"], at=60).apply(frame, roles=roles)
    assert list(DropIdentifiers().apply(frame, roles=roles)) == [name for name in frame if name != "name"]


def test_what_was_fitted_is_saved_and_read_without_the_seed(tmp_path: Path) -> None:
    frame = people()
    fitted = Generalize(levels={"age": 1, "zip": 1}).fit(frame, roles=ROLES, hierarchies=HIERARCHIES, seed=SEED)
    path = tmp_path / "stage.json"
    fitted.save(path)
    assert path.stat().st_mode & 0o077 == 0
    assert SEED.hex() not in path.read_text()
    assert SEED.hex() not in repr(fitted)
    again = pp.FittedStage.load(path, seed=SEED)
    pd.testing.assert_frame_equal(again.transform(frame), fitted.transform(frame))
    assert again.plan["digest"] == fitted.plan["digest"]
    with pytest.raises(UsageError, match="another seed"):
        pp.FittedStage.load(path, seed=os.urandom(32))
    with pytest.raises(UsageError, match="give the same one"):
        pp.FittedStage.load(path)
    path.write_text(path.read_text().replace('"zip"', '"zap"', 1))
    with pytest.raises(UsageError, match="damaged"):
        pp.FittedStage.load(path, seed=SEED)


def test_a_drawn_seed_is_reported_and_serves_the_object_alone(tmp_path: Path) -> None:
    frame = people()
    fitted = RankSwap(columns=["income"], p=0.2).fit(frame)
    assert not fitted.repeatable
    pd.testing.assert_frame_equal(fitted.transform(frame), fitted.transform(frame))
    fitted.save(tmp_path / "swap.json")
    with pytest.raises(DataError, match="records it was learnt from"):
        pp.FittedStage.load(tmp_path / "swap.json").transform(frame)


def test_a_plan_of_values_serves_other_rows_and_one_of_records_does_not() -> None:
    frame, other = people(), people(90).tail(30)
    cut = TopCode(columns=["age"], quantile=0.5).fit(frame, seed=SEED)
    assert cut.transform(other)["age"].max() == cut.transform(frame)["age"].max()
    for stage in (RankSwap(columns=["income"], p=0.2), Microaggregate(columns=["income"], k=3)):
        with pytest.raises(DataError, match="records it was learnt from"):
            stage.fit(frame, seed=SEED).transform(other)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sead": SEED}, "unknown option 'sead'; did you mean 'seed'"),
        ({"seed": 7}, "give bytes, text or a Seed"),
        ({"seed": b"short"}, "needs 128"),
        ({"roles": {"age": "quasi_id"}}, "'age' has a role that does not exist; did you mean"),
        ({"roles": ["age"]}, r"roles must be a privpipe\.Roles"),
        ({"nulls": "keep"}, "nulls must be one of own_value, wildcard, refuse"),
        ({"guarantees": [5]}, "guarantees must be a list of models"),
        ({"guarantees": [KAnonymity()]}, "k_anonymity has no threshold"),
        ({"hierarchies": {"age": {"interval": {}}}}, r"hierarchies\.age\.interval: .*did you mean 'intervals'"),
        ({"hierarchies": {"age": 3}}, "give a Hierarchy, a builder mapping or a path"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TopCode(columns=["age"], at=60).apply(people(), **options)


@pytest.mark.parametrize(
    ("stage", "options", "said"),
    [
        (TopCode(columns=["aeg"], at=60), {}, "'aeg'"),
        (TopCode(columns=["age"], at=60), {"roles": pp.Roles(sensitive=["ilness"])}, "'ilness' is not in the frame"),
    ],
)
def test_a_missing_column_is_named(stage: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        stage.apply(people(), **options)


def test_an_empty_frame_has_nothing_to_learn_from() -> None:
    with pytest.raises(DataError, match="no records"):
        TopCode(columns=["age"], at=60).apply(people().head(0))


@pytest.mark.dask
def test_a_dask_frame_keeps_index_and_divisions_where_no_row_moves() -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = people().sort_index()
    lazy = dd.from_pandas(frame, npartitions=3)
    out = lazy.pipe(TopCode(columns=["age"], at=60).apply)
    assert out.divisions == lazy.divisions
    found = out.compute()
    assert list(found.index) == list(frame.index)
    assert found["age"].tolist() == frame["age"].clip(upper=60).tolist()
    swapped = lazy.pipe(RankSwap(columns=["income"], p=0.2).apply, seed=SEED)
    assert not swapped.known_divisions
    wanted = RankSwap(columns=["income"], p=0.2).apply(frame, seed=SEED)
    keys = ["age", "zip", "small", "income"]
    assert _rows(swapped.compute(), keys) == _rows(wanted, keys)


@pytest.mark.spark
def test_a_spark_frame_stays_where_it_is(spark_engine: Any) -> None:
    frame = people().drop(columns=["kind"]).reset_index(drop=True)
    spark = spark_engine.session
    lazy = spark.createDataFrame(frame)
    group = "nothing is looked at"
    spark.sparkContext.setJobGroup(group, group)
    roles = pp.Roles(identifiers=["zip"])
    out = lazy.transform(DropIdentifiers().apply, roles=roles)
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == []
    assert out.columns == ["age", "income", "small"]
    swapped = lazy.transform(RankSwap(columns=["income"], p=0.2).apply, seed=SEED)
    wanted = RankSwap(columns=["income"], p=0.2).apply(frame, seed=SEED)
    keys = ["age", "zip", "income"]
    assert _rows(swapped.toPandas(), keys) == _rows(wanted, keys)


def _rows(frame: pd.DataFrame, keys: list[str]) -> list[tuple[Any, ...]]:
    return sorted(frame[keys].astype({"age": int}).itertuples(index=False, name=None))
