"""An Airflow DAG that publishes the Adult release every night and knows what privpipe's exit codes mean.

For Airflow 3, or 2.9 and later with `apache-airflow-providers-standard`. Put the folder `pipelines/adult` where the
DAG files live; the workers need `privpipe` on their path. Settings come from the environment:
`PRIVPIPE_POLICY` (default: the release.yaml beside this file) and `PRIVPIPE_ENGINE` (default: embedded).
"""

from __future__ import annotations

import os
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow import DAG
from airflow.exceptions import AirflowFailException, AirflowSkipException
from airflow.providers.standard.operators.bash import BashOperator

POLICY = os.environ.get("PRIVPIPE_POLICY", str(Path(__file__).resolve().parent / "release.yaml"))
ENGINE = os.environ.get("PRIVPIPE_ENGINE", "embedded")

# The same run would end the same way. Any other code (4: an engine or the storage broke down) is tried again.
FINAL = {
    1: "a crash",
    2: "the policy or the command is wrong",
    3: "the data or a hierarchy is wrong",
    5: "refused: a guarantee does not hold",
    6: "no solution within the limits",
    7: "a sign-off is missing",
}


class ReleaseOperator(BashOperator):
    """A release that fails at once where another try cannot help.

    `BashOperator` knows two ends besides success: skip (for chosen codes) and fail with retries. A refused
    release must be neither skipped, which leaves the run green, nor tried again, so the skip becomes a final failure.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(skip_on_exit_code=sorted(FINAL), **settings)

    def execute(self, context: Any) -> Any:
        try:
            return super().execute(context)
        except AirflowSkipException as final:
            raise AirflowFailException(f"nothing was published: {final}") from final


with DAG(
    dag_id="adult_public_use",
    description="UCI Adult, k = 5 and 3 occupations a class, published only when it holds",
    schedule="@daily",
    start_date=datetime(2025, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5), "retry_exponential_backoff": True},
    tags=["privpipe"],
) as dag:
    ReleaseOperator(
        task_id="release",
        bash_command=f"privpipe release {shlex.quote(POLICY)} --engine {shlex.quote(ENGINE)} ",
        append_env=True,
    )
