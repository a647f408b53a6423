"""The work of a job, in its process: read the policy, keep out of the scheduler's folders, release or judge."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from privpipe.errors import PrivpipeError, Refused
from privpipe.policy import Policy
from privpipe.private_files import scratch_folder
from privpipe.reporting.report import report
from privpipe.running.run import STEPS
from privpipe.running.run_documents import write_public
from privpipe.running.validating import validate
from privpipe.running.verbs import release
from privpipe.scheduled.ending import Ending
from privpipe.scheduled.figures import public_figures, refusal
from privpipe.scheduled.job import Job
from privpipe.scheduled.places import require_kept_out

__all__ = ["judged", "released"]

Tell = Callable[[str], None]
CREDENTIALS = re.compile(r"://[^/@\s]*@")


def released(job: Job, tell: Tell) -> Ending:
    """Release the policy's source.

    Raises
    ------
    PrivpipeError
        Of every kind but a refusal, which is an ending with figures.
    """
    policy = _policy(job, tell)
    steps = {step: f"step {place} of {len(STEPS)}: {step}" for place, step in enumerate(STEPS, start=1)}

    def progress(step: str) -> None:
        if step in steps and type(step) is str:  # what is within a step is none
            tell(steps[step])

    try:
        result = release(
            policy, engine=job.engine, target=job.target, plan=job.plan, progress=progress, batch=job.batch
        )
    except Refused as refused:
        if refused.assessment is None or refused.assessment.holds:
            raise
        return _refused(policy, refused.assessment, "Nothing was published.")
    if result.repeated:
        return Ending(
            code=0,
            word="published",
            message=f"already published: batch {job.batch} at {_shown(result.path)} (run {result.run_id})",
            run_id=result.run_id,
            name=policy.name,
            path=_shown(result.path),
        )
    if result.nothing_to_publish:
        return Ending(
            code=0,
            word="passed",
            message="passed: the source has no records, so there is nothing to publish",
            run_id=result.run_id,
            name=policy.name,
            figures=public_figures(result.assessment, policy),
        )
    ending = Ending(
        code=0,
        word="published",
        message=f"published: {_shown(result.path)} (run {result.run_id})",
        run_id=result.run_id,
        name=policy.name,
        path=_shown(result.path),
    )
    try:
        for line in result.unfinished:
            tell(f"warning: the release is published; {line}")
        ending = replace(ending, report=_report(job, result.public, tell))
        return replace(ending, figures=public_figures(result.assessment, policy))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 nothing undoes what has happened
        with suppress(Exception):
            tell(f"warning: the release is published; not all is told of it ({type(error).__name__})")
        return ending


def judged(job: Job, tell: Tell) -> Ending:
    """Judge a finished table.

    Raises
    ------
    PrivpipeError
        Of every kind but a refusal.
    """
    policy = _policy(job, tell)
    assessment = validate(job.data, policy, engine=job.engine)
    if not assessment.passed:
        return _refused(policy, assessment, "The table is not to be used as it is.")
    return Ending(
        code=0,
        word="passed",
        message=f"passed: {_shown(job.data or '')}",
        name=policy.name,
        path=_shown(job.data or ""),
        figures=public_figures(assessment, policy),
    )


def _policy(job: Job, tell: Tell) -> Policy:
    policy: Policy = Policy.load(job.policy)
    require_kept_out(job, policy)
    for warning in policy.warnings:
        tell(f"warning: {warning}")
    return policy


def _refused(policy: Policy, assessment: Any, end: str) -> Ending:
    figures = public_figures(assessment, policy)
    run_id = str(assessment.run.get("run_id") or "")
    record = f" The private record of run {run_id} has the whole verdict." if run_id else ""
    return Ending(
        code=Refused.exit_code,
        word="refused",
        message=f"refused: {refusal(figures)}. {end}{record}",
        run_id=run_id,
        name=policy.name,
        figures=figures,
    )


def _report(job: Job, documents: Any, tell: Tell) -> str:
    """The report of the public edition; the release stands, whether it can be written or not."""
    if job.report is None:
        return ""
    try:
        with scratch_folder("report") as folder:
            write_public(folder, documents)
            Path(job.report).parent.mkdir(parents=True, exist_ok=True)
            report(folder, job.report, format="html")
    except (PrivpipeError, OSError) as error:
        tell(f"warning: the release is published; its report was not written ({type(error).__name__})")
        return ""
    return job.report


def _shown(path: str) -> str:
    """A path without credentials."""
    return CREDENTIALS.sub("://", path)
