"""Three ends of a release under Airflow 3: published, refused, broken down.

`adult_public_use` publishes UCI Adult and goes on when the release is judged again. `adult_by_hand` is refused: one
try, whatever `retries` says. `adult_nowhere` publishes below a file, which no file system allows: a breakdown, tried
again. Settings come from the environment: PRIVPIPE_PIPELINES (the folder `pipelines/`), PRIVPIPE_PUBLISHED (where
releases go) and PRIVPIPE_RETRY_SECONDS.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from privpipe.airflow import PrivpipeReleaseOperator, PrivpipeSensor

PIPELINES = Path(os.environ.get("PRIVPIPE_PIPELINES", Path(__file__).resolve().parents[2]))
PUBLISHED = Path(os.environ.get("PRIVPIPE_PUBLISHED", PIPELINES / "airflow" / "published"))
SETTINGS = {
    "schedule": None,
    "start_date": datetime(2025, 1, 1),
    "catchup": False,
    "max_active_runs": 1,
    "tags": ["privpipe"],
    "default_args": {
        "retries": 2,
        "retry_delay": timedelta(seconds=float(os.environ.get("PRIVPIPE_RETRY_SECONDS", "300"))),
    },
}

with DAG(dag_id="adult_public_use", **SETTINGS):
    release = PrivpipeReleaseOperator(
        task_id="release",
        policy=str(PIPELINES / "adult" / "release.yaml"),
        target=str(PUBLISHED / "adult"),
        report=str(PUBLISHED / "reports" / "{{ dag.dag_id }}.html"),
        batch="{{ run_id }}",  # a try after one that published changes nothing; a daily job takes {{ ds }}
    )
    judged = PrivpipeSensor(
        task_id="judged",
        target=str(PUBLISHED / "adult"),
        newer_than="{{ dag_run.start_date.replace(microsecond=0) - macros.timedelta(seconds=1) }}",
        policy=str(PIPELINES / "adult" / "release.yaml"),
        poke_interval=5,
        timeout=300,
        mode="reschedule",
    )

    @task
    def announce(release: dict) -> str:
        """What others are told: figures of the public edition, no row."""
        return f"{release['figures'].get('records', 'the same')} records at {release['path']}"

    announced = announce(release.output)
    release >> judged >> announced

with DAG(dag_id="adult_by_hand", **SETTINGS):
    refused = PrivpipeReleaseOperator(
        task_id="release",
        policy=str(PIPELINES / "refused" / "release.yaml"),
        target=str(PUBLISHED / "adult-by-hand"),
    )

    @task
    def never() -> None:
        """Nothing that was refused is announced."""

    refused >> never()

with DAG(dag_id="adult_nowhere", **SETTINGS):
    PrivpipeReleaseOperator(
        task_id="release",
        policy=str(PIPELINES / "adult" / "release.yaml"),
        target=str(PIPELINES / "README.md" / "published"),
    )
