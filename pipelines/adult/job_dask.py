"""The Adult release on Dask: on a cluster that runs already, or on worker processes of its own.

    python pipelines/adult/job_dask.py --scheduler tcp://dask-scheduler:8786 [--target DIR]
    python pipelines/adult/job_dask.py --workers 2 [--target DIR]

The engine uses the client that is open. Workers must see the source and the target under the same paths.
Ends with privpipe's exit codes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from distributed import Client

import privpipe as pp
from privpipe.errors import EngineError, PrivpipeError


def connect(scheduler: str | None, workers: int) -> Client:
    """A client of the scheduler with that many workers, else of worker processes of its own on the loopback address."""
    if scheduler is None:
        return Client(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    try:
        client = Client(scheduler, timeout="30s")
        client.wait_for_workers(workers, timeout="60s")
    except OSError as error:
        raise EngineError(f"no Dask scheduler with {workers} workers at {scheduler}: {type(error).__name__}") from error
    return client


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish the Adult release with Dask.")
    parser.add_argument("--policy", default=str(Path(__file__).resolve().parent / "release.yaml"))
    parser.add_argument("--target", help="publish here instead of the policy's sink")
    parser.add_argument("--scheduler", help="address of a running scheduler, as in tcp://host:8786")
    parser.add_argument(
        "--workers", type=int, default=2, help="worker processes to wait for, or to start when no scheduler is given"
    )
    options = parser.parse_args()
    try:
        policy = pp.Policy.load(options.policy)
        with connect(options.scheduler, options.workers) as client:
            result = pp.release(policy, engine="dask", target=options.target)
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
    except PrivpipeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"published {result.assessment.records:,} records to {result.path} with {workers} workers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
