"""DAGs that ask for what must not happen; the test puts them next to the example."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from privpipe.airflow import PrivpipeReleaseOperator

HERE = Path(__file__).resolve().parent
ADULT = str(Path(os.environ["PRIVPIPE_PIPELINES"]) / "adult" / "release.yaml")
TRIES = {"retries": 2, "retry_delay": timedelta(seconds=1)}

for name, settings in {
    "sink_in_dags": {"policy": ADULT, "target": str(HERE / "adult")},
    "sink_behind_link": {"policy": ADULT, "target": str(Path(os.environ["PRIVPIPE_PUBLISHED"]) / "innocent" / "adult")},
    "sink_in_logs": {"policy": ADULT, "target": str(Path(os.environ["AIRFLOW_HOME"]) / "logs" / "adult")},
    "hostile_policy": {"policy": "$(touch {{ dag_run.run_id }}); --help {{ '\\n' }}", "target": "out"},
}.items():
    with DAG(dag_id=name, schedule=None, start_date=datetime(2025, 1, 1), default_args=TRIES) as dag:
        PrivpipeReleaseOperator(task_id="release", **settings)
    globals()[name] = dag
