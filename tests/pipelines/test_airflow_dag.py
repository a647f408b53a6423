"""The Airflow example, run against a stand-in for Airflow: what each exit code of privpipe does to the task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ADULT = Path(__file__).resolve().parents[2] / "pipelines" / "adult"

STAND_IN = {
    "airflow/__init__.py": """
        class DAG:
            current = None
            def __init__(self, **settings):
                self.settings, self.tasks = settings, []
            def __enter__(self):
                DAG.current = self
                return self
            def __exit__(self, *details):
                DAG.current = None
        """,
    "airflow/exceptions.py": """
        class AirflowException(Exception): ...
        class AirflowFailException(AirflowException): ...
        class AirflowSkipException(AirflowException): ...
        """,
    "airflow/providers/standard/operators/bash.py": """
        import os, subprocess
        from airflow import DAG
        from airflow.exceptions import AirflowException, AirflowSkipException
        class BashOperator:
            # As documented: a code to skip on, else any code but 0 is a failure, which is retried.
            def __init__(self, *, task_id, bash_command, append_env=False, skip_on_exit_code=99):
                assert append_env, "without it the task does not see its own PATH"
                codes = skip_on_exit_code
                self.task_id, self.bash_command = task_id, bash_command
                self.skip_on_exit_code = codes if isinstance(codes, list) else [codes]
                DAG.current.tasks.append(self)
            def execute(self, context):
                code = subprocess.run(["bash", "-c", self.bash_command], env=dict(os.environ), timeout=300).returncode
                if code in self.skip_on_exit_code:
                    raise AirflowSkipException(f"Bash command returned exit code {code}. Skipping.")
                if code:
                    raise AirflowException(f"Bash command failed with a non-zero exit code {code}.")
                return "done"
        """,
}
RUN_THE_TASK = """
import runpy, sys
dag = runpy.run_path(sys.argv[1])["dag"]
[task] = dag.tasks
print(dag.settings["default_args"]["retries"], dag.settings["max_active_runs"], task.task_id)
try:
    print(task.execute({}))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def airflow(tmp_path: Path) -> Path:
    """A folder to put on the module path; a real Airflow is a server of its own."""
    for name, text in STAND_IN.items():
        file = tmp_path / "airflow-stand-in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines()
        file.write_text("\n".join(line.removeprefix("        ") for line in lines) + "\n", encoding="utf-8")
    return tmp_path / "airflow-stand-in"


def run_task(airflow: Path, path: str, **environment: str) -> list[str]:
    shown = subprocess.run(
        [sys.executable, "-c", RUN_THE_TASK, str(ADULT / "dag_airflow.py")],
        env={**os.environ, "PYTHONPATH": str(airflow), "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return shown.stdout.splitlines()


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, "done"),
        (4, "AirflowException "),  # the only kind of failure that Airflow tries again
        (137, "AirflowException "),
        *((code, "AirflowFailException nothing was published") for code in (1, 2, 3, 5, 6, 7)),
    ],
)
def test_only_a_breakdown_is_tried_again(airflow: Path, tmp_path: Path, code: int, outcome: str) -> None:
    program = tmp_path / "bin" / "privpipe"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >&2\nexit {code}\n', encoding="utf-8")
    program.chmod(0o755)
    header, told = run_task(airflow, f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert header == "3 1 release"
    assert told.startswith(outcome)


def test_the_command_is_that_of_the_settings(airflow: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "privpipe"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 0\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    told = run_task(airflow, path, PRIVPIPE_POLICY="/a folder/release.yaml", PRIVPIPE_ENGINE="spark")
    assert told[1] == "release|/a folder/release.yaml|--engine|spark|done"


def test_a_refused_release_fails_the_task_for_good(airflow: Path) -> None:
    refused = ADULT.parent / "refused" / "release.yaml"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = run_task(airflow, path, PRIVPIPE_POLICY=str(refused))
    assert told[-1].startswith("AirflowFailException nothing was published: Bash command returned exit code 5")
