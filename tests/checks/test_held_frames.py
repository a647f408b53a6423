"""What is judged of a lazy frame is what is given back, whatever its sources and functions do afterwards."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.checks import frame_checks
from privpipe.engines import open_engine
from privpipe.errors import DataError, Refused, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize

ROWS = 60
NAME = 'odd "na`me'
POLICY = pp.Policy.from_dict(
    {"columns": {NAME: {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": ROWS}}]}
)


class Evaluations:
    """Values that are all alike the first time, and all different the next; counts the times, and the next time."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        self.seen += 1
        return rows.assign(**{NAME: 0 if self.seen == 1 else range(len(rows))})


def dask_frame() -> Any:
    dd = pytest.importorskip("dask.dataframe")
    found = dd.from_pandas(pd.DataFrame({NAME: range(ROWS)}), npartitions=1)
    return found.map_partitions(Evaluations(), meta=found._meta)


def relation() -> Any:
    """Its first evaluation has zeros, its second ones."""
    calls = itertools.count()
    connection = duckdb.connect()
    connection.create_function("draw", lambda _: next(calls), ["BIGINT"], "BIGINT", side_effects=True)
    return connection.sql(f"""SELECT draw(range) // {ROWS} AS "odd ""na`me" FROM range({ROWS})""")


def polars_frame() -> Any:
    return pl.LazyFrame({NAME: range(ROWS)}).map_batches(
        lambda frame, made=Evaluations(): pl.from_pandas(made(frame.to_pandas()))  # noqa: B008 - one for each frame
    )


DRAWN: dict[str, Callable[[], Any]] = {"dask": dask_frame, "relation": relation, "polars": polars_frame}


def values(frame: Any) -> list[Any]:
    """The values of the column, in order, by an evaluation of the frame."""
    if hasattr(frame, "fetchall"):
        return sorted(row[0] for row in frame.fetchall())
    if hasattr(frame, "to_table"):
        return sorted(frame.to_table().column(NAME).to_pylist())
    frame = frame.compute() if hasattr(frame, "compute") else frame
    return sorted(frame[NAME].to_list())


@pytest.mark.filterwarnings("ignore:.*LazyFrame is collected")
@pytest.mark.parametrize("kind", DRAWN)
def test_every_use_of_what_a_gate_gives_back_finds_the_rows_that_it_judged(kind: str) -> None:
    drawn = DRAWN[kind]
    gate = KAnonymity(k=ROWS)
    with pp.checked(drawn(), gate, quasi_identifiers=[NAME]) as safe:
        assert values(safe) == values(safe) == [0] * ROWS
    held = pp.check(drawn(), gate, quasi_identifiers=[NAME], hold=True)
    assert values(held) == values(held) == [0] * ROWS
    given = POLICY.apply(drawn())
    assert values(given) == values(given) == [0] * ROWS
    assert type(safe) is type(held) is type(given)


@pytest.mark.parametrize("change", ["replaced", "grown", "removed"])
@pytest.mark.parametrize("kind", ["dask", "dataset", "relation"])
def test_files_that_change_afterwards_change_nothing(tmp_path: Path, kind: str, change: str) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({NAME: [0] * ROWS}), file)
    if kind == "dask":
        frame = pytest.importorskip("dask.dataframe").read_parquet(str(tmp_path))
    else:
        frame = ds.dataset(file) if kind == "dataset" else duckdb.connect().read_parquet(str(file))
    with pp.checked(frame, KAnonymity(k=ROWS), quasi_identifiers=[NAME]) as safe:
        given = POLICY.apply(frame)
        if change == "removed":
            file.unlink()
        else:
            more = [0] * ROWS if change == "grown" else []
            pq.write_table(pa.table({NAME: [*more, *range(ROWS)]}), file)
        assert values(safe) == values(given) == [0] * ROWS


def test_a_judgement_evaluates_each_frame_once() -> None:
    dd = pytest.importorskip("dask.dataframe")
    made = Evaluations()
    frame = dd.from_pandas(pd.DataFrame({NAME: range(ROWS), "ill": 1}), npartitions=1)
    frame = frame.map_partitions(made, meta=frame._meta)
    entries = [KAnonymity(k=1), pp.models.SampleUniqueness()]
    judged = pp.assess(frame, entries, quasi_identifiers=[NAME], original=frame)
    assert judged.verdicts[0].observed == ROWS
    assert made.seen == 1


def test_an_engine_lets_go_of_what_it_held_when_the_run_is_over() -> None:
    with open_engine("embedded") as engine:
        for _ in range(2):  # each run makes another evaluation
            frame = relation()
            assert pp.assess(frame, KAnonymity(k=1), quasi_identifiers=[NAME], engine=engine).passed
            assert engine.frames._found is None
        assert pp.assess(frame, [KAnonymity(k=1)], quasi_identifiers=[NAME], engine=engine).verdicts[0].observed == ROWS
        assert set(values(frame)) == {2}  # two judgements have read it


def test_a_stage_that_meets_guarantees_gives_the_rows_that_it_learnt_from() -> None:
    pytest.importorskip("dask.dataframe")
    frame = dask_frame()
    found = Generalize(search="optimal").apply(
        frame,
        roles=pp.Roles(quasi_identifiers=[NAME]),
        hierarchies={NAME: {"intervals": {"start": 0, "widths": [10, 20, 40]}}},
        guarantees=[KAnonymity(k=ROWS)],
    )
    assert values(found) == values(found)
    assert len(set(values(found))) == 1


def test_what_is_refused_is_not_handed_over_and_not_kept() -> None:
    dropped = []
    with pytest.raises(Refused), open_engine("embedded") as engine:
        held = engine.frames.hold(relation())
        with type(held)(held.rows, lambda: dropped.append(1)).unless_refused():
            pp.check(held.rows, KAnonymity(k=ROWS + 1), quasi_identifiers=[NAME])
    assert dropped == [1]
    with pytest.raises(Refused):
        pp.check(relation(), KAnonymity(k=ROWS + 1), quasi_identifiers=[NAME], hold=True)
    with pytest.raises(Refused), pp.checked(relation(), KAnonymity(k=ROWS + 1), quasi_identifiers=[NAME]):
        pytest.fail("the body must not run")


def test_a_frame_of_this_process_is_given_unchanged() -> None:
    frame = pd.DataFrame({NAME: [0] * ROWS}, index=pd.Index(range(ROWS), name="row"))
    options: dict[str, Any] = {"quasi_identifiers": [NAME]}
    with pp.checked(frame, KAnonymity(k=ROWS), **options) as safe:
        assert safe is frame
    assert pp.check(frame, KAnonymity(k=ROWS), hold=True, **options) is frame
    table = pa.table({NAME: [0] * ROWS})
    assert pp.check(table.to_reader(), KAnonymity(k=ROWS), hold=True, **options) == table


@pytest.mark.parametrize("given", ["rows.csv", Path("rows.csv"), None, {"delta": "rows"}])
def test_anything_but_a_frame_is_not_held(given: Any) -> None:
    with pytest.raises(UsageError, match="`privpipe.release`"):
        pp.check(given, KAnonymity(k=2), quasi_identifiers=["zip"], hold=True)


def test_a_dask_frame_keeps_its_index_and_divisions() -> None:
    dd = pytest.importorskip("dask.dataframe")
    rows = pd.DataFrame({"zip": list("aabb")}, index=pd.Index([3, 5, 7, 9], name="row"))
    frame = dd.from_pandas(rows, npartitions=2)
    safe = pp.check(frame, KAnonymity(k=1), quasi_identifiers=["zip"], hold=True)
    assert safe.divisions == frame.divisions
    pd.testing.assert_frame_equal(safe.compute(), frame.compute())


def test_a_fault_of_the_frame_shows_no_cell() -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"zip": ["canary"] * 4}), npartitions=1)
    frame = frame.assign(zip=frame["zip"].map(int, meta=("zip", "int64")))
    with pytest.raises(pp.errors.EngineError) as found:
        pp.check(frame, KAnonymity(k=1), quasi_identifiers=["zip"], hold=True)
    assert "canary" not in str(found.value)
    wrong = duckdb.connect().sql("SELECT CAST('canary' || range AS INTEGER) AS zip FROM range(3)")
    with pytest.raises(DataError) as said:
        pp.check(wrong, KAnonymity(k=1), quasi_identifiers=["zip"], hold=True)
    assert "canary" not in str(said.value)


def test_a_plain_check_says_once_that_it_judged_one_evaluation(caplog: pytest.LogCaptureFixture) -> None:
    frame_checks._say.cache_clear()
    with caplog.at_level(logging.WARNING, "privpipe.checks"):
        for _ in range(2):
            pp.check(relation(), KAnonymity(k=1), quasi_identifiers=[NAME])
        pp.check(pp.check(relation(), KAnonymity(k=1), quasi_identifiers=[NAME], hold=True), POLICY)
    assert [record.getMessage()[:36] for record in caplog.records] == ["pp.check judged one evaluation of a "]
