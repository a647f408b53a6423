"""Calls that type checkers must refuse, each on a line marked ``# wrong``; nothing here runs."""

from __future__ import annotations

import pandas as pd

import privpipe as pp
import privpipe.gx as ppgx
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
