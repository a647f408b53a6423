"""Calls that type checkers must refuse, each on a line marked ``# wrong``; nothing here runs."""

from __future__ import annotations

import pandas as pd

import privpipe as pp
import privpipe.gx as ppgx
import privpipe.sklearn as ppsk
import privpipe.spark as pps
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
from privpipe.transforms import AddNoise, Generalize, Microaggregate, RankSwap, TopCode

frame = pd.DataFrame({"age": [1], "income": [2.0]})

KAnonymity(k="5")  # wrong
KAnonymity(5)  # wrong
KAnonymity(size=5)  # wrong
DistinctLDiversity(l=3)  # wrong
TCloseness(column="illness", t=0.2, distance="equals")  # wrong
RankSwap(columns="income", p=0.05)  # wrong
RankSwap(columns=["income"], p="5 %")  # wrong
RankSwap(columns=["income"], window=0.05)  # wrong
AddNoise(columns=["income"], kind="gaussian")  # wrong
Microaggregate(columns=["income"], k="3")  # wrong
TopCode(at=80)  # wrong
Generalize(search="best")  # wrong
pp.models.KAnonimity(k=5)  # wrong
pp.transforms.RankSwop(columns=["income"])  # wrong
pp.Roles(quasi=["age"])  # wrong
pp.realease("policy.yaml")  # wrong
pp.release(5)  # wrong
pp.assess(frame)  # wrong
RankSwap(columns=["income"], p=0.05).apply(frame, sead=b"")  # wrong
RankSwap(columns=["income"], p=0.05).apply(frame, nulls="keep")  # wrong
RankSwap(columns=["income"], p=0.05).apply()  # wrong
RankSwap(columns=["income"], p=0.05).fit(frame).apply(frame)  # wrong
TopCode(columns=["age"], at=80).apply(frame).collect()  # wrong
text: str = TopCode(columns=["age"], at=80).apply(frame)  # wrong
pp.FittedStage.load()  # wrong
ppgx.ExpectKAnonymity(k=5)  # wrong
ppgx.ExpectKAnonymity(quasi_identifiers=["age"], k="5")  # wrong
ppgx.ExpectKAnonimity(quasi_identifiers=["age"], k=5)  # wrong
pp.observe.k_anonimity(frame, ["age"])  # wrong
pp.observe.k_anonymity(frame, ["age"], k=5)  # wrong
pp.observe.sample_uniqueness(frame, "age")  # wrong
pp.observe.sample_uniqueness(frame=frame)  # wrong
pp.observe.distinct_l_diversity(frame, ["age"])  # wrong
pp.observe.distinct_l_diversity(frame, ["age"], "illness", l=3)  # wrong
pp.observe.recursive_cl_diversity(frame, ["age"], "illness")  # wrong
pp.observe.entropy_l_diversity(frame, ["age"], "illness", estimator="best")  # wrong
pp.observe.t_closeness(frame, ["age"], "illness", nulls="keep")  # wrong
pp.observe.distinct_l_diversity(frame, ["age"], "illness").upper()  # wrong
ppsk.RankSwop(columns=["income"])  # wrong
ppsk.RankSwap(["income"])  # wrong
ppsk.RankSwap(columns="income")  # wrong
ppsk.RankSwap(inputCols=["income"])  # wrong
ppsk.RankSwap(columns=["income"], p="5 %")  # wrong
ppsk.RankSwap(columns=["income"], seed=b"0" * 32)  # wrong
ppsk.TopCode(at=80, progress=print)  # wrong
pps.RankSwop(inputCols=["income"])  # wrong
pps.RankSwap(inputCols="income")  # wrong
pps.RankSwap(input_cols=["income"])  # wrong
pps.RankSwap(inputCols=["income"], p="5 %")  # wrong
pps.RankSwap(inputCols=["income"], seed=42)  # wrong
pps.RankSwap(inputCols=["income"]).setP("5 %")  # wrong
pps.RankSwap(inputCols=["income"]).setParams(window=5)  # wrong
pps.RankSwap(inputCols=["income"]).setPolicyNulls("keep")  # wrong
pps.RankSwap(inputCols=["income"]).getP().upper()  # wrong
pps.Generalize(suppress_at_most=0.1)  # wrong
pps.ReleaseGate(guarantees=["k_anonymity"])  # wrong
pps.ReleaseGate(seed=1)  # wrong
pps.Release(policy=7)  # wrong
pps.Release("release.yaml")  # wrong
