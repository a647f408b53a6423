"""Calls that type checkers must take, and the kinds of frames that come out; nothing here runs."""

from __future__ import annotations

from typing import assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

import privpipe as pp
import privpipe.gx as ppgx
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
