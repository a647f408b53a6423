"""Options of the Dask engine, and the scheduler they ask for."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, Self

from privpipe.engines.dask.graph import engine_error
from privpipe.engines.dask.runtime import PATIENCE, Runtime, processors
from privpipe.engines.readers.source_facts import SMALL_BYTES
from privpipe.errors import UsageError, did_you_mean
from privpipe.private_files import new_folder, remove_folder

__all__ = ["Options", "Session"]

SCHEDULERS = ("threads", "synchronous", "distributed")
DEFAULT_PARTITION = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Options:
    """The keys of ``engines.dask`` in a policy.

    Parameters
    ----------
    scheduler : {"threads", "synchronous", "distributed"}, optional
        Default: the distributed client that is current in this process, else threads. "distributed" starts
        worker processes on this machine unless an address is given.
    address : str, optional
        Of a running distributed scheduler, as in ``tcp://10.0.0.1:8786``. Its workers must have privpipe.
    workers : int, optional
        Threads for "threads"; worker processes to start otherwise.
    threads_per_worker : int, optional
        Threads in each worker process, for a cluster that is started here.
    partition_size : int or str
        Bytes in memory of a partition, as in "64MB".
    npartitions : int, optional
        Partitions of a frame in memory or of files, instead of a size; also of every exchange.
    driver_bytes : int
        With worker processes, tables of at most so many bytes, and of no more than two million records, are worked on
        by the calling process; 0: none is.
    collected_bytes : int or str, optional
        Bytes that the results of one step may take in the calling process, as in "4GB"; more is refused before it is
        collected. Default: half of the memory that the container or machine offers.
    cache : bool
        Keep what was read from text or exchanged between partitions, instead of doing it again for each use.
    patience : float
        Seconds without a sign of life of any worker (or of the scheduler, when it is reached) until a run is given up.
    """

    scheduler: str | None = None
    address: str | None = None
    workers: int | None = None
    threads_per_worker: int | None = None
    partition_size: int | str = DEFAULT_PARTITION
    npartitions: int | None = None
    driver_bytes: int = SMALL_BYTES
    collected_bytes: int | str | None = None
    cache: bool = True
    patience: float = PATIENCE

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Checked options.

        Raises
        ------
        UsageError
            An unknown key, a value out of range, keys that exclude each other.

        Examples
        --------
        >>> Options.of({"workers": 2, "partition_size": "32MB"}).partition_bytes
        32000000
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise UsageError(f"unknown option {name!r} of the dask engine{did_you_mean(name, known)}")
        options = cls(**given)
        options._check()
        return options

    def _check(self) -> None:
        if self.scheduler is not None and self.scheduler not in SCHEDULERS:
            raise UsageError(f"dask engine: scheduler must be one of {', '.join(SCHEDULERS)}")
        self._check_kinds()
        if self.address is not None and (self.workers or self.threads_per_worker):
            raise UsageError("dask engine: a scheduler at an address has its workers; leave workers out")
        if self.scheduler in ("threads", "synchronous") and (self.address or self.threads_per_worker):
            raise UsageError("dask engine: address and threads_per_worker need scheduler: distributed")
        if self.partition_bytes < 1:
            raise UsageError("dask engine: partition_size must be positive, as in 64MB")
        if self.collection_limit < 1:
            raise UsageError("dask engine: collected_bytes must be positive, as in 4GB")

    def _check_kinds(self) -> None:
        for name in ("workers", "threads_per_worker", "npartitions"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise UsageError(f"dask engine: {name} must be a whole number of at least 1")
        if not isinstance(self.driver_bytes, int) or isinstance(self.driver_bytes, bool) or self.driver_bytes < 0:
            raise UsageError("dask engine: driver_bytes must be a whole number of at least 0")
        if self.address is not None and not isinstance(self.address, str):
            raise UsageError("dask engine: address must be a text such as tcp://host:8786")
        if not isinstance(self.cache, bool):
            raise UsageError("dask engine: cache must be true or false")
        if isinstance(self.patience, bool) or not isinstance(self.patience, int | float) or not 0 < self.patience < inf:
            raise UsageError("dask engine: patience must be a number of seconds above 0")

    @property
    def partition_bytes(self) -> int:
        """`partition_size` in bytes."""
        return _parsed("partition_size", self.partition_size)

    @property
    def collection_limit(self) -> int:
        """`collected_bytes`, or its default, in bytes."""
        if self.collected_bytes is None:
            from privpipe.engines.embedded.session import offered_memory

            return offered_memory() // 2
        return _parsed("collected_bytes", self.collected_bytes)


def _parsed(name: str, size: int | str) -> int:
    from dask.utils import parse_bytes

    try:
        if isinstance(size, bool):
            raise TypeError(name)
        return int(parse_bytes(size))
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"dask engine: {name} must be a number of bytes, as in 64MB") from None


class Session:
    """The scheduler of one engine: what it started it ends, what it was given it leaves."""

    def __init__(self, options: Options) -> None:
        self._own: list[Any] = []
        self._spilled: Path | None = None
        client = self._client(options)
        workers = options.workers or processors()
        if client is not None:
            workers = max(1, sum(client.nthreads().values()))
        workers = 1 if options.scheduler == "synchronous" else workers
        self.runtime = Runtime(client, workers, options.cache, options.patience, options.collection_limit)
        self.sees_files = client is None or self._spilled is not None
        """Whether all workers run on this machine, for this user."""

    def _client(self, options: Options) -> Any:
        if options.scheduler in ("threads", "synchronous"):
            return None
        asked = (options.address, options.workers, options.threads_per_worker, options.scheduler)
        if all(each is None for each in asked):
            return current_client()
        try:
            return self._connect(options)
        except ImportError as error:
            raise UsageError(
                f"the dask engine needs {error.name or 'distributed'} for worker processes: "
                "pip install 'privpipe[dask]'"
            ) from error
        except Exception as error:  # noqa: BLE001 - a cluster fails to start in its own many ways
            problem = engine_error("reach the scheduler", error)
        self.close()
        raise problem

    def _connect(self, options: Options) -> Any:
        from distributed import Client, LocalCluster

        if options.address is None:
            self._spilled = new_folder("dask")
            # All ports on the loopback, the status page's too: without an address it would listen to the network.
            cluster = LocalCluster(
                n_workers=options.workers or max(1, processors() // (options.threads_per_worker or 1)),
                threads_per_worker=options.threads_per_worker or 1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                local_directory=str(self._spilled),
            )
            self._own.append(cluster)
        client = Client(options.address or cluster, set_as_default=False, timeout=f"{options.patience}s")
        self._own.append(client)
        return client

    def close(self) -> None:
        """End what was started here."""
        while self._own:
            self._own.pop().close()
        if self._spilled is not None:
            remove_folder(self._spilled)
            self._spilled = None


def current_client() -> Any:
    """The distributed client that is current in this process, if there is one.

    Raises
    ------
    UsageError
        An asynchronous one: a call from its own event loop would wait for itself.
    """
    module = sys.modules.get("distributed")
    if module is None:
        return None
    try:
        client = module.default_client()
    except ValueError:  # what distributed raises where there is none
        return None
    if client.asynchronous:
        raise UsageError(
            "dask engine: the current client is asynchronous, and its answers can only be awaited; call from another "
            "thread, as in `await asyncio.to_thread(...)`, or make a client without `asynchronous=True`"
        )
    return client
