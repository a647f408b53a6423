"""The Airflow example under `airflow standalone` (scheduler, local executor, SQLite), twice in a row; and attacks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from privpipe.scheduled import published_at

pytest.importorskip("airflow", reason="airflow is not installed here; make test-integrations")

EXAMPLES = ("adult_public_use", "adult_by_hand", "adult_nowhere")
ATTACKS = ("sink_in_dags", "sink_behind_link", "sink_in_logs", "hostile_policy")
PATIENCE = 600.0
TOLD = "select value from xcom where run_id = ? and dag_id = ? and key = ? and task_id = 'release'"
TRIGGER = """
import sys
from airflow.api.common.trigger_dag import trigger_dag
from airflow.utils.types import DagRunTriggeredByType
for dag in sys.argv[2:]:
    trigger_dag(dag, run_id=sys.argv[1], triggered_by=DagRunTriggeredByType.CLI)
"""


@dataclass(frozen=True)
class Airflow:
    """A running Airflow."""

    home: Path
    env: dict[str, str]

    def query(self, text: str, *given: str) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.home / 'airflow.db'}?mode=ro", uri=True, timeout=60)) as database:
            return database.execute(text, given).fetchall()

    def trigger(self, run: str, *dags: str) -> None:
        subprocess.run(
            [sys.executable, "-c", TRIGGER, run, *dags], env=self.env, check=True, timeout=200, capture_output=True
        )

    def ended(self, run: str, *dags: str) -> dict[tuple[str, str], tuple[str, int]]:
        """State and number of tries of every task, when all runs have ended."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            runs = dict(self.query("select dag_id, state from dag_run where run_id = ?", run))
            if all(runs.get(dag) in ("success", "failed") for dag in dags):
                break
            time.sleep(0.5)
        else:
            raise AssertionError(f"runs did not end: {runs}")
        rows = self.query("select dag_id, task_id, state, try_number from task_instance where run_id = ?", run)
        return {(dag, task): (state, tries) for dag, task, state, tries in rows}

    def told(self, run: str) -> str:
        """Errors in the logs of a run's tasks."""
        logs = sorted(self.home.glob(f"logs/dag_id=*/run_id={run}/**/*.log"))
        lines = [(path, line) for path in logs for line in path.read_text(encoding="utf-8").splitlines()]
        return "\n".join(
            f"{path.parent.parent.parent.name} {path.name}: {line[:600]}" for path, line in lines if '"error"' in line
        )

    def xcom(self, run: str, dag: str, key: str) -> Any:
        rows = self.query(TOLD, run, dag, key)
        found = json.loads(rows[0][0]) if rows else None
        return json.loads(found) if isinstance(found, str) and found.startswith("{") else found


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, pipelines: Path) -> Iterator[Airflow]:
    """Airflow with the example's DAGs and the attacks; ended with all that it started."""
    home: Path = tmp_path_factory.mktemp("airflow")
    shutil.copytree(pipelines / "airflow" / "dags", home / "dags")
    shutil.copy(Path(__file__).with_name("attacks_on_airflow.py"), home / "dags")
    (home / "published").mkdir()
    (home / "published" / "innocent").symlink_to(home / "dags")
    ports = _free_ports(3)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{ports[0]}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(ports[0]),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports[1]),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports[2]),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",  # a busy machine is no broken one
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "PRIVPIPE_PIPELINES": str(pipelines),
        "PRIVPIPE_PUBLISHED": str(home / "published"),
        "PRIVPIPE_RETRY_SECONDS": "1",
    }
    with (home / "standalone.log").open("wb") as log:
        server = subprocess.Popen(
            [str(Path(sys.executable).parent / "airflow"), "standalone"],
            env=env,
            cwd=home,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            running = Airflow(home, env)
            _wait_for_dags(running, {*EXAMPLES, *ATTACKS})
            _wait_for_server(running, ports[0])
            yield running
        finally:
            _end(server)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_for_dags(running: Airflow, names: set[str]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(sqlite3.Error):
            if names <= {name for (name,) in running.query("select dag_id from dag")}:
                return
        time.sleep(1)
    raise AssertionError((running.home / "standalone.log").read_text(encoding="utf-8")[-3000:])


def _wait_for_server(running: Airflow, port: int) -> None:
    """Tasks talk to it; one that finds no one fails and is tried again, which is not what is counted here."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/version", timeout=30) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(1)
    raise AssertionError((running.home / "standalone.log").read_text(encoding="utf-8")[-3000:])


def _end(server: subprocess.Popen[bytes]) -> None:
    """By its group, which is of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(30)


@pytest.mark.parametrize("run", ["first", "second"])
def test_the_three_ends(airflow: Airflow, run: str) -> None:
    adult = str(airflow.home / "published" / "adult")
    before = published_at(adult)
    airflow.trigger(run, *EXAMPLES)
    tasks = airflow.ended(run, *EXAMPLES)
    assert tasks == {
        ("adult_public_use", "release"): ("success", 1),
        ("adult_public_use", "judged"): ("success", 1),
        ("adult_public_use", "announce"): ("success", 1),
        ("adult_by_hand", "release"): ("failed", 1),
        ("adult_by_hand", "never"): ("upstream_failed", 0),
        ("adult_nowhere", "release"): ("failed", 3),
    }, airflow.told(run)
    after = published_at(adult)
    assert after is not None
    assert before is None or before.run_id != after.run_id
    told = airflow.xcom(run, "adult_public_use", "return_value")
    assert told is not None
    verdict = airflow.xcom(run, "adult_by_hand", "privpipe_verdict")
    assert (verdict["word"], verdict["code"], verdict["path"]) == ("refused", 5, "")
    assert airflow.xcom(run, "adult_nowhere", "privpipe_verdict")["word"] == "engine"
    link = airflow.xcom(run, "adult_public_use", "_link_privpipe_report")
    assert Path(link.removeprefix("file://")).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not (airflow.home / "published" / "adult-by-hand").exists()


def test_what_must_not_happen_fails_after_one_try_and_leaves_nothing(airflow: Airflow) -> None:
    airflow.trigger("attack", *ATTACKS)
    tasks = airflow.ended("attack", *ATTACKS)
    assert tasks == {(name, "release"): ("failed", 1) for name in ATTACKS}
    for name, said in zip(ATTACKS, ("DAG", "DAG", "log folder", "policy"), strict=True):
        verdict = airflow.xcom("attack", name, "privpipe_verdict")
        assert (verdict["word"], said in verdict["message"]) == ("usage", True), verdict
    assert not list(airflow.home.rglob("*adult.privpipe")) or not (airflow.home / "dags" / ".adult.privpipe").exists()
    assert not [path for path in airflow.home.rglob("attack") if path.is_file()]


def test_a_release_that_is_killed_is_tried_again_and_published(airflow: Airflow) -> None:
    airflow.trigger("killed", "adult_public_use")
    os.kill(_process_of(airflow.home), signal.SIGKILL)
    tasks = airflow.ended("killed", "adult_public_use")
    assert tasks["adult_public_use", "release"] == ("success", 2)
    found = published_at(str(airflow.home / "published" / "adult"))
    assert found is not None
    assert found.run_id == airflow.xcom("killed", "adult_public_use", "return_value")["run_id"]


def _process_of(home: Path) -> int:
    """The process of a release that this Airflow started."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ours = b"privpipe.scheduled" in (place / "cmdline").read_bytes()
                if ours and f"AIRFLOW_HOME={home}\0".encode() in (place / "environ").read_bytes():
                    return int(place.name)
        time.sleep(0.05)
    raise AssertionError("no release was started")


def test_what_airflow_kept_holds_no_cell(airflow: Airflow, holds_no_cell: Callable[[Path], None]) -> None:
    holds_no_cell(airflow.home / "logs")
    kept = airflow.home / "kept"
    kept.mkdir()
    with closing(sqlite3.connect(f"file:{airflow.home / 'airflow.db'}?mode=ro", uri=True, timeout=60)) as database:
        (kept / "all.sql").write_text("\n".join(database.iterdump()), encoding="utf-8")
    shutil.copy(airflow.home / "standalone.log", kept)
    holds_no_cell(kept)
