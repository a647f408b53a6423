"""Names that privpipe needs for itself are refused by name, on every engine and before anything runs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.engines.base.logical_types import check_names
from privpipe.errors import DataError, PolicyError
from privpipe.transforms import Shuffle, SuppressCells, TopCode

TAKEN = ["__count", "__COUNT", "__privpipe_key", "__Privpipe"]
FREE = ["__count_sum", "__own_id_hi", "__composition_hi", "__members", "count", "_count", "__counts"]


@pytest.mark.parametrize("name", TAKEN)
def test_every_engine_refuses_them(engine: Engine, name: str) -> None:
    with pytest.raises(DataError, match=f"column {name!r}: .* are reserved; rename the column"):
        engine.scan(Source(data=pa.table({"zip": ["a"], name: [1]})))


def test_a_policy_and_a_stage_refuse_them() -> None:
    columns = {"__count": {"role": "insensitive"}, "zip": {"role": "quasi_identifier"}}
    with pytest.raises(PolicyError, match="be __count or start with __privpipe"):
        pp.Policy.from_dict({"version": 1, "columns": columns, "guarantees": [{"k_anonymity": {"k": 2}}]})
    with pytest.raises(DataError, match="column '__count'"):
        TopCode(columns=["__count"], quantile=0.5).apply(pd.DataFrame({"__count": [1.0, 2.0]}))


@pytest.mark.parametrize("name", FREE)
def test_names_that_look_like_ours_are_columns_like_any_other(name: str) -> None:
    check_names([name])
    n = 60
    frame: dict[str, Any] = {name: [at % 7 for at in range(n)], "zip": ["a", "b", "c"] * (n // 3)}
    table = pa.table(frame)
    roles = pp.Roles(quasi_identifiers=[name, "zip"])
    guarantees = [pp.models.KAnonymity(k=3)]
    assert Shuffle(columns=[name], by=["zip"]).apply(table).column_names == [name, "zip"]
    assert SuppressCells().apply(table, roles=roles, guarantees=guarantees).column_names == [name, "zip"]
    measured = pp.measures.Quality(name="aecs")
    assert pp.assess(table, [*guarantees, measured], roles=roles, original=table, align="position").measures
