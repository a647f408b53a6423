"""``privpipe doctor``: whether this machine can run what a policy asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.arguments import JsonOption
from privpipe.cli.checkup import Finding, examine
from privpipe.cli.console import print_json, put, say
from privpipe.errors import EngineError

__all__ = ["doctor"]

MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


def doctor(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Data files to look at.", show_default=False)
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option("--engine", metavar="E", help="An engine that must work; may be repeated.", show_default=False),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--target", metavar="DIR", help="A folder that must be writable.", show_default=False),
    ] = None,
    temp: Annotated[
        list[Path] | None,
        typer.Option(
            "--temp", metavar="DIR", help="A `temp_directory` of policies to look at as well.", show_default=False
        ),
    ] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove what killed runs left in temporary folders.")] = False,
    json: JsonOption = False,
) -> None:
    """Check what this machine can run.

    Looks at Python, packages, Java, engines, write access, data files, and at what killed runs left behind. Without
    --engine only the embedded engine must work, and the others are reported. Exit code 4 when something that must work
    does not.
    """
    findings = examine(files=files or [], engines=engine or [], target=target, temp=temp or [], clean=clean)
    passed = all(finding.state != "failed" for finding in findings)
    if json:
        print_json({"passed": passed, "checks": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            put(_line(finding))
    if not passed:
        say("FAILED: see above for what to do.")
        raise typer.Exit(EngineError.exit_code)


def _line(finding: Finding) -> str:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{MARKS[finding.state]} {finding.name}: {finding.found}{remedy}"
