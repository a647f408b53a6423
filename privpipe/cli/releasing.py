"""``privpipe release``: stage, judge, publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, ProgressOption, loaded
from privpipe.cli.console import print_json, progress, put, say
from privpipe.cli.verdicts import passed_with, show_assessment
from privpipe.errors import ColumnsLost, Refused

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.running import ReleaseResult

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
            "--plan", metavar="FILE", help="A plan of an earlier run, taken as it is (frozen).", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do all of it and publish nothing; exit codes are those of the real run.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report of the run.")] = False,
    lines: ProgressOption = False,
    json: JsonOption = False,
) -> None:
    """Transform, judge, and publish what holds.

    Publishes the policy's source when every guarantee holds over the written files. Exit code 5 when one does not, or
    when a column lost more than `utility:` allows: nothing is published then, and what was published before is
    untouched.
    What is printed is the private edition of the verdict; beside the data lies the public one.
    """
    code = released(
        loaded(policy),
        engine=engine,
        target=target,
        plan=plan,
        dry_run=dry_run,
        report=not no_report,
        lines=lines,
        json=json,
    )
    raise typer.Exit(code)


def released(
    policy: Policy,
    *,
    engine: str | None,
    target: str | None,
    plan: Path | None = None,
    dry_run: bool = False,
    report: bool = True,
    lines: bool = False,
    json: bool,
) -> int:
    """Run a release and show its verdict; the exit code."""
    from privpipe.running.run import STEPS
    from privpipe.running.verbs import release as run

    try:
        with progress(len(STEPS), lines=lines) as tell:
            result = run(policy, engine=engine, target=target, plan=plan, progress=tell, dry_run=dry_run, report=report)
    except Refused as refusal:
        if refusal.assessment is None:
            raise
        show_assessment(refusal.assessment, json=json)
        why = "a column lost too much" if isinstance(refusal, ColumnsLost) else "a guarantee does not hold"
        say(f"REFUSED: {why}. Nothing was published.")
        _kept(refusal.record)
        return refusal.exit_code
    if json and dry_run:
        print_json(result.to_dict())
    else:
        show_assessment(result.assessment, json=json)
    if result.assessment.warned or dry_run:
        say(f"{passed_with(result.assessment)}.")
    if dry_run:
        _rehearsed(result, json=json)
        return 0
    say(f"PUBLISHED: {result.path} (run {result.run_id})")
    _kept(result.record)
    return 0


def _kept(record: str) -> None:
    """Where the private record of a run is, and its report."""
    if record:
        say(f"private record: {record}")
        page = Path(record, "report.html")
        if page.is_file():
            say(f"report: {page}")


def _rehearsed(result: ReleaseResult, *, json: bool) -> None:
    """What a release would publish, and what did not happen."""
    output = result.manifest["output"]
    if not json:
        put("\nwould publish:")
        put(f"  target: {result.target}")
        put(f"  {output['records']:,} records, {output['suppressed_records']:,} suppressed")
        put(f"  columns: {', '.join(output['columns'])}")
        for file in output["files"]:
            put(f"  file: {file['name']}, {file['bytes']:,} bytes")
        put("  documents: " + ", ".join(f"_privpipe/{name}.json" for name in result.public))
    say(
        "DRY RUN: nothing was published, no private record kept; no ledger has an entry of it, and no budget was spent."
    )
