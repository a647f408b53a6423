"""The tasks: a release and a judgement, each in a separate process."""

from __future__ import annotations

import os
from typing import Any

from prefect import get_run_logger, task
from prefect.settings import PREFECT_HOME

from privpipe.errors import EngineError
from privpipe.scheduled import Job, run_apart

__all__ = ["privpipe_judge", "privpipe_release", "worth_another_try"]


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Whether a failed task may end otherwise: only after a breakdown. For `retry_condition_fn` of your own tasks."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, EngineError)


@task(
    name="privpipe release",
    retries=3,
    retry_delay_seconds=60,
    retry_condition_fn=worth_another_try,
    persist_result=False,
)
def privpipe_release(
    policy: str,
    *,
    target: str | None = None,
    plan: str | None = None,
    engine: str | None = None,
    report: str | None = None,
    batch: str | None = None,
    python: str | None = None,
) -> dict[str, Any]:
    """Release; the word, run id, path and public figures come back.

    ``privpipe_release.with_options(retries=..., retry_delay_seconds=...)`` sets how often a breakdown is tried again.

    Parameters
    ----------
    policy, target, plan, engine : str
        As `privpipe.release` takes them.
    report : str, optional
        Where the report of the public edition is written, as HTML.
    batch : str, optional
        The key under which the release is published once, as the day of a scheduled run.
    python : str, optional
        The interpreter of another environment that has privpipe.

    Raises
    ------
    Refused, UsageError, DataError, NoSolutionError, SignOffMissing
        The task fails for good.
    EngineError
        The task is tried again.
    """
    job = Job(policy=policy, target=target, plan=plan, engine=engine, report=report, batch=batch, keep_out=_folders())
    return _done(job, python)


@task(
    name="privpipe judge",
    retries=3,
    retry_delay_seconds=60,
    retry_condition_fn=worth_another_try,
    persist_result=False,
)
def privpipe_judge(data: str, policy: str, *, engine: str | None = None, python: str | None = None) -> dict[str, Any]:
    """Judge a finished table; errors are those of `privpipe_release`."""
    return _done(Job(action="judge", data=data, policy=policy, engine=engine, keep_out=_folders()), python)


def _done(job: Job, python: str | None) -> dict[str, Any]:
    ending = run_apart(job, python=python, tell=get_run_logger().info)
    if not ending.good:
        raise ending.error()
    return ending.to_dict()


def _folders() -> tuple[tuple[str, str], ...]:
    """Prefect's own folder: results and the database of its server are there."""
    return (("the home of Prefect", os.fspath(PREFECT_HOME.value())),)
