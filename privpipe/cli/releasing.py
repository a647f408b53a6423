"""``privpipe release``: stage, judge, publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, loaded
from privpipe.cli.console import progress, say
from privpipe.cli.verdicts import passed_with, show_assessment
from privpipe.errors import ColumnsLost, Refused

if TYPE_CHECKING:
    from privpipe.policy import Policy

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
    json: JsonOption = False,
) -> None:
    """Transform, judge, and publish what holds.

    Publishes the policy's source when every guarantee holds over the written files. Exit code 5 when one does not, or
    when a column lost more than `utility:` allows: nothing is published then, and what was published before is
    untouched.
    What is printed is the private edition of the verdict; beside the data lies the public one.
    """
    code = released(loaded(policy), engine=engine, target=target, plan=plan, json=json)
    raise typer.Exit(code)


def released(policy: Policy, *, engine: str | None, target: str | None, plan: Path | None = None, json: bool) -> int:
    """Run a release and show its verdict; the exit code."""
    from privpipe.running.run import STEPS
    from privpipe.running.verbs import release as run

    try:
        with progress(len(STEPS)) as tell:
            result = run(policy, engine=engine, target=target, plan=plan, progress=tell)
    except Refused as refusal:
        if refusal.assessment is None:
            raise
        show_assessment(refusal.assessment, json=json)
        why = "a column lost too much" if isinstance(refusal, ColumnsLost) else "a guarantee does not hold"
        say(f"REFUSED: {why}. Nothing was published.")
        return refusal.exit_code
    show_assessment(result.assessment, json=json)
    if result.assessment.warned:
        say(f"{passed_with(result.assessment)}.")
    say(f"PUBLISHED: {result.path} (run {result.run_id})")
    if result.record:
        say(f"private record: {result.record}")
    return 0
