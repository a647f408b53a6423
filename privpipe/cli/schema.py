"""``privpipe schema``: a JSON schema for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.console import as_json, print_json, say, write_text
from privpipe.cli.plugin_list import tell_left_out

__all__ = ["schema"]


def schema(
    policies: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[POLICY]...", help="Policies to check instead, without data.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it here instead of stdout.", show_default=False)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="NAME",
            help="Of what a command prints with --json instead: assess, release, dry_run, plan, transform, "
            "compare_settings, compare_runs, verify or history; or of a manifest or private_manifest.",
            show_default=False,
        ),
    ] = None,
    officer: Annotated[bool, typer.Option("--officer", help="Of officers' policies instead.")] = False,
) -> None:
    """Print the JSON schema of policies, or of what a command prints.

    Draft 2020-12, with every entry of the catalogues. For the YAML language server, put
    `# yaml-language-server: $schema=policy.schema.json` atop a policy. With POLICY, each is read as a run would read
    it, but for sources and seeds, and what is wrong is shown by line: exit code 2.
    """
    from privpipe.errors import UsageError
    from privpipe.policy.schema import json_schema, officer_schema
    from privpipe.reporting.output_schemas import output_schema

    if policies:
        if officer or output is not None or out is not None:
            raise UsageError("policies are checked by themselves; leave out --officer, --output and --out")
        _check(policies)
        return
    if officer and output is not None:
        raise UsageError("--officer and --output name different schemas; give one of them")
    if output is None:
        tell_left_out()
        found = officer_schema() if officer else json_schema()
    else:
        found = output_schema(output)
    if out is None:
        print_json(found)
        return
    write_text(out, as_json(found))
    say(f"WRITTEN: {out}")


def _check(policies: list[Path]) -> None:
    """Say what is wrong with each policy, all of them before it ends."""
    from privpipe.errors import PrivpipeError, UsageError
    from privpipe.policy import Policy

    wrong = 0
    for file in policies:
        try:
            Policy.load(file)
        except PrivpipeError as error:
            wrong += 1
            say(str(error))
    if wrong:
        raise UsageError(f"{wrong} of {len(policies)} policies cannot be used; see above")
    say(f"SOUND: {len(policies)} {'policy' if len(policies) == 1 else 'policies'}")
