"""Failures on Spark: errors of a worker, reported without a data value, and a cluster that does nothing."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

import privpipe.errors
from privpipe.engines.readers.unpacking import changed_error, reading
from privpipe.errors import DataError, EngineError, HierarchyError, PrivpipeError

__all__ = [
    "PATIENCE",
    "Watch",
    "WorkerFailure",
    "condition_of",
    "gave_up",
    "guarded",
    "in_step",
    "reported",
    "require_master",
    "sealed",
    "told",
    "unsealed",
]


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

    Only for our own session: in a foreign one, its owner's jobs would be ended too.

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


if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterator[pa.RecordBatch]


SEAL = re.compile(r"privpipe-sealed:([A-Za-z0-9+/=]+):")
JAVA_NAME = re.compile(r"\b(?:[a-z]\w*\.)+([A-Z]\w*(?:Error|Exception))\b")
OUT_OF_MEMORY = (
    "memory ran out (or an executor was lost, which mostly means the same); raise `spark.driver.memory` or "
    "`spark.executor.memory` under `engines.spark.conf`, or `shuffle_partitions`"
)
UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "MALFORMED_CHARACTER_CODING")

FILE = re.compile(r"reading file file:(?://)?(/.+?)\.?(?:\s|$)")
OTHER_TYPES = ("DATA_TYPE_MISMATCH", "SchemaColumnConvertNotSupportedException")


class WorkerFailure(Exception):
    """All that a task of ours ever raises: a sealed error."""


def told(error: BaseException) -> PrivpipeError:
    """The error as it may be reported: our own as they are, of others their kind and the place in our code.

    Examples
    --------
    >>> told(ValueError("a cell value"))
    EngineError('ValueError on a worker')
    """
    if isinstance(error, PrivpipeError):
        return error
    if isinstance(error, MemoryError):
        return EngineError(
            "memory ran out on a worker; raise `spark.executor.memoryOverhead` (of a local master "
            "`spark.driver.memory`) under `engines.spark.conf`, or `shuffle_partitions`"
        )
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "privpipe" in frame.filename and frame.filename != __file__]
    place = f" at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    return EngineError(f"{type(error).__name__} on a worker{place}")


def sealed(error: PrivpipeError) -> str:
    """An error as one word of text.

    Examples
    --------
    >>> unsealed("Traceback ... " + sealed(DataError("column 'age': 3 cells")) + " ...")
    DataError("column 'age': 3 cells")
    """
    content = {"type": type(error).__name__, "message": str(error), "kind": getattr(error, "kind", "")}
    return f"privpipe-sealed:{base64.b64encode(json.dumps(content).encode()).decode()}:"


def unsealed(text: str) -> PrivpipeError | None:
    """The error sealed somewhere in a text, if there is one."""
    found = SEAL.search(text)
    if found is None:
        return None
    content = json.loads(base64.b64decode(found[1]))
    kind = getattr(privpipe.errors, content["type"], EngineError)
    if kind is HierarchyError:
        return HierarchyError(content["message"], kind=content["kind"])
    return kind(content["message"])


def guarded(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A function of Arrow batches that raises nothing but a sealed error."""

    def run(batches: Batches) -> Batches:
        try:
            yield from function(batches)
            return
        except WorkerFailure:
            raise
        except Exception as error:  # noqa: BLE001 - executors log what is raised, and any message may quote a cell
            problem = sealed(told(error))
        raise WorkerFailure(problem) from None

    return run


def in_step(error: PrivpipeError, step: str) -> PrivpipeError:
    """A worker's error as the driver reports it: a breakdown with the step it happened in.

    Examples
    --------
    >>> in_step(EngineError("KeyError on a worker"), "count the cells")
    EngineError('spark engine: could not count the cells: KeyError on a worker')
    """
    return EngineError(f"spark engine: could not {step}: {error}") if type(error) is EngineError else error


@contextmanager
def reported(step: str) -> Iterator[None]:
    """Run a step of Spark; its errors come out as ours.

    Raises
    ------
    DataError
        From a worker; or a file that cannot be read.
    EngineError
        Anything else, with the step and the kind of the error.
    """
    try:
        yield
        return
    except PrivpipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the text of Spark's errors quotes cells and is not passed on
        problem = _translated(error, step)
    raise problem from None


def _translated(error: Exception, step: str) -> PrivpipeError:
    text = str(error)
    ours = unsealed(text)
    if ours is not None:
        return in_step(ours, step)
    given_up = gave_up()
    if given_up:
        return EngineError(f"spark engine: could not {step}: {given_up}")
    condition = condition_of(error)
    if any(mark in condition or f"[{mark}" in text for mark in UNREADABLE):
        return _fault_of_file(text, step)
    if "CANNOT_MERGE_SCHEMAS" in text:
        return DataError(
            f"spark engine: could not {step}: the files hold a column in several types; where only the Spark session "
            "sees them they must agree: write them in one, or give the DataFrame that Spark reads them as"
        )
    if any(mark in text for mark in ("OutOfMemoryError", "ExecutorLostFailure", "exceeding memory limits")):
        return EngineError(f"spark engine: could not {step}: {OUT_OF_MEMORY}")
    kinds = list(dict.fromkeys([condition or type(error).__name__, *JAVA_NAME.findall(text)]))
    return EngineError(f"spark engine: could not {step}: {', '.join(kinds[:3])}")


def _fault_of_file(text: str, step: str) -> PrivpipeError:
    """What is wrong with the file that Spark could not read: what this process finds there, where it sees it."""
    named = FILE.search(text)
    if named is None:
        return DataError(f"spark engine: could not {step}: a file is not readable (truncated or of another format)")
    path = unquote(named[1])
    if os.path.exists(path) or "FILE_NOT_EXIST" in text:  # workers may see files that this process does not
        try:
            with reading(path, "Parquet"):
                pq.read_metadata(path)
        except PrivpipeError as fault:
            return fault
    if any(mark in text for mark in OTHER_TYPES):
        return changed_error(path)
    return DataError(f"{Path(path).name}: not readable (truncated or of another format)")


def condition_of(error: Any) -> str:
    """Name of a Spark error's condition, such as PATH_NOT_FOUND; nothing where it has none.

    Examples
    --------
    >>> condition_of(ValueError("[PATH_NOT_FOUND]"))
    ''
    """
    name = error.getCondition() if hasattr(error, "getCondition") else None
    return name if isinstance(name, str) and re.fullmatch(r"[A-Z0-9_.]+", name) else ""
