"""Where the tasks run: the calling process's threads, or the workers of a distributed scheduler."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dask
from dask.delayed import Delayed, delayed

from privpipe.errors import EngineError, PrivpipeError

__all__ = ["Runtime", "Step", "engine_error", "processors"]

FAN_IN = 8
log = logging.getLogger("privpipe.engines.dask")


def engine_error(step: str, error: BaseException) -> EngineError:
    """What may be told of a failure of the machinery: its step and its kind, for its text may quote cells."""
    what = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        what = f"{what} ({error.strerror})"
    return EngineError(f"dask engine: could not {step}: {what}")


class Step:
    """The function of one task: its repr and its errors hold no data, wherever they are logged.

    Parameters
    ----------
    name : str
        What it does, as in "count cells"; shown in errors and in the scheduler's own view.
    function : callable
        Takes the results of the tasks before it, then `fixed`.
    """

    __slots__ = ("fixed", "function", "name")

    def __init__(self, name: str, function: Callable[..., Any], **fixed: Any) -> None:
        self.name = name
        self.function = function
        self.fixed = fixed

    def __repr__(self) -> str:
        return f"Step({self.name!r})"

    def __call__(self, *results: Any) -> Any:
        try:
            return self.function(*results, **self.fixed)
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - workers log what is raised, and any message may quote a cell
            problem = engine_error(self.name, error)
        raise problem


class Runtime:
    """Builds tasks, runs them, keeps results.

    Parameters
    ----------
    client : distributed.Client or None
        Without one, tasks run in threads of this process.
    scheduler : str
        Of dask, when there is no client.
    workers : int
        Tasks that run at once.
    cache : bool
        Whether results of exchanges are kept, or computed again whenever they are needed.
    """

    def __init__(self, client: Any, scheduler: str, workers: int, cache: bool) -> None:
        self.client = client
        self.scheduler = scheduler
        self.workers = workers
        self.cache = cache

    @property
    def distributed(self) -> bool:
        """Whether tasks run in other processes."""
        return self.client is not None

    def task(self, name: str, function: Callable[..., Any], *parts: Any, **fixed: Any) -> Delayed:
        """A task that applies `function` to the results of `parts` (tasks, or lists of them)."""
        step = delayed(Step(name, function, **fixed), pure=False, traverse=False)
        key = f"{name.replace(' ', '-')}-{uuid.uuid4().hex}"
        return step(*parts, dask_key_name=key)

    def tree(self, name: str, function: Callable[[list[Any]], Any], tasks: Sequence[Delayed]) -> Delayed:
        """One task: the results merged by `function`, some at a time, so that none waits for all."""
        level = list(tasks)
        while len(level) > FAN_IN:
            runs = [level[start : start + FAN_IN] for start in range(0, len(level), FAN_IN)]
            level = [self.task(name, function, run) for run in runs]
        return self.task(name, function, level)

    def place(self, value: Any) -> Delayed:
        """A value that many tasks read; sent to every worker once."""
        if self.client is not None:
            value = self.client.scatter([value], broadcast=True, hash=False)[0]
        return delayed(value, traverse=False, name=f"placed-{uuid.uuid4().hex}")

    def place_each(self, values: Iterable[Any]) -> list[Delayed]:
        """Parts of a table that the calling process holds, spread over the workers."""
        found = list(values)
        if self.client is not None and found:
            found = self.client.scatter(found, hash=False)
        return [delayed(value, traverse=False, name=f"part-{uuid.uuid4().hex}") for value in found]

    def compute(self, step: str, tasks: Sequence[Delayed]) -> tuple[Any, ...]:
        """Run the tasks in one action and bring their results here."""
        log.debug("%s: %d tasks", step, len(tasks))
        return tuple(self._run(step, dask.compute, tasks))

    def keep(self, step: str, tasks: Sequence[Delayed]) -> list[Delayed]:
        """The tasks with their results kept where they lie, unless caching is off."""
        if not self.cache or not tasks:
            return list(tasks)
        kept: list[Delayed] = list(self._run(step, dask.persist, tasks))
        if self.client is not None:
            self._run(step, _settle, kept)
        return kept

    def _run(self, step: str, action: Callable[..., Any], tasks: Sequence[Delayed]) -> Any:
        try:
            if self.client is not None:
                return action(*tasks, scheduler=self.client)
            return action(*tasks, scheduler=self.scheduler, num_workers=self.workers)
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - any message of the machinery may quote a cell
            problem = engine_error(step, error)
        raise problem


def _settle(*kept: Delayed, scheduler: Any) -> None:
    """Wait for kept results, and raise what went wrong instead of keeping it too."""
    from distributed import futures_of, wait

    futures = futures_of(list(kept), client=scheduler)
    with scheduler.as_current():
        wait(futures)
    for future in futures:
        if future.status != "finished":
            future.result()


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
