"""A Spark master that does not answer, or that has no executors, ends a run; it never waits forever."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from privpipe.engines.spark.failures import Watch, gave_up, reported, require_master, told
from privpipe.engines.spark.session import Options
from privpipe.errors import EngineError, UsageError


@pytest.mark.parametrize("master", ["spark://127.0.0.1:9", "spark://127.0.0.1:9,[::1]:9"])
def test_a_master_on_a_closed_port_is_given_up(master: str) -> None:
    with pytest.raises(EngineError, match=r"no master answers at spark://127\.0\.0\.1:9.* within 0\.5 s"):
        require_master(master, 0.5)


def test_other_masters_are_left_to_spark() -> None:
    for master in ("local[2]", "yarn", "k8s://https://127.0.0.1:9", "spark://no port", ""):
        require_master(master, 0.1)


def stage(running: int = 0, done: int = 0) -> SimpleNamespace:
    """What Spark's tracker reports about a stage."""
    return SimpleNamespace(numActiveTasks=running, numCompletedTasks=done)


@dataclass
class Context:
    """A context with one stage that no one runs."""

    stages: dict[int, Any] = field(default_factory=lambda: {7: stage()})
    cancelled: int = 0

    def statusTracker(self) -> Any:
        return self

    def getActiveStageIds(self) -> list[int]:
        return list(self.stages)

    def getStageInfo(self, number: int) -> Any:
        return self.stages.get(number)

    def cancelAllJobs(self) -> None:
        self.cancelled += 1


def until(seen: Any) -> None:
    end = time.monotonic() + 20
    while not seen() and time.monotonic() < end:
        time.sleep(0.02)


def test_jobs_that_no_executor_takes_are_ended_and_the_error_says_why() -> None:
    context = Context()
    watch = Watch(context, 0.2)
    try:
        until(lambda: context.cancelled)
        assert context.cancelled
        with (
            pytest.raises(EngineError, match=r"could not count: no executor took a task for 0\.2 s.*`patience`"),
            reported("count"),
        ):
            raise RuntimeError("cancelled")
    finally:
        watch.close()
    assert gave_up() == ""


def test_a_task_at_work_may_take_as_long_as_it_takes() -> None:
    context = Context({7: stage(running=1)})
    seen: list[int] = []
    context.getStageInfo = lambda number: seen.append(number) or stage(running=1)  # type: ignore[method-assign, func-returns-value]
    watch = Watch(context, 0.2)
    try:
        until(lambda: len(seen) > 12)  # a look every 0.05 s: three times the patience
        assert not context.cancelled
    finally:
        watch.close()


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), True, "60"])
def test_patience_is_a_number_of_seconds(seconds: object) -> None:
    with pytest.raises(UsageError, match="patience must be a number"):
        Options.read({"patience": seconds})


def test_memory_that_ran_out_is_reported_with_the_setting_to_change() -> None:
    with (
        pytest.raises(EngineError, match=r"raise `spark\.driver\.memory` or `spark\.executor\.memory`"),
        reported("count"),
    ):
        raise RuntimeError("Job aborted: java.lang.OutOfMemoryError: Java heap space")
    assert "spark.executor.memoryOverhead" in str(told(MemoryError()))
