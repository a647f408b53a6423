"""The sensor: wait until a release stands published, is new enough and passes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from privpipe.airflow.folders import folders_of_airflow
from privpipe.airflow.operator import raised
from privpipe.errors import PrivpipeError, UsageError
from privpipe.scheduled import Ending, Job, published_at, run_apart

__all__ = ["PrivpipeSensor"]


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
        Judge the released rows by it, in a process of its own, instead of trusting the verdict beside them.
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
            What stands there does not pass, or the arguments are wrong.
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
        raise UsageError(f"newer_than: {text!r} is no ISO time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
