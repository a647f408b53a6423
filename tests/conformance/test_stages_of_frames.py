"""Every example of every transformer gives a frame the rows of a policy that draws under the same key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.running.stage_run import DrawRoot
from privpipe.testing import first_outcome
from privpipe.testing.stages import SEEDS, Staging, keys_of, sorted_rows
from tests.tiers import deep_among

from .test_stages import ONE_EACH, STAGES

WANTED: dict[str, Any] = {}
ON_SPARK = ("add_noise-0", "generalize-0", "suppress_records-0")


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of a policy hang on all of it; here they hang on the seed and the stage, as those of a stage alone do."""
    monkeypatch.setattr(DrawRoot, "of", classmethod(lambda cls, context, drawn, plan: cls(context.seed)))


def test_a_stage_alone_and_one_in_a_policy_share_no_draw(
    embedded: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    found = first_outcome(STAGES["add_noise-0"], embedded, tmp_path)
    out = applied("add_noise-0", found, found.table.rows, tmp_path)
    assert not set(out["income"].to_pylist()) & {value for row in found.rows for value in row}


@pytest.fixture
def wanted(embedded: Engine, tmp_path: Path) -> Any:
    """What a policy makes of a stage on the embedded engine, once."""

    def of(name: str) -> Any:
        if name not in WANTED:
            WANTED[name] = first_outcome(STAGES[name], embedded, tmp_path)
        return WANTED[name]

    return of


def applied(name: str, found: Any, frame: Any, folder: Path) -> Any:
    """The stage over a frame, with the context of the policy."""
    policy = Staging(STAGES[name], folder, found.table).policy()
    with keys_of(STAGES[name]):
        return STAGES[name].apply(
            frame,
            roles=policy.roles,
            hierarchies=policy.hierarchies,
            guarantees=policy.guarantees,
            seed=SEEDS[0],
            person_id=policy.person_id,
            nulls=policy.nulls,
        )


def compare(name: str, found: Any, out: pa.Table) -> None:
    """The policy removes identifiers before the stage; the stage alone leaves other columns unchanged."""
    names = [one for one in found.schema.names if one in out.schema.names]
    assert names == found.schema.names
    assert sorted_rows(out.select(names).cast(found.schema)) == found.rows, name


@pytest.mark.parametrize("name", deep_among(set(STAGES) - set(ONE_EACH), STAGES))
def test_a_table_gets_the_rows_of_a_policy(wanted: Any, name: str, tmp_path: Path) -> None:
    found = wanted(name)
    compare(name, found, applied(name, found, found.table.rows, tmp_path))


@pytest.mark.dask
@pytest.mark.parametrize("name", deep_among(set(STAGES) - set(ONE_EACH), STAGES))
def test_a_dask_frame_gets_them(dask_engine: Engine, wanted: Any, name: str, tmp_path: Path) -> None:
    import dask.dataframe as dd
    import pandas as pd

    found = wanted(name)
    frame = dd.from_pandas(found.table.rows.to_pandas(types_mapper=pd.ArrowDtype), npartitions=3, sort=False)
    out = applied(name, found, frame, tmp_path)
    assert isinstance(out, dd.DataFrame)
    rows = out.compute()
    compare(name, found, pa.Table.from_pandas(rows, preserve_index=False))
    if STAGES[name].keeps_places:
        for column in set(rows.columns) - set(STAGES[name].masked_columns()):
            assert rows[column].astype(str).to_dict() == frame[column].compute().astype(str).to_dict(), column


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_a_spark_frame_gets_them(spark_engine: Any, wanted: Any, name: str, tmp_path: Path) -> None:
    found = wanted(name)
    out = applied(name, found, spark_engine.session.createDataFrame(found.table.rows).repartition(3), tmp_path)
    compare(name, found, out.toArrow())
