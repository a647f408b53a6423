"""``privpipe gx``: data contexts of Great Expectations that cannot pass a table unjudged."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from privpipe.cli.console import print_json, put, say
from privpipe.cli.endings import guarded
from privpipe.errors import DataError, UsageError

__all__ = ["commands"]

commands = typer.Typer(help="Great Expectations: find and prevent suites that judge nothing.", no_args_is_help=True)

Context = Annotated[
    Path, typer.Argument(metavar="CONTEXT", help="The folder of the context, or of its project.", show_default=False)
]


def check(
    context: Context,
    json_: Annotated[bool, typer.Option("--json", help="The findings as JSON on stdout.")] = False,
) -> None:
    """Find suites and checkpoints that judge or stop nothing.

    Suites that lost privacy expectations, and checkpoints that raise nothing. Reads the files of the context and runs
    nothing. Ends with exit code 3 where anything is found.
    """
    found = _room().check(context)
    if json_:
        print_json({"findings": [vars(finding) for finding in found]})
    else:
        for finding in found:
            put(f"{finding.kind.upper()}: {finding}")
    if found:
        raise DataError(f"{len(found)} finding(s): the context may report success for a table that nobody judged")
    say("FOUND: nothing. Each privacy suite is whole, and each of its checkpoints raises an error when it fails.")


def _room() -> Any:
    if importlib.util.find_spec("great_expectations") is None:
        raise UsageError("Great Expectations is not installed: pip install 'privpipe[gx]'")
    return importlib.import_module("privpipe.gx")


def protect(context: Context) -> None:
    """Have whoever opens a context load privacy expectations.

    Adds one line to its configuration: the module of the store of suites. A process without privpipe then cannot open
    the context, and a suite that has lost an expectation cannot be read.
    """
    changed = _room().protect(context)
    say(f"PROTECTED: {context}" if changed else f"PROTECTED before, nothing changed: {context}")


for name, command in (("check", check), ("protect", protect)):
    commands.command(name)(guarded(command))
