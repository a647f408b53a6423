"""Calls that type checkers must take, and the kinds of frames that come out; nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

import pandas as pd
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

import privpipe as pp
import privpipe.gx as ppgx
import privpipe.sklearn as ppsk
import privpipe.spark as pps
from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.transforms import Generalize, RankSwap, TopCode

frame = pd.DataFrame({"age": [1], "income": [2.0]})
roles = pp.Roles(quasi_identifiers=["age"])
swap = RankSwap(columns=["income"], p=0.05)

assert_type(swap.apply(frame, seed=b"0" * 32), pd.DataFrame)
assert_type(swap.fit_transform(pl.DataFrame({"income": [1.0]})), pl.DataFrame)
assert_type(TopCode(columns=("age",), at=80).apply("data/adult.csv"), pa.Table)
assert_type(swap.fit(frame), pp.FittedStage)
assert_type(swap.fit(frame).transform(frame), pd.DataFrame)
frame.pipe(swap.apply, seed=b"0" * 32)
Generalize(search="optimal", loss={"name": "loss"}).apply(frame, roles=roles, guarantees=[KAnonymity(k=5)])
assert_type(pp.models.KAnonymity(k=5).k, int | None)
DistinctLDiversity(column="illness", l=3)
assert_type(pp.assess(frame, {"columns": {}}), pp.Assessment)
ppgx.ExpectKAnonymity(quasi_identifiers=["age"], k=5)

assert_type(pp.k_anonymity(frame, ["age"]), int)
assert_type(pp.observe.k_anonymity(frame, quasi_identifiers=["age"], nulls="wildcard"), int)
assert_type(pp.observe.distinct_l_diversity(frame, ["age"], "illness"), int)
assert_type(pp.observe.distinct_l_diversity(frame, column="illness", roles=roles), int)
assert_type(pp.observe.entropy_l_diversity(frame, ["age"], "illness", estimator="grassberger"), float)
assert_type(pp.observe.recursive_cl_diversity("data/adult.csv", ["age"], "illness", l=2), float | None)
assert_type(pp.observe.p_sensitive_k_anonymity(frame, ["age"], "illness"), Mapping[str, float])
assert_type(pp.observe.record_linkage(frame, columns=("age",), original=frame, align="position"), Mapping[str, Any])
assert_type(pp.observe.marketer_risk(frame, ["age"], population=frame), float)

top = ppsk.TopCode(at=80, seed=pp.Seed.of(b"0" * 32))
assert_type(top.fit(frame), ppsk.TopCode)
assert_type(top.fit(frame).fitted_stage_, pp.FittedStage)
assert_type(ppsk.RankSwap(columns=["income"], p=0.05, seed={"from_env": "SEED"}).p, float | None)
every: list[ppsk.StageEstimator] = [top, ppsk.Generalize(roles=roles, guarantees=[KAnonymity(k=5)])]


def with_spark(table: DataFrame) -> None:
    estimator = pps.RankSwap(inputCols=["income"], p=0.05, seed={"from_env": "SEED"})
    assert_type(estimator.setP(0.1).setColumns(("income",)).setRoles(roles), pps.RankSwap)
    assert_type(estimator.getInputCols(), list[str])
    assert_type(estimator.setParams(partner="content"), pps.RankSwap)
    assert_type(estimator.fit(table), pps.RankSwapModel)
    assert_type(estimator.fit(table, [{estimator.p: 0.2}]), list[pps.RankSwapModel])
    assert_type(estimator.fit(table).transform(table), DataFrame)
    assert_type(pps.RankSwapModel.load("models/swap").repeatable, bool)
    gate = pps.ReleaseGate(guarantees=[KAnonymity(k=5), {"k_map": {"k": 5}}], roles={"quasi_identifiers": ["age"]})
    assert_type(gate.fit(table), pps.ReleaseGateModel)
    assert_type(pps.Release(policy="release.yaml").fit(table).plan, Mapping[str, Any])
    assert_type(pps.release_batches("release.yaml", state="held").counts, Mapping[str, int])
    # What a notebook says first.
    by_column = {"age": "quasi_identifier", "income": "insensitive"}
    assert_type(pp.KAnonymity(k=5), pp.models.KAnonymity)
    assert_type(pp.check(frame, [{"k_anonymity": {"k": 5}}], roles=by_column), pp.Assessment)
    pp.Policy(
        roles=by_column, guarantees=[{"k_anonymity": {"k": 5}}], transform=["rank_swap", RankSwap(columns=["age"])]
    )
    assert_type(pp.Generalize().apply(frame, quasi_identifiers=["age"], guarantees=KAnonymity(k=5)), pd.DataFrame)
    assert_type(pp.explain("k_anonymity").text, str)
