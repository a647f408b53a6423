"""The operator: one release in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from privpipe.airflow.folders import folders_of_airflow
from privpipe.airflow.link import REPORT, ReportLink
from privpipe.errors import EngineError, PrivpipeError
from privpipe.scheduled import Ending, Job, run_apart
from privpipe.scheduled.apart import end

__all__ = ["VERDICT", "PrivpipeReleaseOperator", "raised"]

VERDICT = "privpipe_verdict"
"""Key of the XCom that also a refused task leaves."""


class PrivpipeReleaseOperator(BaseOperator):
    """Release what a policy says, and fail for good where another try could not help.

    Exit codes decide: a refusal, an error of the policy or the data, and a missing signature fail the task whatever its
    `retries`; a breakdown of an engine, a place that another run is writing, and a killed process are tried again.
    A sink, a private record, a ledger or a report within a folder of Airflow's own (DAGs, logs, plugins) is an error
    before anything runs. The policy file is read as it is: it is no Jinja template.

    Parameters
    ----------
    policy : str
        The policy file; a template, as the next six are. None of them goes through a shell.
    target, plan, engine : str, optional
        As `privpipe.release` takes them.
    report : str, optional
        Where the report of the public edition is written, as HTML.
    report_url : str, optional
        Where people read that file; the task's link leads there.
    batch : str, optional
        The key under which the release is published once, ``{{ ds }}`` of a daily run: a try after one that published
        ends well and changes nothing.
    python : str, optional
        The interpreter of another environment that has privpipe; Airflow's pins and an engine's often contradict.

    Returns
    -------
    dict
        As XCom: word, run id, path, report and public figures. A refused task leaves the same under `privpipe_verdict`.
    """

    template_fields: Sequence[str] = ("policy", "target", "plan", "engine", "report", "report_url", "batch")
    template_ext: Sequence[str] = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}
    operator_extra_links = (ReportLink(),)
    ui_color = "#dfe9f0"

    def __init__(
        self,
        *,
        policy: str,
        target: str | None = None,
        plan: str | None = None,
        engine: str | None = None,
        report: str | None = None,
        report_url: str | None = None,
        batch: str | None = None,
        python: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.policy = policy
        self.target = target
        self.plan = plan
        self.engine = engine
        self.report = report
        self.report_url = report_url
        self.batch = batch
        self.python = python
        self._process: subprocess.Popen[bytes] | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Release; what comes back is the task's XCom.

        Raises
        ------
        AirflowFailException
            The same run would end the same way.
        AirflowException
            It is worth another try.
        """
        try:
            job = Job(
                policy=self.policy,
                target=self.target,
                plan=self.plan,
                engine=self.engine,
                report=self.report,
                batch=self.batch,
                keep_out=folders_of_airflow(context),
            )
            ending = run_apart(job, python=self.python, tell=self.log.info, started=self._hold)
        except PrivpipeError as error:
            ending = Ending.of_code(error.exit_code, str(error))
        self._keep(context["ti"], ending)
        return raised(ending)

    def _keep(self, task: Any, ending: Ending) -> None:
        """Leave the verdict as XCom. Whether Airflow takes it says nothing of what is tried again."""
        try:
            task.xcom_push(key=VERDICT, value=ending.to_dict())
            if ending.report:
                task.xcom_push(key=REPORT, value=self.report_url or f"file://{ending.report}")
        except Exception as error:  # noqa: BLE001 a refusal must not become an error that is tried again
            self.log.warning("the verdict could not be kept as XCom: %s", type(error).__name__)

    def on_kill(self) -> None:
        """End the release, which withdraws. Airflow calls this in a signal handler, while `execute` reads."""
        if self._process is not None:
            end(self._process)

    def _hold(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process


def raised(ending: Ending) -> dict[str, Any]:
    """The ending as an XCom where it is good, else as the error that Airflow treats rightly."""
    if ending.good:
        return ending.to_dict()
    if ending.worth_another_try or isinstance(ending.error(), EngineError):
        raise AirflowException(ending.sentence)
    raise AirflowFailException(ending.sentence)
