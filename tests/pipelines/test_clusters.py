"""The clusters of the compose file, started as processes on the loopback address: each job publishes the release."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Cluster:
    """Commands of services, with this machine's addresses, ports and folders instead of the containers'."""

    def __init__(self, home: Path, policy: Path) -> None:
        self.home, self.policy = home, policy
        self.services = YAML(typ="safe").load(PROJECT / "docker" / "compose.yaml")["services"]
        self.ports = {name: str(free_port()) for name in ("7077", "8080", "8786", "8787")}
        self.running: list[subprocess.Popen[bytes]] = []

    def words(self, service: str) -> list[str]:
        """The command line of a service."""
        described = self.services[service]
        replaced = []
        for word in (*described.get("entrypoint", ()), *described["command"]):
            for name in ("spark-master", "dask-scheduler"):
                word = word.replace(name, "127.0.0.1")
            for port, free in self.ports.items():
                word = word.replace(port, free)
            word = word.replace("/srv/pipelines", str(PROJECT / "pipelines"))
            word = word.replace("/srv/published", str(self.home / "published"))
            word = word.replace("driver.host=job", "driver.host=127.0.0.1").replace("0.0.0.0", "127.0.0.1")
            replaced.append(word)
        return [str(PROGRAMS / replaced[0]), *replaced[1:]]

    @property
    def environment(self) -> dict[str, str]:
        paths = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        spark = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(self.home / "work")}
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        return {**os.environ, **spark, **python, "PATH": paths, "PRIVPIPE_SEED": "7d1c9a3e5b8f2046d1e7c3a95f80b264"}

    def start(self, service: str) -> None:
        """Start a service in a process group of its own; what it says goes to a file."""
        with (self.home / f"{service}.log").open("wb") as log:
            self.running.append(
                subprocess.Popen(
                    self.words(service),
                    cwd=self.home,
                    env=self.environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=20)

    def wait_for(self, ready: Callable[[], bool], seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert all(process.poll() is None for process in self.running), self.said()
            try:
                if ready():
                    return
            except OSError:
                pass  # nothing listens yet
            time.sleep(0.2)
        raise AssertionError(f"the cluster did not come up:\n{self.said()}")

    def said(self) -> str:
        return "\n".join(file.read_text(encoding="utf-8", errors="replace")[-2000:] for file in self.home.glob("*.log"))


@pytest.fixture
def cluster(tmp_path: Path, seeded: Path) -> Iterator[Cluster]:
    # A table as small as Adult would be worked on by the calling process, and the workers would have nothing to do.
    policy = seeded / "adult" / "on_workers.yaml"
    told = "engines: {spark: {driver_bytes: 0}, dask: {driver_bytes: 0}}\n"
    policy.write_text((seeded / "adult" / "release.yaml").read_text(encoding="utf-8") + told, encoding="utf-8")
    made = Cluster(tmp_path, policy)
    yield made
    made.stop()


def published_as_by_the_command_line(cluster: Cluster, release: Path) -> None:
    """Verdict, plan and records of a release equal those of the embedded engine on the same policy and seed."""
    target = cluster.home / "embedded"
    ended = cluster.run(PROGRAMS / "privpipe", "release", cluster.policy, "--target", target)
    assert ended.returncode == 0, ended.stderr

    def judged(folder: Path) -> dict[str, Any]:
        manifest = json.loads((folder / "_privpipe" / "manifest.json").read_text(encoding="utf-8"))
        verdict = json.loads((folder / "_privpipe" / "verdict.json").read_text(encoding="utf-8"))
        return {**{name: verdict[name] for name in ("records", "classes", "guarantees")}, "plan": manifest["plan"]}

    assert judged(release) == judged(target)
    ours, theirs = (Counter(map(repr, pq.read_table(folder).to_pylist())) for folder in (target, release))
    assert ours == theirs


@pytest.mark.spark
@pytest.mark.rare
def test_spark_master_and_two_workers_publish_the_release(cluster: Cluster) -> None:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark: no pyspark or no Java 17 on this machine")
    cluster.start("spark-master")
    status = f"http://127.0.0.1:{cluster.ports['8080']}/json/"

    def workers() -> int:
        with urllib.request.urlopen(status, timeout=5) as answer:
            alive: int = json.load(answer)["aliveworkers"]
            return alive

    cluster.wait_for(lambda: workers() == 0)
    for name in ("spark-worker-1", "spark-worker-2"):
        cluster.start(name)
    cluster.wait_for(lambda: workers() == 2)
    ended = cluster.run(*cluster.words("job"), "--policy", cluster.policy)
    assert ended.returncode == 0, f"{ended.stderr}\n{cluster.said()}"
    assert f"on spark://127.0.0.1:{cluster.ports['7077']}" in ended.stdout
    assert len(list((cluster.home / "work").glob("app-*/*/stderr"))) == 2, "each worker had an executor"
    published_as_by_the_command_line(cluster, cluster.home / "published" / "adult-spark")


@pytest.mark.deep
@pytest.mark.dask
def test_dask_scheduler_and_two_workers_publish_the_release(cluster: Cluster) -> None:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("distributed is not installed")
    cluster.start("dask-scheduler")
    port = int(cluster.ports["8786"])

    def listening() -> bool:
        with socket.create_connection(("127.0.0.1", port), 2):
            return True

    cluster.wait_for(listening)
    for name in ("dask-worker-1", "dask-worker-2"):
        cluster.start(name)
    ended = cluster.run(*cluster.words("job-dask"), "--policy", cluster.policy)
    assert ended.returncode == 0, f"{ended.stderr}\n{cluster.said()}"
    assert "with 2 workers" in ended.stdout
    published_as_by_the_command_line(cluster, cluster.home / "published" / "adult-dask")
