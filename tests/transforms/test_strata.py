"""Strata: null-safe, counted, and small ones refused, suppressed or merged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.roles import Roles
from privpipe.transforms import Pram, RankSwap
from privpipe.transforms.base import StageContext
from privpipe.transforms.strata import Strata, checked_by

ROWS = {
    "sex": ["f"] * 6 + ["m"] * 4 + [None] * 2 + ["x"],
    "age": [1] * 3 + [2] * 3 + [1] * 4 + [1] * 3,
    "pay": [1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None, 1.0, 2.0, 3.0],
}


def learnt(engine: Engine, **options: Any) -> Strata:
    table = engine.with_record_ids(engine.scan(Source(data=pa.table(ROWS))), None, Seed.insecure(1))
    context = StageContext(roles=Roles(insensitive=tuple(ROWS)), schema=table.schema, place="transform[0]")
    return Strata.learn(engine, table, ("sex",), ("pay",), context, **options)


def test_counts_by_stratum(engine: Engine) -> None:
    found = learnt(engine)
    assert sorted(found.records) == [1, 2, 4, 6]
    assert sorted(zip(found.records, found.known["pay"], strict=True)) == [(1, 1), (2, 2), (4, 3), (6, 5)]
    assert Strata.from_dict(found.to_dict()) == found


def test_small_strata_are_refused_suppressed_or_merged(embedded: Engine) -> None:
    with pytest.raises(NoSolutionError, match=r"2 of 4 strata by 'sex', 3 records, have fewer than 3 values"):
        learnt(embedded, least=3)
    gone = learnt(embedded, least=3, small="suppress")
    assert sorted(gone.records) == [4, 6]
    assert gone.suppressed == 3
    pooled = learnt(embedded, least=3, small="merge")
    assert sorted(pooled.records) == [3, 4, 6]
    assert pooled.merged == 2
    # The pool of three is too small for five, and takes in the smallest of the others.
    wider = learnt(embedded, least=5, small="merge")
    assert sorted(wider.records) == [6, 7]
    with pytest.raises(NoSolutionError, match="all 4 strata together"):
        learnt(embedded, least=12, small="merge")


def test_a_plan_for_other_strata_is_refused(run: Any) -> None:
    from privpipe.blocks import RowBlock

    strata = Strata(by=("sex",), keys=(3,), numbers=(0,), records=(2,))
    with pytest.raises(DataError, match="2 records are in strata by 'sex' that the plan does not know"):
        strata.of(RowBlock(pa.record_batch({"sex": ["f", "m"]})))


def test_wrong_by() -> None:
    for by, message in [("sex", "list of column names"), (["pay"], "masks itself"), (["sex", "sex"], "twice")]:
        with pytest.raises(UsageError, match=message):
            checked_by("AddNoise", by, ("pay",), "refuse")
    with pytest.raises(UsageError, match="did you mean 'merge'"):
        RankSwap(columns=["pay"], p=0.4, by=["sex"], small_strata="merg")


def test_suppressed_strata_leave_the_table(run: Any) -> None:
    stage = RankSwap(columns=["pay"], p=0.4, by=["sex"], small_strata="suppress")
    outcome = run(stage, ROWS)
    assert sorted(map(str, outcome["sex"])) == ["f"] * 6 + ["m"] * 4
    assert stage.suppresses
    assert not Pram(columns=["sex"]).suppresses
