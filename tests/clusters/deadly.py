"""A worker that dies once in a stage of a kind: in mapping, after an exchange, in collecting, in writing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

__all__ = ["KINDS", "dies_once"]

KINDS = ("map", "exchange", "collect", "write")
OF_DASK = {"map": "hash records", "exchange": "attach ids", "collect": "count cells", "write": "write file"}
OF_SPARK = {"map": "add_hash", "exchange": "add_ids"}
"""Names of the tasks, and of the functions, in which the worker dies."""


class Deadly:
    """A function whose first caller anywhere dies with its process, and on Spark with the executor above it.

    It dies when it has worked on its first rows, so that something is half done.
    """

    def __init__(self, function: Callable[..., Any], marker: str, streams: bool) -> None:
        self.function, self.marker, self.streams = function, marker, streams

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self.streams:
            return self.stream(*given)
        found = self.function(*given, **named)
        self.die()
        return found

    def stream(self, batches: Iterator[Any]) -> Iterator[Any]:
        for found in self.function(batches):
            self.die()
            yield found

    def die(self) -> None:
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        process = os.getpid()
        while self.streams:
            words = Path(f"/proc/{process}/cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in words and words.startswith((b"/", b"java")):
                break
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            assert process > 1, "no executor above this worker"
        os.kill(process, signal.SIGKILL)


@contextmanager
def dies_once(engine: str, kind: str, marker: Path) -> Iterator[None]:
    """Releases started here lose one worker in a stage of this kind; the marker shows that it died."""
    with _spark(kind, str(marker)) if engine == "spark" else _dask(kind, str(marker)):
        yield


@contextmanager
def _spark(kind: str, marker: str) -> Iterator[None]:
    from privpipe.engines.spark import output, workers

    on_worker, results_of = workers._on_worker, workers.results_of

    def mapped(function: Any) -> Any:
        wanted = function.__qualname__.rpartition(".")[2] == OF_SPARK.get(kind)
        return on_worker(Deadly(function, marker, True) if wanted else function)

    def collected(frame: Any, function: Any, step: str, room: Any = None) -> Any:
        return results_of(frame, Deadly(function, marker, True), step, room)

    place = {"collect": workers, "write": output}.get(kind)
    with mock.patch.object(workers, "_on_worker", mapped):
        if place is None:
            yield
        else:
            with mock.patch.object(place, "results_of", collected):
                yield


@contextmanager
def _dask(kind: str, marker: str) -> Iterator[None]:
    from privpipe.engines.dask import runtime

    task = runtime.Runtime.task

    def deadly(self: Any, name: str, function: Any, *parts: Any, **fixed: Any) -> Any:
        if name == OF_DASK[kind] and not isinstance(function, runtime.Node):
            function = Deadly(function, marker, False)
        return task(self, name, function, *parts, **fixed)

    def placed(self: Any, value: Any) -> Any:
        wanted = kind == "exchange" and type(value).__name__ == "_Attach"
        return place(self, Deadly(value, marker, False) if wanted else value)

    place = runtime.Runtime.place
    with mock.patch.object(runtime.Runtime, "task", deadly), mock.patch.object(runtime.Runtime, "place", placed):
        yield
