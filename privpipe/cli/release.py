"""``privpipe release``: stage, judge, publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, ProgressOption, loaded
from privpipe.cli.console import outcome_stands, print_json, progress, put, say
from privpipe.cli.gate import passed_with, show_assessment, tell_where
from privpipe.errors import ColumnsLost, Refused, SignOffMissing, UsageError

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.running import ReleaseResult
    from privpipe.running.run_context import Course

__all__ = ["release", "released"]


def release(
    policy: PolicyArgument,
    engine: EngineOption = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="DIR", help="Publish here instead of the policy's sink.", show_default=False),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="A plan of an earlier run, followed unchanged (frozen).", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do all of it and publish nothing; exit codes are those of the real run.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report of the run.")] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="RUN",
            help="Publish a run that waited for its sign-off: its id, or its folder.",
            show_default=False,
        ),
    ] = None,
    signatures: Annotated[
        list[Path] | None,
        typer.Option("--signature", metavar="FILE", help="With --continue: a signature that was handed back."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="KEY",
            help="Publish what has this key once, as 2026-01-31: a repeated run changes nothing and ends with 0.",
            show_default=False,
        ),
    ] = None,
    lines: ProgressOption = False,
    json: JsonOption = False,
) -> None:
    """Transform, judge, and publish what holds.

    Publishes the policy's source when every guarantee holds over the written files. Exit code 5 when one does not, or
    when a column lost more than `utility:` allows: nothing is published then, and what was published before is
    untouched.
    A source without records ends with exit code 0 and publishes nothing where the policy says `empty: pass`.
    Exit code 7 when the officer's policy asks for a sign-off: the run is staged and waits (`privpipe sign`).
    What is printed is the private edition of the verdict; the public one is next to the data.
    """
    held = loaded(policy)
    if no_report:
        held = held.replaced(report=replace(held.report, write=False))
    if resume is None and signatures:
        raise UsageError("--signature requires --continue")
    if signatures:
        _add(held, target, resume, signatures)
    from privpipe.running.run_context import Course

    code = released(
        held,
        engine=engine,
        target=target,
        plan=plan,
        course=Course(dry_run=dry_run, resume=resume, batch=batch),
        lines=lines,
        json=json,
    )
    raise typer.Exit(code)


def _add(policy: Policy, target: str | None, resume: str | None, signatures: list[Path]) -> None:
    """Put signatures that were handed back next to the run; whether they count is judged with the others."""
    from privpipe.running.places import folder_of
    from privpipe.running.waiting_runs import add_signatures

    add_signatures(policy, folder_of(policy, target), resume or "", signatures)


def released(
    policy: Policy,
    *,
    engine: str | None,
    target: str | None,
    plan: Path | None = None,
    course: Course | None = None,
    lines: bool = False,
    json: bool,
) -> int:
    """Run a release and show its verdict; the exit code."""
    from privpipe.running.run import STEPS
    from privpipe.running.run_context import WHOLE_COURSE
    from privpipe.running.verbs import release as run

    course = course or WHOLE_COURSE

    result: ReleaseResult | None = None
    try:
        with progress(len(STEPS), lines=lines) as tell:
            result = run(
                policy,
                engine=engine,
                target=target,
                plan=plan,
                progress=tell,
                dry_run=course.dry_run,
                resume=course.resume,
                batch=course.batch,
            )
    except Refused as refusal:
        if refusal.assessment is None:
            raise
        outcome = "the release is refused and nothing was published"
        with outcome_stands(outcome):
            show_assessment(refusal.assessment, json=json)
        why = "a column lost too much" if isinstance(refusal, ColumnsLost) else "a guarantee does not hold"
        with outcome_stands(outcome):
            tell_where(policy, refusal.assessment)
        say(f"REFUSED: {why}. Nothing was published.")
        with outcome_stands(outcome):
            _kept(refusal.record)
        return refusal.exit_code
    except SignOffMissing as missing:
        if missing.assessment is None:
            raise
        with outcome_stands("the release waits for its sign-off and nothing was published"):
            show_assessment(missing.assessment, json=json)
        say(f"WAITING: {missing}")
        return missing.exit_code
    except (Exception, KeyboardInterrupt):
        if result is None or course.dry_run:
            raise  # else it is the progress that failed, or a signal that came when all was done
    if result.repeated:
        with outcome_stands("the batch was published before"):
            if json:
                print_json(result.to_dict())
        with outcome_stands("the batch was published before"):
            published = f"batch {course.batch} at {result.target} (run {result.run_id})"
            say(f"ALREADY PUBLISHED: {published}. Nothing was changed.")
        return 0
    if result.nothing_to_publish:
        with outcome_stands("the source has no records and nothing was published"):
            show_assessment(result.assessment, json=json)
        say("NOTHING TO PUBLISH: the source has no records, which the policy allows (`empty: pass`).")
        return 0
    _show_passed(result, dry_run=course.dry_run, json=json)
    return 0


def _show_passed(result: ReleaseResult, *, dry_run: bool, json: bool) -> None:
    """What is reported of a release that is published, or was rehearsed; nothing of it changes how the command ends."""
    outcome = "this was a dry run, which passed" if dry_run else "the release is published"
    stands = partial(outcome_stands, outcome, result.record)
    with stands():
        with stands():
            if json and dry_run:
                print_json(result.to_dict())
            else:
                show_assessment(result.assessment, json=json)
        with stands():
            if result.assessment.warned or dry_run:
                say(f"{passed_with(result.assessment)}.")
            if dry_run:
                _rehearsed(result, json=json)
        if not dry_run:
            with stands():
                say(f"PUBLISHED: {result.path} (run {result.run_id})")
            with stands():
                _kept(result.record)
                if result.quarantine:
                    say(f"quarantine: {result.quarantine} ({result.quarantined:,} records left out, as they came in)")


def _kept(record: str) -> None:
    """Where the private record of a run is, and its report."""
    if record:
        say(f"private record: {record}")
        page = Path(record, "report.html")
        if page.is_file():
            say(f"report: {page}")


def _told_size(output: Mapping[str, Any]) -> str:
    """How much a release publishes: cells where it makes tables, which suppress figures and no records."""
    if "tables" in output:
        tables = len(output["tables"])
        return f"{output['records']:,} cells in {tables:,} table{'s' * (tables != 1)}"
    return f"{output['records']:,} records, {output['suppressed_records']:,} suppressed"


def _rehearsed(result: ReleaseResult, *, json: bool) -> None:
    """What a release would publish, and what did not happen."""
    output = result.manifest["output"]
    if not json:
        put("\nwould publish:")
        put(f"  target: {result.target}")
        put(f"  {_told_size(output)}")
        put(f"  columns: {', '.join(output['columns'])}")
        for file in output["files"]:
            put(f"  file: {file['name']}, {file['bytes']:,} bytes")
        put("  documents: " + ", ".join(f"_privpipe/{name}.json" for name in result.public))
    say(
        "DRY RUN: nothing was published, no private record kept; no ledger has an entry of it, and no budget was spent."
    )
