"""`pp.transform(..., losses=True)`: the same frame, and next to it what the command line shows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.transforms import Generalize, TopCode

SEED = bytes(range(32))
FRAME = pd.DataFrame({"age": [31, 33, 45, 47], "town": ["Quuxville", "Fnordstadt"] * 2, "cost": [1.0, 2.0, 3.0, 99.0]})
GIVEN: dict[str, Any] = {
    "roles": pp.Roles(quasi_identifiers=["age"], insensitive=["town", "cost"]),
    "hierarchies": {"age": {"intervals": {"widths": [10]}}},
    "seed": SEED,
}
STAGES = [Generalize(levels={"age": 1}), TopCode(columns=["cost"], at=50)]


def test_stages_tell_what_was_lost_and_give_the_same_frame() -> None:
    out, lost = pp.transform(FRAME, STAGES, losses=True, **GIVEN)
    pd.testing.assert_frame_equal(out, pp.transform(FRAME, STAGES, **GIVEN))
    assert [row["column"] for row in lost.rows] == ["age", "town", "cost"]
    assert (lost.of("age").labels_before, lost.of("age").labels_after) == (4, 2)
    assert (lost.of("town").loss, lost.of("cost").changed) == (0.0, 0.25)
    assert list(lost.to_pandas()["column"]) == ["age", "town", "cost"]


def test_a_plan_tells_what_it_told_when_it_was_made() -> None:
    policy = pp.Policy(transform=STAGES, guarantees=[pp.models.KAnonymity(k=2)], **GIVEN)
    plan = pp.plan(FRAME, policy)
    out, lost = pp.transform(FRAME, plan, losses=True)
    assert lost == plan.lost
    assert len(out) == 4
    assert isinstance(pp.transform(FRAME, plan), pd.DataFrame)


@pytest.mark.dask
def test_a_lazy_frame_is_compared_too() -> None:
    dd = pytest.importorskip("dask.dataframe")
    stage = TopCode(columns=["cost"], at=50)
    out, lost = pp.transform(dd.from_pandas(FRAME, npartitions=2), stage, losses=True, seed=SEED)
    assert lost.of("cost").changed == 0.25
    assert out["cost"].compute().max() == 50


def test_it_is_shown_in_a_line_and_a_table_without_values() -> None:
    _, lost = pp.transform(FRAME, STAGES, losses=True, **GIVEN)
    assert repr(lost) == "LossTable(3 columns, 4 records compared, 0 alarms)"
    said = lost._repr_html_()
    assert "generalize" in said
    assert not any(value in said for value in ("Quuxville", "Fnordstadt", "99"))
