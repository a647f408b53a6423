"""`role: drop`: in no release, in no guarantee, and a finished table that holds the column fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize, TopCode

PEOPLE = pd.DataFrame({"age": [31, 33, 31, 33], "town": ["a", "b", "b", "a"], "note": ["w", "x", "y", "z"]})


def document(tmp_path: Path, **more: Any) -> dict[str, Any]:
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "people.parquet")},
        "columns": {"age": {"role": "quasi_identifier"}, "town": {"role": "insensitive"}, "note": {"role": "drop"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"path": str(tmp_path / "out")},
        **more,
    }


def test_no_release_holds_it_and_the_plan_says_so(tmp_path: Path) -> None:
    result = pp.release(document(tmp_path))
    rows = pq.read_table([str(file) for file in sorted(Path(result.path).glob("*.parquet"))])
    assert rows.column_names == ["age", "town"]
    (lost,) = [each for each in result.assessment.lost.columns if each.column == "note"]
    assert (lost.role, lost.done) == ("drop", ("not released",))


def test_a_finished_table_that_holds_it_fails(tmp_path: Path) -> None:
    policy = document(tmp_path)
    judged = pp.assess(PEOPLE, policy)
    assert not judged.passed
    assert judged.verdicts[0].reason == "1 column is to be dropped, or an identifier: 'note'; take it out."
    assert pp.assess(PEOPLE.drop(columns="note"), policy).passed
    assert any("dropped columns of the source" in note for note in pp.assess(None, policy).notes)


@pytest.mark.parametrize(
    "more",
    [
        {"record_id": "note"},
        {"person_id": "note"},
        {"transform": [{"top_code": {"columns": ["note"], "at": 3}}]},
        {"transform": [{"pseudonymise": {"columns": ["note"], "domain": "d", "key": {"from_env": "KEY"}}}]},
        {"measures": [{"information_loss": {"measure": "ncp", "columns": ["note"]}}]},
        {"guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": ["note"]}}]},
        {"guarantees": [{"distinct_l_diversity": {"column": "note", "l": 2}}]},
    ],
)
def test_nothing_may_ask_for_it(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="drop"):
        pp.Policy.from_dict(document(tmp_path, **more))


def test_it_has_no_hierarchy(tmp_path: Path) -> None:
    policy = document(tmp_path)
    policy["columns"]["note"]["hierarchy"] = {"redact": {}}
    with pytest.raises(PolicyError, match="the column is dropped, so nothing generalizes it"):
        pp.Policy.from_dict(policy)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dask"])
def test_stages_leave_it_out_and_keep_identifiers(kind: str) -> None:
    import dask.dataframe
    import polars
    import pyarrow as pa

    make: dict[str, Any] = {
        "pandas": lambda frame: frame,
        "polars": polars.from_pandas,
        "arrow": pa.Table.from_pandas,
        "dask": lambda frame: dask.dataframe.from_pandas(frame, npartitions=2),
    }
    roles = pp.Roles(quasi_identifiers=["age"], identifiers=["town"], dropped=["note"])
    stage = TopCode(columns=["age"], at=32)
    out = stage.apply(make[kind](PEOPLE), roles=roles)
    assert list(getattr(out, "column_names", None) or out.columns) == ["age", "town"]
    fitted = stage.fit(make[kind](PEOPLE), roles=roles)
    assert fitted.columns == ("age", "town")


def test_keys_of_a_stage_are_not_dropped() -> None:
    with pytest.raises(UsageError, match="record_id: column 'note' is dropped"):
        TopCode(columns=["age"], at=32).apply(PEOPLE, roles=pp.Roles(dropped=["note"]), record_id="note")


def test_policies_of_objects() -> None:
    roles = pp.Roles(quasi_identifiers=["age"], insensitive=["town"], dropped=["note"])
    policy = pp.Policy(
        roles=roles,
        hierarchies={"age": {"intervals": {"widths": [10]}}},
        transform=[Generalize(levels={"age": 1})],
        guarantees=[KAnonymity(k=2)],
    )
    assert list(policy.apply(PEOPLE).columns) == ["age", "town"]
    assert "role: drop" in policy.to_yaml()
