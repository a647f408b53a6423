"""How long a run waits for a Spark cluster that does nothing: Spark itself waits forever for executors."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Any

from privpipe.errors import EngineError

__all__ = ["PATIENCE", "Watch", "gave_up", "require_master"]

PATIENCE = 60.0
TICK = 1.0
MASTER = re.compile(r"^spark://(.+)$")
ADDRESS = re.compile(r"^\[?([^\[\],]+?)\]?:(\d+)$")

_given_up: list[str] = []


def gave_up() -> str:
    """Why a watch ended what runs, or nothing."""
    return _given_up[-1] if _given_up else ""


def require_master(master: str, seconds: float) -> None:
    """Refuse a standalone master that takes no connection within so many seconds; others are Spark's affair.

    Raises
    ------
    EngineError

    Examples
    --------
    >>> require_master("local[2]", 1.0)
    """
    found = MASTER.match(master)
    addresses = [ADDRESS.match(each) for each in found[1].split(",")] if found else []
    places = [(each[1], int(each[2])) for each in addresses if each]
    if not places or len(places) < len(addresses):
        return
    end = time.monotonic() + seconds
    while True:
        for place in places:
            try:
                socket.create_connection(place, timeout=max(0.1, min(5.0, end - time.monotonic()))).close()
                return
            except OSError:
                continue
        if time.monotonic() >= end:
            raise EngineError(
                f"spark engine: no master answers at {master} within {seconds:g} s; see that it runs and is reached "
                "from here, or raise `patience` under `engines.spark`"
            )
        time.sleep(min(TICK, seconds / 4))


class Watch:
    """Ends the jobs of a session when none of their tasks is taken by an executor for so many seconds.

    Only for a session of one's own: in somebody else's, their jobs would be ended too.

    Parameters
    ----------
    context : pyspark.SparkContext
    seconds : float
    """

    def __init__(self, context: Any, seconds: float) -> None:
        self._context, self._seconds = context, seconds
        self._closed = threading.Event()
        _given_up.clear()
        self._thread = threading.Thread(target=self._watch, name="privpipe-spark-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the watch."""
        self._closed.set()
        self._thread.join(timeout=5)
        _given_up.clear()

    def _watch(self) -> None:
        since, done = time.monotonic(), -1
        while not self._closed.wait(min(TICK, self._seconds / 4)):
            try:
                waiting, running, finished = self._stages()
            except Exception:  # noqa: BLE001 - the session ends, and with it what is watched
                return
            if not waiting or running or finished != done:
                since, done = time.monotonic(), finished
            elif time.monotonic() - since > self._seconds:
                _given_up.append(
                    f"no executor took a task for {self._seconds:g} s; see that the cluster has executors with room, "
                    "or raise `patience` under `engines.spark`"
                )
                self._context.cancelAllJobs()
                since = time.monotonic()

    def _stages(self) -> tuple[int, int, int]:
        """Stages at work, their tasks that run, and those that are done."""
        tracker = self._context.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        return (
            len(stages),
            sum(stage.numActiveTasks for stage in stages),
            sum(stage.numCompletedTasks for stage in stages),
        )
