"""The work of a job, in its process.

Read the policy, stay out of the scheduler's folders, release or judge, and return public figures.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from privpipe.errors import PrivpipeError, Refused, UsageError
from privpipe.judging import Assessment
from privpipe.judging.assessment import public_figures as figures_of
from privpipe.ledger import named_ledger
from privpipe.policy import Policy
from privpipe.private_files import scratch_folder
from privpipe.reporting.report import report
from privpipe.running.places import place_of
from privpipe.running.run import STEPS
from privpipe.running.run_documents import public_rules, write_public
from privpipe.running.verbs import release, validate
from privpipe.scheduled.job import Ending, Job

__all__ = ["judged", "public_figures", "refusal", "released", "require_kept_out"]


def require_kept_out(job: Job, policy: Policy) -> None:
    """Refuse a sink, record, ledger or report that is in a folder to keep out of, whatever links lead there.

    Raises
    ------
    UsageError
    """
    if not job.keep_out:
        return
    for name, place in _places(job, policy):
        for what, folder in job.keep_out:
            if _inside(place, folder):
                raise UsageError(
                    f"{name} {str(place)!r} is in {what} ({folder!r}): anyone who reads that folder would read it, "
                    "and the scheduler takes what is there for its own; name a folder outside"
                )


def _places(job: Job, policy: Policy) -> Iterator[tuple[str, Path]]:
    """What a run writes on this machine, as far as it is known without running."""
    base = Path(os.path.abspath(policy.base_dir))
    if job.report is not None:
        yield "the report", Path(job.report)
    if job.action != "release":
        return
    area: Path | None = None
    if job.target is not None or policy.sink is None or policy.sink.table is None:
        place = place_of(policy, job.target)
        area = place.area
        try:
            yield from place.folders
        finally:
            place.close()
    if policy.records is not None:
        yield "the folder of private records", base / policy.records
    elif area is None:
        yield "the folder of private records", base / ".privpipe"
    ledger = named_ledger(policy.entries)
    if ledger is not None:
        yield "the ledger", Path(os.path.abspath(ledger.path))


def _inside(place: Path, folder: str) -> bool:
    """Whether a path, or where it leads, is a folder or is below it, by name or as the very same directory."""
    real = Path(os.path.realpath(folder))
    # The parent is followed and the name is not: the sink itself is a link, from its first release on.
    named = Path(os.path.realpath(place.parent), place.name)
    for path in {named, Path(os.path.realpath(place))}:
        if path.is_relative_to(real):
            return True
        for above in (path, *path.parents):  # a mount, or a file system that knows no case
            with suppress(OSError):
                if os.path.samefile(above, real):
                    return True
    return False


def public_figures(assessment: Assessment, policy: Policy) -> dict[str, Any]:
    """What the public verdict states about each guarantee; of a refused table no more than of a release."""
    shown = assessment.public_dict(public_rules(policy, policy.released_roles.columns))
    return figures_of(shown, (*assessment.built_in, *assessment.verdicts))


def refusal(figures: dict[str, Any]) -> str:
    """What did not hold, in a sentence for a log."""
    failed = [row for row in figures["guarantees"] if row["outcome"] != "pass" and row["severity"] == "fail"]
    said = [
        f"{row['guarantee']}: required {_shown_figure(row['asked'])}, achieved {_shown_figure(row['reached'])}"
        for row in failed
    ]
    return "; ".join(said) or "a column lost more than the policy allows"


def _shown_figure(figure: Any) -> str:
    return "a figure that is not shown" if figure is None else str(figure)


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
            tell(f"warning: the release is published; not all of it is reported ({type(error).__name__})")
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
        return _refused(policy, assessment, "Do not release this table.")
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
    """The report of the public edition; the release stays published, whether it can be written or not."""
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
