"""The link from a task to the report of its release."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

__all__ = ["REPORT", "ReportLink"]

REPORT = "privpipe_report"
"""Key of the XCom that holds where the report is read."""


class ReportLink(BaseOperatorLink):
    """Where people read the report; empty for a task that wrote none."""

    name = "Disclosure report"
    xcom_key = "_link_privpipe_report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address; `ti_key` names the task instance."""
        found = XCom.get_one(
            key=REPORT,
            dag_id=ti_key.dag_id,
            task_id=ti_key.task_id,
            run_id=ti_key.run_id,
            map_index=ti_key.map_index,
        )
        return found if isinstance(found, str) else ""
