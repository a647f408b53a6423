"""Spark: the rows that a gate gives back are those that it judged, or their use fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as sf

import privpipe as pp
import privpipe.spark as pps
from privpipe.engines import Engine
from privpipe.engines.spark import driver_tables
from privpipe.errors import Refused, UnsupportedError
from privpipe.models import DistinctLDiversity, KAnonymity, SampleUniqueness

pytestmark = pytest.mark.spark
ROWS = 40
POLICY = pp.Policy.from_dict(
    {"columns": {"zip": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": ROWS}}]}
)


@pytest.fixture
def session(spark_engine: Engine) -> Any:
    return spark_engine.session  # type: ignore[attr-defined]


@pytest.fixture(params=[1_000_000, 10], ids=["small", "large"])
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of so many records are drawn to the driver."""
    monkeypatch.setattr(driver_tables, "MOST_COLLECTED", request.param)


def judged_forms(frame: Any) -> Iterator[Any]:
    """The frame as each gate gives it back."""
    yield POLICY.apply(frame)
    yield pp.check(frame, KAnonymity(k=ROWS), quasi_identifiers=["zip"], hold=True)
    roles = {"quasi_identifiers": ["zip"]}
    yield pps.ReleaseGate(guarantees=[{"k_anonymity": {"k": ROWS}}], roles=roles).fit(frame).transform(frame)
    yield pps.Release(policy=POLICY).fit(frame).transform(frame)


def values(frame: Any) -> list[Any]:
    return sorted(row[0] for row in frame.select("zip").collect())


@pytest.mark.usefixtures("_size")
@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_files_that_change_afterwards_change_nothing(session: Any, tmp_path: Path, change: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("zip\n" + "1\n" * ROWS)
    frame = session.read.csv(str(file), header=True, schema="zip long")
    found = list(judged_forms(frame))
    if change == "removed":
        file.unlink()
    else:
        file.write_text("zip\n" + "\n".join(map(str, range(ROWS))))
    for each in found:
        assert values(each) == values(each) == [1] * ROWS


def test_a_judgement_evaluates_a_frame_once_and_every_use_finds_those_rows(session: Any) -> None:
    seen = session.sparkContext.accumulator(0)

    def draw(at: int) -> float:
        import random

        seen.add(1)
        return random.random()

    draw_one = sf.udf(draw, "double", useArrow=False).asNondeterministic()
    frame = session.range(ROWS, numPartitions=2).select(draw_one("id").alias("zip"), sf.lit(1).alias("ill"))
    entries = [KAnonymity(k=1), DistinctLDiversity(column="ill", l=1), SampleUniqueness()]
    with pp.checked(frame, entries, quasi_identifiers=["zip"]) as safe:
        assert seen.value == ROWS
        assert values(safe) == values(safe)
        assert values(safe.limit(7)) == values(safe.limit(7))
    with pytest.raises(Exception, match="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block"):
        safe.collect()
    assert pp.assess(frame, entries, quasi_identifiers=["zip"], original=frame).passed
    assert seen.value == 2 * ROWS


@pytest.mark.parametrize("plan", ["limit", "dropDuplicates"])
def test_a_plan_that_may_choose_other_rows_has_chosen(session: Any, plan: str) -> None:
    """Which rows come first depends on the evaluation: here on numbers that are drawn for each."""
    import random

    draw = sf.udf(lambda at: random.random(), "double", useArrow=False).asNondeterministic()
    frame = session.range(4000).select((sf.col("id") % 40).alias("zip"), draw("id").alias("visit"))
    frame = frame.sort("visit").limit(ROWS) if plan == "limit" else frame.dropDuplicates(["zip"])
    roles = pp.Roles(quasi_identifiers=["zip"], insensitive=["visit"])
    safe = pp.check(frame, KAnonymity(k=1), roles=roles, hold=True)

    def rows(of: Any) -> list[Any]:
        return sorted(map(tuple, of.select("zip", "visit").collect()))  # of a plan that Spark has no shuffle of yet

    assert rows(safe) == rows(safe)
    assert rows(frame) != rows(frame)


def test_a_checkpoint_directory_is_used_and_keeps_nothing_that_was_refused(session: Any, tmp_path: Path) -> None:
    context = session.sparkContext
    context.setCheckpointDir(str(tmp_path))
    try:
        frame = session.range(ROWS).select(sf.lit(1).alias("zip"))

        def kept() -> list[Path]:
            return list(tmp_path.glob("*/rdd-*"))

        for refuse in (KAnonymity(k=ROWS + 1), POLICY.replaced(guarantees=(KAnonymity(k=ROWS + 1),))):
            with pytest.raises(Refused):
                refuse.apply(frame) if isinstance(refuse, pp.Policy) else pp.check(
                    frame, refuse, quasi_identifiers=["zip"], hold=True
                )
            assert kept() == []
        with pp.checked(frame, KAnonymity(k=ROWS), quasi_identifiers=["zip"]) as safe:
            assert len(kept()) == 1
            assert safe.count() == ROWS
        assert kept() == []
    finally:
        context._jsc.sc().setCheckpointDir(None)
        shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_session_without_checkpoints_is_refused(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = session.range(ROWS).select(sf.lit("canary").alias("zip"))

    def forbidden(self: Any) -> Any:
        raise RuntimeError("[NOT_SUPPORTED_WITH_SERVERLESS] canary")

    monkeypatch.setattr(type(frame), "localCheckpoint", forbidden)
    for judge in (POLICY.apply, lambda frame: pp.check(frame, POLICY, hold=True)):
        with pytest.raises(UnsupportedError, match=r"allows no checkpoints.*`privpipe.release`") as found:
            judge(frame)
        assert "canary" not in str(found.value)


CONNECT = """
import random, sys
from pathlib import Path
from pyspark.sql import functions as sf
import privpipe as pp
from privpipe.engines import open_engine

file = Path(sys.argv[1])
file.write_text("zip\\n" + "1\\n" * 40)
policy = {"columns": {"zip": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": 40}}]}
with open_engine("spark", {"remote": "local[2]", "shuffle_partitions": 2}) as engine:
    frame = engine.session.read.csv(str(file), header=True, schema="zip long")
    given = pp.Policy.from_dict(policy).apply(frame)
    with pp.checked(frame, pp.Policy.from_dict(policy)) as safe:
        file.write_text("zip\\n" + "\\n".join(map(str, range(40))))
        print([sorted(row[0] for row in each.collect()) == [1] * 40 for each in (given, safe, frame)])
"""


@pytest.mark.usefixtures("connect_port")
def test_spark_connect_holds_them_too(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.0")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", CONNECT, str(tmp_path / "rows.csv")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )
    assert run.stdout.strip().endswith("[True, True, False]"), run.stderr[-2000:]
