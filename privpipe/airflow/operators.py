"""Airflow: an operator, a sensor and the link to a report.

The operator releases in a separate process, the sensor waits for a release, and the link opens its report.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from airflow.configuration import conf
from airflow.sdk import BaseOperator, BaseOperatorLink, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.execution_time.xcom import XCom

from privpipe.errors import EngineError, PrivpipeError, UsageError
from privpipe.scheduled import Ending, Job, published_at, run_apart
from privpipe.scheduled.job import end

__all__ = [
    "REPORT",
    "VERDICT",
    "PrivpipeReleaseOperator",
    "PrivpipeSensor",
    "ReportLink",
    "folders_of_airflow",
    "raised",
]


SETTINGS = (
    ("core", "dags_folder", "the DAG folder"),
    ("dag_processor", "dag_bundle_storage_path", "the folder of DAG bundles"),
    ("logging", "base_log_folder", "the log folder"),
    ("core", "plugins_folder", "the plugin folder"),
)


def folders_of_airflow(context: Any) -> tuple[tuple[str, str], ...]:
    """Folders to keep out of, each with what it is: of the settings, of local bundles and of the DAG that runs."""
    found = [*_settings(), *_bundles(), *_own(context)]
    return tuple(dict.fromkeys((what, os.path.abspath(folder)) for what, folder in found if folder))


def _settings() -> Iterator[tuple[str, str]]:
    for section, key, what in SETTINGS:
        yield what, conf.get(section, key, fallback="") or ""


def _bundles() -> Iterator[tuple[str, str]]:
    """The folders that the list of bundles names; bundles of other kinds are in the storage folder."""
    try:
        listed = json.loads(conf.get("dag_processor", "dag_bundle_config_list", fallback="") or "[]")
    except ValueError:
        return
    for bundle in listed:
        path = (bundle.get("kwargs") or {}).get("path")
        if isinstance(path, str) and "://" not in path:
            yield "the DAG folder", path


def _own(context: Any) -> Iterator[tuple[str, str]]:
    """Where the file of this DAG is, whatever the settings say."""
    dag = context.get("dag")
    file = getattr(dag, "fileloc", None)
    if isinstance(file, str) and file:
        yield "the folder of this DAG", os.path.dirname(os.path.abspath(file))


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


VERDICT = "privpipe_verdict"
"""Key of the XCom that also a refused task leaves."""


class PrivpipeReleaseOperator(BaseOperator):
    """Run the release of a policy, and fail for good if another try could not help.

    Exit codes decide: a refusal, an error of the policy or the data, and a missing signature fail the task whatever its
    `retries`; a failure of an engine, a place that another run is writing, and a killed process are tried again.
    A sink, a private record, a ledger or a report within a folder of Airflow's own (DAGs, logs, plugins) is an error
    before anything runs. The policy file is read unchanged: it is not a Jinja template.

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
            A retry may succeed.
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
        """Leave the verdict as XCom. Whether Airflow takes it shows nothing about what is tried again."""
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


class PrivpipeSensor(BaseSensorOperator):
    """Wait for a release in a folder of this machine.

    A release that is there and does not pass fails the task for good. `soft_fail` and `never_fail` are refused: a
    skipped task lets others run. Waiting takes no worker with `mode="reschedule"`.

    Parameters
    ----------
    target : str
        Where releases are read; a template, as the next two are.
    newer_than : str, optional
        An ISO time: only a release whose run began later counts, as in ``"{{ data_interval_end }}"``.
    policy : str, optional
        Judge the released rows by it, in a separate process, instead of trusting the verdict next to them.
    python : str, optional
        The interpreter of another environment that has privpipe.

    Returns
    -------
    dict
        As XCom: run id, path and public figures of the release that was found.
    """

    template_fields: Sequence[str] = ("target", "newer_than", "policy")
    template_ext: Sequence[str] = ()

    def __init__(
        self,
        *,
        target: str,
        newer_than: str | None = None,
        policy: str | None = None,
        python: str | None = None,
        **settings: Any,
    ) -> None:
        for name in ("soft_fail", "never_fail"):
            if settings.get(name):
                raise UsageError(f"{name}: a release that does not pass must fail; a skipped task lets others run")
        super().__init__(**settings)
        self.target = target
        self.newer_than = newer_than
        self.policy = policy
        self.python = python

    def poke(self, context: Any) -> PokeReturnValue:
        """Look once.

        Raises
        ------
        AirflowFailException
            What is there does not pass, or the arguments are wrong.
        AirflowException
            Judging it broke down.
        """
        try:
            since = None if not self.newer_than else _moment(self.newer_than)
            found = published_at(self.target)
        except PrivpipeError as error:
            raise AirflowFailException(str(error)) from None
        if found is None or (since is not None and found.started <= since):
            self.log.info("no release that is new enough stands there yet")
            return PokeReturnValue(is_done=False)
        if not found.passed:
            raise AirflowFailException(f"the release of run {found.run_id} does not pass")
        told: dict[str, Any] = {"run_id": found.run_id, "path": self.target, "folder": found.folder}
        if self.policy is not None:
            told["figures"] = self._judged(found.folder, context)["figures"]
        return PokeReturnValue(is_done=True, xcom_value=told)

    def _judged(self, folder: str, context: Any) -> dict[str, Any]:
        """The verdict on the folder of one release, which no later release changes."""
        try:
            job = Job(action="judge", policy=self.policy or "", data=folder, keep_out=folders_of_airflow(context))
            ending = run_apart(job, python=self.python, tell=self.log.info)
        except PrivpipeError as error:
            ending = Ending.of_code(error.exit_code, str(error))
        return raised(ending)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise UsageError(f"newer_than: {text!r} is not an ISO time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
