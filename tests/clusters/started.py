"""Clusters of processes on the loopback address: a master or scheduler and two workers that start again when killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["dask_cluster", "environment", "spark_cluster"]

PATHS = os.pathsep.join([str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)])
"""Of the package, and of functions of these tests that workers run."""


def environment(**more: str) -> dict[str, str]:
    """Variables of a worker: none of this session's Spark, and no secret."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PRIVPIPE_"))
    }
    return {**kept, "PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **more}


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """URL of a standalone master with two workers of one core, each in a folder of its own."""
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    url = f"spark://127.0.0.1:{_free_port()}"
    deploy, here = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [[program, f"{deploy}.master.Master", *here, "--port", url.rpartition(":")[2]]]
    for at in range(2):
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker{at}" / "work")]
        commands.append([program, f"{deploy}.worker.Worker", *here, *limits, url])
    quick = {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    with _running(folder, commands, quick) as logs:
        _wait_until(lambda: logs[0].read_text(errors="replace").count("Registering worker") == 2, logs)
        yield url


@contextmanager
def dask_cluster(folder: Path) -> Iterator[str]:
    """Address of a scheduler with two workers of one thread."""
    address = f"tcp://127.0.0.1:{_free_port()}"
    scheduler = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard", "--no-show"]
    commands = [[sys.executable, "-m", "distributed.cli.dask_scheduler", *scheduler]]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--host"]
    commands += [[*worker, "127.0.0.1", "--local-directory", str(folder / f"worker{at}"), address] for at in range(2)]
    with _running(folder, commands, {}) as logs:
        _wait_until(lambda: logs[0].read_text(errors="replace").count("Register worker") == 2, logs)
        yield address


@contextmanager
def _running(folder: Path, commands: Sequence[Sequence[str]], more: Mapping[str, str]) -> Iterator[list[Path]]:
    """Processes in groups and folders of their own, and what each says."""
    processes: list[subprocess.Popen[bytes]] = []
    logs = []
    try:
        for at, command in enumerate(commands):
            home = folder / f"home{at}"
            (home / "tmp").mkdir(parents=True)
            logs.append(folder / f"said{at}.log")
            with logs[-1].open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        list(command),
                        cwd=home,
                        env=environment(TMPDIR=str(home / "tmp"), **more),
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        yield logs
    finally:
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, and wait for it."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
            process.wait(timeout=10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=10)


def _wait_until(ready: Callable[[], Any], logs: Sequence[Path], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not ready():
        said = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
        assert time.monotonic() < end, f"the cluster did not come up:\n{said}"
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
