"""Timeouts for workers that do not answer: a task without a worker would otherwise wait forever."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from typing import Any

from privpipe.errors import EngineError

__all__ = ["PATIENCE", "Patience"]

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
            Nobody is alive who could compute them.
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
        except BaseException:  # an interrupt too: what nobody waits for any more must not go on in the cluster
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
