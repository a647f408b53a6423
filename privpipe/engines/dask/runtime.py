"""Where the tasks run, threads or workers of a scheduler, how long a run waits, and bytes of results where they are."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
import os
import pickle
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import dask
import dask.threaded
import numpy as np
import pyarrow as pa
from cloudpickle import CloudPickler

from privpipe.engines.dask.graph import Held, Node, Shared, engine_error, graph_of, task_node, value_node
from privpipe.engines.distributed.collection import FEWER, Room
from privpipe.errors import DataError, EngineError, PrivpipeError

__all__ = [
    "PATIENCE",
    "Admit",
    "Bounded",
    "Measured",
    "Patience",
    "Runtime",
    "Share",
    "processors",
    "result_bytes",
    "room_for",
]


RAISE = f"raise `collected_bytes` under `engines.dask`, {FEWER}"


class _Meter:
    """A file that only counts."""

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.bytes += size
        return size


class _Sizer(CloudPickler):
    """Counts what pickles; arrays are counted without being copied."""

    def __init__(self, meter: _Meter) -> None:
        self.meter = meter
        super().__init__(meter, protocol=5)

    def reducer_override(self, value: Any) -> Any:
        plain = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if plain or isinstance(value, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
            self.meter.bytes += value.nbytes
            return int, ()
        return super().reducer_override(value)


def result_bytes(value: Any) -> int:
    """Bytes of a result as it travels, roughly.

    Examples
    --------
    >>> result_bytes(None) < 10, result_bytes([np.zeros(1000)]) // 1000, result_bytes("x" * 5000) // 1000
    (True, 8, 5)
    """
    meter = _Meter()
    _Sizer(meter).dump(value)
    return meter.bytes


def room_for(what: str, limit: int) -> Room:
    """What results may take in this process."""
    return Room("dask", what, limit, RAISE)


@dataclass(frozen=True)
class Admit:
    """Adds the bytes of a result to those of the others, and returns it; raises as `Room.take`."""

    room: Room

    def __call__(self, value: Any) -> Any:
        self.room.take(result_bytes(value))
        return value


@dataclass(frozen=True, repr=False)
class Measured:
    """A result's size, and the result itself where it is within its share."""

    size: int
    value: Any = None
    is_whole: bool = True


@dataclass(frozen=True)
class Share:
    """Measures results on a worker: those within their share of the limit come along, others wait."""

    bytes: float

    def __call__(self, value: Any) -> Measured:
        size = result_bytes(value)
        return Measured(size, value) if size <= self.bytes else Measured(size, None, is_whole=False)


@dataclass(frozen=True, repr=False)
class Bounded:
    """A function that merges results, whose own result must be within the limit."""

    function: Callable[[list[Any]], Any]
    what: str
    limit: int

    def __call__(self, parts: list[Any]) -> Any:
        return Admit(room_for(self.what, self.limit))(self.function(parts))


PATIENCE = 60.0
TICK = 1.0


class Patience:
    """Waits for the results of a client's tasks as long as any worker is alive.

    A worker is alive that the scheduler heard of since it was asked last: workers send heartbeats while they compute,
    so that a task may take as long as it takes.

    Parameters
    ----------
    client : distributed.Client
    seconds : float
        Without a sign of life, until the run is given up.
    """

    def __init__(self, client: Any, seconds: float = PATIENCE) -> None:
        self._client = client
        self._seconds = seconds

    def results(self, step: str, futures: Sequence[Any]) -> list[Any]:
        """The results of futures, brought here; raises what a task raised.

        Raises
        ------
        EngineError
            No worker is alive that could compute them.
        """
        return list(self._awaited(step, self._client.gather(list(futures), asynchronous=True), futures))

    def settle(self, step: str, futures: Sequence[Any]) -> None:
        """Wait until all futures are done, whatever became of them; raises as `results`."""

        async def done() -> None:
            from distributed import wait

            with self._client.as_current():
                await wait(list(futures))

        self._awaited(step, done(), futures)

    def _awaited(self, step: str, work: Awaitable[Any], futures: Sequence[Any]) -> Any:
        waiting: Future[Any] = asyncio.run_coroutine_threadsafe(_run(work), self._client.loop.asyncio_loop)
        tick = min(TICK, self._seconds / 4)
        heard, since = self._signs(futures), time.monotonic()
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    return waiting.result(tick)
                now = self._signs(futures)
                if any(now[name] != heard.get(name) for name in now):
                    heard, since = now, time.monotonic()
                elif time.monotonic() - since > self._seconds:
                    raise EngineError(
                        f"dask engine: could not {step}: no worker gave a sign of life for {self._seconds:g} s; see "
                        "that the cluster has workers that reach its scheduler, or raise `patience` under "
                        "`engines.dask`"
                    )
        except BaseException:  # an interrupt too: what is no longer awaited must not go on in the cluster
            waiting.cancel()
            with contextlib.suppress(Exception):  # the scheduler may be gone as well
                self._client.cancel(list(futures), asynchronous=False, force=True) if self._running() else None
            raise

    def _signs(self, futures: Sequence[Any]) -> dict[str, float]:
        """When each worker was heard of, and how many tasks are done."""
        return {**self._heard(), "done": sum(future.status != "pending" for future in futures)}

    def _running(self) -> bool:
        return bool(self._client.status == "running" and self._heard())

    def _heard(self) -> dict[str, float]:
        """When the scheduler last heard of each worker, as the client knows."""
        workers = self._client.scheduler_info().get("workers", {})
        return {name: float(worker.get("last_seen", 0.0)) for name, worker in workers.items()}


async def _run(work: Awaitable[Any]) -> Any:
    return await work


FAN_IN = 8
LARGE = 2**20
UNLIMITED = 2**63 - 1
log = logging.getLogger("privpipe.engines.dask")


class Runtime:
    """Builds tasks, runs them, keeps results.

    Parameters
    ----------
    client : distributed.Client or None
        Without one, tasks run in threads of this process.
    workers : int
        Tasks that run at once.
    cache : bool
        Whether results of exchanges are kept, or computed again whenever they are needed.
    patience : float
        Seconds to wait for workers that give no sign of life.
    limit : int
        Bytes that the results of one action may take in this process.
    """

    def __init__(
        self, client: Any, workers: int, cache: bool, patience: float = PATIENCE, limit: int = UNLIMITED
    ) -> None:
        self.client = client
        self.workers = workers
        self.cache = cache
        self.limit = limit
        self._patience = Patience(client, patience)

    @functools.cached_property
    def near(self) -> Runtime:
        """The threads of this process, for tables that are worked on here."""
        return self if self.client is None else Runtime(None, processors(), self.cache, limit=self.limit)

    @property
    def distributed(self) -> bool:
        """Whether tasks run in other processes."""
        return self.client is not None

    @property
    def task_limit(self) -> int:
        """Bytes that one task may take: a thread's share of the smallest worker, or what this process collects."""
        workers = () if self.client is None else self.client.scheduler_info()["workers"].values()
        shares = [each["memory_limit"] // max(each["nthreads"], 1) for each in workers if each["memory_limit"]]
        return min(shares, default=self.limit)

    def task(self, name: str, function: Callable[..., Any] | Node, *parts: Any, **fixed: Any) -> Node:
        """A task that applies `function` to the results of `parts` (nodes, or lists of them)."""
        return task_node(name, function, parts, fixed, here=self.client is None)

    def tree(self, name: str, function: Callable[[list[Any]], Any], tasks: Sequence[Node], what: str = "") -> Node:
        """One task: the results merged by `function`, some at a time, so that none waits for all.

        With `what`, which names the results, merging stops as soon as they exceed what this process may take: such
        results only grow.
        """
        level = list(tasks)
        function = Bounded(function, what, self.limit) if what else function
        while len(level) > FAN_IN:
            runs = [level[start : start + FAN_IN] for start in range(0, len(level), FAN_IN)]
            level = [self.task(name, function, run) for run in runs]
        return self.task(name, function, level)

    def place(self, value: Any) -> Node:
        """A value that many tasks read; a large one is sent to every worker once."""
        return value_node(Held(value) if self.client is None else Shared(value))

    def place_each(self, batches: Iterable[Any]) -> list[Node]:
        """Record batches that the calling process holds, spread over the workers."""
        found = list(batches)
        if self.client is None:
            return [value_node(Held(each)) for each in found]
        return [value_node(future) for future in self._sent(found)]

    def _sent(self, values: list[Any], **how: Any) -> Sequence[Any]:
        step = "send rows to the workers"
        found: Sequence[Any] = self._guarded(step, lambda _: self.client.scatter(values, hash=False, **how), ())
        return found

    def compute(self, step: str, tasks: Sequence[Node], what: str = "") -> list[Any]:
        """Run the tasks in one action and bring their results here, unless they exceed the limit together.

        Parameters
        ----------
        what : str, optional
            Results that may be large, with their columns, for the refusal; numbers and the like are not measured.

        Raises
        ------
        EngineError
            They exceed it; what is large has not left the workers.
        """
        log.debug("%s: %d tasks", step, len(tasks))
        if self.is_near(tasks):
            return self.near.compute(step, tasks, what)
        room = room_for(what, self.limit)
        if self.client is None:
            return self._results(step, [self.task(step, Admit(room), task) for task in tasks] if what else tasks)
        return list(self._guarded(step, lambda tasks: self._brought(step, tasks, room), tasks))

    def _brought(self, step: str, tasks: Sequence[Node], room: Room) -> list[Any]:
        """Results of workers."""
        if room.what:
            return self._within(step, tasks, room)
        futures = self.client.get(self._graph(tasks), [task.key for task in tasks], sync=False)
        return self._patience.results(step, futures)

    def _within(self, step: str, tasks: Sequence[Node], room: Room) -> list[Any]:
        """Results of workers: small ones at once, others once the sizes of all are known."""
        measured = [self.task(step, Share(room.limit / max(len(tasks), 1)), task) for task in tasks]
        nodes = [*tasks, *measured]
        futures: list[Any] = self.client.get(self._graph(nodes), [node.key for node in nodes], sync=False)
        found: list[Measured] = self._patience.results(step, futures[len(tasks) :])
        for each in found:
            room.take(each.size)
        waiting = [future for future, each in zip(futures, found, strict=False) if not each.is_whole]
        late = iter(self._patience.results(step, waiting) if waiting else ())
        return [each.value if each.is_whole else next(late) for each in found]

    def _results(self, step: str, tasks: Sequence[Node]) -> list[Any]:
        """Results of threads of this process."""
        return list(self._guarded(step, self._got, tasks))

    def keep(self, step: str, tasks: Sequence[Node]) -> list[Node]:
        """The tasks with their results kept where they lie, unless caching is off."""
        if not self.cache:
            return list(tasks)
        if self.is_near(tasks):
            return self.near.keep(step, tasks)
        if self.client is not None:
            settled = self._guarded(step, lambda tasks: self._settled(step, tasks), tasks)
            return [value_node(future) for future in settled]
        return [value_node(Held(result)) for result in self._results(step, tasks)]

    def hold(self, step: str, tasks: Sequence[Node]) -> tuple[list[Node], Callable[[], None]]:
        """The tasks with their results as they are now, whatever is computed from them later; and what drops them.

        A scheduler computes again, from sources that may have changed, what a lost worker held. So workers hold the
        bytes of each result, and the reader compares their digest.
        """
        if self.client is None or self.is_near(tasks):
            return [value_node(Held(result)) for result in self.near._results(step, tasks)], _nothing
        sealed = [self.task("seal rows", pickled, task) for task in tasks]
        futures = self._guarded(step, lambda tasks: self._settled(step, tasks), sealed)
        kept = [value_node(future) for future in futures]
        digests = self.compute(step, [self.task("seal rows", digest_of, node) for node in kept])

        def release() -> None:
            for future in futures:
                future.release()

        pairs = zip(kept, digests, strict=True)
        return [self.task("read held rows", unpickled, node, digest=digest) for node, digest in pairs], release

    def is_near(self, tasks: Sequence[Node]) -> bool:
        return self.client is not None and all(task.here for task in tasks)

    def _graph(self, tasks: Sequence[Node]) -> dict[Any, Any]:
        """The graph of tasks as workers get it."""
        graph = graph_of(tasks)
        for key, content in graph.items():
            if isinstance(content, Shared):
                if content.future is None and _pickled_size(content.value) > LARGE:
                    content.future = self._sent([Held(content.value)], broadcast=True)[0]
                graph[key] = Held(content.value) if content.future is None else content.future
        return graph

    def _got(self, tasks: Sequence[Node]) -> Sequence[Any]:
        keys = [task.key for task in tasks]
        if self.workers == 1:
            found: Sequence[Any] = dask.get(graph_of(tasks), keys)
        else:
            found = dask.threaded.get(graph_of(tasks), keys, num_workers=self.workers)
        return found

    def _settled(self, step: str, tasks: Sequence[Node]) -> Sequence[Any]:
        """Futures of the tasks' results, once all are there; raises what went wrong instead of keeping it too."""
        futures: list[Any] = self.client.get(self._graph(tasks), [task.key for task in tasks], sync=False)
        self._patience.settle(step, futures)
        for future in futures:
            if future.status != "finished":
                future.result()
        return futures

    def _guarded(self, step: str, action: Callable[[Sequence[Node]], Sequence[Any]], tasks: Sequence[Node]) -> Any:
        try:
            return action(tasks)
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - any message of the machinery may quote a cell
            problem = engine_error(step, error)
        raise problem


def _nothing() -> None:
    """Whatever is in this process lives as long as the nodes."""


def pickled(value: Any) -> bytes:
    """A result as bytes, which neither a spill nor a transfer changes."""
    return pickle.dumps(value, protocol=5)


def digest_of(sealed: bytes) -> bytes:
    """What the bytes of another result have not."""
    return hashlib.blake2b(sealed, digest_size=32).digest()


def unpickled(sealed: bytes, digest: bytes) -> Any:
    """The result that was held.

    Raises
    ------
    DataError
        A worker was lost, and what it held was computed again from what is no longer the same.
    """
    if digest_of(sealed) != digest:
        raise DataError(
            "a worker was lost with rows that were held, and computed again they are not the rows that were judged; "
            "run again, or publish by `privpipe.release`, which judges the files that it wrote"
        )
    return pickle.loads(sealed)


def _pickled_size(value: Any) -> int:
    from distributed.protocol.pickle import dumps

    frames: list[Any] = []
    return len(dumps(value, buffer_callback=frames.append)) + sum(memoryview(frame).nbytes for frame in frames)


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
